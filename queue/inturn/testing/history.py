"""Check the order in which a lane ran, and whether jobs overlapped that must not."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from inturn.arguments import check_whole
from inturn.testing.expectations import Named, task_name, wanted
from inturn.testing.jobs import Seen, format_args
from inturn.testing.overlaps import overlaps
from inturn.testing.recording import Run
from inturn.testing.spans import GRAIN, Span, certain, recorded, watched
from inturn.whole_numbers import HIGHEST_ID

Step = int | Named | Mapping[str, Any]


def check_order(lock: str, expected: Sequence[Step], jobs: Sequence[Seen]) -> str | None:
    """Return what is wrong with the order of the started jobs, or None.

    Each start of a job raises the fence, so fences give the order. A job's last attempt determines
    its place.
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

    Jobs that share the lane may overlap. This checks the attempts in the database and all runs in
    this process.
    """
    mine = {job.id: job for job in _of(lock, jobs)}
    readers = {job.id for job in mine.values() if lock in (job.shared or [])}
    seen, ran = recorded(mine.values()), watched(run for run in runs if lock in run.job.lanes)
    if not seen and not ran:
        others = {job.lock for job in jobs if job.lock is not None and job.started_at is not None}
        return _explain_nothing("lock", lock, others)
    pairs = [
        (before, span)
        for span, under_way in overlaps(certain(seen)) + overlaps(ran)
        for before in under_way
        if not {before.job_id, span.job_id} <= readers
    ]
    if not pairs:
        return None
    return "\n".join(
        [
            f'Jobs of the lane "{lock}" ran at the same time:',
            *(
                f"  {mine.get(b.job_id, b.job_id)} {_format_start(b)},\n"
                f"      before {mine.get(a.job_id, a.job_id)} ended ({a.ended or 'not yet'})"
                for a, b in pairs
            ),
        ]
    )


def check_limit(n: int, limit: str, jobs: Sequence[Seen], runs: Sequence[Run]) -> str | None:
    """Return which jobs of a key ran at the same time if there were more than n, or None.

    A pattern like `customer:*` applies to each of its keys separately.
    """
    check_whole("n", n, 1, HIGHEST_ID)
    mine = {job.id: job for job in jobs if job.limit is not None and _fits(job.limit, limit)}
    problems, has_run = [], False
    for key in sorted({str(job.limit) for job in mine.values()}):
        own = {id: job for id, job in mine.items() if job.limit == key}
        seen, ran = recorded(own.values()), watched(run for run in runs if run.job.id in own)
        has_run = has_run or bool(seen or ran)
        most = max(_most_at_once(certain(seen)), _most_at_once(ran), key=len)
        if len(most) > n:
            problems.append(
                f'With the limit "{key}", {len(most)} jobs ran at the same time, not at most {n}:'
            )
            problems += [f"  {own[span.job_id]}" for span in most]
    if not has_run:
        others = {job.limit for job in jobs if job.limit is not None and job.started_at is not None}
        return _explain_nothing("limit", limit, others)
    return "\n".join(problems) or None


def _most_at_once(spans: Sequence[Span]) -> list[Span]:
    """Return the spans at the first moment at which the most overlap."""
    return max(
        ([*under_way, span] for span, under_way in overlaps(spans)), key=len, default=[*spans[:1]]
    )


def _fits(key: str, pattern: str) -> bool:
    return key.startswith(pattern[:-1]) if pattern.endswith("*") else key == pattern


def _explain_nothing(kind: str, name: str, others: Iterable[str]) -> str:
    return (
        f'No job with {kind} "{name}" has run, so this proves nothing. '
        f"Jobs have run with these {kind}s: {sorted(others)[:5] or 'none'}"
    )


def _format_start(span: Span) -> str:
    """Return when it started, if that is readable."""
    return "started" if isinstance(span.started, int) else f"started at {span.started - GRAIN}"


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
