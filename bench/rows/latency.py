"""Latency: from the call that enqueues a job to its start, and from a job's end to its successor's.

The first is measured on an idle queue, and beside a producer that works at half of its speed. The
second is the hand-over within a lane. A queue cannot avoid a commit and a round trip there, so
these are measured too. A cold worker's first job tells how long a worker takes to start.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from statistics import median

from bench.arena import Arena, Drained
from bench.jobs import FREE_JOBS, WARM, Load, Ran
from bench.peers.registry import FLOOR
from bench.rows.row import Reading, Row, Scale, Scene

PAUSE = 0.023  # seconds between two jobs, not a multiple of any peer's timer
PROBE = 200  # jobs that tell how long a producer takes for one
COMMITS = 300
STARTS = 9

IDLE = "enqueue to start when idle, {jobs} jobs, "
LOADED = "enqueue to start beside a producer at half speed, {jobs} jobs, "
HANDOVER = "end to start of the next job in a lane of {jobs}, "


def _rows(name: str, title: str, jobs: int) -> tuple[Row, Row]:
    """Return the rows for the median and for the slowest hundredth."""
    return (
        Row(f"{name}_50", f"{title}p50", "ms", more=False, digits=2, jobs=jobs),
        Row(f"{name}_99", f"{title}p99", "ms", more=False, digits=2, jobs=jobs),
    )


IDLE_ROWS = _rows("latency", IDLE, 500)
LOADED_ROWS = _rows("latency_loaded", LOADED, 500)
HANDOVER_ROWS = {
    workers: _rows(f"handover_{workers}", f"{HANDOVER}{workers} worker{'s' * (workers > 1)}, ", 500)
    for workers in (1, 2)
}
FIRST_JOB = Row(
    "first_job",
    f"a cold worker's start to its first job, p50 of {STARTS} workers",
    "ms",
    more=False,
    digits=1,
)
COMMIT = Row("commit_50", "a commit and a round trip, p50", "ms", more=False, digits=2)


def idle(arena: Arena, scale: Scale) -> dict[str, Reading]:
    count = scale.jobs(IDLE_ROWS[0].jobs)
    workers = arena.workers(1)
    for worker in workers:
        worker.resume()
    time.sleep(0.5)  # let the timers fire that came due during the pause
    called = arena.producer.one_by_one(count, pause=PAUSE)["at"]
    drained = arena.drain(workers, count, scale.limit)
    return _read(IDLE_ROWS, _waits(drained, called), drained)


def loaded(arena: Arena, scale: Scale) -> dict[str, Reading]:
    count = scale.jobs(LOADED_ROWS[0].jobs)
    [worker] = workers = arena.workers(1)
    other = arena.another_producer()
    worker.resume()
    each = arena.producer.one_by_one(PROBE, first=WARM + WARM // 2)["seconds"] / PROBE
    worker.warmed += PROBE
    beside = round(count * (PAUSE + each) / (2 * each))
    other.begin(count=beside, first=count, pause=each)  # as long a pause as each job takes
    called = arena.producer.one_by_one(count, pause=PAUSE)["at"]
    other.answer()
    drained = arena.drain(workers, count + beside, scale.limit)
    return _read(LOADED_ROWS, _waits(drained, called), drained)


def handover(count: int, arena: Arena, scale: Scale) -> dict[str, Reading]:
    rows = HANDOVER_ROWS[count]
    jobs = scale.jobs(rows[0].jobs)
    workers = arena.workers(count, Load(1))
    arena.enqueue(jobs, Load(1))
    drained = arena.drain(workers, jobs, scale.limit)
    trace = sorted(drained.trace, key=lambda ran: ran.start)
    gaps = [_gap(one, following) for one, following in pairwise(trace)]
    return _read(rows, gaps, drained)


def first_job(arena: Arena, scale: Scale) -> dict[str, Reading]:
    waits = []
    for number in range(STARTS):
        workers = arena.cold_workers(1, FREE_JOBS)
        arena.enqueue(1, FREE_JOBS, first=number)
        drained = arena.drain(workers, 1, scale.limit)
        if not drained.done:
            return {FIRST_JOB.name: Reading(drained.seconds * 1000, drained.note)}
        waits.append((drained.trace[0].start - drained.began) * 1000)
    return {FIRST_JOB.name: Reading(median(waits))}


def commit(arena: Arena, scale: Scale) -> dict[str, Reading]:
    """Measure the server itself, so once in a round and not for each peer."""
    return {COMMIT.name: Reading(arena.commit_ms(COMMITS))} if arena.peer.name == FLOOR else {}


def _gap(one: Ran, following: Ran) -> float:
    return (following.start - one.end) * 1000


def _waits(drained: Drained, called: Sequence[float]) -> list[float]:
    return [
        (ran.start - called[ran.number]) * 1000 for ran in drained.trace if ran.number < len(called)
    ]


def _read(rows: tuple[Row, Row], waits: Sequence[float], drained: Drained) -> dict[str, Reading]:
    if not waits:
        return {}
    ordered = sorted(waits)
    p50, p99 = (ordered[len(ordered) * share // 100] for share in (50, 99))
    return {rows[0].name: Reading(p50, drained.note), rows[1].name: Reading(p99, drained.note)}


SCENES = [
    Scene(IDLE_ROWS, idle),
    Scene(LOADED_ROWS, loaded),
    Scene(HANDOVER_ROWS[1], partial(handover, 1), lanes=1),
    Scene(HANDOVER_ROWS[2], partial(handover, 2), lanes=1),
    Scene((FIRST_JOB,), first_job),
    Scene((COMMIT,), commit),
]
