"""Drain a full queue: free jobs, jobs of many lanes, jobs of one lane, by cold and warm workers.

Jobs of many lanes are enqueued in calls that hold one job of each lane. Every peer promises this
order. The row `out_of_order` shows whether the order also holds within a call.
"""

from collections.abc import Iterator
from functools import partial

from bench.arena import Arena
from bench.jobs import Load
from bench.peers.adapter import MANY
from bench.rows.row import Reading, Row, Scale, Scene

FREE_TITLE = "drain {jobs} free jobs, "
LANES_TITLE = "drain {jobs} jobs in {lanes} lanes, "
ONE_WORKER, TWO_WORKERS, COLD = "1 worker", "2 workers", "1 cold worker"

FREE_1 = Row("drain_free", FREE_TITLE + ONE_WORKER, jobs=20_000)
FREE_2 = Row("drain_free_2", FREE_TITLE + TWO_WORKERS, jobs=20_000)
LANES_1 = Row("drain_lanes", LANES_TITLE + ONE_WORKER, jobs=10_000, lanes=1_000)
LANES_2 = Row("drain_lanes_2", f"{LANES_TITLE}{TWO_WORKERS}, 2 ms", jobs=10_000, lanes=1_000)
HOT = Row("hot_lane", "drain {jobs} jobs of one lane, 1 worker", jobs=3_000)
WAL = Row("wal", "WAL per free job, enqueue and run {jobs}", "bytes", more=False, jobs=20_000)
CALLS = Row("calls", "SQL calls per free job, run {jobs}", "calls", False, digits=3, jobs=20_000)
CPU = Row("cpu", "worker CPU per free job, run {jobs}", "µs", more=False, digits=1, jobs=20_000)
LANE_WAL = LANES_1._replace(
    name="wal_lanes",
    title="WAL per lane job, enqueue and run {jobs} in {lanes} lanes",
    unit="bytes",
    more=False,
)
LANE_CALLS = LANE_WAL._replace(
    name="calls_lanes",
    title="SQL calls per lane job, run {jobs} in {lanes} lanes",
    unit="calls",
    digits=3,
)
OTHERS = (  # each is a rate, and a run of its own
    Row("drain_free_cold", FREE_TITLE + COLD, jobs=20_000),
    Row("drain_free_100k", FREE_TITLE + ONE_WORKER, jobs=100_000),
    Row("drain_free_100k_cold", FREE_TITLE + COLD, jobs=100_000),
    Row("drain_lanes_cold", LANES_TITLE + COLD, jobs=10_000, lanes=1_000),
    Row("drain_many_lanes", LANES_TITLE + ONE_WORKER, jobs=20_000, lanes=10_000),
    Row("drain_many_lanes_cold", LANES_TITLE + COLD, jobs=20_000, lanes=10_000),
)


def _load(row: Row, scale: Scale) -> Load:
    return Load(scale.jobs(row.lanes) if row.lanes else 0)


def _calls(count: int, load: Load) -> int:
    return -(-count // load.lanes) if load.lanes else 1


def _with_costs(rows: tuple[Row, ...], arena: Arena, scale: Scale) -> dict[str, Reading]:
    """Return the readings of a rate, WAL, calls and perhaps CPU, in this order."""
    rate, wal, calls, *cpu = rows
    count, load = scale.jobs(rate.jobs), _load(rate, scale)
    workers = arena.workers(1, load)
    before = arena.counters()
    arena.enqueue(count, load, calls=_calls(count, load))
    enqueued = arena.counters()
    drained = arena.drain(workers, count, scale.limit)
    after = arena.counters()
    readings = {rate.name: Reading(drained.rate, drained.note)}
    if drained.done:  # the costs divide by all jobs, so all must have run
        readings[wal.name] = Reading(after.since(before).wal / count)
        readings[calls.name] = Reading(after.since(enqueued).calls / count)
        readings |= {row.name: Reading(drained.cpu_seconds / count * 1e6) for row in cpu}
    return readings


def _rate(
    row: Row, arena: Arena, scale: Scale, *, workers: int = 1, cold: bool = False, ms: float = 0
) -> dict[str, Reading]:
    count, load = scale.jobs(row.jobs), _load(row, scale)
    started = arena.cold_workers(workers, load) if cold else arena.workers(workers, load)
    arena.enqueue(count, load, calls=_calls(count, load), ms=ms)
    drained = arena.drain(started, count, scale.limit)
    return {row.name: Reading(drained.rate, drained.note)}


def hot(arena: Arena, scale: Scale) -> dict[str, Reading]:
    count = scale.jobs(HOT.jobs)
    workers = arena.workers(1, Load(1))
    arena.enqueue(count, Load(1))
    drained = arena.drain(workers, count, scale.limit)
    return {HOT.name: Reading(drained.rate, drained.note)}


def _others() -> Iterator[Scene]:
    for row in OTHERS:
        cold = row.name.endswith("_cold")
        yield Scene((row,), partial(_rate, row, cold=cold), lanes=MANY if row.lanes else 0)


FREE_ROWS, LANE_ROWS = (FREE_1, WAL, CALLS, CPU), (LANES_1, LANE_WAL, LANE_CALLS)
SCENES = [
    Scene(FREE_ROWS, partial(_with_costs, FREE_ROWS)),
    Scene((FREE_2,), partial(_rate, FREE_2, workers=2)),
    Scene(LANE_ROWS, partial(_with_costs, LANE_ROWS), lanes=MANY),
    Scene((LANES_2,), partial(_rate, LANES_2, workers=2, ms=2), lanes=MANY),
    *_others(),
    Scene((HOT,), hot, lanes=1),
]
