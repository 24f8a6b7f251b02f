"""Run 500 free jobs that wait behind the jobs of a busy lane, and measure the time.

The lane's first job never ends, so none of its other jobs may start. A worker has to look past
them.
"""

from functools import partial

from bench.arena import Arena
from bench.jobs import FREE_JOBS, Load, Ran
from bench.peers.adapter import MANY
from bench.rows.row import Reading, Row, Scale, Scene

FREE = 500
FOR_EVER = 10**8  # ms
IN_ONE_CALL = 20_000


def row(waiting: int) -> Row:
    return Row(
        f"behind_{waiting // 1000}k",
        "500 free jobs behind {jobs} of a busy lane" if waiting else "500 free jobs, no busy lane",
        "s",
        more=False,
        digits=2,
        jobs=waiting,
    )


def behind(waiting: int, arena: Arena, scale: Scale) -> dict[str, Reading]:
    count = scale.jobs(waiting) if waiting else 0
    workers = arena.workers(1, Load(2), warm=FREE_JOBS)
    if count:
        arena.producer.bulk(1, lanes=1, ms=FOR_EVER)
        arena.producer.bulk(count, first=1, lanes=1, calls=-(-count // IN_ONE_CALL))
    arena.enqueue(FREE, FREE_JOBS, first=count + 1)
    drained = arena.drain(workers, FREE, scale.limit, settle=False)
    free = [ran for ran in drained.trace if not ran.lane]
    seconds = (
        max(ran.end for ran in free) - drained.began if drained.done and free else drained.seconds
    )
    return {row(waiting).name: Reading(seconds, _note(drained.trace, free))}


def _note(trace: list[Ran], free: list[Ran]) -> str:
    missing = [] if len(free) == FREE else [f"only {len(free)}"]
    return ", ".join(
        missing + ([] if len(free) == len(trace) else ["WRONG: the busy lane overlapped"])
    )


SCENES = [
    Scene((row(waiting),), partial(behind, waiting), lanes=MANY) for waiting in (0, 20_000, 100_000)
]
