"""What holds in a lane: one at a time, in order, and with fences that rise."""

import itertools
from collections.abc import Iterator

from inturn.testing.overlaps import overlaps
from tests.evidence.evidence import Evidence, Job, Key, Run
from tests.evidence.finding import Finding, between

Placed = list[tuple[Job, Run]]


def exclusion(evidence: Evidence) -> Iterator[Finding]:
    """A job begins after the end of all others of its lane that do not share it.

    The exception is one whose process was silenced, so that others took its job over.
    """
    for lane, runs in evidence.lanes.items():
        for hold, others in overlaps(evidence.holds(runs)):
            for other in others:
                pair = (other.run, hold.run)
                before, run = sorted(pair, key=lambda each: (each.fence, each.begin))
                if not evidence.share(lane, *pair) and not evidence.silenced(before, run.begin):
                    yield between(f"lane {lane}: {hold.run} began while {other.run} ran", *pair)


def order(evidence: Evidence) -> Iterator[Finding]:
    """A job starts before those whose insert began after its commit, and its siblings in order.

    This concerns jobs of the same or a lower priority.
    """
    for lane, placed in _first_starts(evidence).items():
        there: dict[int, tuple[Job, Run]] = {}  # of those that started later: the first committed
        siblings: dict[object, tuple[int, int]] = {}  # and the first one of each call
        for job, run in reversed(placed):
            for priority, (other, later) in there.items():
                if priority >= job.priority and other.born.is_before(job.born):
                    text = f"started before {later}, which had been committed before its insert"
                    yield between(f"lane {lane}: {run} {text}", run, later)
            op, place = job.key[0], (-job.priority, job.key[1])
            if siblings.get(op, place) < place:
                text = "started before an earlier job of the same call"
                yield between(f"lane {lane}: {run} {text}", run, run)
            siblings[op] = min(siblings.get(op, place), place)
            first = there.get(job.priority, (job, run))
            there[job.priority] = min(first, (job, run), key=lambda each: each[0].born.end)


def _first_starts(evidence: Evidence) -> dict[str, Placed]:
    """Return the first runs of each lane's jobs whose place is known.

    If a process died with an attempt before it began, or never heard of it, others shared the lane
    with it meanwhile, and nothing in the history shows since when.
    """
    placed: dict[str, Placed] = {}
    for lane, runs in evidence.lanes.items():
        first: dict[Key, Run] = {}
        for run in runs:
            first.setdefault(run.key, run)
        known = [(evidence.jobs[key], run) for key, run in first.items() if key in evidence.jobs]
        placed[lane] = [
            (job, run) for job, run in known
            if job.has_place
            and not (lane in job.shared and ((run.attempt or 1) > 1 or job.id in evidence.unheard))
        ]  # fmt: skip
    return placed


def overtaken(evidence: Evidence) -> Iterator[Finding]:
    """Between the attempts of a job, nothing else of its lanes starts but what shares them too."""
    for lane, runs in evidence.lanes.items():
        latest: dict[Key, int] = {}
        for place, run in enumerate(runs):
            start = latest.get(run.key, place)
            latest[run.key] = place
            if _releases(evidence, run) or evidence.forgot(runs[start], run):
                continue
            for other in runs[start + 1 : place]:
                if not evidence.share(lane, other, run):
                    yield between(f"lane {lane}: {other} started between attempts of {run}",
                                  other, run)  # fmt: skip
                    break


def _releases(evidence: Evidence, run: Run) -> bool:
    job = evidence.jobs.get(run.key)
    return job is not None and job.releases


def fences_rise(evidence: Evidence) -> Iterator[Finding]:
    """Fences rise with each start in a lane."""
    for lane, runs in evidence.lanes.items():
        latest: Run | None = None
        for run in sorted(runs, key=lambda run: run.begin):
            if latest is None or run.fence > latest.fence:
                latest = run
            elif not (
                evidence.share(lane, run, latest)
                or evidence.silenced(run, latest.begin)
                or _resumes(evidence, run)
                or run.fence == latest.fence
            ):
                yield between(f"lane {lane}: {run} began after {latest}", latest, run)


def fences_differ(evidence: Evidence) -> Iterator[Finding]:
    """No fence is given twice."""
    for before, run in itertools.pairwise(evidence.runs):
        if before.fence == run.fence and not _resumes(evidence, run):
            yield between(f"{before} and {run} have one fence", before, run)


def _resumes(evidence: Evidence, run: Run) -> bool:
    """Return True if a server had forgotten the end of this attempt, so that it runs again."""
    return any(
        other.fence == run.fence and evidence.forgot(other, run)
        for other in evidence.runs_of[run.key]
    )


def pauses(evidence: Evidence) -> Iterator[Finding]:
    """Nothing is claimed and started in a pause of its lane."""
    for lane, spans in evidence.pauses.items():
        for pause in spans:
            for run in evidence.lanes.get(lane, ()):
                if run.fence > pause.fence and pause.covers(run.begin):
                    text = f"lane {lane}: {run} was claimed and started in a pause"
                    yield between(text, run, run)
