"""Connections to PostgreSQL: addresses, pools, deadlines, and the drivers that run operations on them."""
