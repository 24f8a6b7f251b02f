"""The tables and functions in the database: how to create them, and their SQLAlchemy models."""
