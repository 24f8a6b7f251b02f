"""Names that programs written for procrastinate import."""

from inturn.model import DeleteJobCondition, Job, Status

__all__ = ["DeleteJobCondition", "Job", "Status"]
