"""What a rule has found: a text, and the smallest window of events that shows it."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.evidence.events import Event
from tests.evidence.evidence import Evidence, Job, Key, Run


class Finding(NamedTuple):
    text: str
    start: int
    end: int
    lane: str | None = None
    keys: tuple[Key, ...] = ()


Rule = Callable[[Evidence], Iterator[Finding]]


def at_job(evidence: Evidence, key: Key, text: str) -> Finding:
    job = evidence.jobs.get(key)
    names = [[*key], key, job.id if job else key[1]]
    times = [
        event.at
        for event in evidence.events
        if event.facts.get("op") == key[0] or event.facts.get("job", "") in names
    ]
    lane = job.lane if job else None
    start, end = min(times, default=0), max(times, default=0)
    return Finding(f"job {_describe(job, key)} {text}", start, end, lane, (key,))


def between(text: str, first: Run, second: Run) -> Finding:
    start, end = sorted((first.begin, second.begin))
    return Finding(text, start, end, first.lane, (first.key, second.key))


def at_event(event: Event, text: str) -> Finding:
    return Finding(text, event.at, event.at, event.facts.get("lane"))


def _describe(job: Job | None, key: Key) -> str:
    return f"{key[0]}#{key[1]}" + (f" (id {job.id}, lane {job.lane})" if job else "")
