"""What a person does to a lane. The server notes each in `lane_audit`."""

from datetime import UTC, datetime, timedelta

import click

from inturn.cli.confirm import ask, yes_option
from inturn.cli.database import Database, with_database
from inturn.cli.exit_status import Conflict
from inturn.cli.formatting import amount, argument, on_clock, visible
from inturn.cli.lane_argument import known, lock_argument
from inturn.cli.output import Output, output_options
from inturn.cli.values import duration, moment

LONGEST_PAUSE = timedelta(days=365 * 1000)


@click.command(epilog='Example: queue lanes pause order:4711 --for 10m --reason "bank is down"')
@lock_argument
@click.option("--reason", help="Why, for whoever finds it paused.")
@click.option(
    "--until",
    callback=moment,
    metavar="TIME",
    help="Goes on by itself then, e.g. 2030-01-31T12:00:00Z.",
)
@click.option(
    "--for",
    "length",
    callback=duration,
    metavar="TIME",
    help="Goes on by itself after so long, e.g. 10m.",
)
@output_options
@with_database
def pause(
    database: Database,
    lock: str,
    reason: str | None,
    until: datetime | None,
    length: timedelta | None,
    form: str,
) -> None:
    """Let no job of a lane start.

    Until the time given, or until it is resumed. A job that runs may end.
    """
    from inturn.operations import lanes

    _check_end(until, length)
    done = database.run(lanes.pause_lane(lock, reason, until, None, length))
    report, now = database.run(lanes.report_lane(lock)), database.now()
    if not done:
        raise Conflict(
            f"The lane {visible(lock)} is {report.stopped} already, by {report.stopped_by}. "
            f"Let it go on first: queue lanes resume {argument(lock)}"
        )
    end = (
        "until somebody resumes it"
        if report.stopped_until is None
        else f"until {on_clock(report.stopped_until, now)}"
    )
    running = "; the job that runs may end" if report.state == "held" else ""
    Output(form).record({"lane": report}, f"paused {visible(lock)} {end}{running}")


@click.command(epilog="Example: queue lanes resume order:4711")
@lock_argument
@output_options
@with_database
def resume(database: Database, lock: str, form: str) -> None:
    """Let a paused or halted lane go on."""
    from inturn.operations import lanes

    known(database, lock)
    if not database.run(lanes.resume_lane(lock, None)):
        raise Conflict(
            f"The lane {visible(lock)} is not stopped. What it waits for: queue lanes explain {argument(lock)}"
        )
    Output(form).record({"lane": database.run(lanes.report_lane(lock))}, f"resumed {visible(lock)}")


@click.command("skip-head", epilog="Example: queue lanes skip-head order:4711")
@lock_argument
@yes_option
@output_options
@with_database
def skip_head(database: Database, lock: str, yes: bool, form: str) -> None:
    """Give up the job that a lane waits for.

    The job that goes next is cancelled. In a halted lane the job that failed is left behind, and the lane goes on.
    """
    from inturn.operations import lanes

    report = known(database, lock)
    job = report.failed if report.state == "halted" else report.head
    if job is None:
        raise Conflict(
            f"There is no job to skip in the lane {visible(lock)}. What keeps it: queue lanes explain {argument(lock)}"
        )
    if report.state != "held":  # else the server says why not
        doing = "Leave behind the failed" if report.failed else "Cancel"
        behind = amount(report.waiting if report.failed else report.behind, "job")
        ask(
            f"{doing} job {job.id} ({visible(job.task)}) of the lane {visible(lock)}, with {behind} behind it?",
            yes=yes,
            command=f"queue lanes skip-head --yes {argument(lock)}",
        )
    with database.transaction():
        skipped = database.run(lanes.skip_head(lock, None))
        if skipped != job.id:
            raise Conflict(
                f"Meanwhile another job goes next in the lane {visible(lock)}; nothing was changed. Look again, or cancel "
                f"the one you meant: queue jobs cancel {job.id}"
            )
    Output(form).record(
        {"lock": lock, "job_id": str(skipped)}, f"skipped job {skipped} of {visible(lock)}"
    )


@click.command("retry-head", epilog="Example: queue lanes retry-head order:4711")
@lock_argument
@output_options
@with_database
def retry_head(database: Database, lock: str, form: str) -> None:
    """Try the job that a lane waits for at once.

    A retrying lane does not wait until it is due; a halted one tries the job that failed again, and goes on.
    """
    from inturn.operations import lanes

    known(database, lock)
    job_id = database.run(lanes.retry_head(lock, None))
    if job_id is None:
        raise Conflict(
            f"The lane {visible(lock)} waits for no retry. What it waits for: queue lanes explain {argument(lock)}"
        )
    Output(form).record(
        {"lock": lock, "job_id": str(job_id)}, f"job {job_id} of {visible(lock)} is due now"
    )


@click.command("cancel-waiting", epilog="Example: queue lanes cancel-waiting order:4711 --yes")
@lock_argument
@yes_option
@output_options
@with_database
def cancel_waiting(database: Database, lock: str, yes: bool, form: str) -> None:
    """Cancel all jobs that wait in a lane.

    One that runs goes on, and those that are not due yet stay.
    """
    from inturn.operations import lanes

    report = known(database, lock)
    if not report.waiting:
        raise Conflict(f"Nothing waits in the lane {visible(lock)}.")
    many = amount(report.waiting, "job") + (" or more" if report.is_cut else "")
    ask(
        f"Cancel {many} that wait in the lane {visible(lock)}?",
        yes=yes,
        command=f"queue lanes cancel-waiting --yes {argument(lock)}",
    )
    count = database.run(lanes.cancel_waiting(lock, None))
    Output(form).record(
        {"lock": lock, "cancelled": count}, f"cancelled {amount(count, 'job')} of {visible(lock)}"
    )


def _check_end(until: datetime | None, length: timedelta | None) -> None:
    if until is not None and length is not None:
        raise click.UsageError("--until and --for exclude each other. Give one of them.")
    if length is not None and not timedelta(0) < length <= LONGEST_PAUSE:
        raise click.UsageError(
            "--for must be longer than nothing and no longer than a thousand years."
        )
    if until is not None and (until <= datetime.now(UTC) or until.year > 9998):
        raise click.UsageError("--until must be a time to come, before the year 9999.")
