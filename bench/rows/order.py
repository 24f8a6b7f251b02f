"""Does the order hold? Two workers run 1,000 jobs of 10 lanes, deferred in one call."""

from bench.arena import Arena
from bench.jobs import Load
from bench.peers.adapter import MANY
from bench.rows.row import Reading, Row, Scale, Scene

JOBS, LANES, MS = 1_000, 10, 2

OUT_OF_ORDER = Row(
    "out_of_order",
    "1,000 jobs of 10 lanes in one call, 2 workers: out of order",
    "jobs",
    more=False,
)
OVERLAPPING = Row("overlapping", "the same: overlapping", "jobs", more=False)


def order(arena: Arena, scale: Scale) -> dict[str, Reading]:
    workers = arena.workers(2, Load(LANES))
    arena.enqueue(JOBS, Load(LANES), ms=MS)
    drained = arena.drain(workers, JOBS, scale.limit)
    note = "" if drained.done else f"only {len(drained.trace)} in {drained.seconds:.0f} s"
    return {
        OUT_OF_ORDER.name: Reading(drained.verdict.out_of_order, note),
        OVERLAPPING.name: Reading(drained.verdict.overlapping, note),
    }


SCENES = [Scene((OUT_OF_ORDER, OVERLAPPING), order, lanes=MANY)]
