"""Every exception that inturn raises on its own account. Each message says what, why, and what to do."""

from datetime import timedelta


class InturnError(Exception):
    """The base of them all."""


class AlreadyEnqueued(InturnError):
    """A job waits already under this queueing lock; `job_id` is its id. Nothing was written, your transaction goes on.

    `job_id` is None if the other job is one of the same batch.
    """

    def __init__(self, queueing_lock: str, job_id: int | None) -> None:
        other = "Another job of the same batch" if job_id is None else f"Job {job_id}, which waits already,"
        super().__init__(
            f"{other} has the queueing_lock {queueing_lock!r}. "
            "Catch AlreadyEnqueued, or choose on_conflict='skip' or 'replace'."
        )
        self.queueing_lock = queueing_lock
        self.job_id = job_id


class AppNotOpen(InturnError):
    """A job was deferred through an app that holds no connections yet."""


class BadArgument(InturnError, ValueError):
    """Refused before anything was written. `argument` names the culprit."""

    def __init__(self, argument: str, problem: str) -> None:
        super().__init__(f"{argument}: {problem}")
        self.argument = argument


class ConfigurationError(InturnError):
    """A setting, a path or a connection was given that cannot be used."""


class ConnectorException(InturnError):
    """The database refused a statement or could not be reached. The driver's error is the cause."""


class DatabaseUnavailable(ConnectorException):
    """No connection, or it was lost on the way: whether the statement took effect is unknown."""


class EmbeddedServerError(InturnError):
    """The embedded PostgreSQL is missing or did not start."""


class JobAborted(InturnError):
    """Raise it in a task to end as aborted: not succeeded, not failed, and not tried again."""


class LaneBusy(InturnError):
    """The head of a lane cannot be skipped, because it is being done."""


class SchemaMismatch(InturnError):
    """The database's schema is not the one this version works on."""


class Snoozed(BaseException):
    """Raised by `context.snooze` to end a run. No Exception, so that a task's `except Exception` lets it through."""

    def __init__(self, delay: timedelta) -> None:
        super().__init__(f"again in {delay}")
        self.delay = delay


class TaskNotFound(InturnError, KeyError):
    """No task of this name is known here."""

    def __str__(self) -> str:  # KeyError would show the message in quotes
        return str(self.args[0])


class TaskDefinitionError(InturnError, TypeError):
    """A function that cannot be a task as it was declared."""


class WorkerLost(InturnError):
    """The worker was taken for dead and its jobs taken over: it has to register again."""
