"""Helpers to use inturn with other libraries. Each module is named after its subject."""
