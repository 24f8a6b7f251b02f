"""What programs import from here that were written for procrastinate."""

from inturn.control.jobs import Jobs as JobManager

__all__ = ["JobManager"]
