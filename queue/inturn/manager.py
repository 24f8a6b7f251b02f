"""Names that programs written for procrastinate import."""

from inturn.control.jobs import Jobs as JobManager

__all__ = ["JobManager"]
