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

from inturn.app import App
from inturn.connectors import PsycopgConnector
from inturn.context import JobContext
from inturn.model import Job, Status
from inturn.retry import BaseRetryStrategy, RetryDecision, RetryStrategy
from inturn.tasks import Blueprint, Deferrer, Task

__all__ = [
    "App",
    "BaseRetryStrategy",
    "Blueprint",
    "Deferrer",
    "Job",
    "JobContext",
    "PsycopgConnector",
    "RetryDecision",
    "RetryStrategy",
    "Status",
    "Task",
]
