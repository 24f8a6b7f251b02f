"""What holds for what jobs wait for besides their lanes: limits, parents, and not for long."""

import bisect
from collections import defaultdict
from collections.abc import Iterator

from inturn.testing.overlaps import overlaps
from tests.evidence.evidence import Evidence, Job, Key, Run
from tests.evidence.finding import Finding, between
from tests.evidence.spans import SECOND, Fault


def _keys(evidence: Evidence, of: str) -> Iterator[tuple[str, float, list[Run]]]:
    """Yield each limit that says something of `of`, with this and the runs of its jobs."""
    runs: dict[str, list[Run]] = defaultdict(list)
    for run in sorted(evidence.runs, key=lambda run: run.begin):
        job = evidence.jobs.get(run.key)
        if job is not None and job.limit is not None:
            runs[job.limit].append(run)
    for key, limit in evidence.settings.limits.items():
        if of in limit:
            yield key, limit[of], runs[key]


def at_work(evidence: Evidence) -> Iterator[tuple[str, float, Run, list[Run]]]:
    """Yield each limit, its slots, and a run with those whose slot cannot have been free."""
    for key, slots, runs in _keys(evidence, "slots"):
        for hold, others in overlaps(evidence.holds(runs)):
            others_at_work = [each.run for each in others
                              if not evidence.silenced(each.run, hold.started)]  # fmt: skip
            yield key, slots, hold.run, others_at_work


def slots(evidence: Evidence) -> Iterator[Finding]:
    """No more jobs of a key run at once than its limit allows, through crashes and rescues."""
    for key, limit, run, busy in at_work(evidence):
        if len(busy) + 1 > limit:
            yield between(f"limit {key}: {run} began while {len(busy)} others ran", busy[0], run)


def rates(evidence: Evidence) -> Iterator[Finding]:
    """In any time, no more jobs of a key start than its rate and its burst allow.

    The begins of jobs that a stopped process had claimed before tell nothing, and neither do times
    in which the server's clock was wrong.
    """
    settings = evidence.settings
    faults = sorted(evidence.faults, key=lambda fault: fault.start)
    for key, rate, runs in _keys(evidence, "rate"):
        burst = settings.limits[key]["burst"]
        starts = [run for run in runs if not evidence.slept(run)]
        stalls = [_is_stalled(evidence, faults, run.begin) for run in starts]
        for place, first in enumerate(starts):
            tolerance = settings.delay
            for count, last in enumerate(starts[place:], 1):
                tolerance = settings.stall if stalls[place + count - 1] else tolerance
                seconds = (last.begin - first.begin) / SECOND
                if evidence.was_clock_wrong(first.begin, last.begin):
                    break
                if count > rate * (seconds + tolerance) + burst:
                    text = f"limit {key}: {count} jobs started within {seconds:.2f} s"
                    yield between(text, first, last)
                    break


def _is_stalled(evidence: Evidence, faults: list[Fault], at: int) -> bool:
    """Return True if a fault can have held up the claim of a run that began at this moment."""
    place = bisect.bisect_right(faults, at, key=lambda fault: fault.start)
    since = at - evidence.settings.stall * SECOND
    return any(fault.end > since for fault in faults[max(0, place - 2) : place])


# ---------------------------------------------------------------- parents


def parents_end_first(evidence: Evidence) -> Iterator[Finding]:
    """A job starts after its parents have ended."""
    for job, first, parent in _children(evidence):
        if not (job.on_parent == "go" and parent in evidence.retried):  # it went on after its end
            text = f"{first} started before the end of its parent"
            yield from unended(evidence, first, parent, text)


def unended(evidence: Evidence, first: Run, key: Key, text: str) -> Iterator[Finding]:
    """Yield a finding if a job certainly had not ended when the run began."""
    last = evidence.runs_of[key][-1] if key in evidence.runs_of else None
    if last is not None and (
        last.fence > first.fence
        or (evidence.until(last) > first.begin and not evidence.silenced(last, first.begin))
    ):
        yield between(f"{text}: {last}", first, last)


def parents_succeed(evidence: Evidence) -> Iterator[Finding]:
    """A job starts only if its parents ended as it demands."""
    for job, first, parent in _children(evidence):
        bad = set(evidence.statuses(parent)) - {"succeeded"}
        if job.on_parent != "go" and bad:
            name = f"{parent[0]}#{parent[1]}"
            text = f"{first} started, and {name}, which it comes after, is {', '.join(bad)}"
            yield between(text, first, first)


def _children(evidence: Evidence) -> Iterator[tuple[Job, Run, Key]]:
    """Yield the first run of each job that nobody has freed from its parents, and each parent."""
    free = evidence.let_go | evidence.retried  # some were cancelled with a parent and then retried
    for job in evidence.jobs.values():
        if job.key in evidence.runs_of and job.key not in free:
            for parent in job.after:
                yield job, evidence.runs_of[job.key][0], parent


# ---------------------------------------------------------------- expiry


def expiry(evidence: Evidence) -> Iterator[Finding]:
    """A job that expires does not begin its first attempt after that, unless a person wants it."""
    for run in evidence.runs:
        job = evidence.jobs.get(run.key)
        if job is None or job.expires is None or job.inserted is None or (run.attempt or 1) > 1:
            continue
        late = (run.begin - job.inserted) / SECOND - job.expires
        is_excused = (
            job.key in evidence.retried
            or evidence.slept(run)
            or evidence.was_clock_wrong(job.inserted, run.begin)
        )
        if late > evidence.settings.late and not is_excused:
            yield between(f"{run} began {late:.1f} s late", run, run)
