"""A worker's options, checked before it starts."""

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

from inturn.arguments import check_queue
from inturn.errors import BadArgument
from inturn.model import Status
from inturn.tasks.middleware import TaskMiddleware, WorkerMiddleware, check_worker_middleware

MOST_DAYS = 366 * 1000
DEFAULT_HISTORY = timedelta(days=7)  # this very object, so that a week that you give is another
FORGET = {
    "never": (),
    "successful": (Status.SUCCEEDED,),
    "always": (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.ABORTED),
}


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `app.run_worker`, and of `App(worker_defaults=…)`. Times are in seconds.

        app.run_worker(queues=["default"], wait=False, keep_history=timedelta(days=30))

    queues: which queues to serve, None for all.
    name: the worker's name in lists and logs, by default the host and the process: `web1:4711`.
    concurrency: how many jobs run at once.
    wait: False ends the worker when nothing is left to do.
    fetch_job_polling_interval: how often to look for jobs, in case a notification was lost.
    abort_job_polling_interval: how often to look for jobs to abort, for the same reason.
    listen_notify: False only polls. Use it behind a pooler that passes no notifications on.
    shutdown_graceful_timeout: how long running jobs may go on after the first signal, None for as
    long as they need. Then async tasks are cancelled and sync tasks are asked to end
    (`context.should_abort()`).
    install_signal_handlers: whether SIGINT, SIGTERM and SIGHUP stop the worker. The second signal
    ends the process within five seconds.
    update_heartbeat_interval, stalled_worker_timeout: how often the worker stores a heartbeat, and
    after how long without one a worker is taken for dead.
    db_grace: how long the worker tries to reach a database that is away, before it ends with
    DatabaseUnavailable (`queue worker`: with status 69). None: at its start it does not try again,
    since the address may be wrong, but later it tries for as long as it takes.
    max_result_size: the most bytes of JSON that are stored of what a task returns. A larger result
    is not stored.
    delete_jobs: "never", "successful" or "always". Such jobs leave no trace in the history when
    they end, which is cheaper, but you cannot read their results. A job that halts its lane stays.
    keep_history: how long ended jobs are kept, by default a week: a timedelta, a number of days, or
    None for ever. Whole days are dropped. The shortest time that a worker was given counts. The
    default drops nothing that a live worker was told to keep.
    max_lost_attempts: how often a job is started again after its worker died while running it, None
    for no limit. After that it fails, since it may be what kills the workers. This applies to the
    jobs that this worker takes over from others.
    additional_context: what tasks find in `context.additional_context`.
    metrics_port: serve Prometheus metrics of this process at this port; see docs/metrics.md.
    metrics_tasks: False has one series for all tasks, instead of one for each task.
    health_port: serve the worker's health at this port; see docs/health.md. It may be the port of
    the metrics.
    bind: the address that both are served at. By default only this machine can reach them.
    task_middleware, worker_middleware: middleware around tasks, see `inturn.tasks.middleware`.
    """

    queues: Sequence[str] | None = None
    name: str = ""
    concurrency: int = 1
    wait: bool = True
    fetch_job_polling_interval: float = 5.0
    abort_job_polling_interval: float = 5.0
    shutdown_graceful_timeout: float | None = None
    listen_notify: bool = True
    install_signal_handlers: bool = True
    update_heartbeat_interval: float = 10.0
    stalled_worker_timeout: float = 30.0
    db_grace: float | None = None
    max_result_size: int = 2**16
    delete_jobs: str = "never"
    keep_history: timedelta | float | None = DEFAULT_HISTORY
    max_lost_attempts: int | None = 5
    additional_context: Mapping[str, Any] | None = None
    metrics_port: int | None = None
    metrics_tasks: bool = True
    health_port: int | None = None
    bind: str = "127.0.0.1"
    task_middleware: Sequence[TaskMiddleware] | None = None
    worker_middleware: Sequence[WorkerMiddleware] | None = None

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", f"{socket.gethostname()}:{os.getpid()}")
        if self.queues is not None:
            if isinstance(self.queues, str) or not self.queues:
                raise BadArgument(
                    "queues", f"{self.queues!r}: give a list of names, or None for all"
                )
            for queue in self.queues:
                check_queue(queue)
        if self.delete_jobs not in FORGET:
            raise BadArgument(
                "delete_jobs", f"{self.delete_jobs!r} is none of {', '.join(map(repr, FORGET))}"
            )
        if not _is_span(self.keep_history):
            raise BadArgument(
                "keep_history",
                f"{self.keep_history!r}: give a timedelta or days, or None to keep all",
            )
        if not _is_countable(self.max_lost_attempts):
            raise BadArgument(
                "max_lost_attempts",
                f"{self.max_lost_attempts!r}: give 1 to 9, or None for no limit",
            )
        if self.concurrency < 1:
            raise BadArgument(
                "concurrency", f"{self.concurrency}: a worker runs at least 1 job at a time"
            )
        self._check_intervals()
        check_worker_middleware(self.task_middleware, self.worker_middleware)

    def _check_intervals(self) -> None:
        for name in (
            "fetch_job_polling_interval",
            "abort_job_polling_interval",
            "update_heartbeat_interval",
        ):
            if getattr(self, name) <= 0:
                raise BadArgument(name, f"{getattr(self, name)} seconds: must be more than 0")
        if self.stalled_worker_timeout < 3 * self.update_heartbeat_interval:
            raise BadArgument(
                "stalled_worker_timeout",
                f"{self.stalled_worker_timeout} seconds: must be at least three heartbeats "
                f"({self.update_heartbeat_interval} seconds each), or a busy worker "
                "is taken for dead",
            )

    @property
    def forget(self) -> tuple[Status, ...]:
        """Return the statuses with which a job leaves no trace when it ends."""
        return FORGET[self.delete_jobs]

    @property
    def history(self) -> timedelta | None:
        """Return `keep_history` as a timedelta, however you gave it."""
        keep = self.keep_history
        return keep if keep is None or isinstance(keep, timedelta) else timedelta(days=keep)

    @property
    def days_told(self) -> float | None:
        """Return for how many days to keep the history, infinity for ever, or None by default."""
        if self.has_default_history:
            return None
        return float("inf") if self.history is None else self.history / timedelta(days=1)

    @property
    def has_default_history(self) -> bool:
        """Return True if nobody said how long the history is kept."""
        return self.keep_history is DEFAULT_HISTORY


def _is_countable(losses: object) -> bool:
    """Return True for 1 to 9 losses, or None. Each leaves an error, and ten are kept."""
    return losses is None or (type(losses) is int and 1 <= losses <= 9)


def _is_span(keep: object) -> bool:
    if isinstance(keep, timedelta):
        return keep > timedelta(0)
    return keep is None or (isinstance(keep, int | float) and 0 < keep <= MOST_DAYS)


def options(given: Mapping[str, Any]) -> Options:
    """Return the checked options. Raise BadArgument for one that does not exist."""
    known = [f.name for f in fields(Options)]
    for name in given:
        if name not in known:
            raise BadArgument(name, f"no such worker option; there are {', '.join(known)}")
    return Options(**given)
