"""What ran in a lane, in which order, and whether anything ran beside anything else."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from inturn.tasks.task import Deferrer
from inturn.testing.expectations import task_name, wanted
from inturn.testing.jobs import Seen, written
from inturn.testing.recording import Run

Step = int | str | Mapping[str, Any] | Deferrer[...]


class _Span(NamedTuple):
    started: Any
    ended: Any
    job_id: int


def order(lock: str, expected: Sequence[Step], jobs: Sequence[Seen]) -> str | None:
    """What is wrong with the order of the jobs that were begun, or nothing. Each start has a higher fence."""
    ran = sorted((job for job in _of(lock, jobs) if job.attempts), key=lambda job: job.fence or 0)
    rows = list(itertools.zip_longest(expected, ran))
    if all(step is not None and job is not None and _is(step, job) for step, job in rows):
        return None
    lines = [f'The lane "{lock}" did not run in this order:', "     expected  |  ran"]
    for number, (step, job) in enumerate(rows, 1):
        mark = "  " if step is not None and job is not None and _is(step, job) else "->"
        lines.append(f"  {mark} {number:2}  {_said(step)}  |  {'nothing' if job is None else job}")
    unbegun = [job for job in _of(lock, jobs) if not job.attempts]
    lines += [f"  not begun: {job}" for job in unbegun]
    return "\n".join(lines)


def overlaps(lock: str, jobs: Sequence[Seen], runs: Sequence[Run]) -> str | None:
    """What is wrong, or nothing. From the history, of each job the last attempt; from the runs in this process, all."""
    mine = _of(lock, jobs)
    recorded = [
        _Span(job.started_at, job.finished_at, job.id) for job in mine if job.started_at is not None
    ]
    watched = [_Span(run.started, run.ended, run.job.id) for run in runs if run.job.lock == lock]
    if not recorded and not watched:
        others = sorted(
            {job.lock for job in jobs if job.lock is not None and job.started_at is not None}
        )[:5]
        return f'No job with lock "{lock}" has run, so nothing is shown. Locks of jobs that have: {others or "none"}'
    pairs = _overlapping(recorded) + _overlapping(watched)
    if not pairs:
        return None
    by_id = {job.id: str(job) for job in mine}
    return "\n".join(
        [
            f'Jobs of the lane "{lock}" ran at one time:',
            *(
                f"  {by_id.get(b.job_id, b.job_id)} began at {b.started},\n"
                f"      before {by_id.get(a.job_id, a.job_id)} ended ({a.ended or 'not yet'})"
                for a, b in pairs
            ),
        ]
    )


def _overlapping(spans: list[_Span]) -> list[tuple[_Span, _Span]]:
    in_time = sorted(spans, key=lambda span: (span.started, span.ended is None, span.ended or 0))
    return [
        (a, b) for a, b in itertools.pairwise(in_time) if a.ended is None or b.started < a.ended
    ]


def _of(lock: str, jobs: Sequence[Seen]) -> list[Seen]:
    return [job for job in jobs if job.lock == lock]


def _is(step: Step, job: Seen) -> bool:
    if isinstance(step, int):
        return job.id == step
    if isinstance(step, Mapping):
        return not wanted(None, step).differences(job)
    return job.task == task_name(step)


def _said(step: Step | None) -> str:
    if step is None:
        return "nothing"
    if isinstance(step, int):
        return f"job {step}"
    return f"({written(dict(step))})" if isinstance(step, Mapping) else task_name(step)
