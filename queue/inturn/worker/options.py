"""A worker's options, checked before it starts."""

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, Literal, TypedDict

from inturn.arguments import check_queue
from inturn.errors import BadArgument, UnknownOption
from inturn.model import DeleteJobCondition, Status
from inturn.tasks.middleware import TaskMiddleware, WorkerMiddleware, check_worker_middleware
from inturn.whole_numbers import HIGHEST_ID, is_whole

MOST_DAYS = 366 * 1000
DEFAULT_HISTORY = timedelta(days=7)  # compared by identity: an explicit week is a different object
DeleteJobsName = Literal["never", "successful", "always"] | DeleteJobCondition
FORGET: dict[str, tuple[Status, ...]] = {
    "never": (),
    "successful": (Status.SUCCEEDED,),
    "always": (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.ABORTED),
}


class WorkerOptions(TypedDict, total=False):
    """The keywords of `app.run_worker`, for type checkers: the fields of `Options`."""

    queues: Sequence[str] | None
    name: str
    concurrency: int
    wait: bool
    fetch_job_polling_interval: float
    abort_job_polling_interval: float
    shutdown_graceful_timeout: float | None
    listen_notify: bool
    install_signal_handlers: bool
    update_heartbeat_interval: float
    stalled_worker_timeout: float
    db_grace: float | None
    max_result_size: int
    delete_jobs: DeleteJobsName
    keep_history: timedelta | float | None
    max_lost_attempts: int | None
    max_jobs: int | None
    max_memory: int | None
    additional_context: Mapping[str, Any] | None
    metrics_port: int | None
    metrics_tasks: bool
    health_port: int | None
    bind: str
    task_middleware: Sequence[TaskMiddleware] | None
    worker_middleware: Sequence[WorkerMiddleware] | None


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `app.run_worker`, and of `App(worker_defaults=…)`. Times are in seconds.

        app.run_worker(queues=["default"], wait=False, keep_history=timedelta(days=30))

    In your own wrapper, type them `**options: Unpack[WorkerOptions]` (from `inturn.worker`).

    queues: the queues to serve, or None for all.
    name: the worker's name in lists and logs, by default host and process: `web1:4711`.
    concurrency: how many jobs run at once.
    wait: with False, the worker ends when nothing is left to do.
    fetch_job_polling_interval: how often to look for jobs, in case a notification was lost.
    abort_job_polling_interval: how often to look for jobs to abort, for the same reason.
    listen_notify: with False, the worker only polls. Use it behind a pooler that drops
    notifications.
    shutdown_graceful_timeout: how long running jobs may continue after the first signal, or None
    for as long as they need. After that, async tasks are cancelled and sync tasks are asked to end
    (`context.should_abort()`).
    install_signal_handlers: whether SIGINT, SIGTERM and SIGHUP stop the worker. The second signal
    ends the process within five seconds.
    update_heartbeat_interval, stalled_worker_timeout: how often the worker stores a heartbeat, and
    how long a worker may go without one before it is declared dead.
    db_grace: how long the worker tries to reach the database before it ends with
    DatabaseUnavailable (`queue worker`: with status 69). None: not at startup, and forever once it
    has started.
    max_result_size: the largest result of a task, in bytes of JSON, that is stored.
    delete_jobs: "never", "successful" or "always". These jobs leave no history and no result. A job
    that halts its lane stays.
    keep_history: how long ended jobs are kept: a timedelta, a number of days, or None for all;
    by default a week. Whole days are dropped. If workers differ, the shortest explicit setting
    applies, and the default never drops what a live worker is configured to keep.
    max_lost_attempts: how often a job may lose its worker before it fails, or None for no limit.
    Applies to the jobs that this worker takes over.
    max_jobs, max_memory: the worker ends after about this many jobs, or once its process has used
    this many megabytes. Each worker adds up to a tenth.
    additional_context: passed to tasks as `context.additional_context`.
    metrics_port: serve Prometheus metrics of this process on this port; see docs/metrics.md.
    metrics_tasks: False keeps one series for all tasks instead of one per task.
    health_port: serve health checks on this port, which may be the metrics port; see
    docs/health.md.
    bind: the address to serve both on. By default only this machine can reach them.
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
    delete_jobs: DeleteJobsName = "never"
    keep_history: timedelta | float | None = DEFAULT_HISTORY
    max_lost_attempts: int | None = 5
    max_jobs: int | None = None
    max_memory: int | None = None
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
            names = () if isinstance(self.queues, str) else self.queues
            # A claim would lock the first jobs of a queue once for each time it is named.
            queues = list(dict.fromkeys(map(check_queue, names)))
            if not queues:
                raise BadArgument(
                    "queues", f"{self.queues!r}: give a list of names, or None for all"
                )
            object.__setattr__(self, "queues", queues)
        if self.delete_jobs not in FORGET:
            raise BadArgument(
                "delete_jobs", f"{self.delete_jobs!r} is not one of {', '.join(map(repr, FORGET))}"
            )
        if not _is_span(self.keep_history):
            raise BadArgument(
                "keep_history",
                f"{self.keep_history!r}: give a timedelta or days, or None to keep all",
            )
        self._check_counts()
        self._check_intervals()
        for middleware in ("task_middleware", "worker_middleware"):
            object.__setattr__(self, middleware, tuple(getattr(self, middleware) or ()))
        check_worker_middleware(self.task_middleware, self.worker_middleware)

    def _check_counts(self) -> None:
        # Each lost attempt leaves an error, and ten are kept.
        if self.max_lost_attempts is not None and not is_whole(self.max_lost_attempts, 1, 9):
            raise BadArgument(
                "max_lost_attempts",
                f"{self.max_lost_attempts!r}: give 1 to 9, or None for no limit",
            )
        if not is_whole(self.concurrency, 1, HIGHEST_ID):
            raise BadArgument(
                "concurrency", f"{self.concurrency!r}: a worker runs at least 1 job at a time"
            )
        for name in ("max_jobs", "max_memory"):
            most = getattr(self, name)
            if most is not None and not _is_at_least(most, 1):
                raise BadArgument(name, f"{most!r}: give at least 1, or None for no limit")

    def _check_intervals(self) -> None:
        for name in (
            "fetch_job_polling_interval",
            "abort_job_polling_interval",
            "update_heartbeat_interval",
        ):
            seconds = getattr(self, name)
            if not _is_at_least(seconds, 0) or not seconds:
                raise BadArgument(name, f"{seconds!r} seconds: must be greater than 0")
        if not _is_at_least(self.stalled_worker_timeout, 3 * self.update_heartbeat_interval):
            raise BadArgument(
                "stalled_worker_timeout",
                f"{self.stalled_worker_timeout!r} seconds: must be at least three heartbeats "
                f"({self.update_heartbeat_interval} seconds each), or busy workers are declared "
                "dead",
            )

    @property
    def forget(self) -> tuple[Status, ...]:
        """Return the end statuses that leave no trace in the history."""
        return FORGET[self.delete_jobs]

    @property
    def history(self) -> timedelta | None:
        """Return `keep_history` as a timedelta, however you gave it."""
        keep = self.keep_history
        return keep if keep is None or isinstance(keep, timedelta) else timedelta(days=keep)

    @property
    def days_told(self) -> float | None:
        """Return the days to keep the history, infinity for all, or None if it is the default."""
        if self.has_default_history:
            return None
        return float("inf") if self.history is None else self.history / timedelta(days=1)

    @property
    def has_default_history(self) -> bool:
        """Return True if `keep_history` was not given."""
        return self.keep_history is DEFAULT_HISTORY


def _is_at_least(number: object, least: float) -> bool:
    """Return True for a number in this range, but not for NaN."""
    return isinstance(number, int | float) and number >= least


def _is_span(keep: object) -> bool:
    if isinstance(keep, timedelta):
        return keep > timedelta(0)
    return keep is None or (isinstance(keep, int | float) and 0 < keep <= MOST_DAYS)


def options(given: Mapping[str, Any]) -> Options:
    """Return the checked options. Raise BadArgument for unknown ones."""
    known = [f.name for f in fields(Options)]
    for name in given:
        if name not in known:
            raise UnknownOption(name, "a worker", known)
    return Options(**given)
