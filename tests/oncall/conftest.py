"""Fixtures for tests with real processes."""

from tests.cli.conftest import answer, folder

__all__ = ["answer", "folder"]
