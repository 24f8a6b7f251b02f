"""Names that programs written for procrastinate import."""

from inturn.tasks.blueprint import Blueprint

__all__ = ["Blueprint"]
