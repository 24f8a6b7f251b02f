"""Every exception that inturn raises on its own account. Each message says what, why, and what to do."""

from collections.abc import Iterable
from datetime import timedelta


class InturnError(Exception):
    """The base of them all."""


class AlreadyEnqueued(InturnError):
    """A job waits already under this queueing lock; `job_id` is its id. Nothing was written, your transaction goes on.

    `job_id` is None if the other job is one of the same batch.
    """

    def __init__(self, queueing_lock: str, job_id: int | None) -> None:
        other = (
            "Another job of the same batch"
            if job_id is None
            else f"Job {job_id}, which waits already,"
        )
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


class UnknownOption(BadArgument, TypeError):
    """A task or a job was given an option that does not exist."""

    def __init__(self, option: str, of: str, known: Iterable[str]) -> None:
        super().__init__(option, f"is not an option of a {of}. The options are {', '.join(known)}")


class ConfigurationError(InturnError):
    """A setting, a path or a connection was given that cannot be used."""


class ConnectorException(InturnError):
    """The database refused a statement or could not be reached. The driver's error is the cause."""


class DatabaseUnavailable(ConnectorException):
    """The database cannot be reached, or cannot do this now. The same call may succeed later.

    `connection_lost`: the connection is of no further use. `outcome_unknown`: the statement may have taken effect.
    """

    def __init__(
        self, problem: str, *, connection_lost: bool = True, outcome_unknown: bool = True
    ) -> None:
        super().__init__(problem)
        self.connection_lost = connection_lost
        self.outcome_unknown = outcome_unknown


class DatabaseBusy(DatabaseUnavailable):
    """A lock, a deadlock or a time limit of the server stood in the way. Nothing took effect; try again soon."""


class EmbeddedServerError(InturnError):
    """The embedded PostgreSQL is missing or did not start."""


class JobAborted(InturnError):
    """Raise it in a task to end as aborted: not succeeded, not failed, and not tried again."""


class JobCancelled(InturnError):
    """The job whose result is wanted has ended as `status`: cancelled or aborted."""

    def __init__(self, job_id: int, status: str, error: str | None) -> None:
        super().__init__(
            f"Job {job_id} was {status}, so it has no result" + (f":\n{error}" if error else ".")
        )
        self.job_id = job_id
        self.status = status
        self.error = error


class JobFailed(InturnError):
    """The job whose result is wanted has failed for good. `error`: the traceback of its last attempt, as text."""

    def __init__(self, job_id: int, error: str | None) -> None:
        super().__init__(
            f"Job {job_id} has failed, so it has no result:\n{error or 'no error was stored'}"
        )
        self.job_id = job_id
        self.error = error


class JobLost(InturnError):
    """The job was taken over while its code ran here: what the code wrote in `context.transaction()` is rolled back."""


class JobNotFound(InturnError, LookupError):
    """There is no such job; perhaps its history was deleted."""


class JobSkipped(InturnError):
    """A resource of the job is busy, and its task says on_busy="skip": it ends as cancelled without having run."""


class JobTimeout(InturnError, TimeoutError):
    """A run of a job took longer than its `timeout`. It is a failure like any other: the retry strategy decides."""


class LaneBusy(InturnError):
    """The head of a lane cannot be skipped, because it is being done."""


class ResultTimeout(InturnError, TimeoutError):
    """The job whose result is wanted has not ended in the time given. It goes on."""


class SchemaMismatch(InturnError):
    """The database's schema is not the one this version works on."""


class Snoozed(BaseException):
    """Raised by `context.snooze` to end a run. No Exception, so that a task's `except Exception` lets it through."""

    def __init__(self, delay: timedelta) -> None:
        super().__init__(f"again in {delay}")
        self.delay = delay


class StaleFence(InturnError):
    """The resource has seen a higher fence: whoever holds this one was taken over. The transaction cannot commit any more."""


class TaskNotFound(InturnError, KeyError):
    """No task of this name is known here."""

    def __str__(self) -> str:  # KeyError would show the message in quotes
        return str(self.args[0])


class TaskDefinitionError(InturnError, TypeError):
    """A function that cannot be a task as it was declared."""


class TaskAlreadyRegistered(TaskDefinitionError):
    """Another task has this name or alias already."""


class MiddlewareKindMismatch(TaskDefinitionError):
    """A middleware that cannot wrap this task: `def` wraps `def`, `async def` wraps `async def`."""


class UnboundTaskError(AppNotOpen):
    """A task was deferred whose blueprint belongs to no App."""


class LoadFromPathError(ConfigurationError, ImportError):
    """There is no App at a path like `package.module:app`."""


class MissingApp(ConfigurationError):
    """A command needs your App, and none was named."""


class SyncConnectorConfigurationError(ConfigurationError):
    """Something async was asked of a connector that is sync only."""


class WorkerCancelled(InturnError):
    """Something has cancelled the worker's own tasks: code that cancels every task of the event loop, say."""


class WorkerLost(InturnError):
    """The worker was taken for dead and its jobs taken over: it has to register again."""
