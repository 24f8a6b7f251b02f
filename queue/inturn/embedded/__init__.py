"""A PostgreSQL server of your own, for tests and for trying things out.

Its programs come from a Python package, or from an installation on this machine.
"""

from inturn.embedded.server import Server

__all__ = ["Server"]
