"""Names that programs written for procrastinate import from here."""

from inturn.control.jobs import Jobs as JobManager

__all__ = ["JobManager"]
