"""What must hold for jobs with limits, jobs after others, and jobs that expire.

Standard library only. This knows nothing of the queue's tables.
"""

import bisect
from collections import defaultdict
from collections.abc import Iterator

from tests.chaos.evidence import SECOND, Evidence, Job, Key, Run
from tests.chaos.rules import Violation, between, describe_run, over, runs_of_jobs

DELAY = 0.5  # seconds from a claim to the task; most of this is for a busy machine
STALL = 4.0  # seconds of the same in a fault, which can hold up a claim or its answer
LATE = (
    2.0  # seconds from a worker's look at its clock to the task; most of it is for a busy machine
)


def _keys(evidence: Evidence, of: str) -> Iterator[tuple[str, float, list[Run]]]:
    """Yield each limit that says something of `of`, with this and the runs of its jobs."""
    runs: dict[str, list[Run]] = defaultdict(list)
    for run in sorted(evidence.runs, key=lambda run: run.begin):
        job = evidence.jobs.get(run.key)
        if job is not None and job.limit is not None:
            runs[job.limit].append(run)
    for key, limit in evidence.settings.get("limits", {}).items():
        if of in limit:
            yield key, limit[of], runs[key]


def _at_work(evidence: Evidence, key_runs: list[Run]) -> Iterator[tuple[Run, list[Run]]]:
    """Yield each run with the earlier ones whose slot cannot have been free when it began.

    A process that died keeps its slots until others can have taken it for dead.
    """
    again: dict[Key, list[int]] = defaultdict(list)
    for run in key_runs:
        again[run.key].append(run.begin)
    busy: list[tuple[Run, int]] = []
    for run in key_runs:
        busy = [(before, end) for before, end in busy if end > run.begin]
        yield run, [before for before, _ in busy if not evidence.silenced(before, run.begin)]
        end = over(evidence, run)
        died = evidence.died(run.who)
        if run.end is None and died is not None:
            end = died + int(evidence.settings["excuse"] * SECOND)
            end = min([end, *(begin for begin in again[run.key] if begin > run.begin)])
        busy.append((run, end))


def too_many(evidence: Evidence) -> Iterator[Violation]:
    """No more jobs of a key run at once than its limit allows, through crashes and rescues."""
    for key, slots, runs in _keys(evidence, "slots"):
        for run, busy in _at_work(evidence, runs):
            if len(busy) + 1 > slots:
                text = f"limit {key}: {describe_run(run)} began while {len(busy)} others ran"
                yield between("too many", text, busy[0], run)


def full(evidence: Evidence) -> int:
    """Return how often a run took the last slot of a limit. Else the limits were not tested."""
    return sum(
        len(busy) + 1 == slots
        for _, slots, runs in _keys(evidence, "slots")
        for _, busy in _at_work(evidence, runs)
    )


def too_often(evidence: Evidence) -> Iterator[Violation]:
    """In any time, no more jobs of a key start than its rate and its burst allow."""
    faults = sorted((fault.start, fault.end) for fault in evidence.faults)
    for key, rate, runs in _keys(evidence, "rate"):
        burst = evidence.settings["limits"][key]["burst"]
        for place, first in enumerate(runs):
            stalled = False
            for count, last in enumerate(runs[place:], 1):
                stalled = stalled or _stalled(faults, last.begin)
                seconds = (last.begin - first.begin) / SECOND
                if count > rate * (seconds + (STALL if stalled else DELAY)) + burst:
                    text = f"limit {key}: {count} jobs started within {seconds:.2f} s"
                    yield between("too often", text, first, last)
                    break


def _stalled(faults: list[tuple[int, int]], at: int) -> bool:
    """Return True if a fault can have held up the claim of a run that began at this moment."""
    place = bisect.bisect_right(faults, (at, at))
    return any(end > at - STALL * SECOND for _, end in faults[max(0, place - 2) : place])


def early(evidence: Evidence) -> Iterator[Violation]:
    """A job starts after its parents have ended, and only if they ended as it demands."""
    runs = runs_of_jobs(evidence)
    free = evidence.let_go | evidence.retried  # some were cancelled with a parent and then retried
    for job in evidence.jobs.values():
        if job.after and runs.get(job.key) and job.key not in free:
            first = min(runs[job.key], key=lambda run: run.fence)
            for parent in job.after:
                yield from _after(evidence, job, first, parent, runs.get(parent, []))


def _after(
    evidence: Evidence, job: Job, first: Run, parent: Key, runs: list[Run]
) -> Iterator[Violation]:
    ends = [end["status"] for end in evidence.finals.get(parent, [])]
    name = f"{parent[0]}#{parent[1]}"
    if job.on_parent != "go" and any(end != "succeeded" for end in ends):
        text = f"{describe_run(first)} started, and {name}, which it comes after, is {ends[0]}"
        yield between("against", text, first, first)
    if job.on_parent == "go" and parent in evidence.retried:
        return  # it went on after the first end
    last = max(runs, key=lambda run: run.fence, default=None)
    if last is None:
        return
    if last.fence > first.fence or (
        over(evidence, last) > first.begin and not evidence.silenced(last, first.begin)
    ):
        text = f"{describe_run(first)} started before the end of {describe_run(last)}"
        yield between("early", text, first, last)


def late(evidence: Evidence) -> Iterator[Violation]:
    """A job that expires does not begin its first attempt after that."""
    for run in evidence.runs:
        job = evidence.jobs.get(run.key)
        if job is None or job.expires is None or job.inserted is None or run.attempt > 1:
            continue
        if job.key in evidence.retried:
            continue  # somebody wanted it to run all the same
        until = job.inserted + int((job.expires + LATE) * SECOND)
        stood_still = any(
            silence.start < run.begin and silence.end > until - (job.expires + LATE) * SECOND
            for silence in evidence.silences[run.who]
        )
        if run.begin > until and not stood_still:
            text = f"{describe_run(run)} began {(run.begin - until) / SECOND + LATE:.1f} s late"
            yield between("late", text, run, run)


FLOW_RULES = (too_many, too_often, early, late)
