"""Connections to PostgreSQL: addresses, pools, deadlines, and the code that runs operations."""
