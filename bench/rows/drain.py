"""Drain a full queue: free jobs, jobs of many lanes, jobs of one lane.

Jobs of many lanes are enqueued in ten calls, and no call has two jobs of one lane. Every peer
promises this order. The row `out_of_order` shows whether the order also holds within a call.
"""

from bench.arena import Arena
from bench.peers.adapter import MANY
from bench.rows.row import Reading, Row, Scale, Scene

LANES = 1_000

FREE_1 = Row("drain_free", "drain 20,000 free jobs, 1 worker")
FREE_2 = Row("drain_free_2", "drain 20,000 free jobs, 2 workers")
LANES_1 = Row("drain_lanes", "drain 10,000 jobs in 1,000 lanes, 1 worker")
LANES_2 = Row("drain_lanes_2", "the same, 2 workers, tasks of 2 ms")
HOT = Row("hot_lane", "one hot lane, 1 worker")
WAL = Row("wal", "WAL per free job, bulk enqueue + run", "bytes", more=False)
CALLS = Row("calls", "SQL calls per free job, run", "calls", more=False, digits=3)
CPU = Row("cpu", "worker CPU per free job", "µs", more=False, digits=1)
LANE_WAL = Row("wal_lanes", "WAL per lane job, enqueue + run", "bytes", more=False)
LANE_CALLS = Row("calls_lanes", "SQL calls per lane job, run", "calls", more=False, digits=3)


def free(arena: Arena, scale: Scale) -> dict[str, Reading]:
    count = scale.jobs(20_000)
    workers = arena.workers(1)
    before = arena.counters()
    arena.producer.bulk(count)
    enqueued = arena.counters()
    drained = arena.drain(workers, count, scale.limit)
    after = arena.counters()
    rate = {FREE_1.name: Reading(drained.rate, drained.note)}
    if not drained.done:
        return rate  # the costs below divide by all jobs, so all must have run
    return rate | {
        WAL.name: Reading(after.since(before).wal / count),
        CALLS.name: Reading(after.since(enqueued).calls / count),
        CPU.name: Reading(drained.cpu_seconds / count * 1e6),
    }


def free_two(arena: Arena, scale: Scale) -> dict[str, Reading]:
    count = scale.jobs(20_000)
    workers = arena.workers(2)
    arena.producer.bulk(count)
    drained = arena.drain(workers, count, scale.limit)
    return {FREE_2.name: Reading(drained.rate, drained.note)}


def lanes(arena: Arena, scale: Scale) -> dict[str, Reading]:
    count, lanes = scale.jobs(10_000), scale.jobs(LANES)
    workers = arena.workers(1, lanes=lanes)
    before = arena.counters()
    arena.producer.bulk(count, lanes=lanes, calls=10)
    enqueued = arena.counters()
    drained = arena.drain(workers, count, scale.limit)
    after = arena.counters()
    rate = {LANES_1.name: Reading(drained.rate, drained.note)}
    if not drained.done:
        return rate
    return rate | {
        LANE_WAL.name: Reading(after.since(before).wal / count),
        LANE_CALLS.name: Reading(after.since(enqueued).calls / count),
    }


def lanes_two(arena: Arena, scale: Scale) -> dict[str, Reading]:
    count, lanes = scale.jobs(10_000), scale.jobs(LANES)
    workers = arena.workers(2, lanes=lanes)
    arena.producer.bulk(count, lanes=lanes, calls=10, ms=2)
    drained = arena.drain(workers, count, scale.limit)
    return {LANES_2.name: Reading(drained.rate, drained.note)}


def hot(arena: Arena, scale: Scale) -> dict[str, Reading]:
    count = scale.jobs(3_000)
    workers = arena.workers(1, lanes=1)
    arena.producer.bulk(count, lanes=1)
    drained = arena.drain(workers, count, scale.limit)
    return {HOT.name: Reading(drained.rate, drained.note)}


SCENES = [
    Scene((FREE_1, WAL, CALLS, CPU), free),
    Scene((FREE_2,), free_two),
    Scene((LANES_1, LANE_WAL, LANE_CALLS), lanes, lanes=MANY),
    Scene((LANES_2,), lanes_two, lanes=MANY),
    Scene((HOT,), hot, lanes=1),
]
