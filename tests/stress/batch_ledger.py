"""The rules of a stress run for batches (ledger.py).

This needs only the standard library and knows nothing of the queue's tables.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.stress.ledger import FOR_EVER, Job, Ledger, Run, explained


def batch_violations(ledger: Ledger) -> Iterator[str]:
    runs = _runs_of_jobs(ledger)
    members = _members(ledger)
    for callback in _callbacks(ledger):
        own = runs.get(callback.id, [])
        assert callback.callback_of is not None
        batch, jobs = callback.callback_of, members[callback.callback_of]
        # A person who retries a callback wants it to run at once, and perhaps again.
        if own and callback.id not in ledger.retried:
            found = [
                *_early(ledger, batch, jobs, own[0], runs),
                *_repeated(ledger, callback, own),
                *_miscounted(ledger, jobs, own[-1]),
            ]
            yield from (f"batch {batch}: {problem}" for problem in found)


def _runs_of_jobs(ledger: Ledger) -> dict[int, list[Run]]:
    runs: dict[int, list[Run]] = defaultdict(list)
    for run in sorted(ledger.runs, key=lambda run: run.fence):
        runs[run.job].append(run)
    return runs


def _members(ledger: Ledger) -> dict[int, list[Job]]:
    """Return the jobs of each batch, without those that were rolled back."""
    members: dict[int, list[Job]] = defaultdict(list)
    for job in ledger.jobs.values():
        # If its producer died, only its end shows whether it was committed.
        if job.batch is not None and job.committed != FOR_EVER and ledger.ends[job.id]:
            members[job.batch].append(job)
    return members


def _callbacks(ledger: Ledger) -> list[Job]:
    return [job for job in ledger.jobs.values() if job.callback_of is not None]


def _early(
    ledger: Ledger, batch: int, jobs: list[Job], first: Run, runs: dict[int, list[Run]]
) -> Iterator[str]:
    """Check that the callback starts when the batch is closed and every job of it has ended."""
    if ledger.closed.get(batch, FOR_EVER) > first.start:
        yield "its callback started before it was closed"
    for job in jobs:
        if job.called > first.start:
            yield f"job {job.id} joined after the callback had started"
        last = runs[job.id][-1] if job.id in runs else None
        if last is None or job.id in ledger.retried:
            continue
        end = ledger.killed.get(last.pid, last.start) if last.end is None else last.end
        if last.fence > first.fence or (
            end > first.start and not explained(ledger, last, first.start)
        ):
            yield f"its callback started before the end of job {job.id}"


def _repeated(ledger: Ledger, callback: Job, own: list[Run]) -> Iterator[str]:
    """Check that the callback runs once, unless an attempt raised or lost its process."""
    for before, run in itertools.pairwise(own):
        if not (
            before.attempt <= callback.fails
            or before.pid in ledger.killed
            or explained(ledger, before, run.start)
        ):
            yield f"its callback ran again in process {run.pid}, and nothing explains that"


def _miscounted(ledger: Ledger, jobs: list[Job], last: Run) -> Iterator[str]:
    """Check what the callback was told: how many jobs there were, and how they ended."""
    told = ledger.counted.get(last.fence)
    if told is None:
        return
    ends = Counter(status for job in jobs for _, status in ledger.ends[job.id])
    if told["total"] != len(jobs):
        yield f"its callback was told of {told['total']} jobs, and it has {len(jobs)}"
    elif not ledger.retried.intersection(job.id for job in jobs):
        wrong = {how: told[how] for how in ("succeeded", "failed", "cancelled", "aborted")
                 if told[how] != ends[how]}  # fmt: skip
        if wrong:
            yield f"its callback was told {wrong}, and its jobs ended {dict(ends)}"


def batches_seen(ledger: Ledger) -> dict[str, int]:
    """Count what became of batches. A run without some of each proves little."""
    ran = {run.job for run in ledger.runs}
    members = _members(ledger)
    callbacks = [job for job in _callbacks(ledger) if job.id in ran]
    return {
        "callbacks run": len(callbacks),
        "jobs of their batches": sum(len(members[job.callback_of or 0]) for job in callbacks),
        "joined after the close": sum(
            job.committed is not None and job.committed > ledger.closed.get(batch, FOR_EVER)
            for batch, jobs in members.items() for job in jobs
        ),
        "batches given up": len(ledger.given_up),
    }  # fmt: skip
