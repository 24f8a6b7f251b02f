"""The data of `queue top`: one look at the queue, at a cost independent of its length."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from inturn.cli.arguments.job import spell_reason
from inturn.cli.output.next_command import complete
from inturn.database.connector import Connector
from inturn.database.kept_connection import KeptConnection
from inturn.doctor.reader import RunOperation
from inturn.doctor.troubled_lane import StuckLane, describe_lanes
from inturn.doctor.work import is_unserved
from inturn.model import Limit, Reason
from inturn.operations import Operation
from inturn.operations.changes import limits
from inturn.operations.changes.pauses import PausedQueue, PausedTask
from inturn.operations.engine.batches import ForgottenBatch
from inturn.operations.engine.workers import QueueStatus, WorkerStatus
from inturn.operations.reading import overview
from inturn.operations.reading.failures import FailedParent
from inturn.operations.reading.measures import Troubles
from inturn.operations.reading.overview import Counts
from inturn.operations.reading.parts import read_parts
from inturn.operations.reading.situation import get_situation

T = TypeVar("T")
MOST = 1000  # limits
RATE_SECONDS = 10.0  # the server updates its counters once a second, so rates over 2 s would jump
BUSY = ("runnable", "limited", "blocked", "doing")


@dataclass(frozen=True)
class Rates:
    """Jobs per second since an earlier look. None: this is the first."""

    deferred: float | None
    ended: float | None
    failed_last_minute: int


@dataclass(frozen=True)
class Look:
    """The queue at one moment. `lanes` counts lanes by state, at most 10,000 each."""

    at: datetime
    mismatch: tuple[str, str] | None  # why the schema does not fit, and the remedy
    rates: Rates
    lanes: dict[str, int]
    troubled: list[StuckLane]
    limits: list[Limit]  # those that hold back jobs
    limited: list[Reason]  # explain's reason for one job of each
    queues: list[QueueStatus]
    paused_queues: list[PausedQueue]
    paused_tasks: list[PausedTask]
    unknown_tasks: list[tuple[str, str]]
    failed_parents: list[FailedParent]
    forgotten_batches: list[ForgottenBatch]
    workers: list[WorkerStatus]
    worker_states: dict[str, int]


@dataclass
class Meter:
    clock: Callable[[], float] = time.monotonic
    _readings: deque[tuple[float, Counts]] = field(default_factory=deque)

    def read(self, counts: Counts) -> Rates:
        """Return the rates since the oldest recent reading."""
        now = self.clock()
        known = self._readings
        if known and (counts.ended < known[-1][1].ended or counts.deferred < known[-1][1].deferred):
            known.clear()  # another server, or one that crashed, counts from 0 again
        while len(known) > 1 and known[1][0] <= now - RATE_SECONDS:
            known.popleft()
        known.append((now, counts))
        since, first = known[0]
        if now == since:
            return Rates(None, None, counts.failed)
        deferred, ended = counts.deferred - first.deferred, counts.ended - first.ended
        return Rates(deferred / (now - since), ended / (now - since), counts.failed)


class Looker:
    """Reads the queue over one connection, and reconnects after an outage."""

    def __init__(self, connector: Connector, limit: int) -> None:
        self._connector = connector
        self._limit = limit
        self._meter = Meter()
        self._connection = KeptConnection(connector, "top")

    def look(self) -> Look:
        """Return the current state. After an error, the next look reconnects."""
        try:
            with self._connection.look() as connection:

                def run(operation: Operation[T]) -> T:
                    return self._connector.run(operation, connection)

                return read(run, self._connector.schema, self._limit, self._meter)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._connection.close()


def read(run: RunOperation, schema: str, limit: int, meter: Meter) -> Look:
    """Query each part of a look. Keep at most `limit` lanes, queues and so on."""
    seen = run(get_situation(schema))
    counts = run(overview.get_counts())
    found = run(read_parts(Troubles, schema))
    holding = [each for each in run(limits.list_limits(MOST)) if each.limited]
    troubled = describe_lanes(run, run(overview.list_troubled_lanes(limit)), seen.now)
    return Look(
        at=seen.now,
        mismatch=seen.mismatch,
        rates=meter.read(counts),
        lanes={state: count for state, (count, _) in seen.lanes.items()},
        troubled=[
            replace(each, unblock=each.unblock and complete(each.unblock)) for each in troubled
        ],
        limits=holding[:limit],
        limited=_explain_limits(run, limit, seen.now) if holding else [],
        queues=sorted(seen.queues, key=_rank)[:limit],
        paused_queues=seen.paused_queues[:limit],
        paused_tasks=seen.paused_tasks[:limit],
        unknown_tasks=seen.unknown_tasks[:limit],
        failed_parents=found.parents[:limit],
        forgotten_batches=found.batches[:limit],
        workers=sorted(seen.workers, key=lambda worker: worker.state == "live")[:limit],
        worker_states=found.worker_states,
    )


def _explain_limits(run: RunOperation, limit: int, now: datetime) -> list[Reason]:
    reasons = run(overview.explain_jobs(run(overview.find_limited(limit))))
    return [
        spell_reason(each, now)
        for found in reasons.values()
        for each in found
        if each.reason == "limited"
    ]


def _rank(queue: QueueStatus) -> tuple[bool, int, str]:
    """Return the sort key: unserved queues come first, then those with the most jobs."""
    return not is_unserved(queue), -sum(getattr(queue, each) for each in BUSY), queue.queue
