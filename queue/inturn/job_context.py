"""What programs import from here that were written for procrastinate."""

from inturn.tasks.context import JobContext

__all__ = ["JobContext"]
