"""When attempts at jobs ran, as recorded by the database and as seen by this process."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from inturn.model import Status
from inturn.testing.jobs import Seen
from inturn.testing.recording import Run

# A claim that begins before a job's end is stored may still see that end and start the next job, so
# the database's times prove nothing about overlaps as short as a claim.
GRAIN = timedelta(seconds=0.1)
RAN = (Status.DOING, Status.CLAIMED, Status.SUCCEEDED, Status.FAILED, Status.ABORTED)


class Span(NamedTuple):
    started: Any  # a database time, or nanoseconds on the machine's clock
    ended: Any
    job_id: int


def recorded(jobs: Iterable[Seen]) -> list[Span]:
    """Return the attempts that the database knows: failed ones, and the last one of each job.

    Attempts that were snoozed or put back are omitted, since their ends are not recorded.
    """
    return [span for job in jobs for span in _attempts(job)]


def watched(runs: Iterable[Run]) -> list[Span]:
    """Return runs of this process."""
    return [Span(run.started, run.ended, run.job.id) for run in runs]


def certain(spans: Iterable[Span]) -> list[Span]:
    """Return the part of each recorded span in which its job certainly held its lane and slot."""
    return [
        span._replace(started=span.started + GRAIN)
        for span in spans
        if span.ended is None or span.started + GRAIN < span.ended
    ]


def _attempts(job: Seen) -> list[Span]:
    parse = datetime.fromisoformat
    spans = [
        Span(parse(error["started_at"]), parse(error["at"]), job.id)
        for error in job.errors
        if error.get("started_at") and error.get("at")
    ]
    is_known = any(span.started == job.started_at for span in spans)
    if job.started_at is not None and job.status in RAN and not is_known:
        spans.append(Span(job.started_at, job.finished_at, job.id))
    return spans
