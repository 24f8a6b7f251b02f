"""What users declare: tasks, their options, and what one run of a task can ask and do."""

from inturn.tasks.task import Task

__all__ = ["Task"]
