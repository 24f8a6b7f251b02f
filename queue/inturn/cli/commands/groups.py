"""`queue groups`: set how many jobs of a group start per turn."""

import click

from inturn.cli.arguments.lane import by_option
from inturn.cli.database import Database, with_database
from inturn.cli.output.exit_status import Conflict
from inturn.cli.output.printing import Output, output_options, remark
from inturn.formatting import at_least, visible
from inturn.operations.changes import groups

LISTED = 100
COUNTED = 1_000


@click.group(
    "groups",
    epilog="""\b
Examples:
  queue groups list
  queue groups set tenant:7 --weight 3
  queue groups set 'paying:*' --weight 2   each of them by itself
  queue groups remove tenant:7""",
)
def command() -> None:
    """List groups, and set how many jobs of a group start per turn."""


@command.command("set", epilog="Example: queue groups set tenant:7 --weight 3")
@click.argument("pattern")
@click.option("--weight", type=int, required=True, metavar="N", help="Jobs per turn, 1 to 1,000.")
@by_option
@with_database
def set_group(database: Database, pattern: str, weight: int, by: str) -> None:
    """Set the weight of a group, or of all groups with a prefix (PREFIX*).

    Replaces an earlier weight of the same PATTERN.
    """
    database.run(groups.set_group(pattern, weight, by))
    remark(f"Set the weight of {visible(pattern)}.")


@command.command("remove", epilog="Example: queue groups remove tenant:7")
@click.argument("pattern")
@by_option
@with_database
def remove_group(database: Database, pattern: str, by: str) -> None:
    """Remove a weight, but keep the group's jobs."""
    if not database.run(groups.remove_group(pattern, by)):
        raise Conflict(f"{visible(pattern)} has no weight: queue groups list")
    remark(f"Removed the weight of {visible(pattern)}.")


@command.command("list", epilog="Example: queue groups list --json")
@output_options
@with_database
def list_groups(database: Database, form: str) -> None:
    """List weights, and groups with jobs to run.

    WAITING counts jobs that could start now, up to 1,000.
    """

    def count(number: int | None) -> str:
        return "" if number is None else at_least(number, number >= COUNTED)

    columns = {
        "GROUP": lambda group: group.name,
        "WEIGHT": lambda group: str(group.weight),
        "WAITING": lambda group: count(group.waiting),
        "RUNNING": lambda group: count(group.running),
    }
    found = database.run(groups.list_groups(LISTED))
    Output(form).records(found, columns, "No group has a weight or a job to run.")
