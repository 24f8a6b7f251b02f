"""Every exception that inturn raises on its own account. Each message says what, why, and what to do."""

from datetime import timedelta


class InturnError(Exception):
    """The base of them all."""


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


class JobSkipped(InturnError):
    """A resource of the job is busy, and its task says on_busy="skip": it ends as cancelled without having run."""


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
