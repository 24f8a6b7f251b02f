"""Jobs that share a lock run in turn, everything else runs in parallel: an ordered job queue on PostgreSQL.

An **App** knows the database and collects **tasks**: functions that can run later, elsewhere. To **defer** a task is to
insert a **job** in a transaction, yours if you like. **Workers** claim jobs and run them. The jobs that carry the same
`lock` string form a **lane**, whatever their queue or task: a lane runs one job at a time, by priority and then in
the order in which they were deferred.

    from inturn import App

    app = App("postgresql://…")

    @app.task(queue="letters")
    def write(letter: str) -> None: ...

    with app.open():
        write.configure(lock="alphabet").defer(letter="a")

and then `queue -a module:app worker`. Every state change of a job is one SQL function; the folder `sql/functions` reads
as the list of them, and opens with what each promises.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inturn.app import App
    from inturn.database.connectors import BaseConnector, PsycopgConnector, SyncPsycopgConnector
    from inturn.database.fences import check_fence, check_fence_async
    from inturn.model import Job, Status, StoredJob
    from inturn.tasks.blueprint import Blueprint
    from inturn.tasks.context import JobContext
    from inturn.tasks.deferred import DeferredJob
    from inturn.tasks.options import JobOptions, TaskOptions
    from inturn.tasks.retry import BaseRetryStrategy, RetryDecision, RetryStrategy
    from inturn.tasks.task import Deferrer, Task

__all__ = [
    "App",
    "BaseConnector",
    "BaseRetryStrategy",
    "Blueprint",
    "DeferredJob",
    "Deferrer",
    "Job",
    "JobContext",
    "JobOptions",
    "PsycopgConnector",
    "RetryDecision",
    "RetryStrategy",
    "Status",
    "StoredJob",
    "SyncPsycopgConnector",
    "Task",
    "TaskOptions",
    "check_fence",
    "check_fence_async",
]

_HOMES = {
    "App": "app",
    "BaseConnector": "database.connectors",
    "BaseRetryStrategy": "tasks.retry",
    "Blueprint": "tasks.blueprint",
    "DeferredJob": "tasks.deferred",
    "Deferrer": "tasks.task",
    "Job": "model",
    "JobContext": "tasks.context",
    "JobOptions": "tasks.options",
    "PsycopgConnector": "database.connectors",
    "RetryDecision": "tasks.retry",
    "RetryStrategy": "tasks.retry",
    "Status": "model",
    "StoredJob": "model",
    "SyncPsycopgConnector": "database.connectors",
    "Task": "tasks.task",
    "check_fence": "database.fences",
    "check_fence_async": "database.fences",
    "TaskOptions": "tasks.options",
}


def __getattr__(name: str) -> object:
    # Imported when first used, so that `queue --help` and a typo on a command line do not wait for the database driver.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"inturn.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
