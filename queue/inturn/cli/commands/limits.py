"""`queue limits`: limit how many jobs of a key run at once, and how often they start."""

import click

from inturn.cli.arguments.lane import by_option
from inturn.cli.database import Database, with_database
from inturn.cli.output.exit_status import Conflict
from inturn.cli.output.next_command import complete
from inturn.cli.output.printing import Output, output_options, remark
from inturn.formatting import visible
from inturn.operations.changes import limits

LISTED = 1000


@click.group(
    "limits",
    epilog="""\b
Examples:
  queue limits set stripe --concurrency 5
  queue limits set stripe --rate 100/min --burst 20
  queue limits set stripe --no-rate               keeps the concurrency
  queue limits set 'customer:*' --concurrency 1   each customer by itself
  queue limits list""",
)
def command() -> None:
    """Limit how many jobs of a key run at once, and how often they start."""


@command.command("set", epilog="Example: queue limits set stripe --concurrency 5 --rate 100/min")
@click.argument("pattern")
@click.option("--concurrency", type=int, metavar="N", help="How many jobs may run at once.")
@click.option("--rate", metavar="N/TIME", help="How many may start per s, min, h or day.")
@click.option("--burst", type=int, metavar="N", help="How many may start at once.  [default: 1]")
@click.option("--no-concurrency", is_flag=True, help="Let any number run at once.")
@click.option("--no-rate", is_flag=True, help="Let any number start, and remove the burst.")
@click.option(
    "--per-cell",
    is_flag=True,
    help="Over cells, set it in each, so that 8 cells allow 8 times as much.",
)
@by_option
@with_database
def set_limit(
    database: Database,
    pattern: str,
    concurrency: int | None,
    rate: str | None,
    burst: int | None,
    no_concurrency: bool,
    no_rate: bool,
    per_cell: bool,
    by: str,
) -> None:
    """Set the limit of a key, or of all keys with a prefix (PREFIX*).

    Options you omit keep their current value. Running jobs are not stopped. If the queue has cells,
    name one (--cell 3), or give --per-cell.
    """
    without = [name for name, gone in (("concurrency", no_concurrency), ("rate", no_rate)) if gone]
    if (concurrency, rate, burst) == (None, None, None) and not without:
        raise click.UsageError("Give --concurrency, --rate or --burst.")
    _check_opposites(no_concurrency, "concurrency", {"concurrency": concurrency})
    _check_opposites(no_rate, "rate", {"rate": rate, "burst": burst})
    *before, after = database.run(
        limits.change_limit(pattern, concurrency, rate, burst, without, by)
    )
    earlier = before[0] if before else "no limit"
    remark(f"Changed the limit {visible(pattern)}: {earlier} → {after}")
    found = [each for each in database.run(limits.list_limits(LISTED)) if each.pattern == pattern]
    if found and not found[0].running + found[0].limited:
        remark("No job of this key runs or waits for it. Check the key if you expected one.")


def _check_opposites(is_gone: bool, name: str, given: dict[str, object]) -> None:
    for other, value in given.items():
        if is_gone and value is not None:
            raise click.UsageError(f"Give --{other} or --no-{name}, not both.")


@command.command("remove", epilog="Example: queue limits remove stripe")
@click.argument("pattern")
@by_option
@with_database
def remove_limit(database: Database, pattern: str, by: str) -> None:
    """Remove a limit."""
    if not database.run(limits.remove_limit(pattern, by)):
        raise Conflict(f"There is no limit {visible(pattern)}: queue limits list")
    remark(f"Removed the limit {visible(pattern)}.")


@command.command("list", epilog="Example: queue limits list --json")
@output_options
@with_database
def list_limits(database: Database, form: str) -> None:
    """List limits, with the number of running and waiting jobs of their keys."""
    columns = {
        "PATTERN": lambda limit: limit.pattern,
        "CONCURRENCY": lambda limit: str(limit.concurrency or ""),
        "RATE": lambda limit: limit.rate or "",
        "BURST": lambda limit: str(limit.burst or ""),
        "RUNNING": lambda limit: str(limit.running),
        "LIMITED": lambda limit: str(limit.limited),
    }
    nothing = complete("There is no limit. Set one: queue limits set stripe --concurrency 5")
    Output(form).records(database.run(limits.list_limits(LISTED)), columns, nothing)
