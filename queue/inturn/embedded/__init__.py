"""A PostgreSQL server of your own, from a Python package or from what is installed, for tests and for trying things out."""

from inturn.embedded.server import Server

__all__ = ["Server"]
