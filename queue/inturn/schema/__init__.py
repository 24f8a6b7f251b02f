"""How to create the tables and functions in the database."""
