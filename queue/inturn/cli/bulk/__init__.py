"""Bulk changes of jobs and lanes."""
