"""A private PostgreSQL server for tests and experiments.

Its binaries come from a Python package, or from an installation on this machine.
"""

from inturn.embedded.server import Server

__all__ = ["Server"]
