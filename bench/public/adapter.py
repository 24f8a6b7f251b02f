"""One replica of a queue in the public benchmark: a producer, a worker and their samples.

The benchmark sets the environment and reads JSON lines from the standard output, as its
CONTRIBUTING_ADAPTERS.md says. `python -m bench.public.adapter NAME` runs a queue of queues.py.

With KEYS, each job has one of so many keys, and ORDER_LOG names the file that says when each job
was committed, started and ended (see order.py). A call then inserts at most one job of each key,
because not every queue keeps the order within a call. A key has one producer, so its numbers rise
in the order of the commits.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.public.order import Log
from bench.public.queues import QUEUES, Job, Queue

WINDOW = 30.0  # seconds that a percentile looks back
LATENCIES = 32_768  # as many as the benchmark's own adapters keep
FIRST = os.getpid() * 10**9  # numbers of different processes differ


def setting(name: str, default: int) -> int:
    return int(os.environ.get(name, default))


WORK_SECONDS = setting("JOB_WORK_MS", 1) / 1000
INSTANCE = setting("BENCH_INSTANCE_ID", 0)
KEYS = setting("KEYS", 0)
BATCH = min(setting("PRODUCER_BATCH_MAX", 128), KEYS or 10**9)
TICK = setting("PRODUCER_BATCH_MS", 25) / 1000
PERIOD = setting("SAMPLE_EVERY_S", 5)
PADDING = "x" * max(0, setting("JOB_PAYLOAD_BYTES", 256) - 96)


@dataclass
class Meter:
    log: Log
    enqueued: int = 0
    completed: int = 0
    latencies: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=LATENCIES))

    async def run(self, key: str, number: int, at: float) -> None:
        """The body of every job."""
        now = time.time()
        self.latencies.append((now, max(0.0, now - at) * 1000))
        self.log.note("start", key, number)
        await asyncio.sleep(WORK_SECONDS)
        self.log.note("end", key, number)
        self.completed += 1

    def percentiles(self) -> dict[str, float]:
        since = time.time() - WINDOW
        values = sorted(ms for at, ms in self.latencies if at >= since) or [0.0]
        return {
            f"claim_p{share}_ms": values[round(share / 100 * (len(values) - 1))]
            for share in (50, 95, 99)
        }


def say(**record: Any) -> None:
    sys.stdout.write(json.dumps({**record, "instance_id": INSTANCE}) + "\n")
    sys.stdout.flush()


def iso_now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def target_rate() -> float:
    """Return jobs per second, as the phase demands."""
    try:
        return float(Path(os.environ["PRODUCER_RATE_CONTROL_FILE"]).read_text())
    except (KeyError, OSError, ValueError):
        return float(setting("PRODUCER_RATE", 800))


def make_jobs(first: int, count: int) -> list[Job]:
    now = time.time()
    return [
        Job(f"{os.getpid()}-{number % KEYS}" if KEYS else "", FIRST + number, now, PADDING)
        for number in range(first, first + count)
    ]


async def produce(queue: Queue, meter: Meter) -> None:
    """Insert jobs at the rate of the phase. What the queue does not take in time is made up."""
    credit, before, made = 0.0, time.monotonic(), 0
    while True:
        now = time.monotonic()
        credit += target_rate() * (now - before)
        before = now
        while credit >= 1:
            jobs = make_jobs(made, min(BATCH, int(credit)))
            made += len(jobs)  # also after a failure: the jobs may have been committed
            credit -= len(jobs)
            try:
                await queue.insert(jobs)
            except Exception as error:
                print(f"not inserted: {error}", file=sys.stderr)
                await asyncio.sleep(0.2)
                break
            meter.enqueued += len(jobs)
            for job in jobs:
                meter.log.note("commit", job.key, job.number)
        await asyncio.sleep(TICK)


async def sample(name: str, queue: Queue, meter: Meter) -> None:
    tick = time.time() // PERIOD * PERIOD + PERIOD  # at the same moments as other replicas
    await asyncio.sleep(tick - time.time())
    before, enqueued, completed = time.monotonic(), meter.enqueued, meter.completed
    depth = 0.0
    while True:
        tick += PERIOD
        await asyncio.sleep(tick - time.time())
        now = time.monotonic()
        rates = {
            "enqueue_rate": (meter.enqueued - enqueued) / (now - before),
            "completion_rate": (meter.completed - completed) / (now - before),
        }
        before, enqueued, completed = now, meter.enqueued, meter.completed
        if INSTANCE == 0:  # these belong to the whole run
            try:
                depth = float(await queue.depth())
            except Exception as error:
                print(f"depth unknown: {error}", file=sys.stderr)
            rates |= {"queue_depth": depth, "producer_target_rate": target_rate()}
        for metric, value in (meter.percentiles() | rates).items():
            window = WINDOW if metric.startswith("claim") else PERIOD if "rate" in metric else 0
            say(
                t=iso_now(),
                system=name,
                kind="adapter",
                subject_kind="adapter",
                subject="",
                metric=metric,
                value=value,
                window_s=window,
            )


async def main(name: str) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    meter = Meter(Log(os.environ.get("ORDER_LOG")))
    queue = QUEUES[name](os.environ["DATABASE_URL"], setting("WORKER_COUNT", 32), meter.run, KEYS)
    async with queue.open():
        say(
            kind="descriptor",
            system=name,
            event_tables=await queue.find_tables(),
            extensions=[],
            version=queue.version,
            schema_version=queue.version,
            db_name=os.environ["DATABASE_URL"].rsplit("/", 1)[-1],
            started_at=iso_now(),
        )
        parts = [
            asyncio.create_task(part)
            for part in (produce(queue, meter), sample(name, queue, meter))
        ]
        ended = asyncio.create_task(stop.wait())
        await asyncio.wait([ended, *parts, *queue.workers], return_when=asyncio.FIRST_COMPLETED)
        for task in [ended, *parts]:
            task.cancel()
        if not stop.is_set():  # a crash, which the benchmark counts as one
            for task in [*parts, *queue.workers]:
                if task.done():
                    task.result()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
