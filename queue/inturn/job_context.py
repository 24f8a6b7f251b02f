"""Names that programs written for procrastinate import."""

from inturn.tasks.context import JobContext

__all__ = ["JobContext"]
