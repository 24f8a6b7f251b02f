"""Batches: jobs that are counted together, and the callback that runs when all have ended."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import LiteralString

from inturn.arguments import check_lock
from inturn.errors import BadArgument
from inturn.model import BatchProgress
from inturn.operations import Operation, Statement, ask, find, read
from inturn.tasks.lanes import JobLanes
from inturn.tasks.options import CheckedOptions, NewJob, check_batch
from inturn.whole_numbers import HIGHEST_ID

OPEN = """
SELECT {schema}.open_batch(
    %s, %s, %s::text::jsonb, %s, %s, %s, %s::text, %s::text, %s::interval, %s, %s, %s)
"""
CLOSE = "SELECT {schema}.close_batch(%s, %s)"
CANCEL = "SELECT cancelled, asked, last FROM {schema}.cancel_batch(%s, %s, %s, %s, %s)"
_STATUS: LiteralString = (
    "SELECT id, name, state, total, remaining, succeeded, failed, cancelled, aborted, opened_at, "
    "closed_at, ended_at, callback_id FROM {schema}.batch_status "
)
SHOW: LiteralString = _STATUS + "WHERE id = %s"
LIST: LiteralString = _STATUS + "WHERE id < %s ORDER BY id DESC LIMIT %s"
FORGOTTEN = "SELECT id, name, opened_at FROM {schema}.forgotten_batches"
PRUNE = "SELECT {schema}.prune_batches(%s, %s, %s)"

FOR_CALLBACKS = ("queue", "lock", "priority", "on_retry", "on_failure", "timeout", "limit")
CANCELLED_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class ForgottenBatch:
    """A row of the view forgotten_batches."""

    id: int
    name: str
    opened_at: datetime


def open_batch(name: str, callback: NewJob | None) -> Operation[int]:
    checked = check_lock(name or None, "name")
    if checked is None:
        raise BadArgument("name", "is missing. Give the batch a name")
    options = CheckedOptions() if callback is None else callback.options
    for option, default in CheckedOptions()._asdict().items():
        if option not in FOR_CALLBACKS and getattr(options, option) != default:
            raise BadArgument("callback", f"cannot have the option {option}. Leave it out")
    lanes = options.lock if isinstance(options.lock, JobLanes) else None
    task, args = (None, "{}") if callback is None else (callback.task_name, callback.args)
    return ask(
        int,
        OPEN,
        checked,
        task,
        args,
        None if lanes else options.lock,
        options.queue,
        options.priority,
        options.on_retry,
        options.on_failure,
        options.timeout,
        options.limit,
        lanes and [*lanes.locks],
        lanes and [*lanes.shared],
    )


def close_batch(batch: int, by: str | None) -> Operation[bool]:
    """Let a batch end once all its jobs have ended. Return False if it does not exist."""
    return ask(bool, CLOSE, check_batch(batch), by)


def cancel_batch(batch: int, abort: bool, by: str | None) -> Operation[tuple[int, int]]:
    """Cancel the jobs of a batch, a few in each statement.

    Return how many were cancelled, and how many running ones were asked to end.
    """
    cancelled, asked = 0, 0
    last: int | None = 0
    while last is not None:
        now_cancelled, now_asked, last = yield from cancel_some(batch, last, abort, by)
        cancelled, asked = cancelled + now_cancelled, asked + now_asked
    return cancelled, asked


def cancel_some(
    batch: int, after: int, abort: bool, by: str | None
) -> Operation[tuple[int, int, int | None]]:
    """Cancel the next jobs of a batch: one step of `cancel_batch`.

    Return how many were cancelled, how many were asked to end, and where to continue, or None.
    """
    asked_for = [check_batch(batch), after, CANCELLED_AT_ONCE, abort, by]
    ((cancelled, asked, last),) = yield Statement(CANCEL, asked_for)
    return int(cancelled), int(asked), last


def show_batch(batch: int) -> Operation[BatchProgress | None]:
    return find(BatchProgress, SHOW, check_batch(batch))


def list_batches(limit: int, before: int = HIGHEST_ID) -> Operation[list[BatchProgress]]:
    """Return the batches, newest first: only those with lower ids, if you give one."""
    return read(BatchProgress, LIST, before, limit)


def prune_batches(keep: timedelta, limit: int, is_default: bool = False) -> Operation[int]:
    """Delete batches that ended longer ago. Return how many.

    With `is_default`, a longer time set on a live worker takes precedence.
    """
    return ask(int, PRUNE, keep, limit, is_default)
