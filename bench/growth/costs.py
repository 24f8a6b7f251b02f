"""Measure the cost of one call, as the server counts it.

EXPLAIN of a call counts everything that runs inside the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

EXPLAIN = "EXPLAIN (ANALYZE, BUFFERS, WAL, TIMING OFF, FORMAT JSON) "
BATCH = 100
CYCLES = 15
WARM_CYCLES = 5

DEFER = """
SELECT FROM inturn.defer_jobs(
    array_fill('work'::text, ARRAY[%(count)s]),
    array_fill('{{"number": 1}}'::jsonb, ARRAY[%(count)s]),
    array_fill('default'::text, ARRAY[%(count)s]), {locks}, array_fill(0, ARRAY[%(count)s]),
    array_fill(%(at)s::timestamptz, ARRAY[%(count)s]), array_fill(NULL::interval, ARRAY[%(count)s])
)
"""
FREE = "array_fill(NULL::text, ARRAY[%(count)s])"
ONE_LANE = "array_fill('busy'::text, ARRAY[%(count)s])"
OWN_LANES = "ARRAY(SELECT gen_random_uuid()::text FROM generate_series(1, %(count)s))"

REGISTER = "SELECT inturn.register_worker('bench', 'bench', 1, NULL, 100)"
CLAIM = "SELECT FROM inturn.claim(%s, NULL, %s)"
FURTHER = "SELECT FROM inturn.claim_further(%s, '{default}', '{0}', %s::bigint[], %s)"
MINE = """
SELECT array_agg(id), array_agg(claim_id) FROM inturn.jobs
WHERE status = 'doing' AND worker_id = %s
"""
FINISH = """
SELECT FROM inturn.finish(
    %(worker)s, NULL, 0, %(ids)s, %(claims)s,
    array_fill('succeeded'::inturn.job_status, ARRAY[%(count)s]),
    array_fill(NULL::jsonb, ARRAY[%(count)s])
)
"""


class Cost(NamedTuple):
    """The cost of one call, divided by the number of its jobs."""

    ms: float
    pages: float
    wal: float


@dataclass
class Costs:
    """The costs of the calls in all cycles, by the name of the call."""

    calls: dict[str, list[Cost]] = field(default_factory=dict)

    def median(self, name: str) -> Cost:
        return Cost(*(median(values) for values in zip(*self.calls[name], strict=True)))

    def add(self, name: str, cost: Cost) -> None:
        self.calls.setdefault(name, []).append(cost)


class Queue:
    """A worker and a producer that call inturn's SQL functions on one connection."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.worker = self.register()

    def register(self) -> UUID:
        row = self.connection.execute(REGISTER).fetchone()
        assert row is not None
        worker: UUID = row[0]
        return worker

    def load(
        self, count: int, locks: str = FREE, at: str | None = None, at_once: int = 50_000
    ) -> None:
        for done in range(0, count, at_once):
            self.connection.execute(
                DEFER.format(locks=locks).encode(),
                {"count": min(at_once, count - done), "at": at},
                prepare=False,
            )

    def cycle(self, locks: str = FREE, batch: int = BATCH) -> Iterator[tuple[str, Cost]]:
        """Defer, claim and finish `batch` jobs. The number of jobs in the tables stays the same."""
        yield "defer", self._cost(DEFER.format(locks=locks), {"count": batch, "at": None}, batch)
        claim = self._explain(CLAIM, [self.worker, batch])
        ids, claims = self._mine()
        if not ids:
            return  # this claim only moved blocked jobs out of its way
        yield "claim", _per_job(claim, len(ids))
        yield from self._finish(ids, claims)

    def cycle_further(self) -> Iterator[tuple[str, Cost]]:
        """Measure a claim that continues after the last job of a batch, then a whole cycle."""
        self.load(2 * BATCH)
        self.claim(self.worker, BATCH)
        ids, _claims = self._mine()
        further = self._explain(FURTHER, [self.worker, [max(ids)], BATCH])
        yield "further", _per_job(further, BATCH)
        list(self._finish(*self._mine()))
        yield from self.cycle()

    def _finish(self, ids: list[int], claims: list[UUID]) -> Iterator[tuple[str, Cost]]:
        given = {"worker": self.worker, "ids": ids, "claims": claims, "count": len(ids)}
        yield "finish", self._cost(FINISH, given, len(ids))

    def claim(self, worker: UUID, limit: int) -> None:
        self.connection.execute(CLAIM, [worker, limit])

    def _mine(self) -> tuple[list[int], list[UUID]]:
        row = self.connection.execute(MINE, [self.worker]).fetchone()
        assert row is not None
        return row[0] or [], row[1] or []

    def _cost(self, statement: str, parameters: Any, jobs: int) -> Cost:
        return _per_job(self._explain(statement, parameters), jobs)

    def _explain(self, statement: str, parameters: Any) -> dict[str, Any]:
        row = self.connection.execute((EXPLAIN + statement).encode(), parameters).fetchone()
        assert row is not None
        plan: dict[str, Any] = row[0][0]
        return plan


def _per_job(explained: dict[str, Any], jobs: int) -> Cost:
    plan = explained["Plan"]
    pages = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return Cost(explained["Execution Time"] / jobs, pages / jobs, plan["WAL Bytes"] / jobs)


def measure(cycle: Callable[[], Iterator[tuple[str, Cost]]]) -> Costs:
    costs = Costs()
    for number in range(WARM_CYCLES + CYCLES):
        for name, cost in cycle():
            if number >= WARM_CYCLES:
                costs.add(name, cost)
    return costs
