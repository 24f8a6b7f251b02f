"""The history of a process: a file of its own, one line of JSON for each event.

Every line has `run`, `who` (a name that no other process of the run has), `pid`, `n` and `at`.
`n` counts the events of the process from 0 without gaps, so a lost line shows.
`at` is the machine's monotonic clock in nanoseconds, which is the same for all processes.
The time of what a call may do is taken before the call, and of what it did, after its reply.
Standard library only.
"""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple


class Event(NamedTuple):
    who: str
    n: int
    at: int
    name: str
    facts: dict[str, Any]


class History:
    def __init__(self, folder: Path, run: str, who: str) -> None:
        self.who = who
        self._run = run
        self._pid = os.getpid()
        self._file = os.open(folder / f"{who}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._lock = (
            threading.Lock()
        )  # tasks write from many threads, and `n` must rise in the file too
        self._n = 0
        self.write("boot")

    def write(self, name: str, **facts: object) -> int:
        """Append an event and return its time."""
        with self._lock:
            at = time.monotonic_ns()
            event = {
                "run": self._run,
                "who": self.who,
                "pid": self._pid,
                "n": self._n,
                "at": at,
                "ev": name,
            }
            os.write(
                self._file, (json.dumps(event | facts) + "\n").encode()
            )  # a single write: only death can cut it short
            self._n += 1
            return at

    def close(self) -> None:
        self.write("bye")
        os.close(self._file)


def read(folder: Path) -> tuple[list[Event], list[str]]:
    """Return all events by time, and what is missing. A history with gaps proves nothing."""
    events: list[Event] = []
    gaps: list[str] = []
    unfinished: list[str] = []
    for path in sorted(folder.glob("*.jsonl")):
        own, torn = _lines(path)
        events += own
        gaps += [f"{path.stem}: event {n} comes where {wanted} should" for wanted, n in _jumps(own)]
        if torn > 1 or not own or own[-1].name != "bye":
            unfinished.append(path.stem)
    gone = {event.facts["victim"] for event in events if event.name in ("killed", "exited")}
    gaps += [
        f"{who}: its history has no end, and nobody saw it die"
        for who in unfinished
        if who not in gone
    ]
    written = {event.who for event in events}
    spawned = {event.facts["victim"] for event in events if event.name == "spawned"}
    gaps += [f"{who}: it wrote nothing, and nobody saw it die" for who in spawned - written - gone]
    return sorted(events, key=lambda event: event.at), gaps


def _lines(path: Path) -> tuple[list[Event], int]:
    events, torn = [], 0
    for line in path.read_text().splitlines():
        try:
            facts = json.loads(line)
        except json.JSONDecodeError:
            torn += 1
            continue
        del facts["run"], facts["pid"]
        events.append(
            Event(facts.pop("who"), facts.pop("n"), facts.pop("at"), facts.pop("ev"), facts)
        )
    return events, torn


def _jumps(events: list[Event]) -> list[tuple[int, int]]:
    return [(wanted, event.n) for wanted, event in enumerate(events) if event.n != wanted][:1]
