"""What a history tells of jobs, their runs, and the processes. Standard library only."""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from tests.evidence.events import Event
from tests.evidence.spans import FOR_EVER, SECOND, Fault, Pause, Silence, Span

Key = tuple[Any, int]  # a call, and the job's index in it


@dataclass
class Settings:
    """What a harness promises of itself. Times are seconds, and most of them for a busy machine."""

    excuse: float = 1e9  # silence after which others may take a process for dead
    learning: float = 3.0  # after this, a silenced process has learned that it lost its jobs
    reporting: float = 15.0  # how long the end of a task may wait to be reported
    delay: float = 0.5  # from a claim to the task
    stall: float = 4.0  # the same in a fault, which can hold up a claim or its answer
    late: float = 2.0  # from a worker's look at its clock to the task
    # A group may have one turn at each worker before another group has its own, and one more in
    # each claim under way. Most turns are for claims that pass over what others have locked.
    turns: int = 40
    max_lost: float = 1e9  # a job fails if more workers than this died while they ran it
    every_start: bool = False  # each claim is in the history, not only each run
    limits: dict[str, dict[str, float]] = field(default_factory=dict)  # slots, rate, burst
    weights: dict[str | None, int] = field(default_factory=dict)  # of groups; of the others: 1
    required: list[str] = field(default_factory=list)  # rare events that must occur
    seed: str = ""


@dataclass
class Job:
    key: Key
    lane: str | None
    called: int
    fails: int = 0  # how many attempts of it raise
    odd: bool = False  # its arguments cannot be read, so it fails without a run
    later: bool = False  # it is scheduled, and has no place in its lane until it is due
    priority: int = 0
    queue: str | None = None
    limit: str | None = None
    after: tuple[Key, ...] = ()  # jobs that must have ended before
    on_parent: str = "cancel"
    expires: float | None = None  # seconds after which it must not start for the first time
    group: str | None = None
    batch: Any = None  # that it has joined
    callback_of: Any = None  # the batch at whose end it runs
    also: tuple[str, ...] = ()  # further lanes
    shared: tuple[str, ...] = ()  # lanes in which it runs beside others that share them
    releases: bool = False  # others of its lanes may start between its attempts
    id: int | None = None
    inserted: int | None = None
    answer: str = "unknown"  # the answer to the call: ok, fail, or unknown
    committed: int | None = None  # when it was there at the latest, if it ever was
    fence: int | None = None  # all claims after its commit have higher ones
    asked: bool = False  # somebody wanted to cancel it
    cancelled: Span | None = None  # it certainly was, until a person retried it

    @property
    def lanes(self) -> tuple[str, ...]:
        return self.also if self.lane is None else (self.lane, *self.also)

    @property
    def born(self) -> Span:
        return Span(self.called, FOR_EVER if self.committed is None else self.committed)

    @property
    def has_place(self) -> bool:
        """Return True if its place in its lane is known from when it was deferred."""
        return not (self.later or self.after or self.callback_of is not None)


@dataclass
class Run:
    key: Key
    lane: str | None
    fence: int
    who: str
    begin: int
    attempt: int | None = None
    id: int | None = None
    end: int | None = None
    how: str | None = None  # ok, raised, put back, rescued, or what else ended it

    def __str__(self) -> str:
        attempt = "" if self.attempt is None else f"attempt {self.attempt}, "
        return f"{self.key[0]}#{self.key[1]} ({attempt}fence {self.fence}, {self.who})"


class Hold(NamedTuple):
    """The time in which a run certainly has its lanes and its slot."""

    run: Run
    started: int
    ended: int


@dataclass
class Evidence:
    """Everything that rules ask. `collect` fills it."""

    events: list[Event] = field(default_factory=list)
    settings: Settings = field(default_factory=Settings)
    jobs: dict[Key, Job] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)  # by their fences
    strays: list[Event] = field(default_factory=list)  # ends of runs that did not run
    finals: dict[Key, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    left: dict[Key, str] = field(default_factory=dict)  # what is still there in the end
    killed: dict[str, int] = field(default_factory=dict)
    exits: dict[str, Event] = field(default_factory=dict)
    silences: dict[str, list[Silence]] = field(default_factory=lambda: defaultdict(list))
    faults: list[Fault] = field(default_factory=list)
    pauses: dict[str, list[Pause]] = field(default_factory=lambda: defaultdict(list))
    clocks: list[Span] = field(default_factory=list)  # in which the server's clock was wrong
    forgotten: list[Span] = field(default_factory=list)  # of this, a new server may know nothing
    seen: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # rare events
    retried: set[Key] = field(default_factory=set)  # a person retried them after their end
    let_go: set[Key] = field(default_factory=set)  # a person let them go without their parents
    closed: dict[Any, int] = field(default_factory=dict)  # when somebody first closed a batch
    given_up: set[Any] = field(default_factory=set)  # batches that a person cancelled
    counted: dict[int, dict[str, int]] = field(default_factory=dict)  # what a callback was told
    serving: dict[str, list[str] | None] = field(default_factory=dict)  # queues; None: all

    # -- indexes

    @cached_property
    def runs_of(self) -> dict[Key, list[Run]]:
        runs: dict[Key, list[Run]] = defaultdict(list)
        for run in self.runs:
            runs[run.key].append(run)
        return runs

    @cached_property
    def lanes(self) -> dict[str, list[Run]]:
        """Return the runs of each lane, by their fences."""
        lanes: dict[str, list[Run]] = defaultdict(list)
        for run in self.runs:
            job = self.jobs.get(run.key)
            is_known = job is not None and (run.lane is None or run.lane in job.lanes)
            for lane in job.lanes if job is not None and is_known else (run.lane,):
                if lane is not None:
                    lanes[lane].append(run)
        return lanes

    def named(self, name: str) -> list[Event]:
        return [event for event in self.events if event.name == name]

    @cached_property
    def unheard(self) -> set[int]:
        """Return jobs that a worker claimed without getting the reply, and put back later."""
        logs = (event.facts for event in self.named("log"))
        return {int(log["text"].split()[1]) for log in logs if log["what"] == "job.found"}

    def is_there(self, key: Key) -> bool:
        """Return True if the job left a trace after its call."""
        return key in self.runs_of or key in self.finals or key in self.left

    def statuses(self, key: Key) -> list[str]:
        return [end["status"] for end in self.finals.get(key, [])]

    # -- what is certain, and what explains the rest

    def until(self, run: Run) -> int:
        """Return until when a run certainly has its lanes and its slot.

        A process that died keeps them until others can have taken it for dead.
        """
        died = self.died(run.who)
        if run.end is not None:
            return run.end
        if died is None:
            return FOR_EVER
        again = (other.begin for other in self.runs_of[run.key] if other.begin > run.begin)
        return max(died, min([died + int(self.settings.excuse * SECOND), *again]))

    def holds(self, runs: list[Run]) -> list[Hold]:
        holds = [Hold(run, run.begin, self.until(run)) for run in runs]
        return [hold for hold in holds if hold.started < hold.ended]

    def share(self, lane: str, one: Run, other: Run) -> bool:
        """Return True if these two may run in the lane at once."""
        jobs = [self.jobs.get(run.key) for run in (one, other)]
        return all(job is not None and lane in job.shared for job in jobs)

    def died(self, who: str) -> int | None:
        """Return when the process died: it was killed, or it ended unasked."""
        if who in self.killed or who not in self.exits:
            return self.killed.get(who)
        return None if self.exits[who].facts["asked"] else self.exits[who].at

    def silenced(self, run: Run, other: int) -> bool:
        """Return True if others had a reason to take this run's process for dead before `other`.

        If a process is silenced again before it could learn anything, this counts as one silence.
        """
        enough, learning = (
            int(seconds * SECOND) for seconds in (self.settings.excuse, self.settings.learning)
        )
        whole: Span | None = None
        for part in sorted(self.silences.get(run.who, ()), key=lambda part: part.start):
            if whole is not None and part.start < whole.end + learning:
                whole = Span(whole.start, max(whole.end, part.end))
            else:
                whole = part
            is_long = whole.end - whole.start >= enough
            if is_long and whole.start < other and run.begin < whole.end + learning:
                return True
        return False

    def slept(self, run: Run) -> bool:
        """Return True if its process was silent between the claim and the task, as far as known."""
        learning = int(self.settings.learning * SECOND)
        return any(
            Span(silence.start, silence.end + learning).covers(run.begin)
            for silence in self.silences.get(run.who, ())
        )

    def was_clock_wrong(self, start: int, end: int) -> bool:
        """Return True if the server's clock was wrong at some time in between."""
        return any(span.start <= end and start <= span.end for span in self.clocks)

    def forgot(self, before: Run, run: Run) -> bool:
        """Return True if a server took over in between that may not know of the first run."""
        return any(before.begin < span.end <= run.begin for span in self.forgotten)
