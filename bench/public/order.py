"""What happened to jobs with keys: the log that all processes write, and its judge.

A line says that a job was committed, started or ended, and when, by a clock that all processes of
the machine share. A process that was killed did not write when its jobs ended. They ended when it
wrote its last line, or later, so a killed process never makes an overlap.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from bench.jobs import Ran, Verdict, judge

PATIENCE = 30.0  # seconds that a job may wait until the log ends


class Line(NamedTuple):
    event: str
    key: str
    number: int
    process: int
    at: float


class Log:
    """Appends lines to a file, or nowhere. A line is one write, so lines never mix."""

    def __init__(self, path: str | None) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = None if path is None else os.open(path, flags, 0o644)
        self._process = os.getpid()

    def note(self, event: str, key: str, number: int) -> None:
        if self._file is not None:
            line = Line(event, key, number, self._process, time.monotonic())
            os.write(self._file, (json.dumps(line) + "\n").encode())


class Report(NamedTuple):
    committed: int
    ended: int
    keys: dict[str, Verdict]  # only keys with something wrong
    waiting: int  # jobs that had not ended long after their commit

    def __str__(self) -> str:
        return (
            f"{self.committed} committed, {self.ended} ended, {self.waiting} still waiting, "
            f"{len(self.keys)} keys wrong: "
            f"{sum(key.out_of_order for key in self.keys.values())} out of order, "
            f"{sum(key.overlapping for key in self.keys.values())} overlapping"
        )


def read(path: Path) -> list[Line]:
    return [Line(*json.loads(line)) for line in path.read_text().splitlines()]


def report(lines: Iterable[Line]) -> Report:
    lines = sorted(lines, key=lambda line: line.at)
    committed = {line.number: line.at for line in lines if line.event == "commit"}
    ended = {line.number for line in lines if line.event == "end"}
    runs = defaultdict(list)
    for run in _runs(lines):
        runs[run.lane].append(run)
    verdicts = {key: judge(trace)._replace(twice=0) for key, trace in runs.items()}
    last = lines[-1].at if lines else 0.0
    return Report(
        len(committed),
        len(ended),
        {key: verdict for key, verdict in verdicts.items() if not verdict.fine},
        sum(number not in ended and at < last - PATIENCE for number, at in committed.items()),
    )


def _runs(lines: Iterable[Line]) -> list[Ran]:
    """Return every run of a job, also those that a kill cut off."""
    running: dict[tuple[int, int], Line] = {}
    last: dict[int, float] = {}
    runs = []
    for line in lines:
        last[line.process] = line.at
        place = line.process, line.number
        if line.event == "start":
            running[place] = line
        elif line.event == "end":
            runs.append(Ran(line.number, line.key, running.pop(place).at, line.at))
    cut_off = [Ran(line.number, line.key, line.at, last[line.process]) for line in running.values()]
    return runs + cut_off
