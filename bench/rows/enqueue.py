"""Enqueue jobs: one per call, each committed, and many in one call."""

from bench.arena import Arena
from bench.rows.row import Reading, Row, Scale, Scene

ONE = Row("one", "enqueue {jobs} one by one", jobs=3_000)
BULK = Row("bulk", "bulk enqueue of {jobs}", jobs=20_000)


def one(arena: Arena, scale: Scale) -> dict[str, Reading]:
    count = scale.jobs(ONE.jobs)
    arena.producer.one_by_one(100)
    return {ONE.name: Reading(count / arena.producer.one_by_one(count, first=100)["seconds"])}


def bulk(arena: Arena, scale: Scale) -> dict[str, Reading]:
    count = scale.jobs(BULK.jobs)
    arena.producer.bulk(200)
    return {BULK.name: Reading(count / arena.producer.bulk(count, first=200))}


SCENES = [Scene((ONE,), one), Scene((BULK,), bulk)]
