"""Locks in PostgreSQL: advisory locks, rows, and fences stored in a table."""
