"""Read from the tasks' log what really ran, and check it against the promises.

This knows nothing of the queue's tables.

Each line: event, lane, number, process, time. Time is the machine's monotonic clock, one for all
its processes.
"""

import itertools
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple


class Run(NamedTuple):
    lane: str
    number: int
    pid: int
    start: int
    end: int | None  # None: its process died on the way


def write(log: Path, event: str, lane: str, number: int) -> None:
    line = f"{event} {lane} {number} {os.getpid()} {time.monotonic_ns()}\n"
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line.encode())  # one write, so that the line is appended whole
    finally:
        os.close(file)


def read(log: Path) -> list[Run]:
    open_runs: dict[tuple[str, int, int], int] = {}
    runs: list[Run] = []
    for line in log.read_text().splitlines():
        event, lane, number, pid, at = line.split()
        key = (lane, int(number), int(pid))
        if event == "start":
            open_runs[key] = int(at)
        else:
            runs.append(Run(*key, open_runs.pop(key), int(at)))
    runs += [Run(*key, start, None) for key, start in open_runs.items()]
    return sorted(runs, key=lambda run: run.start)


def violations(
    runs: Iterable[Run], promised: Mapping[str, int], killed: Mapping[int, int]
) -> list[str]:
    """Return the violations.

    `promised` maps each lane to its number of jobs. They are numbered from 0 in their order, and a
    lane named `free…` has no order.
    `killed` maps processes to the time at which they were killed.
    """
    lanes: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        lanes[run.lane].append(run)
    found = [f"{lane}: ran but was never deferred" for lane in lanes.keys() - promised.keys()]
    for lane, count in promised.items():
        found += _lost(lane, lanes[lane], count) + _repeated(lane, lanes[lane], killed)
        if not lane.startswith("free"):
            found += _in_turn(lane, lanes[lane], killed)
    return found


def _lost(lane: str, runs: list[Run], count: int) -> list[str]:
    ended = {run.number for run in runs if run.end is not None}
    return [f"{lane}: {number} never ended" for number in range(count) if number not in ended]


def _repeated(lane: str, runs: list[Run], killed: Mapping[int, int]) -> list[str]:
    """Return the jobs that ran again although no process was killed before it could report."""
    survived = Counter(run.number for run in runs if run.pid not in killed)
    return [
        f"{lane}: {number} ran {times} times" for number, times in survived.items() if times > 1
    ]


def _in_turn(lane: str, runs: list[Run], killed: Mapping[int, int]) -> list[str]:
    found = []
    for before, after in itertools.pairwise(runs):
        end = before.end if before.end is not None else killed.get(before.pid)
        if end is None:
            found.append(f"{lane}: {before.number} neither ended nor was its process killed")
        elif after.start < end:
            found.append(f"{lane}: {after.number} started while {before.number} ran")
        if after.number not in (before.number, before.number + 1):
            found.append(f"{lane}: {after.number} started after {before.number}")
    return found + ([f"{lane}: {runs[0].number} started first"] if runs and runs[0].number else [])
