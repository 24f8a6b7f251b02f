"""Bulk changes of jobs and lanes: a preview, then a hundred at a time.

Each step is one statement, and therefore a separate transaction. An interrupted bulk change has
done some of its steps. Running it again with the same `before` does the rest.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Any, Literal, LiteralString, TypeVar

from inturn.operations import Operation, Statement, get_value, read, read_one
from inturn.operations.changes.jobs import JobFilter
from inturn.states import ENDED, WAITING

K = TypeVar("K", bound=int | str)  # a job's id or a lane's lock

JobAction = Literal["retry", "cancel", "delete", "move"]
LaneAction = Literal["resume", "retry-head", "skip-head", "pause"]

PREVIEWED = 10_000  # how many jobs or lanes a preview counts
FOUND = 50_000  # how many are looked up at once
STEP = 100  # workers wait for the lanes of a step, so keep it short
LANE = 1_000  # a longer lane is changed in one step, up to this many jobs
LEFT = 100  # how many unchanged jobs or lanes are remembered individually
ROUNDS = 3  # how often busy jobs and lanes are tried again

# What an action covers by default.
STATUSES: dict[str, tuple[str, ...]] = {
    "retry": ("failed",),
    "cancel": (*WAITING, "claimed"),
    "delete": ENDED,
    "move": WAITING,
}
STATES: dict[str, tuple[str, ...]] = {
    "resume": ("halted", "paused"),
    "retry-head": ("halted",),
    "skip-head": ("halted",),
    "pause": (),
}

FIND_JOBS: LiteralString = (
    "SELECT id, lock, priority FROM {schema}.find_jobs("  # noqa: S608 (of constants)
    + JobFilter.text
    + ", %s, %s, %s, %s, %s, %s, %s)"
)
PREVIEW_JOBS: LiteralString = (
    "SELECT jobs_count, more, unlocked, lanes, waiting, halted_by, halted, paused, sample, until "
    "FROM {schema}.preview_jobs(" + JobFilter.text + ", %s, %s, %s, %s)"
)
CHANGE_JOBS: LiteralString = (
    "SELECT id, outcome FROM {schema}.change_jobs(%s, %s::bigint[], "  # noqa: S608 (of constants)
    + JobFilter.text
    + ", %s, %s, %s, %s)"
)
NOW = "SELECT {schema}.clock()"
FIND_LANES = "SELECT lock FROM {schema}.find_lanes(%s::text[], %s, %s, %s, %s) AS lock"
PREVIEW_LANES = """
SELECT lanes_count, more, halted, paused, retrying, held, waiting, sample
FROM {schema}.preview_lanes(%s::text[], %s, %s, %s)
"""
CHANGE_LANES = """
SELECT lock, outcome
FROM {schema}.change_lanes(%s, %s::text[], %s::text[], %s, %s, %s::timestamptz, %s)
"""


@dataclass(frozen=True, slots=True)
class JobPreview:
    """The jobs that a bulk change covers. Counts stop at 10,000, and then `more` is True.

    seen = app.job_manager.preview_jobs("retry", task="mail.send")
    print(seen.count, "jobs in", seen.lanes, "lanes, before", seen.waiting, "others")
    """

    count: int
    more: bool
    unlocked: int  # jobs without a lock
    lanes: int  # of the other jobs
    waiting: int  # other waiting jobs of these lanes
    halted_by: int  # lanes that one of the jobs halts
    halted: int  # lanes that another job halts
    paused: int
    sample: list[int]
    until: datetime  # it covers jobs that ended, or were deferred, before


@dataclass(frozen=True, slots=True)
class LanePreview:
    """The lanes that a bulk change covers. Counts stop at 10,000, and then `more` is True.

    seen = app.lanes.preview_lanes("retry-head", states=["halted"])
    print(seen.count, "lanes with", seen.waiting, "jobs that wait")
    """

    count: int
    more: bool
    halted: int
    paused: int
    retrying: int
    held: int
    waiting: int  # their waiting jobs
    sample: list[str]


@dataclass
class Bulk:
    """The progress and result of a bulk change.

        done = app.job_manager.retry_jobs(task="mail.send")
        print(done.changed, "retried, and left as they were:", dict(done.refused))

    `refused` counts the unchanged ones by reason: `busy`, `running`, `changed` and so on (see
    change_jobs.sql and change_lanes.sql). `left` has the first 100 of them: the job's id or the
    lane's lock, and the reason.
    """

    changed: int = 0
    asked: int = 0  # running jobs whose workers were asked to abort them
    refused: Counter[str] = field(default_factory=Counter)
    left: list[tuple[int | str, str]] = field(default_factory=list)

    @property
    def looked_at(self) -> int:
        """How many jobs or lanes it has processed."""
        return self.changed + self.asked + self.refused.total()

    def add(self, outcomes: Sequence[tuple[int | str, str]]) -> None:
        """Add the outcomes of a step."""
        counts = Counter(outcome for _, outcome in outcomes)
        self.changed += counts.pop("done", 0)
        self.asked += counts.pop("asked", 0)
        self.refused += counts
        refused = ((key, why) for key, why in outcomes if why not in ("done", "asked"))
        self.left += islice(refused, max(0, LEFT - len(self.left)))


Watch = Callable[[Bulk], object]


@dataclass(frozen=True, slots=True)
class Move:
    """The priority and the queue that a move gives to jobs. None keeps what each has."""

    priority: int | None = None
    queue: str | None = None

    def parameters(self) -> list[Any]:
        """Return the last parameters of the statements about jobs."""
        return [self.priority, self.queue]


NO_MOVE = Move()


@dataclass(frozen=True, slots=True)
class LaneFilter:
    """Which lanes a bulk change covers. An empty sequence and None mean any.

    `error` is a part of the error of the job that the lane waits for.
    """

    states: Sequence[str] = ()
    prefix: str | None = None
    error: str | None = None


def preview_jobs(
    action: JobAction, which: JobFilter, move: Move = NO_MOVE
) -> Operation[JobPreview]:
    asked = for_action(action, which).parameters()
    more = [PREVIEWED, _last_first(action, move), *move.parameters()]
    return read_one(JobPreview, PREVIEW_JOBS, *asked, *more)


def change_jobs(
    action: JobAction,
    which: JobFilter,
    done: Bulk,
    *,
    abort: bool = False,
    move: Move = NO_MOVE,
    by: str | None = None,
    watch: Watch = lambda _: None,
) -> Operation[Bulk]:
    """Change all jobs that match, step by step, and call `watch` after each step.

    A retry follows each lane, and one step brings back a lane's jobs. Cancels and deletes start
    with the last job of a lane: a job that a worker starts during one was next anyway. A move to a
    positive priority starts with the first job, and every other move with the last one.
    """
    if which.before is None:  # no job is changed twice, and the loop ends
        which = replace(which, before=(yield from get_value(NOW)))
    which = for_action(action, which, abort=abort)
    asked = which.parameters()

    def step(ids: Sequence[int]) -> Operation[list[int]]:
        rows = yield Statement(
            CHANGE_JOBS, [action, list(ids), *asked, abort, by, *move.parameters()]
        )
        return _add_outcomes(done, rows)

    last: tuple[Any, ...] = (None, None, None)
    busy: list[int] = []
    while True:
        found = yield Statement(
            FIND_JOBS, [*asked, FOUND, _last_first(action, move), *last, *move.parameters()]
        )
        for ids in split_by_lane([(id, lock) for id, lock, _ in found]):
            busy += yield from step(ids)
            watch(done)
        if len(found) < FOUND:
            break
        id, lock, priority = found[-1]
        last = (lock, priority, id)
    return (yield from _retry_busy(step, busy, done, watch))


def change_chosen(
    action: JobAction, ids: Sequence[int], by: str | None, move: Move = NO_MOVE
) -> Operation[dict[int, str]]:
    """Retry or move these jobs, those of a lane together. Return the outcome for each.

    Those whose outcome is not `done` stay unchanged (see change_jobs.sql).
    """
    ids = sorted(set(ids))
    asked = JobFilter(ids=ids, statuses=(*WAITING, *ENDED)).parameters()
    outcomes: dict[int, str] = {}
    for start in range(0, len(ids), LANE):
        some = ids[start : start + LANE]
        rows = yield Statement(CHANGE_JOBS, [action, some, *asked, False, by, *move.parameters()])
        outcomes.update(rows)
    return outcomes


def split_by_lane(found: Sequence[tuple[int, str | None]]) -> list[list[int]]:
    """Split jobs, sorted by lane, into steps that keep a lane's jobs together."""
    steps: list[list[int]] = [[]]
    before: str | None = None
    for id, lock in found:
        same = lock is not None and lock == before
        if len(steps[-1]) >= (LANE if same else STEP):
            steps.append([])
        steps[-1].append(id)
        before = lock
    return steps if steps[0] else []


def preview_lanes(action: LaneAction, which: LaneFilter) -> Operation[LanePreview]:
    states = _states(action, which)
    return read_one(LanePreview, PREVIEW_LANES, states, which.prefix, PREVIEWED, which.error)


def change_lanes(
    action: LaneAction,
    which: LaneFilter,
    done: Bulk,
    *,
    by: str | None = None,
    reason: str | None = None,
    until: datetime | None = None,
    watch: Watch = lambda _: None,
) -> Operation[Bulk]:
    """Change all lanes that match, step by step, and call `watch` after each step."""
    states = _states(action, which)
    busy: list[str] = []

    def step(locks: Sequence[str]) -> Operation[list[str]]:
        rows = yield Statement(
            CHANGE_LANES, [action, list(locks), states, by, reason, until, which.error]
        )
        return _add_outcomes(done, rows)

    last = ""
    asked = (states, which.prefix, STEP)
    while locks := (yield from read(str, FIND_LANES, *asked, last, which.error)):
        busy += yield from step(locks)
        watch(done)
        last = locks[-1]
    return (yield from _retry_busy(step, busy, done, watch))


def _add_outcomes(done: Bulk, outcomes: Sequence[tuple[K, str]]) -> list[K]:
    """Add the outcomes of a step, and return the busy ones, which are tried again."""
    done.add([(key, outcome) for key, outcome in outcomes if outcome != "busy"])
    return [key for key, outcome in outcomes if outcome == "busy"]


def _retry_busy(
    step: Callable[[Sequence[K]], Operation[list[K]]], busy: list[K], done: Bulk, watch: Watch
) -> Operation[Bulk]:
    """Try the busy ones again in a few rounds, and add those that are still busy."""
    for _ in range(ROUNDS):
        busy, again = [], busy
        for start in range(0, len(again), STEP):
            busy += yield from step(again[start : start + STEP])
    done.add([(each, "busy") for each in busy])
    watch(done)
    return done


def for_action(action: JobAction, which: JobFilter, *, abort: bool = False) -> JobFilter:
    """Return the filter, with the action's default statuses if it has none."""
    running = ("doing",) if abort else ()
    return replace(which, statuses=which.statuses or STATUSES[action] + running)


def _last_first(action: JobAction, move: Move) -> bool:
    """Return whether the last job of a lane is changed first, so that no other overtakes it."""
    return action != "retry" and (move.priority or 0) <= 0


def _states(action: LaneAction, which: LaneFilter) -> list[str] | None:
    return list(which.states or STATES[action]) or None
