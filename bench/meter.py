"""Read the CPU time that processes have used.

Linux has a clock for the CPU time of each process. It counts in nanoseconds and includes the
threads that have ended. Elsewhere the operating system's ticks have to do.
"""

from __future__ import annotations

import contextlib
import platform
import time
from collections.abc import Collection

import psutil

PROCESS_CLOCK = 2  # the kernel's CPUCLOCK_SCHED: the time for which the scheduler ran a process


def cpu_seconds(pid: int) -> float:
    if platform.system() == "Linux":
        return time.clock_gettime((~pid << 3) | PROCESS_CLOCK)
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def server_cpu_seconds(postmaster: psutil.Process, without: Collection[int]) -> float:
    """Return the CPU time of a server's processes, also of those that have exited."""
    times = postmaster.cpu_times()
    total = float(getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0))
    for child in postmaster.children():
        if child.pid not in without:
            with contextlib.suppress(OSError, psutil.Error):  # it exited just now
                total += cpu_seconds(child.pid)
    return total
