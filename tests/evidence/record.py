"""How a worker or a producer of a run writes its history. The environment names it."""

import atexit
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from inturn import JobContext
from inturn.worker.claiming import wakeups
from tests.evidence.events import History

_opening = threading.Lock()


def environment(folder: Path, run: str, who: str) -> dict[str, str]:
    """Return what a process needs to know to write its history."""
    return {"EVIDENCE_FOLDER": str(folder), "EVIDENCE_RUN": run, "EVIDENCE_WHO": who}


def folder() -> Path:
    return Path(os.environ["EVIDENCE_FOLDER"])


def history() -> History:
    with _opening:  # the first tasks of a worker begin at once, in threads
        return _open()


@cache
def _open() -> History:
    made = History(folder(), os.environ["EVIDENCE_RUN"], os.environ["EVIDENCE_WHO"])
    atexit.register(made.close)
    return made


def tell_fence(job_id: int, fence: int) -> int:
    """Return a fence that no other run has, although each cell counts its own."""
    return fence * 1024 + job_id % 1024 if "INTURN_CELLS" in os.environ else fence


@contextmanager
def attempt(context: JobContext, name: object) -> Iterator[None]:
    """Record the beginning and the end of a run, whatever the end is. `name` names the job."""
    begun = time.monotonic_ns()  # before the lock of the file, for which other threads may wait
    job, how = context.job, "ok"
    fence = tell_fence(job.id, job.fence)
    facts = {"job": name, "lane": job.lock, "attempt": job.attempts + 1, "fence": fence}
    history().write("begin", at=begun, id=getattr(job, "id", None), **facts)
    try:
        yield
    except BaseException as error:
        is_asked = isinstance(error, RuntimeError)
        how = "raised" if is_asked else f"was ended by {type(error).__name__}"
        raise
    finally:
        history().write("end", how=how, **facts)


class Notes(logging.Handler):
    """Record what the worker itself logs about outages, losses and takeovers."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        # Failures are usually as requested, and come with a traceback.
        if not text.startswith(("job.failed", "job.retry_scheduled")):
            what = text.partition(":")[0].partition(" ")[0]
            history().write("log", what=what, text=text[:300])


def keep_notes() -> None:
    logging.getLogger("inturn").addHandler(Notes(logging.WARNING))


def put_off_full_claims() -> None:
    """Let half of the workers look only at new jobs in between, as under an open snapshot."""
    if os.getpid() % 2:
        wakeups.SLOW = 0
