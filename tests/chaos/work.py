"""The workers' app: tasks that record what they do, and a store that refuses old fences.

python -m inturn.cli -a tests.chaos.work:app worker
"""

import atexit
import fcntl
import logging
import os
import time
from functools import cache
from pathlib import Path

import anyio

from inturn import App, JobContext, RetryStrategy
from inturn.database.connectors import PsycopgConnector
from tests.chaos.history import History

ATTEMPTS = 3
POOLED = "CHAOS_POOLED" in os.environ  # behind a pooler that does not know prepared statements

app = App(connector=PsycopgConnector(prepare_threshold=None if POOLED else 5))


@cache
def history() -> History:
    made = History(folder(), os.environ["CHAOS_RUN"], os.environ["CHAOS_WHO"])
    atexit.register(made.close)
    return made


def folder() -> Path:
    return Path(os.environ["CHAOS_FOLDER"])


class Attempt:
    """Record the beginning and the end of a run, whatever the end is."""

    def __init__(self, context: JobContext, op: str, index: int) -> None:
        job = context.job
        self.fence, self.lane = job.fence, job.lock
        self.same = {
            "op": op,
            "index": index,
            "lane": job.lock,
            "attempt": job.attempts + 1,
            "fence": job.fence,
        }

    def __enter__(self) -> None:
        history().write("begin", **self.same)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        how = (
            "ok"
            if kind is None
            else "raised"
            if issubclass(kind, RuntimeError)
            else f"was ended by {kind.__name__}"
        )
        if kind is None and self.lane is not None and not self.lane.startswith("shelf"):
            self.store()  # jobs that share a lane may end in any order
        history().write("end", how=how, **self.same)

    def store(self) -> None:
        """Append to the lane's file, unless it has seen a higher fence."""
        file = os.open(folder() / f"store-{self.lane}", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            place, highest = map(int, (os.pread(file, 100, 0) or b"0 0").split())
            accepted = self.fence >= highest
            os.pwrite(file, f"{place + 1} {max(highest, self.fence)}\n".encode(), 0)
            history().write(
                "effect", lane=self.lane, fence=self.fence, accepted=accepted, place=place
            )
        finally:
            os.close(file)


@app.task(name="step", pass_context=True, retry=RetryStrategy(max_attempts=ATTEMPTS, wait=0.05))
def step(context: JobContext, op: str, index: int, seconds: float, fails: int) -> None:
    """A sync task, in a thread. Its first attempts fail, as many as the arguments say."""
    with Attempt(context, op, index):
        time.sleep(seconds)
        if context.job.attempts < fails:
            raise RuntimeError("as requested")


@app.task(name="stroll", pass_context=True, retry=RetryStrategy(max_attempts=ATTEMPTS, wait=0.05))
async def stroll(context: JobContext, op: str, index: int, seconds: float, fails: int) -> None:
    """The same in the event loop."""
    with Attempt(context, op, index):
        await anyio.sleep(seconds)
        if context.job.attempts < fails:
            raise RuntimeError("as requested")


@app.task(name="report", pass_context=True, retry=RetryStrategy(max_attempts=ATTEMPTS, wait=0.05))
def report(context: JobContext, op: str, index: int, seconds: float, fails: int) -> None:
    """Run at the end of a batch, and record how its jobs have ended."""
    with Attempt(context, op, index):
        assert context.batch is not None
        counts = context.batch._asdict()
        del counts["id"]
        history().write("counted", op=op, index=index, fence=context.job.fence, counts=counts)
        time.sleep(seconds)
        if context.job.attempts < fails:
            raise RuntimeError("as requested")


class Notes(logging.Handler):
    """Record what the worker itself logs about outages, losses and takeovers."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if not text.startswith(
            ("job.failed", "job.retry_scheduled")
        ):  # usually as requested, and with a traceback
            history().write("log", what=text.partition(":")[0].partition(" ")[0], text=text[:300])


def keep_notes() -> None:
    handler = Notes(logging.WARNING)
    logging.getLogger("inturn").addHandler(handler)


if "CHAOS_WORKER" in os.environ:
    history()
    keep_notes()
