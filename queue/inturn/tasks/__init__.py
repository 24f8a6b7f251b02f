"""What users declare: tasks, their options, and what a running task can ask and do."""

from inturn.tasks.task import Task

__all__ = ["Task"]
