"""An ordered job queue on PostgreSQL. Jobs that share a lock run in turn; the rest run in parallel.

An **App** knows the database and collects **tasks**, which are functions that can run later and
elsewhere. When you **defer** a task, you insert a **job** in a transaction, which can be your own.
**Workers** claim jobs and run them. The jobs with the same `lock` string form a **lane**, whatever
their queue or task. A lane runs one job at a time, by priority and then in the order in which the
jobs were deferred.

    from inturn import App

    app = App("postgresql://…")

    @app.task(queue="letters")
    def write(letter: str) -> None: ...

    with app.open():
        write.configure(lock="alphabet").defer(letter="a")

Then start a worker: `queue -a module:app worker`. Each state change of a job is one SQL function.
The folder `sql/functions` holds them, and each file begins with what its function promises.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inturn.app import App
    from inturn.database.connectors import BaseConnector, PsycopgConnector, SyncPsycopgConnector
    from inturn.database.fences import check_fence, check_fence_async
    from inturn.model import Job, Status, StoredJob
    from inturn.tasks.blueprint import Blueprint, TaskOptions
    from inturn.tasks.context import JobContext
    from inturn.tasks.deferred import DeferredJob
    from inturn.tasks.options import JobOptions
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
    "TaskOptions": "tasks.blueprint",
}


def __getattr__(name: str) -> object:
    # A name is imported when it is first used. So `queue --help`, or a typo on the command line,
    # does not wait for the database driver.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"inturn.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
