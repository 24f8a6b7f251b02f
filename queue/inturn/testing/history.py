"""Check in which order a lane ran, and whether two of its jobs ran at the same time."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from inturn.tasks.task import Deferrer
from inturn.testing.expectations import task_name, wanted
from inturn.testing.jobs import Seen, format_args
from inturn.testing.recording import Run

Step = int | str | Mapping[str, Any] | Deferrer[..., Any]


class _Span(NamedTuple):
    started: Any
    ended: Any
    job_id: int
    reads: bool  # it shares the lane


def check_order(lock: str, expected: Sequence[Step], jobs: Sequence[Seen]) -> str | None:
    """Return what is wrong with the order of the started jobs, or None.

    Each start of a job raises the fence, so the fences tell the order.
    """
    ran = sorted((job for job in _of(lock, jobs) if job.attempts), key=lambda job: job.fence or 0)
    rows = list(itertools.zip_longest(expected, ran))
    if all(step is not None and job is not None and _is(step, job) for step, job in rows):
        return None
    lines = [f'The lane "{lock}" did not run in the expected order:', "     expected  |  ran"]
    for number, (step, job) in enumerate(rows, 1):
        mark = "  " if step is not None and job is not None and _is(step, job) else "->"
        lines.append(
            f"  {mark} {number:2}  {_format_step(step)}  |  {'nothing' if job is None else job}"
        )
    not_started = [job for job in _of(lock, jobs) if not job.attempts]
    lines += [f"  not started: {job}" for job in not_started]
    return "\n".join(lines)


def check_overlaps(lock: str, jobs: Sequence[Seen], runs: Sequence[Run]) -> str | None:
    """Return which jobs ran at the same time, or None.

    Jobs that share the lane may run at the same time as each other.
    This looks at the last attempt of each job in the database, and at all runs in this process.
    """
    mine = _of(lock, jobs)
    readers = {job.id for job in mine if lock in (job.shared or [])}
    recorded = [
        _Span(job.started_at, job.finished_at, job.id, job.id in readers)
        for job in mine
        if job.started_at is not None
    ]
    watched = [
        _Span(run.started, run.ended, run.job.id, run.job.id in readers)
        for run in runs
        if lock in run.job.lanes
    ]
    if not recorded and not watched:
        others = sorted(
            {job.lock for job in jobs if job.lock is not None and job.started_at is not None}
        )[:5]
        return (
            f'No job with lock "{lock}" has run, so this proves nothing. '
            f"Jobs have run with these locks: {others or 'none'}"
        )
    pairs = _overlapping(recorded) + _overlapping(watched)
    if not pairs:
        return None
    by_id = {job.id: str(job) for job in mine}
    return "\n".join(
        [
            f'Jobs of the lane "{lock}" ran at the same time:',
            *(
                f"  {by_id.get(b.job_id, b.job_id)} started at {b.started},\n"
                f"      before {by_id.get(a.job_id, a.job_id)} ended ({a.ended or 'not yet'})"
                for a, b in pairs
            ),
        ]
    )


def _overlapping(spans: list[_Span]) -> list[tuple[_Span, _Span]]:
    found: list[tuple[_Span, _Span]] = []
    under_way: list[_Span] = []
    for span in sorted(spans, key=lambda s: (s.started, s.ended is None, s.ended or 0)):
        under_way = [each for each in under_way if each.ended is None or span.started < each.ended]
        found += [(each, span) for each in under_way if not (each.reads and span.reads)]
        under_way.append(span)
    return found


def _of(lock: str, jobs: Sequence[Seen]) -> list[Seen]:
    return [job for job in jobs if lock in job.lanes]


def _is(step: Step, job: Seen) -> bool:
    if isinstance(step, int):
        return job.id == step
    if isinstance(step, Mapping):
        return not wanted(None, step).differences(job)
    return job.task == task_name(step)


def _format_step(step: Step | None) -> str:
    if step is None:
        return "nothing"
    if isinstance(step, int):
        return f"job {step}"
    return f"({format_args(dict(step))})" if isinstance(step, Mapping) else task_name(step)
