"""Latency: the time from the call that enqueues a job to its start, on an idle queue."""

import time

from bench.arena import Arena
from bench.rows.row import Reading, Row, Scale, Scene

PAUSE = 0.023  # seconds between two jobs, not a multiple of any peer's timer

P50 = Row("latency_50", "enqueue to start when idle, p50", "ms", more=False, digits=1)
P99 = Row("latency_99", "enqueue to start when idle, p99", "ms", more=False, digits=1)


def latency(arena: Arena, scale: Scale) -> dict[str, Reading]:
    count = scale.jobs(500)
    workers = arena.workers(1)
    for worker in workers:
        worker.resume()
    time.sleep(0.5)  # let the timers fire that came due during the pause
    called = arena.producer.one_by_one(count, pause=PAUSE)["at"]
    drained = arena.drain(workers, count, scale.limit)
    waited = sorted((ran.start - called[ran.number]) * 1000 for ran in drained.trace)
    return {
        P50.name: Reading(waited[len(waited) // 2], drained.note),
        P99.name: Reading(waited[len(waited) * 99 // 100], drained.note),
    }


SCENES = [Scene((P50, P99), latency)]
