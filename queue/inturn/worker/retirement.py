"""Ends a worker that has run enough jobs or uses too much memory, so that a new process takes over.

It is a remedy for tasks that leak memory. Workers that started together must not end together, so
each adds up to a tenth to its limits.
"""

import math
import random
import re
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio

from inturn.worker import signals
from inturn.worker.options import Options
from inturn.worker.running_jobs import RunningJobs

LOOK_SECONDS = 0.1
MEGABYTE = 2**20
UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, in bytes


async def retire(options: Options, running: RunningJobs, stop: Callable[[str], object]) -> None:
    """Stop the worker once it has reached a limit. It has run at least one job by then."""
    most_jobs, most_memory = spread(options.max_jobs), spread(options.max_memory)
    while (reason := _find_reason(running.runs, most_jobs, most_memory)) is None:  # noqa: ASYNC110
        await anyio.sleep(LOOK_SECONDS)
    signals.say_retiring()
    stop(reason)


def spread(limit: int | None) -> float:
    """Return the limit and up to a tenth more, or infinity for no limit."""
    return math.inf if limit is None else limit * random.uniform(1, 1.1)  # noqa: S311 (no secret)


def _find_reason(runs: int, most_jobs: float, most_memory: float) -> str | None:
    if runs >= most_jobs:
        return f"it has run {runs:,} jobs"
    used = megabytes_used()
    if runs and used >= most_memory:
        return f"it has used {used:,} MB of memory"
    return None


def megabytes_used() -> int:
    """Return the most memory that this process has used so far."""
    with suppress(OSError):  # on Linux, where ru_maxrss begins with the peak of our parent
        status = Path("/proc/self/status").read_text()
        if peak := re.search(r"^VmHWM:\s*(\d+) kB$", status, re.MULTILINE):
            return int(peak[1]) // 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT // MEGABYTE
