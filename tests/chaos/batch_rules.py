"""What must hold for batches and for groups.

Standard library only. This knows nothing of the queue's tables.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.chaos.evidence import Evidence, Job, Key, Run
from tests.chaos.rules import FOR_EVER, Violation, at_job, between, describe_run, over, runs_of_jobs

# A group may have one turn at each worker before another group has its own, and one more in each
# claim under way. Most of this is for claims that pass over what others have locked.
TURNS = 40


def _members(evidence: Evidence) -> dict[str, list[Job]]:
    """Return the jobs of each batch that were committed, as far as anybody can tell."""
    there = {run.key for run in evidence.runs} | evidence.finals.keys()
    members: dict[str, list[Job]] = defaultdict(list)
    for job in evidence.jobs.values():
        if job.batch is not None and (job.answer == "ok" or job.key in there):
            members[job.batch].append(job)
    return members


def _callbacks(evidence: Evidence) -> Iterator[tuple[str, Job, list[Run]]]:
    """Yield each batch whose callback ran, with the callback and its runs.

    A person who retries a callback wants it to run at once, and perhaps again.
    """
    runs = runs_of_jobs(evidence)
    for job in evidence.jobs.values():
        if job.callback_of is not None and job.key in runs and job.key not in evidence.retried:
            yield job.callback_of, job, runs[job.key]


def hasty(evidence: Evidence) -> Iterator[Violation]:
    """A callback starts when its batch is closed and every committed job of it has ended."""
    runs, members = runs_of_jobs(evidence), _members(evidence)
    for batch, _, own in _callbacks(evidence):
        first = min(own, key=lambda run: run.fence)
        if evidence.closed.get(batch, first.begin) >= first.begin:
            text = f"{describe_run(first)} started before batch {batch} was closed"
            yield between("hasty", text, first, first)
        for job in members[batch]:
            if job.called > first.begin:
                text = f"joined batch {batch} after {describe_run(first)} had started"
                yield at_job(evidence, "hasty", job.key, text)
            elif job.key not in evidence.retried:
                yield from _unended(evidence, first, runs.get(job.key, []))


def _unended(evidence: Evidence, first: Run, runs: list[Run]) -> Iterator[Violation]:
    last = max(runs, key=lambda run: run.fence, default=None)
    if last is None:
        return  # it never ran, and the other rules want it to have an end
    if last.fence > first.fence or (
        over(evidence, last) > first.begin and not evidence.silenced(last, first.begin)
    ):
        text = f"{describe_run(first)} started before the end of {describe_run(last)} of its batch"
        yield between("hasty", text, first, last)


def miscounted(evidence: Evidence) -> Iterator[Violation]:
    """A callback is told how many jobs its batch has, and how they have ended."""
    members = _members(evidence)
    for batch, callback, own in _callbacks(evidence):
        told = evidence.counted.get(max(run.fence for run in own))
        keys = [job.key for job in members[batch]]
        if told is None or not evidence.retried.isdisjoint(keys):
            continue
        ends = Counter(end["status"] for key in keys for end in evidence.finals.get(key, []))
        if told != {"total": len(keys)} | {how: ends[how] for how in told if how != "total"}:
            text = f"was told {told}, and the {len(keys)} jobs of batch {batch} ended {dict(ends)}"
            yield at_job(evidence, "miscounted", callback.key, text)


# ---------------------------------------------------------------- groups


def waits(evidence: Evidence) -> Iterator[tuple[Run, Counter[str | None]]]:
    """Yield first runs of jobs that could start at once, with what started before them.

    That is how many jobs of each group were claimed after the job was committed. If its first
    attempt never began, a process or an answer was lost, and the job is not judged.
    """
    runs = [run for run in evidence.runs if run.key in evidence.jobs]
    fences = [run.fence for run in runs]
    reached = _reached(runs)
    first: dict[Key, Run] = {}
    for run in runs:
        first.setdefault(run.key, run)
    for key, run in first.items():
        job = evidence.jobs[key]
        if run.attempt == 1 and job.committed is not None and _is_free(job):
            start = bisect_right(fences, reached[bisect_right(reached, (job.committed, 0)) - 1][1])
            between = runs[start : bisect_right(fences, run.fence - 1)]
            yield run, Counter(evidence.jobs[other.key].group for other in between)


def _reached(runs: list[Run]) -> list[tuple[int, int]]:
    """Return the times at which the highest fence that had begun rose, and this fence."""
    reached = [(0, 0)]
    for run in sorted(runs, key=lambda run: run.begin):
        if run.fence > reached[-1][1]:
            reached.append((run.begin, run.fence))
    return reached


def _is_free(job: Job) -> bool:
    return job.lane is None and job.limit is None and job.has_place and job.expires is None


def _excess(group: str | None, started: Counter[str | None]) -> int:
    """Return how many turns another group had more than this one."""
    return max((n for other, n in started.items() if other != group), default=0) - started[group]


def starved(evidence: Evidence) -> Iterator[Violation]:
    """No group waits for more than a turn or two of each other group."""
    for run, started in waits(evidence):
        group = evidence.jobs[run.key].group
        if _excess(group, started) > TURNS:
            counts = ", ".join(f"{count} of {name or 'none'}" for name, count in started.items())
            text = f"{describe_run(run)} of group {group or 'none'} waited while started: {counts}"
            yield between("starved", text, run, run)


BATCH_RULES = (hasty, miscounted, starved)


def seen(evidence: Evidence) -> dict[str, int]:
    """Count what became of batches and groups. A run without some of each proves little."""
    ran = {batch for batch, _, _ in _callbacks(evidence)}
    late = [
        job for batch, jobs in _members(evidence).items() for job in jobs
        if job.committed is not None and job.committed > evidence.closed.get(batch, job.committed)
    ]  # fmt: skip
    return {
        "a callback ran": len(ran),
        "a job joined a closed batch": len(late),
        "a batch was given up": len(evidence.given_up),
        "a job of a group passed many of another": _passed(evidence),
    }


def _passed(evidence: Evidence) -> int:
    """Count jobs that started before many of a group that had all been there before them."""
    started = {run.key: run.fence for run in reversed(evidence.runs)}
    calls: dict[str, list[Job]] = defaultdict(list)
    for job in evidence.jobs.values():
        if job.group is not None and job.key in started:
            calls[job.key[0]].append(job)
    floods = [
        (jobs[0], sorted(started[job.key] for job in jobs))
        for jobs in calls.values() if len(jobs) > TURNS
    ]  # fmt: skip
    passed = 0
    for run, _ in waits(evidence):
        job = evidence.jobs[run.key]
        passed += any(
            flood.group != job.group and (flood.committed or FOR_EVER) < (job.committed or 0)
            and len(fences) - bisect_right(fences, run.fence) > TURNS
            for flood, fences in floods
        )  # fmt: skip
    return passed
