"""The one format of events, and its one reader (README.md). Standard library only.

Each process has a file of its own, with one line of JSON for each event.
Every line has `run`, `who` (a name that no other process of the run has), `pid`, `n` and `at`.
`n` counts the events of the process from 0 without gaps, so a lost line shows.
`at` is the machine's monotonic clock in nanoseconds, which is the same for all processes.
"""

import json
import os
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple


class Event(NamedTuple):
    who: str
    n: int
    at: int
    name: str
    facts: dict[str, Any]


class History:
    """What one process writes down."""

    def __init__(self, folder: Path, run: str, who: str) -> None:
        self.who = who
        self._run = run
        self._pid = os.getpid()
        self._file = os.open(folder / f"{who}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        # Tasks write from many threads, and `n` must rise in the file too.
        self._lock = threading.Lock()
        self._n = 0
        self.write("boot")

    def write(self, name: str, **facts: object) -> int:
        """Append an event and return its time. With `at`, it was at that time."""
        with self._lock:
            base = {"run": self._run, "who": self.who, "pid": self._pid, "n": self._n}
            event = base | {"at": time.monotonic_ns(), "ev": name} | facts
            # A single write: only death can cut it short.
            os.write(self._file, (json.dumps(event) + "\n").encode())
            self._n += 1
            return int(str(event["at"]))

    def close(self) -> None:
        self.write("bye")
        os.close(self._file)


class Memory:
    """What the threads of one process write down. A list takes an element at a time."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def write(self, who: str, name: str, at: int | None = None, **facts: Any) -> None:
        moment = time.monotonic_ns() if at is None else at
        self.events.append(Event(who, len(self.events), moment, name, facts))


class Tail:
    """Reads a folder of histories while processes append to them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[Event] = []
        self.running: defaultdict[str, set[int]] = defaultdict(set)  # fences that a process runs
        self._read: dict[Path, int] = {}  # how many bytes of each file

    def look(self) -> list[Event]:
        """Return the events that are new."""
        fresh = [event for path in self.folder.glob("*.jsonl") for event in self._more(path)]
        for event in fresh:
            if event.name == "begin":
                self.running[event.who].add(event.facts["fence"])
            elif event.name == "end":
                self.running[event.who].discard(event.facts["fence"])
        self.events += fresh
        return fresh

    def _more(self, path: Path) -> list[Event]:
        start = self._read.get(path, 0)
        if path.stat().st_size == start:
            return []
        with path.open("rb") as file:
            file.seek(start)
            whole = file.read().rpartition(b"\n")[0]  # without the line that is being written
        self._read[path] = start + len(whole) + bool(whole)
        return [_event(line) for line in whole.splitlines()]


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
    for line in path.read_bytes().splitlines():
        try:
            events.append(_event(line))
        except json.JSONDecodeError:
            torn += 1
    return events, torn


def _event(line: bytes) -> Event:
    facts = json.loads(line)
    del facts["run"], facts["pid"]
    return Event(facts.pop("who"), facts.pop("n"), facts.pop("at"), facts.pop("ev"), facts)


def _jumps(events: list[Event]) -> list[tuple[int, int]]:
    return [(wanted, event.n) for wanted, event in enumerate(events) if event.n != wanted][:1]
