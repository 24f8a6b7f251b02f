"""The ways to fill a queue.

Each shape is filled step by step, and cycles are measured between the steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.growth.costs import BATCH, FREE, ONE_LANE, OWN_LANES, Queue

NEXT_YEAR = "2100-01-01 00:00:00+00"
COPY_FINISHED = """
INSERT INTO inturn.finished_jobs
SELECT one.* FROM (SELECT * FROM inturn.finished_jobs LIMIT 1) AS one, generate_series(1, %s)
"""
Connect = Callable[[], psycopg.Connection[Any]]


@dataclass(frozen=True)
class Shape:
    """A way to fill a queue: call `begin` once, then `grow` with the number of jobs to add.

    `locks` is the SQL expression for the locks of the jobs that a cycle defers. Sizes go up to
    `limit`, or up to `full_limit` with `--full`. With `vacuum`, the database is vacuumed after each
    step. With `further`, a claim that continues after the last claimed job is measured too.
    """

    name: str
    title: str
    grow: Callable[[Queue, int], None]
    begin: Callable[[Queue, Connect], object] = lambda queue, connect: None
    locks: str = FREE
    limit: int = 10**6
    full_limit: int = 10**6
    vacuum: bool = True
    further: bool = False


def _busy_lane(queue: Queue, connect: Connect) -> None:
    """Let another worker claim the first job of the lane and never finish it."""
    queue.load(1, ONE_LANE)
    queue.claim(queue.register(), 1)


def _one_finished(queue: Queue, connect: Connect) -> None:
    queue.connection.execute("SELECT inturn.prepare_history(1)")
    list(queue.cycle(batch=1))


def _copy_finished(queue: Queue, count: int) -> None:
    queue.connection.execute(COPY_FINISHED, [count])


def _pin(queue: Queue, connect: Connect) -> psycopg.Connection[Any]:
    """Open a snapshot and keep it, so that vacuum cannot remove rows that die from now on."""
    reader = connect()
    reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    reader.execute("SELECT 1 FROM inturn.jobs LIMIT 1")
    return reader


def _churn(queue: Queue, count: int) -> None:
    for _ in range(count // BATCH):
        list(queue.cycle())


SHAPES = [
    Shape("waiting", "free jobs wait", lambda queue, count: queue.load(count)),
    Shape(
        "busy",
        "jobs of one busy lane wait",
        lambda queue, count: queue.load(count, ONE_LANE),
        begin=_busy_lane,
    ),
    Shape(
        "lanes",
        "lanes wait, a job each",
        lambda queue, count: queue.load(count, OWN_LANES),
        locks=OWN_LANES,
    ),
    Shape("scheduled", "jobs are scheduled", lambda queue, count: queue.load(count, at=NEXT_YEAR)),
    Shape(
        "finished",
        "jobs have finished",
        _copy_finished,
        begin=_one_finished,
        full_limit=10**7,
    ),
    Shape(
        "pinned",
        "jobs ran under an old snapshot",
        _churn,
        begin=_pin,
        limit=10**5,
        vacuum=False,
        further=True,
    ),
]
