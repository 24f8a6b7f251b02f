"""Histories of a queue that kept its promises, made without the engine, to plant violations in."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field, fields
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import psycopg

SLOTS = 2
KEYS = [f"key {number}" for number in range(5)]  # of limits
LANES = [f"lane {number}" for number in range(20)]
COLUMNS: dict[str, Any] = {
    "status": "succeeded",
    "on_retry": "hold",
    "on_failure": "continue",
    "queue": "default",
    "task": "t",
    "args": "{}",
}


@dataclass
class Ended:
    """A row of the history."""

    id: int
    created_at: datetime
    started_at: datetime
    finished_at: datetime
    fence: int = 0
    priority: int = 0
    attempts: int = 1
    errors: str = "[]"
    lock: str | None = None
    locks: list[str] | None = None
    shared: list[str] | None = None
    scheduled_at: datetime | None = None
    limit_key: str | None = None
    batch_id: int | None = None

    @property
    def lanes(self) -> list[str]:
        return self.locks or ([] if self.lock is None else [self.lock])


@dataclass
class History:
    """Jobs that started in order, one at a time in each lane, unless they share it."""

    seed: int
    since: datetime
    count: int = 600
    jobs: list[Ended] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self._written = dict[str, datetime]()  # when the last job with the lane alone ended
        self._ended = dict[str, datetime]()
        self._started = dict[str, datetime]()
        self._slots = {key: [self.since] * SLOTS for key in KEYS}  # when each becomes free
        now = self.since
        for id in range(1, self.count + 1):
            now += timedelta(seconds=self.random.uniform(0, 4))
            self.jobs.append(self._run(id, now))
        self.give_fences()

    def give_fences(self) -> None:
        for fence, job in enumerate(sorted(self.jobs, key=lambda job: job.started_at), 1):
            job.fence = fence

    def _run(self, id: int, now: datetime) -> Ended:
        kind = self.random.random()
        lanes = self.random.sample(LANES, 2 if kind < 0.1 else 1)
        shared = lanes[:1] if kind < 0.2 else []
        if kind > 0.8:
            lanes = []
        begin = now + timedelta(seconds=self.random.uniform(0, 1))
        for lane in lanes:
            ends = self._written if lane in shared else self._ended
            begin = max(begin, ends.get(lane, now), self._started.get(lane, now))
        key = None if lanes else self.random.choice(KEYS)
        if key:
            begin = max(begin, min(self._slots[key]))
        end = begin + timedelta(seconds=self.random.choice([0.01, 1, 10]) * self.random.random())
        for lane in lanes:
            self._started[lane] = begin
            self._ended[lane] = max(end, self._ended.get(lane, end))
            if lane not in shared:
                self._written[lane] = end
        if key:
            self._slots[key].remove(min(self._slots[key]))
            self._slots[key].append(end)
        several = len(lanes) > 1 or bool(shared)
        return Ended(
            id,
            now,
            begin,
            end,
            lock=min(lanes, default=None),
            locks=sorted(lanes) if several else None,
            shared=shared or None,
            limit_key=key,
        )

    def neighbours(self) -> list[tuple[Ended, Ended]]:
        """Return the pairs of jobs that followed each other in a lane that neither shares."""
        return [
            pair
            for lane in LANES
            for pair in pairwise(job for job in self.jobs if lane in job.lanes)
            if not any(job.shared for job in pair)
        ]

    def overtake(self, first: Ended, second: Ended) -> None:
        """Let the first one run only once the second has ended, and longer after than a call."""
        first.started_at = first.finished_at = second.finished_at + timedelta(seconds=6)
        self.give_fences()

    def choose(self, pairs: Iterable[tuple[Ended, Ended]], count: int) -> list[Any]:
        """Return as many pairs in random places that have no job in common."""
        chosen, used = list[Any](), set[int]()
        for pair in self.random.sample(found := list(pairs), len(found)):
            near = {id for job in pair for id in range(job.id - 1, job.id + 2)}
            if not near & used and len(chosen) < count:
                chosen.append(pair)
                used |= near
        assert len(chosen) == count
        return chosen

    def write(self, connection: psycopg.Connection[Any]) -> None:
        names = [each.name for each in fields(Ended)] + list(COLUMNS)
        copy = f"COPY finished_jobs ({', '.join(names)}) FROM STDIN"
        with connection.cursor().copy(copy.encode()) as rows:
            for job in self.jobs:
                rows.write_row([*astuple(job), *COLUMNS.values()])
