"""Ten processes enqueue one by one at the same time, without a worker and with one.

Notifying a worker has a cost: NOTIFY takes one lock for the whole server around the commit.
"""

import time

from bench.arena import Arena
from bench.jobs import WARM
from bench.processes import ProducerProcess
from bench.rows.row import Reading, Row, Scale, Scene

CROWD = 10
EACH = 300
WARM_JOBS = 50

ALONE = Row("crowd", "enqueue one by one, 10 at once, {jobs} each, no worker", jobs=EACH)
BUSY = Row("crowd_busy", "enqueue one by one, 10 at once, {jobs} each, 1 busy worker", jobs=EACH)


def alone(arena: Arena, scale: Scale) -> dict[str, Reading]:
    return {ALONE.name: Reading(_rate(_crowd(arena), scale))}


def busy(arena: Arena, scale: Scale) -> dict[str, Reading]:
    workers = arena.workers(1)
    crowd = _crowd(arena)
    workers[0].warmed += CROWD * WARM_JOBS
    for worker in workers:
        worker.resume()
    rate = _rate(crowd, scale)
    drained = arena.drain(workers, CROWD * _each(scale), scale.limit)
    return {BUSY.name: Reading(rate, drained.note)}


def _crowd(arena: Arena) -> list[ProducerProcess]:
    crowd = [arena.another_producer() for _ in range(CROWD)]
    for index, producer in enumerate(crowd):
        producer.one_by_one(WARM_JOBS, first=WARM + index * WARM_JOBS)
    return crowd


def _each(scale: Scale) -> int:
    return scale.jobs(EACH)


def _rate(crowd: list[ProducerProcess], scale: Scale) -> float:
    each = _each(scale)
    start = time.monotonic()
    for index, producer in enumerate(crowd):
        producer.begin(count=each, first=index * each)
    for producer in crowd:
        producer.answer()
    return CROWD * each / (time.monotonic() - start)


SCENES = [Scene((ALONE,), alone), Scene((BUSY,), busy)]
