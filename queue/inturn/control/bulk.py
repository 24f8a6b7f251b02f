"""The parts of `app.job_manager` and `app.lanes` that change many jobs or lanes at once."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict, Unpack

from inturn.arguments import check_lock, check_moment, check_priority, check_queue
from inturn.control.job_lists import check_statuses
from inturn.control.twins import Control, blocking, in_loop
from inturn.errors import BadArgument, UnknownOption
from inturn.operations import Operation
from inturn.operations.changes import bulk
from inturn.operations.changes.bulk import (
    NO_MOVE,
    Bulk,
    JobAction,
    JobPreview,
    LaneAction,
    LanePreview,
    Move,
)
from inturn.operations.changes.jobs import JobFilter
from inturn.states import LANE_STATES


class WhichJobs(TypedDict, total=False):
    """Which jobs a bulk change covers. Jobs must match everything you give.

        app.job_manager.retry_jobs(task="mail.send", error="Timeout", lock_prefix="customer:")

    `status` is one status or several. `error` is a part of the last attempt's error. `before`
    selects jobs that ended before that time, or were deferred before it and have not ended. With
    `everything=True`, you need nothing else.
    """

    ids: Sequence[int]
    status: str | Sequence[str]
    queue: str
    task: str
    lock: str
    lock_prefix: str
    group: str
    batch: int
    error: str
    before: datetime
    everything: bool


class JobBulks(Control):
    """Changes many jobs: a hundred per transaction, so that workers do not have to wait.

        seen = app.job_manager.preview_jobs("retry", task="mail.send")
        print(seen.count, "jobs in", seen.lanes, "lanes")
        done = app.job_manager.retry_jobs(task="mail.send")
        assert done.changed == seen.count and not done.refused

    A bulk change covers jobs that ended, or were deferred, before it started, so it changes no job
    twice. `refused` counts the unchanged jobs by reason.

    With `by`, the name of a person, `lane_audit` records each transaction, with its number of
    changed jobs and the filter.
    """

    @blocking
    def preview_jobs(
        self,
        action: JobAction,
        *,
        priority: int | None = None,
        to_queue: str | None = None,
        **which: Unpack[WhichJobs],
    ) -> Operation[JobPreview]:
        """Return what `retry`, `cancel`, `delete` or `move` would cover. It changes nothing.

        `priority` and `to_queue` are those of `move_jobs`.
        """
        _check_known("action", action, bulk.STATUSES)
        move = _read_move(priority, to_queue) if action == "move" else NO_MOVE
        return bulk.preview_jobs(action, _filter_jobs(which), move)

    preview_jobs_async = in_loop(preview_jobs)

    @blocking
    def retry_jobs(self, *, by: str | None = None, **which: Unpack[WhichJobs]) -> Operation[Bulk]:
        """Run jobs again at their old places, those of a lane in order.

            app.job_manager.retry_jobs(task="mail.send", error="Timeout")

        The default status is failed. Scheduled jobs become due now. Lanes halted by one of the jobs
        continue.
        """
        return _change("retry", which, by)

    retry_jobs_async = in_loop(retry_jobs)

    @blocking
    def cancel_jobs(
        self, *, abort: bool = False, by: str | None = None, **which: Unpack[WhichJobs]
    ) -> Operation[Bulk]:
        """Cancel jobs that have not started, those of a lane last to first.

            app.job_manager.cancel_jobs(queue="mail", lock_prefix="customer:")

        With `abort`, also ask workers to abort running jobs.
        """
        return _change("cancel", which, by, abort)

    cancel_jobs_async = in_loop(cancel_jobs)

    @blocking
    def delete_jobs(self, *, by: str | None = None, **which: Unpack[WhichJobs]) -> Operation[Bulk]:
        """Delete jobs permanently: ended ones, unless you name a status.

        A lane halted by one of the jobs stays halted.
        """
        return _change("delete", which, by)

    delete_jobs_async = in_loop(delete_jobs)

    @blocking
    def move_jobs(
        self,
        *,
        priority: int | None = None,
        to_queue: str | None = None,
        by: str | None = None,
        **which: Unpack[WhichJobs],
    ) -> Operation[Bulk]:
        """Give waiting jobs another priority, another queue, or both.

            app.job_manager.move_jobs(task="ops.nap", priority=-10)
            app.job_manager.move_jobs(ids=[9001, 9002], to_queue="slow")

        Jobs that run, or whose lanes wait for their next attempt, stay as they are.
        """
        move = _read_move(priority, to_queue)
        return bulk.change_jobs("move", _filter_jobs(which), Bulk(), move=move, by=by)

    move_jobs_async = in_loop(move_jobs)


class WhichLanes(TypedDict, total=False):
    """Which lanes a bulk change covers: those in one of these states whose lock has this prefix.

        app.lanes.change_lanes("resume", states=["halted"], lock_prefix="customer:")

    `error` is a part of the error of the job that halted the lane, or that waits for its retry.
    """

    states: Sequence[str]
    lock_prefix: str
    error: str
    everything: bool


class LaneBulks(Control):
    """Changes many lanes, a hundred per transaction."""

    @blocking
    def preview_lanes(
        self, action: LaneAction, **which: Unpack[WhichLanes]
    ) -> Operation[LanePreview]:
        """Return what `resume`, `retry-head`, `skip-head` or `pause` would cover.

        It changes nothing.
        """
        _check_known("action", action, bulk.STATES)
        return bulk.preview_lanes(action, _filter_lanes(which))

    preview_lanes_async = in_loop(preview_lanes)

    @blocking
    def change_lanes(
        self,
        action: LaneAction,
        *,
        by: str | None = None,
        reason: str | None = None,
        until: datetime | None = None,
        **which: Unpack[WhichLanes],
    ) -> Operation[Bulk]:
        """Apply `resume`, `retry-head`, `skip-head` or `pause` to many lanes.

            app.lanes.change_lanes("retry-head", states=["halted"], lock_prefix="customer:")

        By default, `resume` covers stopped lanes, and `retry-head` and `skip-head` cover halted
        ones. `reason` and `until` are for a pause.
        """
        _check_known("action", action, bulk.STATES)
        check_moment("until", until)
        asked = _filter_lanes(which)
        return bulk.change_lanes(action, asked, Bulk(), by=by, reason=reason, until=until)

    change_lanes_async = in_loop(change_lanes)


def _change(
    action: JobAction, which: WhichJobs, by: str | None, abort: bool = False
) -> Operation[Bulk]:
    return bulk.change_jobs(action, _filter_jobs(which), Bulk(), abort=abort, by=by)


def _read_move(priority: int | None, to_queue: str | None) -> Move:
    if priority is None and to_queue is None:
        raise BadArgument("priority", "is missing. Give a priority, to_queue, or both")
    if priority is not None:
        check_priority(priority)
    if to_queue is not None:
        check_queue(to_queue)
    return Move(priority, to_queue)


def _filter_jobs(which: WhichJobs) -> JobFilter:
    _check_names(which, WhichJobs)
    given: dict[str, Any] = dict(which)
    everything = given.pop("everything", False)
    statuses = check_statuses(given.pop("status", None))
    check_moment("before", given.get("before"))
    check_lock(given.get("lock_prefix"), "lock_prefix")
    made = JobFilter(statuses, **given)
    if not everything and made == JobFilter():
        raise BadArgument("everything", "is missing. Give a filter, or everything=True")
    return made


def _filter_lanes(which: WhichLanes) -> bulk.LaneFilter:
    _check_names(which, WhichLanes)
    made = bulk.LaneFilter(
        tuple(which.get("states", ())), which.get("lock_prefix"), which.get("error")
    )
    if not (which.get("everything") or made.states or made.prefix or made.error):
        raise BadArgument("everything", "is missing. Give a filter, or everything=True")
    for state in made.states:
        _check_known("states", state, LANE_STATES)
    check_lock(made.prefix, "lock_prefix")
    return made


def _check_known(name: str, value: str, known: Collection[str]) -> None:
    if value not in known:
        raise BadArgument(name, f"{value!r} is not one of {', '.join(known)}")


def _check_names(which: Mapping[str, object], kind: type) -> None:
    """Raise UnknownOption for a filter that does not exist: without it, more would be changed."""
    for name in which:
        if name not in kind.__annotations__:
            raise UnknownOption(name, "a bulk change", kind.__annotations__)
