"""What holds for batches and for groups."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import Any

from tests.evidence.evidence import Evidence, Job, Key, Run
from tests.evidence.finding import Finding, at_job, between
from tests.evidence.rules.waiting import unended


def members(evidence: Evidence) -> dict[Any, list[Job]]:
    """Return the jobs of each batch that were committed, as far as anybody can tell."""
    found: dict[Any, list[Job]] = defaultdict(list)
    for job in evidence.jobs.values():
        is_there = job.answer == "ok" or evidence.is_there(job.key)
        if job.answer != "fail" and is_there:
            found[job.batch].append(job)
    return found


def callbacks(evidence: Evidence) -> Iterator[tuple[Any, Job, list[Run]]]:
    """Yield each batch whose callback ran, with the callback and its runs.

    A person who retries a callback wants it to run at once, and perhaps again.
    """
    for job in evidence.jobs.values():
        runs = evidence.runs_of.get(job.key)
        if job.callback_of is not None and runs and job.key not in evidence.retried:
            yield job.callback_of, job, runs


def callback_last(evidence: Evidence) -> Iterator[Finding]:
    """A callback starts when its batch is closed and every committed job of it has ended."""
    jobs = members(evidence)
    for batch, _, (first, *_) in callbacks(evidence):
        if evidence.closed.get(batch, first.begin) >= first.begin:
            yield between(f"{first} started before batch {batch} was closed", first, first)
        for job in jobs[batch]:
            if job.called > first.begin:
                text = f"joined batch {batch} after {first} had started"
                yield at_job(evidence, job.key, text)
            elif job.key not in evidence.retried:
                text = f"{first} started before the end of a job of its batch"
                yield from unended(evidence, first, job.key, text)


def callback_told(evidence: Evidence) -> Iterator[Finding]:
    """A callback is told how many jobs its batch has, and how they have ended."""
    jobs = members(evidence)
    for batch, callback, runs in callbacks(evidence):
        told = evidence.counted.get(runs[-1].fence)
        if told is None:
            continue
        keys = [job.key for job in jobs[batch]]
        ends = Counter(status for key in keys for status in evidence.statuses(key))
        wanted = {"total": len(keys)}
        if evidence.retried.isdisjoint(keys):  # else some have ended again since then
            wanted |= {how: ends[how] for how in told if how != "total"}
        if not wanted.items() <= told.items():
            text = f"was told {told}, and the {len(keys)} jobs of batch {batch} ended {dict(ends)}"
            yield at_job(evidence, callback.key, text)


# ---------------------------------------------------------------- groups


def waits(evidence: Evidence) -> Iterator[tuple[Run, Counter[str | None]]]:
    """Yield first runs of jobs that could start at once, with what started before them.

    That is how many jobs of each group, with at most the job's priority, were claimed after the
    job was committed by workers that serve its queue. A job is not judged if its
    first worker died or never heard of it, or if any worker was silent while it waited.
    """
    runs = [run for run in evidence.runs if run.key in evidence.jobs]
    fences = [run.fence for run in runs]
    reached = _reached(runs)
    first: dict[Key, Run] = {}
    for run in runs:
        first.setdefault(run.key, run)
    for key, run in first.items():
        job = evidence.jobs[key]
        is_judged = run.attempt == 1 and job.committed is not None and _is_free(evidence, job)
        if is_judged and not _may_be_locked(evidence, job, run):
            fence = job.fence
            if fence is None:
                fence = reached[bisect_right(reached, (job.committed, 0)) - 1][1]
            others = runs[bisect_right(fences, fence) : bisect_right(fences, run.fence - 1)]
            yield run, Counter(_groups(evidence, job, others))


def _may_be_locked(evidence: Evidence, job: Job, run: Run) -> bool:
    """Return True if a process was silent before this start: its open claim may have the row."""
    since = job.committed or 0
    each = chain.from_iterable(evidence.silences.values())
    return any(silence.start <= run.begin and silence.end >= since for silence in each)


def _groups(evidence: Evidence, job: Job, runs: list[Run]) -> Iterator[str | None]:
    for run in runs:
        queues, other = evidence.serving.get(run.who), evidence.jobs[run.key]
        is_served = queues is None or job.queue is None or job.queue in queues
        if is_served and other.priority <= job.priority:
            yield other.group


def _reached(runs: list[Run]) -> list[tuple[int, int]]:
    """Return the times at which the highest fence that had begun rose, and this fence."""
    reached = [(0, 0)]
    for run in sorted(runs, key=lambda run: run.begin):
        if run.fence > reached[-1][1]:
            reached.append((run.begin, run.fence))
    return reached


def _is_free(evidence: Evidence, job: Job) -> bool:
    is_bound = job.lane is not None or job.limit is not None or job.expires is not None
    return not is_bound and job.has_place and job.id not in evidence.unheard


def groups_take_turns(evidence: Evidence) -> Iterator[Finding]:
    """No group waits for more than a turn or two of each other group."""
    weights = evidence.settings.weights
    for run, started in waits(evidence):
        turns = {group: count / weights.get(group, 1) for group, count in started.items()}
        own = evidence.jobs[run.key].group
        most = max((count for group, count in turns.items() if group != own), default=0.0)
        if most - turns.get(own, 0) > evidence.settings.turns:
            counts = ", ".join(f"{count} of {name or 'none'}" for name, count in started.items())
            yield between(
                f"{run} of group {own or 'none'} waited while started: {counts}", run, run
            )
