"""The tables and functions of the queue in the database: how to create them, and how SQLAlchemy sees them."""
