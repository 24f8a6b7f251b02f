"""What a run's history says about jobs, their runs, and the processes. Standard library only."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.history import Event

SECOND = 1_000_000_000
LEARNING = 3 * SECOND  # after this, a silenced process has learned that it lost its jobs

Key = tuple[str, int]  # a call, and the job's index in it


@dataclass
class Job:
    key: Key
    lane: str | None
    called: int
    fails: int = 0  # how many attempts of it raise
    odd: bool = False  # its arguments cannot be read, so it fails without a run
    later: bool = False  # it is scheduled, and has no place in its lane until it is due
    id: int | None = None
    inserted: int | None = None
    answer: str = "unknown"  # the answer to the call: ok, fail, or unknown
    committed: int | None = None  # when the call was answered with ok
    cancel_asked: bool = False
    limit: str | None = None
    after: tuple[Key, ...] = ()  # jobs that must have ended before
    on_parent: str = "cancel"
    expires: float | None = None  # seconds after which it must not start for the first time
    group: str | None = None
    batch: str | None = None  # that it has joined
    callback_of: str | None = None  # the batch at whose end it runs
    also: tuple[str, ...] = ()  # further lanes
    shared: tuple[str, ...] = ()  # lanes in which it runs beside others that share them

    @property
    def lanes(self) -> tuple[str, ...]:
        return self.also if self.lane is None else (self.lane, *self.also)

    @property
    def has_place(self) -> bool:
        """Return True if its place in its lane is known from when it was deferred."""
        return not (self.later or self.after or self.callback_of)


@dataclass
class Run:
    key: Key
    lane: str | None
    attempt: int
    fence: int
    who: str
    begin: int
    end: int | None = None
    how: str | None = None  # ok or raised


@dataclass
class Silence:
    """A time in which the database could not hear this process: it was stopped or cut off."""

    start: int
    end: int
    how: str


@dataclass
class Fault:
    kind: str
    start: int
    end: int
    bound: float = float("inf")  # seconds: the longest idle time that a fault excuses
    shows: Sequence[str] = ()  # rare events that must occur in a run with it


@dataclass
class Evidence:
    events: list[Event] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=lambda: {"excuse": 1e9, "max_lost": 1e9})
    jobs: dict[Key, Job] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    finals: dict[Key, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    left: list[dict[str, Any]] = field(default_factory=list)
    killed: dict[str, int] = field(default_factory=dict)
    exits: dict[str, Event] = field(default_factory=dict)
    silences: dict[str, list[Silence]] = field(default_factory=lambda: defaultdict(list))
    faults: list[Fault] = field(default_factory=list)
    effects: list[Event] = field(default_factory=list)
    problems: list[Event] = field(default_factory=list)  # what the conductor itself found wrong
    logged: list[Event] = field(default_factory=list)
    seen: dict[str, int] = field(
        default_factory=lambda: defaultdict(int)
    )  # how often each rare event was counted
    retried: set[Key] = field(default_factory=set)  # a person retried them after their end
    let_go: set[Key] = field(default_factory=set)  # a person let them go without their parents
    closed: dict[str, int] = field(default_factory=dict)  # when somebody first closed a batch
    given_up: set[str] = field(default_factory=set)  # batches that a person cancelled
    counted: dict[int, dict[str, int]] = field(default_factory=dict)  # what a callback was told
    _calls: dict[str, list[Job]] = field(default_factory=dict)
    _open: dict[tuple[str, int], Run] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        self.events.append(event)
        getattr(self, f"_{event.name}", self._ignore)(event)

    def died(self, who: str) -> int | None:
        """Return when the process died: it was killed, or it ended unasked."""
        if who in self.killed:
            return self.killed[who]
        return (
            self.exits[who].at if who in self.exits and not self.exits[who].facts["asked"] else None
        )

    def could_not_start(self, who: str) -> bool:
        """Return True if it ended unasked, during a fault, before it ran or logged anything."""
        event = self.exits[who]
        if (
            event.facts["asked"]
            or any(run.who == who for run in self.runs)
            or any(e.who == who for e in self.logged)
        ):
            return False
        return any(fault.start <= event.at <= fault.end for fault in self.faults)

    def silenced(self, run: Run, other: int) -> bool:
        """Return True if others had a reason to take this run's process for dead before `other`.

        If a process is silenced again before it could learn anything, this counts as one silence.
        """
        enough = self.settings["excuse"] * SECOND
        whole: Silence | None = None
        for part in sorted(self.silences[run.who], key=lambda part: part.start):
            if whole is not None and part.start < whole.end + LEARNING:
                whole = Silence(whole.start, max(whole.end, part.end), part.how)
            else:
                whole = part
            if (
                whole.start < other
                and run.begin < whole.end + LEARNING
                and whole.end - whole.start >= enough
            ):
                return True
        return False

    # -- one method for each event

    def _ignore(self, event: Event) -> None: ...

    def _settings(self, event: Event) -> None:
        self.settings = event.facts

    def _call(self, event: Event) -> None:
        op, lane = event.facts["op"], event.facts["lane"]
        self._calls[op] = [
            Job(
                (op, index),
                lane,
                event.at,
                spec.get("fails", 0),
                spec.get("odd", False),
                spec.get("later", False),
                limit=spec.get("limit"),
                after=tuple((op, index) for op, index in spec.get("after", ())),
                on_parent=spec.get("on_parent") or "cancel",
                expires=spec.get("expires"),
                group=spec.get("group"),
                batch=spec.get("batch"),
                callback_of=spec.get("callback_of"),
                also=tuple(spec.get("also", ())),
                shared=tuple(spec.get("shared", ())),
            )
            for index, spec in enumerate(event.facts["jobs"])
        ]
        self.jobs |= {job.key: job for job in self._calls[op]}

    def _inserted(self, event: Event) -> None:
        for job, id in zip(
            self._calls.get(event.facts["op"], []), event.facts["ids"], strict=False
        ):
            job.id, job.inserted = id, event.at

    def _ok(self, event: Event) -> None:
        for job in self._calls.get(event.facts["op"], []):
            job.answer, job.committed = "ok", event.at

    def _fail(self, event: Event) -> None:
        for job in self._calls.get(event.facts["op"], []):
            job.answer = "fail"

    def _cancel(self, event: Event) -> None:
        self.seen["somebody asked to cancel a job"] += 1
        for key in [tuple(event.facts["key"])]:
            if key in self.jobs:
                self.jobs[key].cancel_asked = True

    def _retried(self, event: Event) -> None:
        self.retried.add(tuple(event.facts["key"]))

    def _let_go(self, event: Event) -> None:
        self.let_go.add(tuple(event.facts["key"]))

    def _closed(self, event: Event) -> None:
        self.closed.setdefault(event.facts["batch"], event.at)

    def _given_up(self, event: Event) -> None:
        self.given_up.add(event.facts["batch"])
        self._closed(event)

    def _counted(self, event: Event) -> None:
        self.counted[event.facts["fence"]] = event.facts["counts"]

    def _begin(self, event: Event) -> None:
        f = event.facts
        run = Run((f["op"], f["index"]), f["lane"], f["attempt"], f["fence"], event.who, event.at)
        self.runs.append(run)
        self._open[event.who, run.fence] = run

    def _end(self, event: Event) -> None:
        run = self._open.pop((event.who, event.facts["fence"]), None)
        if run is not None:  # else the beginning was lost, which shows as a gap
            run.end, run.how = event.at, event.facts["how"]

    def _effect(self, event: Event) -> None:
        self.effects.append(event)

    def _log(self, event: Event) -> None:
        self.logged.append(event)

    def _killed(self, event: Event) -> None:
        self.killed[event.facts["victim"]] = event.at

    def _exited(self, event: Event) -> None:
        self.exits[event.facts["victim"]] = event

    def _silent(self, event: Event) -> None:
        f = event.facts
        self.silences[f["victim"]].append(Silence(f["start"], f["end"], f["how"]))

    def _fault(self, event: Event) -> None:
        self.faults.append(Fault(**event.facts))

    def _seen(self, event: Event) -> None:
        self.seen[event.facts["what"]] += event.facts.get("times", 1)

    def _problem(self, event: Event) -> None:
        self.problems.append(event)

    def _final(self, event: Event) -> None:
        self.finals[event.facts["op"], event.facts["index"]].append(event.facts)

    def _left(self, event: Event) -> None:
        self.left.append(event.facts)


def collect(events: Iterable[Event]) -> Evidence:
    evidence = Evidence()
    for event in events:
        evidence.add(event)
    evidence.runs.sort(key=lambda run: run.fence)
    return evidence
