"""From events to evidence: one method for each event (README.md). Standard library only."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from tests.evidence.events import Event
from tests.evidence.evidence import Evidence, Job, Key, Run, Settings
from tests.evidence.spans import FOR_EVER, Fault, Pause, Silence, Span

SPECS = {each.name for each in fields(Job)} - {"key", "lane", "called"}


def collect(events: Iterable[Event]) -> Evidence:
    return Collector(sorted(events, key=lambda event: event.at)).evidence


class Collector:
    def __init__(self, events: list[Event]) -> None:
        self.evidence = Evidence(events)
        self._calls: dict[Any, list[Job]] = {}
        self._open: dict[tuple[str, int], Run] = {}
        self._unmatched: list[Event] = []  # ends that do not tell of which run
        # A task may begin before its producer has read the job's id.
        self._keys: dict[int, Key] = {
            id: (event.facts["op"], index)
            for event in events if event.name == "inserted"
            for index, id in enumerate(event.facts["ids"])
        }  # fmt: skip
        for event in events:
            getattr(self, f"_{event.name}", self._ignore)(event, **event.facts)
        self.evidence.runs.sort(key=lambda run: (run.fence, run.begin))
        self._match()

    def _key(self, job: Any) -> Key:
        """Return the key of a job that is named by its call and index, or by its id."""
        if isinstance(job, int):
            return self._keys.get(job, ("id", job))
        return job[0], job[1]

    def _match(self) -> None:
        """Give the ends that name no run to the runs of their jobs, in order."""
        for event in self._unmatched:
            key = self._key(event.facts["job"])
            open_runs = [run for run in self.evidence.runs_of.get(key, ()) if run.end is None]
            if open_runs:
                open_runs[0].end, open_runs[0].how = event.at, event.facts["how"]
            else:
                self.evidence.strays.append(event)

    def _ignore(self, event: Event, **_: Any) -> None: ...

    def _settings(self, event: Event, **facts: Any) -> None:
        self.evidence.settings = Settings(**facts)

    # -- calls and their answers

    def _call(self, event: Event, op: Any, lane: str | None, jobs: list[dict[str, Any]]) -> None:
        self._calls[op] = [
            self._job((op, n), lane, event.at, **spec) for n, spec in enumerate(jobs)
        ]
        self.evidence.jobs |= {job.key: job for job in self._calls[op]}

    def _job(self, key: Key, lane: str | None, called: int, **spec: Any) -> Job:
        known = {name: value for name, value in spec.items() if name in SPECS and value is not None}
        for name in ("also", "shared"):
            known[name] = tuple(known.get(name, ()))
        known["after"] = tuple(self._key(parent) for parent in known.get("after", ()))
        return Job(key, lane, called, **known)

    def _inserted(self, event: Event, op: Any, ids: list[int]) -> None:
        for job, id in zip(self._calls.get(op, []), ids, strict=False):
            job.id, job.inserted = id, event.at

    def _ok(self, event: Event, op: Any, fence: int | None = None) -> None:
        for job in self._calls.get(op, []):
            job.answer, job.committed, job.fence = "ok", event.at, fence

    def _fail(self, event: Event, op: Any, **_: Any) -> None:
        for job in self._calls.get(op, []):
            job.answer = "fail"

    def _unclear(self, event: Event, op: Any, settled: bool = False, **_: Any) -> None:
        for job in self._calls.get(op, []):
            job.committed = event.at if settled else None

    # -- what people do

    def _cancel(self, event: Event, job: Any) -> None:
        self.evidence.seen["somebody asked to cancel a job"] += 1
        if self._key(job) in self.evidence.jobs:
            self.evidence.jobs[self._key(job)].asked = True

    def _cancelled(self, event: Event, job: Any) -> None:
        self._cancel(event, job)
        self.evidence.jobs[self._key(job)].cancelled = Span(event.at)

    def _retried(self, event: Event, job: Any) -> None:
        key = self._key(job)
        self.evidence.retried.add(key)
        found = self.evidence.jobs.get(key)
        if found is not None and found.cancelled is not None:
            found.cancelled = Span(found.cancelled.start, min(found.cancelled.end, event.at))

    def _let_go(self, event: Event, job: Any) -> None:
        self.evidence.let_go.add(self._key(job))

    def _closed(self, event: Event, batch: Any) -> None:
        self.evidence.closed.setdefault(batch, event.at)

    def _given_up(self, event: Event, batch: Any) -> None:
        self.evidence.given_up.add(batch)
        self._closed(event, batch)

    def _paused(
        self, event: Event, lane: str, called: int, fence: int, until: int | None = None
    ) -> None:
        self._resumed(event, lane, called)  # it replaces an earlier pause, and may end before it
        end = FOR_EVER if until is None else until
        self.evidence.pauses[lane].append(Pause(event.at, end, fence))

    def _resumed(self, event: Event, lane: str, called: int) -> None:
        self.evidence.pauses[lane] = [
            Pause(pause.start, min(pause.end, called), pause.fence)
            if pause.start <= called
            else pause
            for pause in self.evidence.pauses[lane]
        ]

    # -- what tasks and workers do

    def _begin(self, event: Event, job: Any, fence: int, **facts: Any) -> None:
        key = self._key(job)
        known = self.evidence.jobs.get(key)
        lane = facts.get("lane", known and known.lane)
        run = Run(key, lane, fence, event.who, event.at, facts.get("attempt"), facts.get("id"))
        self.evidence.runs.append(run)
        self._open[event.who, fence] = run

    def _end(self, event: Event, how: str, fence: int | None = None, **_: Any) -> None:
        if fence is None:
            self._unmatched.append(event)
            return
        run = self._open.pop((event.who, fence), None)
        if run is None:
            self.evidence.strays.append(event)
        else:
            run.end, run.how = event.at, how

    def _counted(self, event: Event, fence: int, counts: dict[str, int], **_: Any) -> None:
        self.evidence.counted[fence] = counts

    def _serves(self, event: Event, queues: list[str] | None) -> None:
        self.evidence.serving[event.who] = queues

    # -- what happens to processes and servers

    def _killed(self, event: Event, victim: str) -> None:
        self.evidence.killed[victim] = event.at

    def _exited(self, event: Event, victim: str, **_: Any) -> None:
        self.evidence.exits[victim] = event

    def _silent(self, event: Event, victim: str, start: int, end: int, how: str) -> None:
        self.evidence.silences[victim].append(Silence(start, end, how))

    def _fault(self, event: Event, **facts: Any) -> None:
        self.evidence.faults.append(Fault(**facts))

    def _clock(self, event: Event, start: int, end: int) -> None:
        self.evidence.clocks.append(Span(start, end))

    def _forgotten(self, event: Event, since: int) -> None:
        self.evidence.forgotten.append(Span(since, event.at))

    def _seen(self, event: Event, what: str, times: int = 1) -> None:
        self.evidence.seen[what] += times

    # -- the end

    def _final(self, event: Event, job: Any, **facts: Any) -> None:
        self.evidence.finals[self._key(job)].append(facts)

    def _left(self, event: Event, job: Any, state: str, **_: Any) -> None:
        self.evidence.left[self._key(job)] = state
