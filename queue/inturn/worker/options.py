"""A worker's options, checked before it starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

from inturn.arguments import check_queue
from inturn.errors import BadArgument
from inturn.model import Status
from inturn.tasks.middleware import TaskMiddleware, WorkerMiddleware, check_worker_middleware

MOST_DAYS = 366 * 1000
FORGET = {
    "never": (),
    "successful": (Status.SUCCEEDED,),
    "always": (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.ABORTED),
}


@dataclass(frozen=True, slots=True)
class Options:
    """What `app.run_worker` takes, and `App(worker_defaults=…)`. Times are in seconds.

        app.run_worker(queues=["default"], concurrency=10, wait=False, keep_history=timedelta(days=30))

    queues: which to serve, None for all.
    name: what it is called in lists and logs.
    concurrency: how many jobs at once.
    wait: False ends the worker when nothing is left to do.
    fetch_job_polling_interval: how often to look for jobs, should a notification be lost.
    abort_job_polling_interval: how often to look for jobs that somebody wants aborted, likewise.
    listen_notify: False only polls; for a pooler that passes no notifications on.
    shutdown_graceful_timeout: how long running jobs may go on after the first signal, None for as long as they need; then
    async tasks are cancelled, sync tasks are asked (`context.should_abort()`).
    install_signal_handlers: whether SIGINT, SIGTERM and SIGHUP stop it. The second ends the process within five seconds.
    update_heartbeat_interval, stalled_worker_timeout: how often it says that it lives, and after how long without a word a worker
    is taken for dead.
    db_grace: how long it tries to reach a database that is away, also at its start, before it ends with DatabaseUnavailable
    (`queue worker`: with status 69); None: for as long as that takes, but not at its start, where the address may be wrong.
    max_result_size: bytes of JSON that a task may return to be stored; what is larger is not.
    delete_jobs: "never", "successful" or "always": jobs that end so leave no trace in the history, which is cheaper; their
    results cannot be read (one that halts its lane stays in any case).
    keep_history: how long ended jobs are kept, a timedelta or days, None for ever; whole days are dropped.
    max_lost_attempts: how often a job may be started again after its worker died over it, None for as often as that happens; it
    fails the next time, as it may be what workers die of (this worker judges the jobs that it takes over from others).
    additional_context: what tasks find in `context.additional_context`.
    task_middleware, worker_middleware: what runs around tasks, see `inturn.tasks.middleware`.
    """

    queues: Sequence[str] | None = None
    name: str = "worker"
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
    keep_history: timedelta | float | None = None
    max_lost_attempts: int | None = 5
    additional_context: Mapping[str, Any] | None = None
    task_middleware: Sequence[TaskMiddleware] | None = None
    worker_middleware: Sequence[WorkerMiddleware] | None = None

    def __post_init__(self) -> None:
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
                f"({self.update_heartbeat_interval} seconds each), or a busy worker is taken for dead",
            )

    @property
    def forget(self) -> tuple[Status, ...]:
        """With which ends a job leaves no trace."""
        return FORGET[self.delete_jobs]

    @property
    def history(self) -> timedelta | None:
        """`keep_history`, whichever way it was said."""
        keep = self.keep_history
        return keep if keep is None or isinstance(keep, timedelta) else timedelta(days=keep)


def _is_countable(losses: object) -> bool:
    """Each loss leaves an error, and ten are kept."""
    return losses is None or (type(losses) is int and 1 <= losses <= 9)


def _is_span(keep: object) -> bool:
    if isinstance(keep, timedelta):
        return keep > timedelta(0)
    return keep is None or (isinstance(keep, int | float) and 0 < keep <= MOST_DAYS)


def options(given: Mapping[str, Any]) -> Options:
    known = [f.name for f in fields(Options)]
    for name in given:
        if name not in known:
            raise BadArgument(name, f"no such worker option; there are {', '.join(known)}")
    return Options(**given)
