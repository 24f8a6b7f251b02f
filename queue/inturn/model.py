"""The values that the package passes around: jobs, their states and endings, and lanes.

Within the package, this module imports only the names of the states.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple
from uuid import UUID

from inturn import states


class Status(StrEnum):
    """The status of a job, which is also a string. The first seven are live, the others history.

    See docs/views.md for what each means.

    job_id = write.defer(letter="a")
    assert app.job_manager.get_job_status(job_id) is Status.TODO == "todo"
    """

    TODO = "todo"
    BLOCKED = "blocked"
    LIMITED = "limited"
    SCHEDULED = "scheduled"
    PENDING = "pending"
    CLAIMED = "claimed"
    DOING = "doing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ABORTED = "aborted"


LIVE = frozenset(map(Status, states.LIVE))


class OnRetry(StrEnum):
    """What happens to a lane while one of its jobs waits for its next attempt."""

    HOLD = "hold"  # the lane waits too
    RELEASE = "release"  # the lane continues, and the job comes back when it is due


class OnFailure(StrEnum):
    """What happens to a lane when one of its jobs fails for good."""

    CONTINUE = "continue"
    HALT = "halt"  # the lane stops until an operator resumes it


class OnParent(StrEnum):
    """What happens to a job if one of its parents does not succeed."""

    CANCEL = "cancel"
    GO = "go"  # it starts anyway
    HOLD = "hold"  # it waits until an operator has retried the parent


class OnConflict(StrEnum):
    """What happens to a new job while another waits under its queueing lock."""

    RAISE = "raise"  # AlreadyEnqueued
    SKIP = "skip"  # the waiting job replaces the new one
    REPLACE = "replace"  # the waiting job takes over the new one's work


class DeleteJobCondition(StrEnum):
    """Which jobs leave no trace when they end: a worker's option `delete_jobs`."""

    NEVER = "never"
    SUCCESSFUL = "successful"
    ALWAYS = "always"


class BatchCounts(NamedTuple):
    """How the jobs of a batch ended. Its callback gets it as `context.batch`.

    @app.task(pass_context=True)
    def report(context: JobContext) -> None:
        assert context.batch is not None
        print(f"{context.batch.failed} of {context.batch.total} have failed")
    """

    id: int
    total: int
    succeeded: int
    failed: int
    cancelled: int
    aborted: int


# A NamedTuple, because a worker creates one per row, and a dataclass costs several times more.
class Job(NamedTuple):
    """A job that a worker has claimed. `attempts` counts the earlier attempts, so the first sees 0.

    @app.task(retry=3, pass_context=True)
    def ping(context: JobContext, host: str) -> None:
        print(f"job {context.job.id}, attempt {context.job.attempts + 1}")
    """

    id: int = 0  # the defaults are for jobs that you create in tests
    claim_id: str = ""
    fence: int = 0
    task_name: str = ""
    queue: str = "default"
    lock: str | None = None
    priority: int = 0
    attempts: int = 0
    scheduled_at: datetime | None = None
    task_kwargs: Mapping[str, Any] = MappingProxyType({})
    timeout: timedelta | None = None
    start_before: float | None = None  # when it expires, by its worker's monotonic clock
    batch_id: int | None = None  # it is in this batch, or is its callback
    batch: BatchCounts | None = None  # of the batch whose callback it is
    locks: Sequence[str] | None = None  # all of them, if it has several or shares one
    headers: Mapping[str, Any] | None = None  # yours, and the one of tracing
    waited: float | None = None  # seconds from its due time to its claim, by the server's clock
    handed_over: bool = False  # it was claimed by the end of the previous job in its lane

    @property
    def lanes(self) -> Sequence[str]:
        """All of its locks."""
        return self.locks or (() if self.lock is None else (self.lock,))

    @property
    def call_string(self) -> str:
        """The job written as a call, with its id, for logs and lists."""
        return call_string(self.task_name, self.id, self.task_kwargs)

    @property
    def status(self) -> Status:
        """The status when it was claimed."""
        return Status.DOING

    @property
    def abort_requested(self) -> bool:
        """False, as when it was claimed. For later requests, see `context.should_abort()`."""
        return False


@dataclass(frozen=True, slots=True)
class Limit:
    """How many jobs of a key may run at once, and how often one may start.

    `running` and `limited` count the jobs of its keys that run and that wait for it.

    app.limits.set("stripe", concurrency=5)
    [limit] = app.limits.list()
    assert limit.concurrency == 5 and limit.running == 0
    """

    BY_CELL: ClassVar = ("running", "limited")  # differs by cell (cells/asking.py)

    pattern: str
    concurrency: int | None
    rate: str | None
    burst: int | None
    running: int
    limited: int


@dataclass(frozen=True, slots=True)
class Group:
    """A group of jobs that takes turns with the others, or a pattern of groups.

    `weight` is how many of its jobs start in a turn. `waiting` counts its jobs that could start
    now, up to 1,000, and `running` those that run. Both are None for a pattern.

    app.groups.set("tenant:7", weight=3)
    [group] = app.groups.list()
    assert group.weight == 3 and group.waiting == 0
    """

    BY_CELL: ClassVar = ("waiting", "running")

    name: str
    weight: int
    waiting: int | None
    running: int | None


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a job's last attempt, as reported with `context.progress`.

        write.defer(letter="a")
        [job] = app.job_manager.list_jobs(task=write.name)
        if job.progress is not None:
            print(job.progress.done, "of", job.progress.total, job.progress.text)

    `updated_at` is when the worker stored it.
    """

    done: int
    total: int | None
    text: str | None
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """A batch, with counts of its jobs by how they ended.

        with app.batch("import") as batch:
            write.configure(batch=batch).defer(letter="a")
        progress = app.batches.show(batch)
        assert progress and progress.state == "closed" and progress.remaining == progress.total == 1

    It is "open" until it is closed, and "ended" once no job is left. Jobs that expired, or were
    deleted before they started, count as cancelled. `callback_id` is the job that runs at the end.
    """

    id: int
    name: str
    state: str
    total: int
    remaining: int
    succeeded: int
    failed: int
    cancelled: int
    aborted: int
    opened_at: datetime
    closed_at: datetime | None
    ended_at: datetime | None
    callback_id: int | None


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job as it is stored in the database. `attempts` does not count a running attempt.

        write.defer(letter="a")
        [job] = app.job_manager.list_jobs(task=write.name)
        assert job.task_kwargs == {"letter": "a"} and job.worker_id is None

    `errors` has the errors of the last ten failed attempts, and `result` is what the task returned.
    """

    id: int
    status: str
    queue: str
    priority: int
    lock: str | None
    queueing_lock: str | None
    task_name: str
    task_kwargs: dict[str, Any]
    scheduled_at: datetime | None
    attempts: int
    abort_requested: bool
    worker_id: UUID | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    fence: int | None
    timeout: timedelta | None
    expires_at: datetime | None
    limit: str | None
    group: str | None
    batch: int | None
    locks: list[str] | None  # all of them, if it has several or shares one
    shared: list[str] | None  # those of lanes that it shares
    errors: list[dict[str, Any]]
    result: Any
    progress: Progress | None
    headers: dict[str, Any] | None

    @property
    def call_string(self) -> str:
        """The job written as a call, with its id, for logs and lists."""
        return call_string(self.task_name, self.id, self.task_kwargs)


def call_string(task_name: str, job_id: int, task_kwargs: Mapping[str, Any]) -> str:
    """Return a job written as a call, for logs and lists."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in task_kwargs.items())
    return f"{task_name}[{job_id}]({arguments})"


class ProgressReport(NamedTuple):
    """An attempt's report of its progress. The fence identifies the attempt."""

    job_id: int
    fence: int
    done: int
    total: int | None
    text: str | None


class AttemptDetails(NamedTuple):
    """Details of an attempt for the log, which the database does not store."""

    exception: BaseException | None = None
    most: int | None = None  # attempts, None if unlimited or unknown
    seconds: float | None = None  # None unless successes are logged or counted


class Ended(NamedTuple):
    """A job whose code has ended for good."""

    job: Job
    status: Status
    error: str | None = None
    result: str | None = None  # JSON text of what it returned, None if that was None
    details: AttemptDetails = AttemptDetails()


class Again(NamedTuple):
    """A job whose code has ended, and which waits for its next attempt.

    None keeps a value unchanged.
    """

    job: Job
    delay: timedelta
    error: str | None = None
    at: datetime | None = None  # instead of the delay
    priority: int | None = None
    queue: str | None = None
    lock: str | None = None
    uncharged: bool = False  # the attempt does not count
    details: AttemptDetails = AttemptDetails()


class Committed(NamedTuple):
    """A job that its own code finished, in `context.transaction()`."""

    job: Job
    error: str | None = None  # what the code raised after that
    details: AttemptDetails = AttemptDetails()


Outcome = Ended | Again | Committed


def name_outcome(outcome: Outcome) -> str:
    """Return a word for how an attempt ended, for metrics and traces."""
    match outcome:
        case Again():
            return "snoozed" if outcome.uncharged else "retried"
        case Committed():
            return Status.SUCCEEDED.value
        case _:
            return outcome.status.value


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane that is held, waits for a retry, is stopped, or is idle.

    `job_id` is its running or next job. A lane is idle if no worker holds it and its next job waits
    for another lane.

    app.lanes.pause("alphabet", reason="no paper")
    lane = app.lanes.show("alphabet")
    assert lane and lane.state == "paused" and lane.stop_reason == "no paper"
    """

    lock: str
    state: str
    since: datetime
    job_id: int | None
    job_status: str | None
    task: str | None
    attempts: int | None
    due_at: datetime | None
    worker: str | None
    heartbeat_at: datetime | None
    waiting: int  # at most 1000
    more: bool  # more than 1000 wait
    last_error: str | None
    stopped: str | None  # for a held lane: its state when the job ends
    stopped_at: datetime | None
    stopped_until: datetime | None
    stopped_by: str | None
    stop_reason: str | None
    failed_job_id: int | None  # of a halted lane; last_error says how it failed
    failed_task: str | None
    readers: int | None  # how many jobs share it, None if it is not shared
    waits_for: str | None = None  # idle: the other lane that its next job waits for


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason why a job is not running, and what would unblock it.

    job_id = write.configure(schedule_in={"hours": 1}).defer(letter="a")
    assert app.job_manager.explain(job_id)[0].reason == "scheduled"
    """

    reason: str
    detail: str
    unblock: str | None
