"""The exceptions that inturn raises.

Each message says what is wrong and what to do about it.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

VERBS = ("is ", "are ", "has ", "was ")  # with these, name and problem form a sentence


def kind_of(value: object) -> str:
    """Return a value's type for use in messages: `an int`, `a list`, or `None`."""
    name = type(value).__name__
    return "None" if value is None else f"a{'n' if name[0] in 'aeioAEIO' else ''} {name}"


class InturnError(Exception):
    """The base class of inturn's exceptions."""


class AlreadyEnqueued(InturnError):
    """Another job is already waiting under this queueing lock. Nothing was written.

    Your transaction stays usable. `job_id` is the id of the other job, or None if it is in the same
    call.
    """

    def __init__(self, queueing_lock: str, job_id: int | None) -> None:
        other = (
            "Another job in the same call"
            if job_id is None
            else f"Job {job_id}, which is already waiting,"
        )
        super().__init__(
            f"{other} has the queueing_lock {queueing_lock!r}. "
            "Catch AlreadyEnqueued, or choose on_conflict='skip' or 'replace'."
        )
        self.queueing_lock = queueing_lock
        self.job_id = job_id


class AppNotOpen(InturnError):
    """A job was deferred through an app that is not open."""


class BadArgument(InturnError, ValueError):
    """An argument was refused before anything was written. `argument` is its name."""

    def __init__(self, argument: str, problem: str) -> None:
        joint = " " if problem.startswith(VERBS) else ": "
        super().__init__(f"{argument}{joint}{problem}")
        self.argument = argument
        self.problem = problem


class UnknownOption(BadArgument, TypeError):
    """A task, a job or a worker was given an option that does not exist."""

    def __init__(self, option: str, of: str, known: Iterable[str]) -> None:
        from difflib import get_close_matches

        names = list(known)
        likely = "".join(f" Did you mean {name}?" for name in get_close_matches(option, names, n=1))
        super().__init__(
            option, f"is not an option of {of}.{likely} The options are {', '.join(names)}"
        )


class CellsUnanswered(InturnError):
    """Some cells did not answer. `errors` has why, and `answers` what the others answered."""

    def __init__(self, errors: Mapping[int, InturnError], answers: Mapping[int, object]) -> None:
        numbers = ", ".join(map(str, errors))
        super().__init__(
            f"{len(errors)} of {len(errors) + len(answers)} cells did not answer ({numbers}): "
            f"{next(iter(errors.values()))}"
        )
        self.errors = dict(errors)
        self.answers = dict(answers)


class ConfigurationError(InturnError):
    """A setting, a path or a connection cannot be used."""


class MissingExtra(ConfigurationError, ModuleNotFoundError):
    """A part of inturn needs packages from one of its extras."""

    def __init__(self, part: str, extra: str) -> None:
        super().__init__(
            f"{part} needs packages that are not installed. Run: pip install 'inturn[{extra}]'"
        )


class ConnectorException(InturnError):
    """The database refused a statement or could not be reached.

    `__cause__` is the driver's error.
    """


class DatabaseUnavailable(ConnectorException):
    """The database cannot be reached, or cannot do this now. The same call may succeed later.

    If `connection_lost` is True, the connection is no longer usable. If `outcome_unknown` is True,
    the statement may have taken effect.
    """

    def __init__(
        self, problem: str, *, connection_lost: bool = True, outcome_unknown: bool = True
    ) -> None:
        super().__init__(problem)
        self.connection_lost = connection_lost
        self.outcome_unknown = outcome_unknown


class DatabaseBusy(DatabaseUnavailable):
    """A lock, a deadlock or a server timeout ended the statement. It had no effect.

    Retry soon.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(problem, connection_lost=False, outcome_unknown=False)


class EmbeddedServerError(InturnError):
    """The embedded PostgreSQL is missing or did not start."""


class JobAborted(InturnError):
    """Raise it in a task to end the job as aborted. The job is not retried."""


class JobCancelled(InturnError):
    """The job has no result because it was cancelled or aborted; see `status`."""

    def __init__(self, job_id: int, status: str, error: str | None) -> None:
        super().__init__(
            f"Job {job_id} was {status}, so it has no result" + (f":\n{error}" if error else ".")
        )
        self.job_id = job_id
        self.status = status
        self.error = error


class JobFailed(InturnError):
    """The job has no result because it failed for good.

    `error` is the traceback of its last attempt, as text.
    """

    def __init__(self, job_id: int, error: str | None) -> None:
        super().__init__(
            f"Job {job_id} failed, so it has no result:\n{error or 'no error was stored'}"
        )
        self.job_id = job_id
        self.error = error


class JobLost(InturnError):
    """Another worker took over the job while its code ran here.

    Its writes in `context.transaction()` are rolled back.
    """


class JobNotFound(InturnError, LookupError):
    """The job does not exist, or its history was deleted."""


class JobSkipped(InturnError):
    """Raise it in a task to end the job as cancelled. The job is not retried.

    The worker raises it if a resource of the job is busy and its task has `on_busy="skip"`.
    """


class JobTimeout(InturnError, TimeoutError):
    """An attempt took longer than the job's `timeout`.

    It counts as a failure like any other, so the retry strategy decides what happens next.
    """


class LaneBusy(InturnError):
    """The head of a lane cannot be skipped because it is running."""


class PartlyDeferred(InturnError):
    """A call for several cells has deferred the jobs of some.

    `deferred` has what `batch_defer_jobs` would return, with None for each job that was not
    deferred. `errors` has the error of each cell. Defer the jobs at `left` again, unless the error
    has `outcome_unknown`.
    """

    def __init__(self, deferred: Sequence[int | None], errors: Mapping[int, InturnError]) -> None:
        self.deferred = list(deferred)
        self.errors = dict(errors)
        self.left = [place for place, job in enumerate(deferred) if job is None]
        done = len(self.deferred) - len(self.left)
        cell, error = next(iter(self.errors.items()))
        super().__init__(
            f"{done} of {len(self.deferred)} jobs were deferred. Those of cell "
            f"{', '.join(map(str, self.errors))} were not: see `left`, and defer them again. "
            f"Cell {cell}: {error}"
        )


class ResultTimeout(InturnError, TimeoutError):
    """The job did not end within your timeout. It continues."""


class SchemaMismatch(InturnError):
    """The schema in the database does not match this version of inturn."""


class Snoozed(BaseException):
    """Raised by `context.snooze` to end an attempt.

    It is not an `Exception`, so a task's `except Exception` does not catch it.
    """

    def __init__(self, delay: timedelta) -> None:
        super().__init__(f"again in {delay}")
        self.delay = delay


class StaleFence(InturnError):
    """The resource has seen a higher fence, so the job with this one was taken over.

    The transaction can only be rolled back.
    """


class TaskNotFound(InturnError, KeyError):
    """The app has no task with this name."""

    def __str__(self) -> str:  # KeyError would show the message in quotes
        return str(self.args[0])


class TaskDefinitionError(InturnError, TypeError):
    """A function was declared as a task in a way that cannot work."""


class TaskAlreadyRegistered(TaskDefinitionError):
    """Another task already has this name or alias."""


class MiddlewareKindMismatch(TaskDefinitionError):
    """A `def` middleware was given for an `async def` task, or vice versa."""


class UnboundTaskError(AppNotOpen):
    """A deferred task's blueprint was not added to an App."""


class LoadFromPathError(ConfigurationError, ImportError):
    """No App was found at a path such as `package.module:app`."""


class MissingApp(ConfigurationError):
    """A command needs your App, but none was given."""


class SyncConnectorConfigurationError(ConfigurationError):
    """A sync connector was used from async code."""


class WorkerCancelled(InturnError):
    """Something cancelled the worker's own asyncio tasks.

    For example, your code may cancel every task in the event loop.
    """


class WorkerLost(InturnError):
    """The worker was declared dead and its jobs were taken over.

    It must register again.
    """


class WrongCell(ConfigurationError):
    """A database is not the cell that the map of cells expects there."""
