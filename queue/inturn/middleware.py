"""Names that programs written for procrastinate import."""

from inturn.tasks.middleware import TaskMiddleware, WorkerMiddleware

__all__ = ["TaskMiddleware", "WorkerMiddleware"]
