"""What was acknowledged and what really ran, from the log of producers and tasks.

This knows nothing of the queue's tables.
Each line: event, lane, number, process, time, fence, id, and perhaps a note.
Time is the machine's monotonic clock.
"""

import itertools
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


class Event(NamedTuple):
    kind: str  # ack, unsure, start, end
    lane: str
    number: int
    pid: int
    at: int
    fence: int
    id: int


class Run(NamedTuple):
    lane: str
    number: int
    pid: int
    start: int
    end: int | None  # None if it never ended
    fence: int
    id: int


Job = tuple[str, int]  # lane and number


@dataclass
class Report:
    acknowledged: set[Job] = field(default_factory=set)
    unsure: set[Job] = field(default_factory=set)  # the producer got an error
    lost: set[Job] = field(default_factory=set)  # acknowledged, but never ended
    twice: set[Job] = field(default_factory=set)  # started more than once
    from_nowhere: set[Job] = field(default_factory=set)  # ran, but was never deferred
    unended: list[Run] = field(default_factory=list)
    overtaken: list[tuple[Run, Run]] = field(
        default_factory=list
    )  # a later job of the lane ran before this one
    overlaps: list[tuple[Run, Run]] = field(default_factory=list)
    fallen: list[tuple[Run, Run]] = field(default_factory=list)  # fences that did not rise
    resumed: list[Run] = field(default_factory=list)  # attempts whose reported end was forgotten
    shared_ids: set[int] = field(default_factory=set)  # of two jobs
    gap: float = 0.0  # seconds: the longest time in which no job ended


def write(
    log: Path, kind: str, lane: str, number: int, fence: int = 0, id: int = 0, note: str = ""
) -> None:
    line = f"{kind} {lane} {number} {os.getpid()} {time.monotonic_ns()} {fence} {id} {note}\n"
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line.encode())  # a single write, so that lines of processes do not mix
    finally:
        os.close(file)


def read(log: Path) -> list[Event]:
    events = []
    for line in log.read_text().splitlines():
        kind, lane, *numbers = line.split(maxsplit=7)[:7]
        events.append(Event(kind, lane, *map(int, numbers)))
    return events


def runs_of(events: Iterable[Event]) -> list[Run]:
    """Match each end to the last start: after a lost end, a worker may repeat an attempt.

    The repeated attempt has the same fence.
    """
    begun: dict[tuple[str, int, int, int], Event] = {}
    runs: list[Run] = []
    for event in events:
        attempt = (event.lane, event.number, event.pid, event.fence)
        if event.kind == "end":
            runs.append(_run(begun.pop(attempt), event.at))
        elif event.kind == "start":
            if attempt in begun:
                runs.append(_run(begun[attempt], None))
            begun[attempt] = event
    runs += [_run(event, None) for event in begun.values()]
    return sorted(runs, key=lambda run: run.start)


def _run(start: Event, end: int | None) -> Run:
    return Run(start.lane, start.number, start.pid, start.at, end, start.fence, start.id)


def report(events: Sequence[Event], forgotten_at: Sequence[int] = ()) -> Report:
    """Check the order of the runs.

    `forgotten_at` is when a server took over that may have missed the last writes.
    Around this time jobs may run again, and so after jobs that ran after them.
    Before and after it, all of them are in order.
    """
    runs = runs_of(events)
    found = Report(
        acknowledged={event[1:3] for event in events if event.kind == "ack"},
        unsure={event[1:3] for event in events if event.kind == "unsure"},
    )
    starts = Counter(run[:2] for run in runs)
    found.lost = found.acknowledged - {run[:2] for run in runs if run.end is not None}
    found.twice = {job for job, times in starts.items() if times > 1}
    found.from_nowhere = starts.keys() - found.acknowledged - found.unsure
    found.unended = [run for run in runs if run.end is None]
    lanes: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        lanes[run.lane].append(run)
    for lane in lanes.values():
        _look_at_lane(lane, forgotten_at, found)
    jobs_of: dict[int, set[Job]] = defaultdict(set)
    for run in runs:
        jobs_of[run.id].add(run[:2])
    found.shared_ids = {id for id, jobs in jobs_of.items() if len(jobs) > 1}
    ends = sorted(run.end for run in runs if run.end is not None)
    found.gap = max((after - before for before, after in itertools.pairwise(ends)), default=0) / 1e9
    return found


def _look_at_lane(runs: list[Run], forgotten_at: Sequence[int], found: Report) -> None:
    latest, longest = runs[0], runs[0]  # the job furthest in the lane, and the run that ends last
    attempts = {runs[0].fence: runs[0]}
    for before, run in itertools.pairwise(runs):
        if longest.end is None or run.start < longest.end:
            found.overlaps.append((longest, run))
        else:
            longest = run
        if run.number < latest.number and not _between(before, run, forgotten_at):
            found.overtaken.append((latest, run))
        else:
            latest = run
        same = attempts.get(run.fence)
        if same is not None and same.id == run.id and _between(same, run, forgotten_at):
            found.resumed.append(run)
        elif run.fence <= max(attempts):
            found.fallen.append((attempts[max(attempts)], run))
        attempts[run.fence] = run


def _between(before: Run, run: Run, moments: Sequence[int]) -> bool:
    return any(before.start < moment <= run.start for moment in moments)
