"""Read the logs of a stress run, and check them against the promises.

This needs only the standard library and knows nothing of the queue's tables.

Each process appends lines of JSON to one file, each line in one write. Times are the machine's
monotonic clock, one for all its processes, taken before a call for what it may do and after its
reply for what it has done. Where two calls overlap, their order is unknown and nothing is
demanded. `fence` rises with every claim: it tells in which order the runs of a lane were claimed,
also those of a process that was stopped and woke up much later.
"""

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LEARNING = 2.0  # seconds until a process that was stopped has learned that it lost its jobs
FOR_EVER = float("inf")


def write(log: Path, event: str, **facts: object) -> None:
    line = (
        "\n"
        + json.dumps({"event": event, "pid": os.getpid(), "at": time.monotonic()} | facts)
        + "\n"
    )
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        # One write: appended whole, whatever other processes do. Only the death of this one may cut
        # it short, which the first newline keeps from spoiling the next line.
        os.write(file, line.encode())
    finally:
        os.close(file)


def facts(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Return the complete lines. A line that a kill cut short counts as not written."""
    for line in lines:
        if line.strip():
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                yield {"event": "torn"}


@dataclass
class Job:
    id: int
    lane: str | None
    priority: int
    scheduled: bool
    call: str
    position: int
    called: float
    committed: float | None = (
        None  # None: its producer did not live to see it; infinite: rolled back
    )
    inserted: float = 0.0
    limit: str | None = None
    after: tuple[int, ...] = ()  # jobs that must have ended before
    on_parent: str = "cancel"
    expires: float | None = None  # seconds in which its first attempt must have started
    queue: str = "x"
    group: str | None = None
    batch: int | None = None  # that it has joined
    callback_of: int | None = None  # the batch at whose end it runs
    fails: int = 0  # how many attempts of a callback raise
    fence: int | None = None  # all later claims have higher ones
    more: tuple[str, ...] = ()  # further lanes
    shared: tuple[str, ...] = ()  # lanes in which it runs beside others that share them

    @property
    def lanes(self) -> tuple[str, ...]:
        return self.more if self.lane is None else (self.lane, *self.more)

    @property
    def has_place(self) -> bool:
        """Return True if its place in its lane is known from when it was deferred."""
        return not (self.scheduled or self.after or self.callback_of)


@dataclass
class Run:
    job: int
    fence: int
    pid: int
    start: float
    end: float | None = None  # None: its process died on the way
    attempt: int = 1


@dataclass
class Span:
    """A process that was stopped; a pause of a lane; a job that was cancelled."""

    start: float
    end: float


@dataclass
class Pause(Span):
    fence: int = 0  # a run of the lane with a higher one was claimed after the pause


@dataclass
class Ledger:
    jobs: dict[int, Job] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    ends: dict[int, list[tuple[int | None, str]]] = field(
        default_factory=lambda: defaultdict(list)
    )  # fence, status
    cancelled: dict[int, Span] = field(default_factory=dict)  # until a person retried the job
    # A person retried them after their end, or let them go without their parents.
    retried: set[int] = field(default_factory=set)
    killed: dict[int, float] = field(default_factory=dict)
    stopped: dict[int, list[Span]] = field(default_factory=lambda: defaultdict(list))
    pauses: dict[str, list[Pause]] = field(default_factory=lambda: defaultdict(list))
    seen: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # how often
    closed: dict[int, float] = field(default_factory=dict)  # when a batch was closed first
    given_up: set[int] = field(default_factory=set)  # batches that a person cancelled
    counted: dict[int, dict[str, int]] = field(default_factory=dict)  # what a callback was told
    serving: dict[int, list[str] | None] = field(default_factory=dict)  # queues; None: all

    def add(self, event: str, **facts: Any) -> None:
        self.seen[event] += 1
        getattr(self, f"_{event}")(**facts)

    # -- one method for each event

    def _insert(
        self, call: str, called: float, jobs: list[list[Any]], at: float,
        after: Iterable[int] = (), on_parent: str | None = None, pid: int = 0, **others: Any,
    ) -> None:  # fmt: skip
        for position, (id, lane, priority, scheduled) in enumerate(jobs):
            job = Job(id, lane, priority, scheduled, call, position, called, inserted=at, **others)
            job.after, job.on_parent = tuple(after), on_parent or "cancel"
            job.more, job.shared = tuple(job.more), tuple(job.shared)
            self.jobs[id] = job

    def _commit(self, jobs: list[int], at: float, fence: int | None = None, **_: Any) -> None:
        for id in jobs:
            self.jobs[id].committed, self.jobs[id].fence = at, fence

    def _delayed(self, **_: Any) -> None: ...

    def _torn(self, **_: Any) -> None: ...

    def _rollback(self, jobs: list[int], **_: Any) -> None:
        for id in jobs:
            self.jobs[id].committed = FOR_EVER

    def _start(self, job: int, fence: int, pid: int, at: float, attempt: int = 1, **_: Any) -> None:
        self.runs.append(Run(job, fence, pid, at, attempt=attempt))
        self._open[fence] = self.runs[-1]

    def _end(self, fence: int, at: float, **_: Any) -> None:
        self._open.pop(fence).end = at

    _open: dict[int, Run] = field(default_factory=dict)

    def _accepted(self, **_: Any) -> None: ...

    def _refused(self, **_: Any) -> None: ...

    def _kill(self, victim: int, at: float, **_: Any) -> None:
        self.killed[victim] = at

    def _stop(self, victim: int, start: float, end: float, **_: Any) -> None:
        self.stopped[victim].append(Span(start, end))

    def _serve(self, pid: int, queues: list[str] | None, **_: Any) -> None:
        self.serving[pid] = queues

    def _close(self, batch: int, at: float, **_: Any) -> None:
        self.closed.setdefault(batch, at)

    def _give_up(self, batch: int, at: float, **_: Any) -> None:
        self.given_up.add(batch)
        self.closed.setdefault(batch, at)

    def _counted(self, fence: int, at: float, pid: int, **counts: int) -> None:
        self.counted[fence] = counts

    def _retry(self, job: int, at: float, **_: Any) -> None:
        self.retried.add(job)
        if job in self.cancelled:
            self.cancelled[job].end = min(self.cancelled[job].end, at)

    def _free(self, job: int, **_: Any) -> None:
        self.retried.add(job)  # it may have expired, or been cancelled, just before

    def _cancel(self, job: int, at: float, **_: Any) -> None:
        self.cancelled[job] = Span(at, FOR_EVER)

    def _pause(
        self, lane: str, at: float, called: float, until: float, fence: int, **_: Any
    ) -> None:
        self._resume(lane, called)  # the pause replaces an earlier one, and may end before it
        self.pauses[lane].append(Pause(at, until, fence))

    def _resume(self, lane: str, called: float, **_: Any) -> None:
        for pause in self.pauses[lane]:
            if pause.start <= called:
                pause.end = min(pause.end, called)

    def _final(self, job: int, fence: int | None, status: str, **_: Any) -> None:
        self.ends[job].append((fence, status))


def read(lines: Iterable[str]) -> Ledger:
    ledger = Ledger()
    for fact in facts(lines):
        ledger.add(**fact)
    return ledger


def violations(ledger: Ledger) -> list[str]:
    """Return the violations."""
    found = (
        [f"{torn} torn lines and fewer deaths"]
        if (torn := ledger.seen["torn"]) > ledger.seen["kill"]
        else []
    )
    found += [
        *_lost(ledger),
        *_ended_wrongly(ledger),
        *_ran_though_cancelled(ledger),
        *_ran_on(ledger),
    ]
    lanes: dict[str, list[Run]] = defaultdict(list)
    for run in sorted(ledger.runs, key=lambda run: run.fence):
        job = ledger.jobs.get(run.job)
        for lane in job.lanes if job is not None else ():
            lanes[lane].append(run)
    for lane, runs in lanes.items():
        problems = [
            *_overlaps(ledger, lane, runs),
            *_overtaken(ledger, lane, runs),
            *_paused(ledger, lane, runs),
        ]
        found += [f"{lane}: {problem}" for problem in problems]
    return found


def explained(ledger: Ledger, run: Run, other: float) -> bool:
    """Return True if the run's process had been stopped before something happened elsewhere.

    If a process is stopped again before it could learn anything, this counts as one stop.
    """
    explained_until = 0.0  # when it has learned of all stops that began early enough to explain it
    for span in sorted(ledger.stopped[run.pid], key=lambda span: span.start):
        if span.start < max(other, explained_until):
            explained_until = span.end + LEARNING
    return run.start < explained_until


def zombies(ledger: Ledger) -> int:
    """Return runs that went on or began after a later attempt at the same job had started."""
    last: dict[int, Run] = {}
    for run in sorted(ledger.runs, key=lambda run: run.fence):
        last[run.job] = run
    return sum(
        run is not last[run.job] and (run.end or 0) > last[run.job].start for run in ledger.runs
    )


# ---------------------------------------------------------------- the rules


def _lost(ledger: Ledger) -> Iterator[str]:
    for job in ledger.jobs.values():
        if job.committed is not None and job.committed < FOR_EVER and not ledger.ends[job.id]:
            yield f"job {job.id} was committed and never ended"
    for id in {run.job for run in ledger.runs} | {id for id, ends in ledger.ends.items() if ends}:
        if id not in ledger.jobs or ledger.jobs[id].committed == FOR_EVER:
            yield f"job {id} was never committed and yet ran or ended"


def _ended_wrongly(ledger: Ledger) -> Iterator[str]:
    last: dict[int, Run] = {}
    for run in sorted(ledger.runs, key=lambda run: run.fence):
        last[run.job] = run
    for id, ends in ledger.ends.items():
        if len(ends) > 1:
            yield f"job {id} ended {len(ends)} times"
        for fence, status in ends:
            if status == "cancelled":
                continue
            if id not in last:
                yield f"job {id} {status} and never ran"
            elif last[id].fence != fence:
                yield f"job {id}: the end of attempt {fence} was accepted, the last one was {last[id].fence}"
            elif last[id].end is None:
                yield f"job {id} {status} in an attempt that did not end"


def _ran_though_cancelled(ledger: Ledger) -> Iterator[str]:
    for run in ledger.runs:
        cancelled = ledger.cancelled.get(run.job)
        if (
            cancelled is not None
            and cancelled.start < run.start < cancelled.end
            and not explained(ledger, run, cancelled.start)
        ):
            yield f"job {run.job} started after it was cancelled"


def _ran_on(ledger: Ledger) -> Iterator[str]:
    for run in ledger.runs:
        if run.end is None and run.pid not in ledger.killed:
            yield f"job {run.job} neither ended nor was its process {run.pid} killed"


def share(ledger: Ledger, lane: str, one: Run, other: Run) -> bool:
    """Return True if these two may run in the lane at once."""
    return all(lane in ledger.jobs[run.job].shared for run in (one, other))


def _overlaps(ledger: Ledger, lane: str, runs: list[Run]) -> Iterator[str]:
    """Check that a lane runs one job at a time, except where a process was stopped.

    Jobs that share it run side by side.
    """
    under_way: list[tuple[Run, float]] = []
    for run in runs:
        for before, end in under_way:
            if (
                end > run.start
                and not share(ledger, lane, before, run)
                and not explained(ledger, before, run.start)
            ):
                yield f"job {run.job} (process {run.pid}) started while job {before.job} (process {before.pid}) ran"
        end = ledger.killed.get(run.pid, run.start) if run.end is None else run.end
        under_way = [*((before, end) for before, end in under_way if end > run.start), (run, end)]


def _overtaken(ledger: Ledger, lane: str, runs: list[Run]) -> Iterator[str]:
    """Check that first starts are in order, and that a started job goes first.

    A job with the policy `release` does not.
    """
    order: dict[int, int] = {}
    for place, run in enumerate(runs):
        between = runs[order.get(run.job, place) + 1 : place]
        if not lane.startswith("release") and not all(
            other.job == run.job or share(ledger, lane, other, run) for other in between
        ):
            yield f"others started between the attempts of job {run.job}"
        order.setdefault(run.job, place)
    # If a process died with the first attempt before it began, others shared the lane meanwhile.
    unknown = {id for id, place in order.items()
               if runs[place].attempt > 1 and lane in ledger.jobs[id].shared}  # fmt: skip
    yield from _disorder([ledger.jobs[id] for id in order if id not in unknown])


def _disorder(in_order_of_start: list[Job]) -> Iterator[str]:
    """Check that a job committed before another's INSERT goes first, at equal or higher priority."""
    later: dict[
        int, tuple[float, int]
    ] = {}  # of those that started later, by priority: who was committed first
    siblings: dict[tuple[str, int], int] = {}  # ... and by call and priority, the first position
    for job in reversed([j for j in in_order_of_start if j.has_place]):
        for priority, (committed, other) in later.items():
            if priority >= job.priority and committed < job.called:
                yield f"job {other} was there before job {job.id}, and started after it"
        for (call, priority), position in siblings.items():
            if call == job.call and (-priority, position) < (-job.priority, job.position):
                yield f"a job of the same call goes before job {job.id}, and started after it"
        if job.committed is not None:
            later[job.priority] = min(
                later.get(job.priority, (FOR_EVER, 0)), (job.committed, job.id)
            )
        siblings = {key: position for key, position in siblings.items() if key[0] == job.call}
        key = job.call, job.priority
        siblings[key] = min(siblings.get(key, job.position), job.position)


def _paused(ledger: Ledger, lane: str, runs: list[Run]) -> Iterator[str]:
    for pause in ledger.pauses.get(lane, []):
        for run in runs:
            if run.fence > pause.fence and pause.start < run.start < pause.end:
                yield f"job {run.job} was claimed and started in a pause"


def lanes_seen(ledger: Ledger) -> dict[str, int]:
    """Count the runs with several lanes, and those that began beside another in a shared one."""
    several, beside = 0, 0
    ends: dict[str, float] = defaultdict(float)  # when all that share the lane and began have ended
    for run in sorted(ledger.runs, key=lambda run: run.start):
        job = ledger.jobs.get(run.job)
        if job is None:
            continue
        several += len(job.lanes) > 1
        beside += any(ends[lane] > run.start for lane in job.shared)
        for lane in job.shared:
            ends[lane] = max(ends[lane], run.end or run.start)
    return {"runs with several lanes": several, "runs beside another in a lane": beside}
