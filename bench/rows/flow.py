"""Limits, rates, groups, chains, batches and expiry: what they cost, and whether they hold.

The rows of `COSTS` drain jobs that use one tool, and as many free jobs. overhead.py divides the
costs of a tool by those of the free jobs in the same round, drained by as many workers.

The other rows have two workers, and tasks that take some time. So the trace shows how many ran at
once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from bench.arena import Arena, Drained
from bench.jobs import FREE_JOBS, Load, Ran, Tool
from bench.peers.ours import BURST_SHARE
from bench.rows.row import Reading, Row, Scale, Scene

MS = 2
JOBS = 10_000  # whose costs are compared
SLOW = 5_000  # of the rows whose limits slow them down
RATE = 1_000
GROUPS, SMALL = 10, 100  # tenants, and jobs of a small one
AT_ONCE = 10  # jobs of a tenant, in queues whose tenants take no turns but have limits

# ---------------------------------------------------------------- what a tool costs

UNITS = {
    "rate": ("jobs/s", True),
    "enqueue": ("enqueued/s", True),
    "server": ("µs of server CPU", False),
    "worker": ("µs of worker CPU", False),
    "wal": ("bytes of WAL", False),
    "calls": ("SQL calls", False),
}


class Cost(NamedTuple):
    """Jobs that use a tool, whose costs are compared with those of free jobs."""

    name: str
    title: str
    load: Load
    depth: int = 0  # jobs of a chain
    workers: int = 1

    def row(self, quantity: str) -> Row:
        unit, more = UNITS[quantity]
        title = f"drain {{jobs}} {self.title}"
        return Row(f"{self.name}_{quantity}", title, unit, more, jobs=JOBS)

    def load_of(self, count: int) -> Load:
        return self.load._replace(lanes=count // self.depth) if self.depth else self.load


FREE = {  # by the number of workers
    1: Cost("free", "free jobs", FREE_JOBS),
    3: Cost("free_3", "free jobs by 3 workers", FREE_JOBS, workers=3),
}
WIDE = Load(1, tool=Tool.LIMIT, width=10_000)
COSTS = (
    Cost("limit", "jobs of one key, 10 at a time", Load(1, tool=Tool.LIMIT, width=10)),
    Cost("wide", "jobs of one key, 10,000 at a time", WIDE),
    Cost("wide_3", "jobs of one key, 10,000 at a time, by 3 workers", WIDE, workers=3),
    Cost("limits", "jobs of 100 keys, 2 at a time", Load(100, tool=Tool.LIMIT, width=2)),
    Cost("single", "jobs of 100 keys, 1 at a time", Load(100, tool=Tool.LIMIT, width=1)),
    Cost("singles", "jobs of 1,000 keys, 1 at a time", Load(1_000, tool=Tool.LIMIT, width=1)),
    Cost("rates", "jobs of 1,000 keys with a rate", Load(1_000, tool=Tool.RATE, width=RATE)),
    Cost("group", "jobs of 10 groups", Load(GROUPS, tool=Tool.GROUP, width=AT_ONCE)),
    Cost("after", "jobs in chains of ten", Load(tool=Tool.AFTER), depth=10),
    Cost("batch", "jobs of one batch, the last as its callback", Load(1, tool=Tool.BATCH)),
    Cost("expiry", "jobs that expire in an hour", Load(1, tool=Tool.EXPIRY)),
)

FLOWS = (Tool.AFTER, Tool.BATCH)  # their first jobs would be warm-up jobs


def cost(one: Cost, arena: Arena, scale: Scale) -> dict[str, Reading]:
    count = scale.jobs(JOBS)
    load = one.load_of(count)
    workers = arena.workers(one.workers, load, warm=FREE_JOBS if load.tool in FLOWS else None)
    empty = arena.counters()
    enqueued_in = arena.enqueue(count, load)
    full = arena.counters()
    drained = arena.drain(workers, count, scale.limit)
    after = arena.counters()
    values = {
        "rate": drained.rate,
        "enqueue": count / enqueued_in,
        "server": drained.server_cpu_seconds / count * 1e6,
        "worker": drained.cpu_seconds / count * 1e6,
        "wal": after.since(empty).wal / count,
        "calls": after.since(full).calls / count,
    }
    return {one.row(name).name: Reading(value, drained.note) for name, value in values.items()}


def _cost_scene(one: Cost) -> Scene:
    rows = tuple(one.row(quantity) for quantity in UNITS)
    return Scene(rows, partial(cost, one), one.load.lanes, one.load.tool)


# The rows whose numbers only show as multiples.
ONLY_COSTS = frozenset(
    one.row(quantity).name
    for one in (*FREE.values(), *COSTS)
    for quantity in UNITS
    if quantity != "rate"
)

# ---------------------------------------------------------------- a limit, beside free jobs

LIMITED = Row(
    "beside_limited",
    "drain {jobs} jobs of one key, 10 at a time, before as many free jobs, 2 workers, 2 ms",
    jobs=SLOW,
)
UNLIMITED = Row("beside_free", "the same: the free jobs", jobs=SLOW)
KEYS = Row("keys", "drain {jobs} jobs of 100 keys, 2 at a time, 2 workers, 2 ms", jobs=SLOW)


def beside(arena: Arena, scale: Scale) -> dict[str, Reading]:
    count, load = scale.jobs(SLOW), Load(1, tool=Tool.LIMIT, width=10)
    workers = arena.workers(2, load)
    arena.enqueue(count, load, ms=MS)
    arena.enqueue(count, FREE_JOBS, first=count, ms=MS)
    drained = arena.drain(workers, 2 * count, scale.limit)
    limited = [ran for ran in drained.trace if ran.lane]
    free = [ran for ran in drained.trace if not ran.lane]
    return {
        LIMITED.name: Reading(_rate(limited, drained), drained.note),
        UNLIMITED.name: Reading(_rate(free, drained), "" if len(free) == count else drained.note),
    }


def keys(arena: Arena, scale: Scale) -> dict[str, Reading]:
    count, load = scale.jobs(SLOW), Load(100, tool=Tool.LIMIT, width=2)
    workers = arena.workers(2, load)
    arena.enqueue(count, load, ms=MS)
    drained = arena.drain(workers, count, scale.limit)
    return {KEYS.name: Reading(drained.rate, drained.note)}


def _is_inturn(arena: Arena) -> bool:
    return arena.peer.package == "inturn"


def _rate(jobs: list[Ran], drained: Drained) -> float:
    return len(jobs) / _seconds(jobs, drained) if jobs else 0.0


def _seconds(jobs: Iterable[Ran], drained: Drained) -> float:
    """Return the seconds until the last of these jobs had ended."""
    return max(ran.end for ran in jobs) - drained.began


# ---------------------------------------------------------------- a rate

STARTED = Row(
    "per_second", "drain {jobs} jobs of a key that may start 1,000 a second, 2 workers", jobs=SLOW
)
MOST = Row("in_a_second", "the same: the most that started in any second", "jobs", False)


def rate(arena: Arena, scale: Scale) -> dict[str, Reading]:
    count = scale.jobs(STARTED.jobs)
    workers = arena.workers(2, Load(1, tool=Tool.RATE, width=RATE))
    arena.enqueue(count, workers[0].load)
    drained = arena.drain(workers, count, scale.limit)
    starts = sorted(ran.start for ran in drained.trace)
    burst = RATE // BURST_SHARE if _is_inturn(arena) else 2 * RATE
    note = drained.note or describe_early([start - drained.began for start in starts], burst)
    return {
        STARTED.name: Reading(drained.rate, note),
        MOST.name: Reading(most_in(1.0, starts), note),
    }


def most_in(seconds: float, starts: list[float]) -> int:
    """Return the largest number of starts within so many seconds."""
    most = oldest = 0
    for number, start in enumerate(starts):
        while starts[oldest] <= start - seconds:
            oldest += 1
        most = max(most, number - oldest + 1)
    return most


def describe_early(starts: list[float], burst: int) -> str:
    """Return a note if jobs started before the rate allowed it, or an empty string.

    `starts` are seconds since the first job could start.
    A peer that counts in fixed windows of a second starts two seconds' jobs around a window's end.
    """
    early = sum(number > RATE * start + burst for number, start in enumerate(starts, 1))
    return f"WRONG: {early} too early" if early else ""


# ---------------------------------------------------------------- tenants

IN_FRONT = Row(
    "in_front",
    "9 tenants with 100 jobs behind one with {jobs}, 2 workers, 2 ms: "
    "jobs of the large one that started before theirs had",
    "jobs",
    more=False,
    jobs=SLOW,
)
NINE = Row("nine", "the same: until theirs had ended", "s", False, digits=2)
ALL = Row("tenants", "the same: all jobs")


def tenants(arena: Arena, scale: Scale) -> dict[str, Reading]:
    large, small = scale.jobs(SLOW), GROUPS * SMALL
    load = Load(GROUPS, tool=Tool.GROUP, width=AT_ONCE)
    workers = arena.workers(2, load)
    arena.enqueue(large, load._replace(lanes=1), ms=MS)  # of the first tenant
    arena.enqueue(small, load, first=large, ms=MS)
    drained = arena.drain(workers, large + small, scale.limit)
    if not _is_inturn(arena):
        drained = replace(drained, load=load._replace(tool=Tool.LIMIT))
    nine = [ran for ran in drained.trace if ran.lane != "lane-0"]
    readings = {ALL.name: Reading(drained.rate, drained.note)}
    if len(nine) == (GROUPS - 1) * SMALL:  # perhaps in time, although the large one was not
        last = max(ran.start for ran in nine)
        in_front = sum(ran.lane == "lane-0" and ran.start < last for ran in drained.trace)
        note = "" if drained.verdict.fine else drained.note
        readings[IN_FRONT.name] = Reading(in_front, note)
        readings[NINE.name] = Reading(_seconds(nine, drained), note)
    return readings


SCENES = [
    *(_cost_scene(one) for one in (*FREE.values(), *COSTS)),
    Scene((LIMITED, UNLIMITED), beside, tool=Tool.LIMIT),
    Scene((KEYS,), keys, tool=Tool.LIMIT),
    Scene((STARTED, MOST), rate, tool=Tool.RATE),
    Scene((IN_FRONT, NINE, ALL), tenants, tool=Tool.GROUP),
]
