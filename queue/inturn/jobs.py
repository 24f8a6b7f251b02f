"""What programs import from here that were written for procrastinate."""

from inturn.model import DeleteJobCondition, Job, Status

__all__ = ["DeleteJobCondition", "Job", "Status"]
