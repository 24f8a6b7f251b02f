"""Names that programs written for procrastinate import from here."""

from inturn.model import DeleteJobCondition, Job, Status

__all__ = ["DeleteJobCondition", "Job", "Status"]
