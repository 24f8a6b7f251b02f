"""Reads for pages, `queue top`, the doctor and metrics."""
