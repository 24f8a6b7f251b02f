"""`queue lanes`: see what holds up a lane, and change it.

The server records each change in `lane_audit`.
"""

from datetime import datetime, timedelta
from typing import Any

import click

from inturn.cli.arguments.confirm import confirm, yes_option
from inturn.cli.arguments.job import spell_reason
from inturn.cli.arguments.lane import (
    by_option,
    get_report,
    lane_not_found,
    list_changes,
    lock_argument,
    optional_lock_argument,
)
from inturn.cli.arguments.pause import check_end, describe_end, pause_options
from inturn.cli.bulk.lanes import (
    change_matching,
    change_options,
    is_bulk,
    lane_filter_options,
    state_option,
)
from inturn.cli.database import Database, with_database
from inturn.cli.output.exit_status import Conflict
from inturn.cli.output.next_command import complete
from inturn.cli.output.printing import (
    Output,
    details,
    limit_option,
    more,
    output_options,
    remark,
)
from inturn.doctor import lane_picture
from inturn.doctor.lane_reason import get_reason
from inturn.formatting import amount, argument, at_least, relative, visible
from inturn.model import Lane
from inturn.operations.changes import jobs, lanes

COUNTED = 10_000


@click.group(
    "lanes",
    epilog="""\b
Examples:
  queue lanes list
  queue lanes explain order:4711
  queue lanes pause order:4711 --for 10m --reason "bank is down"
  queue lanes show -- -x              a lock that begins with a dash""",
)
def command() -> None:
    """See what holds up a lane, and change it.

    A lane is all jobs that share a lock.
    """


@command.command("list", epilog="Example: queue lanes list --state halted --limit 10")
@state_option
@limit_option("The maximum number of lanes to list.", most=COUNTED, default=50)
@output_options
@with_database
def list_lanes(database: Database, states: tuple[str, ...], limit: int, form: str) -> None:
    """List lanes that are in use, stopped or idle.

    A lane is halted, paused, held, retrying, delayed, or idle: not held, and its next job waits for
    another lane. Halted lanes come first, then paused ones, and held ones last, each sorted by the
    time in that state. For a halted lane, JOB is the failed job. `queue top` also shows which
    lanes no worker can run.
    """
    found = database.run(lanes.list_lanes(limit, states))
    found.sort(key=lambda lane: lane.state == "held")
    now = database.now()
    columns = {
        "LOCK": lambda lane: lane.lock,
        "STATE": lambda lane: lane.state,
        "SINCE": lambda lane: relative(lane.stopped_at or lane.since, now),
        "WAITING": lambda lane: at_least(lane.waiting, lane.more),
        "JOB": _job,
        "WORKER": lambda lane: lane.worker or "",
        "WHY": lambda lane: get_reason(lane, now),
    }
    nothing = (
        f"No lane is {' or '.join(states)}."
        if states
        else complete("No lane is in use, stopped or idle. Jobs may wait: queue jobs list")
    )
    Output(form).records(found, columns, nothing, spare=("WORKER", "SINCE"))
    if len(found) == limit:
        count = database.run(lanes.count_lanes(COUNTED, states))
        more(count - limit, or_more=count >= COUNTED)


def _job(lane: Lane) -> str:
    if lane.failed_job_id is not None:
        return f"{lane.failed_job_id} {lane.failed_task or '(deleted)'}"
    return "" if lane.job_id is None else f"{lane.job_id} {lane.task}"


@command.command(epilog="Example: queue lanes show order:4711")
@lock_argument
@output_options
@with_database
def show(database: Database, lock: str, form: str) -> None:
    """Show a lane and its latest changes."""
    report = database.run(lanes.report_lane(lock))
    entries = database.run(lanes.list_audit(lock, 10))
    if not report.is_known and not entries:
        raise lane_not_found(lock)
    now = database.now()
    lines = [*details(lane_picture.get_facts(report, now)), *list_changes(entries, now)]
    Output(form).record({"lane": report, "audit": entries}, *lines)


@command.command(epilog="Example: queue lanes explain order:4711")
@lock_argument
@output_options
@with_database
def explain(database: Database, lock: str, form: str) -> None:
    """Explain what a lane waits for, and what would unblock it."""
    database.refuse_to_wait()
    report = get_report(database, lock)
    asked = [job.id for job in (report.failed, report.head) if job is not None]
    found = [reason for job in asked for reason in database.run(jobs.explain(job))]
    if report.head_runs and report.next:
        # When the running job ends, the next one starts unless its queue is paused.
        behind = database.run(jobs.explain(report.next[0].id))
        found += [each for each in behind if each.reason == lane_picture.PAUSED]
    now = database.now()
    reasons = [spell_reason(each, now if form == "table" else None) for each in found]
    lines = lane_picture.draw(report, reasons, now, complete)
    Output(form).record({"lane": report, "reasons": reasons}, *lines)


@command.command(
    epilog="""\b
Examples:
  queue lanes pause order:4711 --for 10m --reason "bank is down"
  queue lanes pause --lock-prefix order: --reason "bank is down" --dry-run""",
)
@optional_lock_argument
@lane_filter_options
@pause_options
@by_option
@yes_option
@output_options
@with_database
def pause(
    database: Database,
    lock: str | None,
    by: str | None,
    reason: str | None,
    until: datetime | None,
    length: timedelta | None,
    yes: bool,
    form: str,
    **asked: Any,
) -> None:
    """Stop jobs of a lane from starting.

    A running job may finish. A second pause replaces the first, but keeps its reason unless you
    give another. Instead of a LOCK, you can give filters.
    """
    check_end(until, length)
    if is_bulk(lock, asked):
        until = database.now() + length if length else until
        change_matching(database, "pause", asked, form, by=by, yes=yes, reason=reason, until=until)
        return
    assert lock is not None
    before = database.run(lanes.report_lane(lock))
    done = database.run(lanes.pause_lane(lock, reason, until, by, length))
    report, now = database.run(lanes.report_lane(lock)), database.now()
    if not done:
        raise Conflict(
            f"The lane {visible(lock)} is halted by a failed job, so nothing starts in it anyway. "
            f"To see the failure: queue lanes explain {argument(lock)}"
        )
    earlier = describe_end(before.stopped_until, now)
    instead = f", instead of {earlier}" if before.stopped == "paused" else ""
    running = " (the running job may finish)" if report.state == "held" else ""
    end = describe_end(report.stopped_until, now)
    Output(form).record({"lane": report}, f"paused {visible(lock)} {end}{instead}{running}")
    if report.head is None:
        remark("This lane has no waiting job. Check the lock if you expected one.")


@command.command(
    epilog="""\b
Examples:
  queue lanes resume order:4711
  queue lanes resume --state halted --all --dry-run""",
)
@change_options
def resume(
    database: Database, lock: str | None, by: str | None, yes: bool, form: str, **asked: Any
) -> None:
    """Resume a paused or halted lane.

    Instead of a LOCK, you can give filters, or --all for every stopped lane.
    """
    if is_bulk(lock, asked):
        change_matching(database, "resume", asked, form, by=by, yes=yes)
        return
    assert lock is not None
    get_report(database, lock)
    if not database.run(lanes.resume_lane(lock, by)):
        raise _conflict(lock, f"The lane {visible(lock)} is neither paused nor halted.")
    Output(form).record({"lane": database.run(lanes.report_lane(lock))}, f"resumed {visible(lock)}")


@command.command(
    "skip-head",
    epilog="""\b
Examples:
  queue lanes skip-head order:4711
  queue lanes skip-head --state halted --lock-prefix order: --dry-run""",
)
@change_options
def skip_head(
    database: Database, lock: str | None, by: str | None, yes: bool, form: str, **asked: Any
) -> None:
    """Skip the job that a lane waits for.

    Cancels the next job of the lane. In a halted lane, the failed job stays failed, and the lane
    continues without it. Instead of a LOCK, you can give filters, which select halted lanes unless
    you give --state.
    """
    if is_bulk(lock, asked):
        change_matching(database, "skip-head", asked, form, by=by, yes=yes)
        return
    assert lock is not None
    report = get_report(database, lock)
    job = report.failed if report.state == "halted" else report.head
    if job is None:
        raise _conflict(lock, f"There is no job to skip in the lane {visible(lock)}.")
    if report.state != "held":  # the server refuses to skip a running job, and returns the reason
        verb = "Continue without the failed" if report.failed else "Cancel"
        behind = amount(report.waiting if report.failed else report.behind, "job")
        confirm(
            f"{verb} job {job.id} ({visible(job.task)}) of the lane {visible(lock)}, "
            f"with {behind} behind it?",
            yes=yes,
            command=f"queue lanes skip-head --yes {argument(lock)}",
        )
    with database.transaction():
        skipped = database.run(lanes.skip_head(lock, by))
        if skipped != job.id:
            raise Conflict(
                f"Nothing was changed, because the lane {visible(lock)} now has another next job. "
                f"Check it again, or cancel the job you meant: queue jobs cancel {job.id}"
            )
    Output(form).record(
        {"lock": lock, "job_id": str(skipped)}, f"skipped job {skipped} of {visible(lock)}"
    )


@command.command(
    "retry-head",
    epilog="""\b
Examples:
  queue lanes retry-head order:4711
  queue lanes retry-head --state halted --all --dry-run""",
)
@change_options
def retry_head(
    database: Database, lock: str | None, by: str | None, yes: bool, form: str, **asked: Any
) -> None:
    """Retry the job that a lane waits for, now.

    A retrying lane does not wait until its job is due. A halted lane retries the failed job and
    continues. Instead of a LOCK, you can give filters, which select halted lanes unless you give
    --state.
    """
    if is_bulk(lock, asked):
        change_matching(database, "retry-head", asked, form, by=by, yes=yes)
        return
    assert lock is not None
    get_report(database, lock)
    job_id = database.run(lanes.retry_head(lock, by))
    if job_id is None:
        raise _conflict(lock, f"The lane {visible(lock)} does not wait for a retry.")
    Output(form).record(
        {"lock": lock, "job_id": str(job_id)}, f"job {job_id} of {visible(lock)} is due now"
    )


def _conflict(lock: str, why: str) -> Conflict:
    return Conflict(f"{why} To see what it waits for: queue lanes explain {argument(lock)}")


@command.command("cancel-waiting", epilog="Example: queue lanes cancel-waiting order:4711 --yes")
@lock_argument
@by_option
@yes_option
@output_options
@with_database
def cancel_waiting(database: Database, lock: str, by: str | None, yes: bool, form: str) -> None:
    """Cancel all waiting jobs of a lane.

    A running job continues, and scheduled jobs that are not due yet stay.
    """
    report = get_report(database, lock)
    if not report.waiting:
        raise Conflict(f"The lane {visible(lock)} has no waiting jobs.")
    many = amount(report.waiting, "job", or_more=report.is_cut)
    confirm(
        f"Cancel {many} waiting in the lane {visible(lock)}?",
        yes=yes,
        command=f"queue lanes cancel-waiting --yes {argument(lock)}",
    )
    count = database.run(lanes.cancel_waiting(lock, by))
    Output(form).record(
        {"lock": lock, "cancelled": count}, f"cancelled {amount(count, 'job')} of {visible(lock)}"
    )
