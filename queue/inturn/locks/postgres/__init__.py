"""Locks in PostgreSQL: advisory locks and rows, and the fences that a table remembers."""
