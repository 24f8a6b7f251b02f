"""The timeline of a job, with each wait named."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from inturn.doctor.failed_attempts import read_attempts
from inturn.model import StoredJob
from inturn.states import TAKEN

DUE = "due"
SAME = timedelta(seconds=1)  # the end is stored a moment after the attempt failed


@dataclass(frozen=True, slots=True)
class Moment:
    """An event, and what filled the time since the previous one."""

    at: datetime
    what: str
    after: timedelta | None = None
    wait: str | None = None


def draw_timeline(job: StoredJob, now: datetime) -> list[Moment]:
    """Return the moments of a job, oldest first."""
    known = sorted(_list_moments(job), key=lambda each: each[0])
    timeline = [Moment(*known[0][:2])]
    for (before, event, _), (at, what, wait) in pairwise(known):
        timeline.append(Moment(at, what, at - before, _name_wait(job) if event == DUE else wait))
    if job.finished_at is None and timeline[-1].at <= now:
        wait = "run" if job.status in TAKEN else _name_wait(job)
        timeline.append(Moment(now, "now", now - timeline[-1].at, wait))
    return timeline


def _list_moments(job: StoredJob) -> Iterator[tuple[datetime, str, str]]:
    yield job.created_at, "deferred", ""
    attempts = read_attempts(job)
    failed_at = job.finished_at if job.status == "failed" else None
    for attempt in attempts:
        if attempt.started_at:
            wait = "backoff" if attempt is not attempts[0] else _name_wait(job)
            yield attempt.started_at, f"attempt {attempt.number} started", wait
        if attempt.at and not (failed_at and abs(failed_at - attempt.at) < SAME):
            yield attempt.at, f"attempt {attempt.number} failed", "run"
    last = max((each.at for each in attempts if each.at), default=job.created_at)
    if job.scheduled_at is not None and job.scheduled_at > job.created_at:
        yield job.scheduled_at, DUE, "backoff" if attempts else "delay"
    if job.started_at is not None and job.started_at > last:
        claimed = job.status == "claimed"
        yield job.started_at, "claimed" if claimed else "started", _name_wait(job)
    if job.finished_at is not None:
        word = "failed for good" if job.status == "failed" else job.status
        yield job.finished_at, word, "run" if job.started_at else _name_wait(job)


def _name_wait(job: StoredJob) -> str:
    """Return what a due job waits for."""
    if job.status == "pending":
        return "parents"
    if job.status == "limited":
        return "limit"
    return "lane or slot" if job.lock is not None else "slot"
