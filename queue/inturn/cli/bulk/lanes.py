"""Bulk changes of lanes, and the options that select the lanes."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from inturn.cli.arguments.confirm import yes_option
from inturn.cli.arguments.lane import by_option, optional_lock_argument
from inturn.cli.bulk.change import PlannedBulk, bulk_options, is_bulk_of, run_bulk, words
from inturn.cli.database import Database, with_database
from inturn.cli.output.printing import output_options
from inturn.cli.settings import combine
from inturn.formatting import amount, iso, visible
from inturn.operations.changes import bulk
from inturn.operations.changes.bulk import LaneAction, LanePreview
from inturn.operations.changes.bulk_effect import VERBS, describe_lanes
from inturn.states import LANE_STATES

SAMPLE = 5  # lanes
RETRIED = ("halted", "retrying")  # states in which a lane waits for a job that can be retried

state_option = click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(LANE_STATES),
    help="Only lanes in this state. Can be repeated.",
)
# They select lanes if no LOCK is given.
lane_filter_options = combine(
    bulk_options,
    state_option,
    click.option(
        "--lock-prefix", metavar="PREFIX", help="Only lanes whose lock starts with PREFIX."
    ),
    click.option(
        "--error",
        metavar="WORDS",
        help="Only lanes whose failed job's last error contains this text.",
    ),
)
# A command that changes lanes gets the Database first.
change_options = combine(
    optional_lock_argument,
    lane_filter_options,
    by_option,
    yes_option,
    output_options,
    with_database,
)


def is_bulk(lock: str | None, asked: dict[str, Any]) -> bool:
    """Return True if the options select the lanes, False if a LOCK does."""
    filters = "--state, --lock-prefix, --error"
    return is_bulk_of("a LOCK", filters, asked, named=lock is not None)


def change_matching(
    database: Database,
    action: LaneAction,
    asked: dict[str, Any],
    form: str,
    *,
    by: str | None,
    yes: bool,
    reason: str | None = None,
    until: datetime | None = None,
) -> None:
    which = bulk.LaneFilter(_check(action, asked["states"]), asked["lock_prefix"], asked["error"])
    seen = database.run(bulk.preview_lanes(action, which))
    options = [
        *(("--state", state) for state in which.states),
        ("--lock-prefix", which.prefix),
        ("--error", which.error),
        ("--reason", reason),
        ("--until", until and iso(until)),
        ("--all", asked["everything"]),
        ("--yes", True),
    ]
    count = amount(seen.count, "lane", or_more=seen.more)
    behind = amount(seen.waiting, "waiting job", or_more=seen.more)
    error = f" whose job failed with {visible(which.error)!r}" if which.error else ""
    plan = PlannedBulk(
        action,
        "lane",
        seen,
        f"{VERBS[action]} {count}{error}{f' with {behind}' if seen.waiting else ''}?",
        [*([f"Only lanes{error}."] if error else []), *describe_lanes(action, seen)],
        _sample(seen),
        words(f"queue lanes {action}", options),
    )
    run_bulk(
        plan,
        lambda done, watch: database.run(
            bulk.change_lanes(action, which, done, by=by, reason=reason, until=until, watch=watch)
        ),
        form,
        dry_run=asked["dry_run"],
        yes=yes,
    )


def _check(action: LaneAction, states: Sequence[str]) -> Sequence[str]:
    """Return the states. Raise if the action is impossible there, or the preview would be wrong."""
    others = [state for state in states if state not in RETRIED]
    if action == "retry-head" and others:
        raise click.UsageError(
            f"A {others[0]} lane has no job to retry: name --state {' or '.join(RETRIED)}. "
            "To resume paused lanes: queue lanes resume --state paused"
        )
    return states


def _sample(seen: LanePreview) -> list[str]:
    shown = seen.sample[:SAMPLE]
    rest = seen.count - len(shown)
    names = ", ".join(map(visible, shown)) + (f" and {rest:,} more" if rest > 0 else "")
    return [f"  {names}"] if names else []
