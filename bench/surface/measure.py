"""Run one shape in one peer's arena: a cold drain, then a warm one by the same workers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.arena import Arena, Moment, wait_until_ran
from bench.jobs import Ran, judge
from bench.processes import WorkerProcess
from bench.server import Counters
from bench.surface.reading import COLD, WARM, Reading
from bench.surface.shapes import Shape

WARM_PATIENCE = 10.0  # a warm drain is cut off after this many times the seconds of the cold one


@dataclass(frozen=True)
class Drain:
    """One drain as the harness saw it, before the workers have told what they ran."""

    state: str
    first: int  # the number of its first job
    began: float
    waited: float
    done: bool
    server_cpu: float
    worker_cpu: float
    spent: Counters  # the calls of the drain, and the WAL of enqueueing and draining
    enqueued_in: float


def measure(arena: Arena, shape: Shape, number: int, limit: float, *, warm: bool) -> list[Reading]:
    """Return the readings of round `number`. A drain that takes longer than `limit` is cut off."""
    arena.moment = shape.moment
    with arena.fresh():
        workers = arena.cold_workers(shape.workers, shape.load)
        drains = [_drain(arena, shape, workers, COLD, limit)]
        if warm and drains[0].done:
            for worker in workers:
                arena.pause(worker)
            arena.analyse(Moment.EMPTY)
            limit = min(limit, WARM_PATIENCE * drains[0].waited)
            drains.append(_drain(arena, shape, workers, WARM, limit))
        trace = [ran for worker in workers for ran in worker.stop()]
    return [_read(drain, trace, arena.peer.name, shape, number) for drain in drains]


def _drain(
    arena: Arena, shape: Shape, workers: Sequence[WorkerProcess], state: str, limit: float
) -> Drain:
    first = shape.jobs if state == WARM else 0
    empty = arena.counters()
    enqueued_in = arena.enqueue(shape.jobs, shape.load, first=first, calls=shape.calls)
    full = arena.counters()
    server, worker = arena.server_cpu_seconds, _cpu(workers)
    began = time.monotonic()
    for one in workers:
        one.resume()
    done = wait_until_ran(workers, first + shape.jobs, limit)
    waited = time.monotonic() - began
    if done:
        arena.settle()  # the last jobs are reported after they have run
    worker, server = _cpu(workers) - worker, arena.server_cpu_seconds - server
    after = arena.counters()
    spent = Counters(after.wal - empty.wal, after.calls - full.calls)
    return Drain(state, first, began, waited, done, server, worker, spent, enqueued_in)


def _cpu(workers: Sequence[WorkerProcess]) -> float:
    return sum(worker.cpu_seconds for worker in workers)


def _read(drain: Drain, trace: list[Ran], peer: str, shape: Shape, number: int) -> Reading:
    mine = [ran for ran in trace if drain.first <= ran.number < drain.first + shape.jobs]
    began = drain.began
    return Reading(
        round=number,
        peer=peer,
        shape=shape,
        state=drain.state,
        ran=len(mine),
        done=drain.done,
        seconds=max(ran.end for ran in mine) - began if drain.done else drain.waited,
        first=min((ran.start for ran in mine), default=began + drain.waited) - began,
        server_cpu=drain.server_cpu,
        worker_cpu=drain.worker_cpu,
        calls=drain.spent.calls,
        wal=drain.spent.wal,
        enqueued_in=drain.enqueued_in,
        verdict=judge(mine),
    )
