"""The rules of a stress run for limits, jobs after others, and jobs that expire (ledger.py).

This needs only the standard library and knows nothing of the queue's tables.
"""

from collections import defaultdict
from collections.abc import Iterator

from tests.stress.ledger import FOR_EVER, Job, Ledger, Run, explained

LIMITS: dict[str, dict[str, int]] = {  # of a second
    "slots": {"slots": 3},
    "rate": {"rate": 15, "burst": 5},
    "both": {"slots": 2, "rate": 30, "burst": 4},
}
TAKEN_OVER = 1.5  # seconds: a process that died keeps its slots for at least so long
DELAY = 1.0  # seconds from a claim to the task: most of this is for a busy machine
LATE = 2.0  # seconds from a worker's look at its clock to the task: likewise


def flow_violations(ledger: Ledger) -> Iterator[str]:
    yield from _too_many(ledger)
    yield from _too_often(ledger)
    yield from _early(ledger)
    yield from _late(ledger)
    yield from _cancelled(ledger)


def at_work(ledger: Ledger, key: str) -> Iterator[tuple[Run, list[Run]]]:
    """Yield each run of a limit with those whose slot cannot have been free when it began."""
    runs = _runs_with(ledger, key)
    begins: dict[int, list[float]] = defaultdict(list)
    for run in runs:
        begins[run.job].append(run.start)
    busy: list[tuple[Run, float]] = []
    for run in runs:
        busy = [(before, end) for before, end in busy if end > run.start]
        yield run, [before for before, _ in busy if not explained(ledger, before, run.start)]
        end = run.end
        if end is None:
            end = ledger.killed.get(run.pid, run.start) + TAKEN_OVER
            end = min([end, *(start for start in begins[run.job] if start > run.start)])
        busy.append((run, end))


def _runs_with(ledger: Ledger, key: str) -> list[Run]:
    runs = [run for run in ledger.runs if run.job in ledger.jobs]
    return sorted(
        (run for run in runs if ledger.jobs[run.job].limit == key), key=lambda run: run.start
    )


def _too_many(ledger: Ledger) -> Iterator[str]:
    for key, limit in LIMITS.items():
        for run, busy in at_work(ledger, key) if "slots" in limit else ():
            if len(busy) + 1 > limit["slots"]:
                others = [before.job for before in busy]
                yield f"limit {key}: job {run.job} started while {others} ran"


def _too_often(ledger: Ledger) -> Iterator[str]:
    for key, limit in LIMITS.items():
        starts = _runs_with(ledger, key) if "rate" in limit else []
        for place, first in enumerate(starts):
            for count, last in enumerate(starts[place:], 1):
                woken = sum(_slept(ledger, run) for run in starts[place : place + count])
                seconds = last.start - first.start + DELAY
                if count - woken > limit["rate"] * seconds + limit["burst"]:
                    yield f"limit {key}: {count} jobs started from job {first.job} to {last.job}"
                    break


def _slept(ledger: Ledger, run: Run) -> bool:
    """Return True if its process was stopped between the claim and the task, for all we know."""
    return any(span.start < run.start < span.end + DELAY for span in ledger.stopped[run.pid])


def _early(ledger: Ledger) -> Iterator[str]:
    """Check that jobs start after their parents, if these ended as the job demands."""
    runs: dict[int, list[Run]] = defaultdict(list)
    for run in sorted(ledger.runs, key=lambda run: run.fence):
        runs[run.job].append(run)
    for job in ledger.jobs.values():
        # Somebody may have retried a job that was cancelled with its parent.
        if job.after and runs[job.id] and job.id not in ledger.retried:
            for parent in job.after:
                yield from _after(ledger, job, runs[job.id][0], parent, runs[parent])


def _after(ledger: Ledger, job: Job, first: Run, parent: int, runs: list[Run]) -> Iterator[str]:
    if job.on_parent != "go" and any(end != "succeeded" for _, end in ledger.ends[parent]):
        yield f"job {job.id} started although job {parent} did not succeed"
    if not runs or (job.on_parent == "go" and parent in ledger.retried):
        return
    last = runs[-1]
    end = ledger.killed.get(last.pid, last.start) if last.end is None else last.end
    if last.fence > first.fence or (end > first.start and not explained(ledger, last, first.start)):
        yield f"job {job.id} started before the end of job {parent}, which it comes after"


def _late(ledger: Ledger) -> Iterator[str]:
    for run in ledger.runs:
        job = ledger.jobs.get(run.job)
        if job is None or job.expires is None or run.attempt > 1 or run.job in ledger.retried:
            continue
        if run.start > job.inserted + job.expires + LATE and not _slept(ledger, run):
            yield f"job {run.job} started after it had expired"


def _cancelled(ledger: Ledger) -> Iterator[str]:
    ran = {run.job for run in ledger.runs}
    for id, ends in ledger.ends.items():
        job = ledger.jobs.get(id)
        if job is None or id in ledger.cancelled or ("cancelled" not in {how for _, how in ends}):
            continue
        if ledger.given_up & {job.batch, job.callback_of}:
            continue
        if not (job.expires is not None and id not in ran) and not _parent_failed(ledger, job):
            yield f"job {id} was cancelled, and nobody asked for that"


def _parent_failed(ledger: Ledger, job: Job) -> bool:
    return job.on_parent == "cancel" and any(
        parent in ledger.retried or any(end != "succeeded" for _, end in ledger.ends[parent])
        for parent in job.after
    )


def seen(ledger: Ledger) -> dict[str, int]:
    """Count what became of these jobs. A run without some of each proves little."""
    ran = {run.job for run in ledger.runs}
    cancelled = {
        id for id, ends in ledger.ends.items() if "cancelled" in {how for _, how in ends}
    } - ledger.cancelled.keys()
    jobs = [job for job in ledger.jobs.values() if job.committed not in (None, FOR_EVER)]
    return {
        "last slots taken": sum(
            len(busy) + 1 == limit["slots"]
            for key, limit in LIMITS.items()
            if "slots" in limit
            for _, busy in at_work(ledger, key)
        ),
        "started within a rate": sum("rate" in LIMITS.get(job.limit or "", ()) for job in jobs),
        "started after others": sum(bool(job.after) and job.id in ran for job in jobs),
        "cancelled with a parent": sum(
            job.id in cancelled and _parent_failed(ledger, job) for job in jobs
        ),
        "expired": sum(job.id in cancelled and job.expires is not None for job in jobs),
        "held up and looked after": len(ledger.retried),
    }
