"""What holds up a lane, and what a person can do about it."""

import click

from inturn.cli.commands import lane_changes
from inturn.cli.database import Database, with_database
from inturn.cli.formatting import last_line, relative
from inturn.cli.lane_argument import known, lock_argument, nothing
from inturn.cli.output import Output, details, more, output_options

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
    """Lanes: the jobs that share a lock."""


@command.command("list", epilog="Example: queue lanes list --limit 10")
@click.option(
    "--limit",
    type=click.IntRange(1, COUNTED),
    default=50,
    show_default=True,
    help="How many at most.",
)
@output_options
@with_database
def list_lanes(database: Database, limit: int, form: str) -> None:
    """List lanes that are held, retrying, delayed or stopped.

    Stopped ones first, then those that have been so for longest.
    """
    from inturn.operations import lanes

    found = database.run(lanes.list_lanes(limit))
    now = database.now()
    columns = {
        "LOCK": lambda lane: lane.lock,
        "STATE": lambda lane: lane.state,
        "SINCE": lambda lane: relative(lane.stopped_at or lane.since, now),
        "WAITING": lambda lane: "1,000+" if lane.waiting >= 1000 else f"{lane.waiting}",
        "JOB": lambda lane: "" if lane.job_id is None else f"{lane.job_id} {lane.task}",
        "WORKER": lambda lane: lane.worker or "",
        "WHY": lambda lane: lane.stop_reason or last_line(lane.last_error),
    }
    Output(form).records(found, columns, "No lane is held, retrying, delayed or stopped.")
    if len(found) == limit:
        more(database.run(lanes.count_lanes(COUNTED)) - limit, COUNTED - limit)


@command.command(epilog="Example: queue lanes show order:4711")
@lock_argument
@output_options
@with_database
def show(database: Database, lock: str, form: str) -> None:
    """Show a lane, and what was done to it last."""
    from inturn.cli import lane_picture
    from inturn.operations import lanes

    report = database.run(lanes.report_lane(lock))
    entries = database.run(lanes.list_audit(lock, 10))
    if not report.is_known and not entries:
        raise nothing(lock)
    now = database.now()
    past = [lane_picture.entry(each, now) for each in entries]
    shown = {"lane": report, "audit": entries}
    Output(form).record(
        shown,
        *details(lane_picture.facts(report, now)),
        *(["", "done to it:", *past] if past else []),
    )


@command.command(epilog="Example: queue lanes explain order:4711")
@lock_argument
@output_options
@with_database
def explain(database: Database, lock: str, form: str) -> None:
    """Say what a lane waits for, and what would unblock it."""
    from inturn.cli import lane_picture
    from inturn.operations import jobs

    report = known(database, lock)
    reasons = database.run(jobs.explain(report.head.id)) if report.head else []
    now = database.now()
    Output(form).record(
        {"lane": report, "reasons": reasons}, *lane_picture.picture(report, reasons, now)
    )


command.add_command(lane_changes.pause)
command.add_command(lane_changes.resume)
command.add_command(lane_changes.skip_head)
command.add_command(lane_changes.retry_head)
command.add_command(lane_changes.cancel_waiting)
