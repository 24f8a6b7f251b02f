"""The workers' app: tasks that record what they do, and a store that refuses old fences.

python -m inturn.cli -a tests.chaos.work:app worker
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from inturn import App, JobContext, RetryStrategy
from inturn.database.connectors import PsycopgConnector
from tests.evidence.record import attempt, folder, history, keep_notes, put_off_full_claims

ATTEMPTS = 3
POOLED = "CHAOS_POOLED" in os.environ  # behind a pooler that does not know prepared statements

app = App(connector=PsycopgConnector(prepare_threshold=None if POOLED else 5))


@contextmanager
def noted(context: JobContext, op: str, index: int) -> Iterator[None]:
    """Record a run, and its effect if it succeeds. Jobs that share a lane may end in any order."""
    with attempt(context, [op, index]):
        yield
        if context.job.lock is not None and not context.job.lock.startswith("shelf"):
            store(context.job.lock, context.job.fence)


def store(lane: str, fence: int) -> None:
    """Append to the lane's file, unless it has seen a higher fence."""
    file = os.open(folder() / f"store-{lane}", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        place, highest = map(int, (os.pread(file, 100, 0) or b"0 0").split())
        accepted = fence >= highest
        os.pwrite(file, f"{place + 1} {max(highest, fence)}\n".encode(), 0)
        history().write("effect", lane=lane, fence=fence, accepted=accepted, place=place)
    finally:
        os.close(file)


@app.task(name="step", pass_context=True, retry=RetryStrategy(max_attempts=ATTEMPTS, wait=0.05))
def step(context: JobContext, op: str, index: int, seconds: float, fails: int) -> None:
    """A sync task, in a thread. Its first attempts fail, as many as the arguments say."""
    with noted(context, op, index):
        time.sleep(seconds)
        if context.job.attempts < fails:
            raise RuntimeError("as requested")


@app.task(name="stroll", pass_context=True, retry=RetryStrategy(max_attempts=ATTEMPTS, wait=0.05))
async def stroll(context: JobContext, op: str, index: int, seconds: float, fails: int) -> None:
    """The same in the event loop."""
    with noted(context, op, index):
        await anyio.sleep(seconds)
        if context.job.attempts < fails:
            raise RuntimeError("as requested")


@app.task(name="report", pass_context=True, retry=RetryStrategy(max_attempts=ATTEMPTS, wait=0.05))
def report(context: JobContext, op: str, index: int, seconds: float, fails: int) -> None:
    """Run at the end of a batch, and record how its jobs have ended."""
    with noted(context, op, index):
        assert context.batch is not None
        counts = context.batch._asdict()
        del counts["id"]
        history().write("counted", fence=context.job.fence, counts=counts)
        time.sleep(seconds)
        if context.job.attempts < fails:
            raise RuntimeError("as requested")


if "CHAOS_WORKER" in os.environ:
    history()
    keep_notes()
    put_off_full_claims()
