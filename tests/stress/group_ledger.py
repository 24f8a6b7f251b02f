"""The rule of a stress run for groups: none of them starves (ledger.py).

This needs only the standard library and knows nothing of the queue's tables.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator

from tests.stress.ledger import Job, Ledger, Run

WEIGHTS: dict[str | None, int] = {"large": 2}  # of the others: 1
# A group may have one turn at each of four workers before another group has its own, and one more
# in each claim under way. Most of this is for claims that pass over what others have locked.
TURNS = 30


def waits(ledger: Ledger) -> Iterator[tuple[Job, Counter[str | None]]]:
    """Yield jobs that could start at once, with how many of each group started before them.

    Only starts that were claimed after the job was committed count, and only those of its priority
    or a lower one.
    """
    runs = sorted((run for run in ledger.runs if run.job in ledger.jobs), key=lambda run: run.fence)
    fences = [run.fence for run in runs]
    first: dict[int, Run] = {}
    for run in runs:
        first.setdefault(run.job, run)
    for job in ledger.jobs.values():
        own = first.get(job.id)
        if own is None or own.attempt > 1 or job.fence is None or not _is_free(job):
            continue  # if its first attempt is not in the log, its process died before that
        between = runs[bisect_right(fences, job.fence) : bisect_right(fences, own.fence - 1)]
        yield (
            job,
            Counter(
                ledger.jobs[other.job].group
                for other in between
                if ledger.jobs[other.job].priority <= job.priority
                and _serves(ledger, other.pid, job.queue)
            ),
        )


def _is_free(job: Job) -> bool:
    return job.lane is None and job.limit is None and job.has_place and job.expires is None


def _serves(ledger: Ledger, pid: int, queue: str) -> bool:
    queues = ledger.serving.get(pid)
    return queues is None or queue in queues


def _excess(job: Job, started: Counter[str | None]) -> float:
    """Return how many turns another group had more than the job's own."""
    own = started[job.group] / WEIGHTS.get(job.group, 1)
    others = (count / WEIGHTS.get(group, 1) for group, count in started.items()
              if group != job.group)  # fmt: skip
    return max(others, default=0.0) - own


def group_violations(ledger: Ledger) -> Iterator[str]:
    for job, started in waits(ledger):
        if _excess(job, started) > TURNS:
            counts = ", ".join(f"{count} of {group or 'none'}" for group, count in started.items())
            yield f"job {job.id} of group {job.group or 'none'} waited while started: {counts}"


def groups_seen(ledger: Ledger) -> dict[str, int]:
    """Count the jobs that had to wait for many of others. Without them nobody could starve."""
    found = list(waits(ledger))
    return {"starts judged by groups": sum(sum(started.values()) > TURNS for _, started in found)}
