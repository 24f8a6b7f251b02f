"""What programs import from here that were written for procrastinate."""

from inturn.tasks.blueprint import Blueprint

__all__ = ["Blueprint"]
