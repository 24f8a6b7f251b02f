"""The lane argument of commands."""

from collections.abc import Sequence
from datetime import datetime

import click

from inturn.arguments import check_lock
from inturn.cli.arguments.completion import complete_lock
from inturn.cli.database import Database
from inturn.cli.output.exit_status import NotFound
from inturn.cli.suggestions import did_you_mean
from inturn.doctor.lane_picture import format_entry
from inturn.formatting import option_value, visible
from inturn.operations.changes import lanes
from inturn.operations.changes.lanes import AuditEntry, LaneReport

MOST = 100  # lanes to search for one with a similar name


def _check(_context: click.Context, _parameter: click.Parameter, lock: str | None) -> str | None:
    return check_lock(lock)


lock_argument = click.argument("lock", callback=_check, shell_complete=complete_lock)
optional_lock_argument = click.argument(
    "lock", required=False, callback=_check, shell_complete=complete_lock
)
by_option = click.option(
    "--by",
    envvar="USER",
    metavar="NAME",
    help="Your name, for the audit.  [default: $USER]",
)


def get_report(database: Database, lock: str) -> LaneReport:
    """Return the state of the lane. Raise NotFound if it has no jobs and is not stopped."""
    from inturn.operations.reading.dashboard import find_lanes

    report = database.run(lanes.report_lane(lock))
    if not report.is_known:
        # For example with a trailing space, or with a combining accent.
        like = [each.lock for each in database.run(find_lanes(lock[: len(lock) // 2], MOST))]
        raise lane_not_found(lock, did_you_mean(lock, like))
    return report


def list_changes(entries: Sequence[AuditEntry], now: datetime) -> list[str]:
    """Return the lines about people's changes of a lane or a job, if there are any."""
    return ["", "changes:", *(format_entry(each, now) for each in entries)] if entries else []


def lane_not_found(lock: str, hint: str = "") -> NotFound:
    return NotFound(
        f"The lane {visible(lock)} is not stopped and has no running or ready job."
        f"{hint} To see all of its jobs: queue jobs list --lock {option_value(lock)}"
    )
