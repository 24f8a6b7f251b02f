"""Bulk changes of lanes, and the options that select the lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from inturn.cli.bulk.change import PlannedBulk, bulk_options, run_bulk, words
from inturn.cli.database import Database
from inturn.cli.settings import combine
from inturn.formatting import amount, iso, visible
from inturn.states import LANE_STATES

if TYPE_CHECKING:
    from datetime import datetime

    from inturn.operations.changes.bulk import LaneAction, LanePreview

SAMPLE = 5  # lanes
RETRIED = ("halted", "retrying")  # states in which a lane waits for a job that can be retried


# They select lanes if no LOCK is given.
lane_filter_options = combine(
    bulk_options,
    click.option(
        "--state",
        "states",
        multiple=True,
        type=click.Choice(LANE_STATES),
        help="Only lanes in this state. Can be repeated.",
    ),
    click.option(
        "--lock-prefix", metavar="PREFIX", help="Only lanes whose lock starts with PREFIX."
    ),
    click.option(
        "--error",
        metavar="WORDS",
        help="Only lanes whose failed job's last error contains this text.",
    ),
)


def is_bulk(lock: str | None, asked: dict[str, Any]) -> bool:
    """Return True if the options select the lanes, False if a LOCK does."""
    given = any(value for name, value in asked.items() if name != "dry_run")
    if lock is not None and (given or asked["dry_run"]):
        raise click.UsageError("Give either a LOCK or filters.")
    if lock is None and not given:
        raise click.UsageError("Give a LOCK or filters: --state, --lock-prefix, --error or --all.")
    return lock is None


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
    """Change the matching lanes."""
    from inturn.operations.changes import bulk
    from inturn.operations.changes.bulk_effect import VERBS, describe_lanes

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
    more = " or more" if seen.more else ""
    waiting = f" with {amount(seen.waiting, 'waiting job')}{more}" if seen.waiting else ""
    count = f"{amount(seen.count, 'lane')}{more}"
    error = f" whose job failed with {visible(which.error)!r}" if which.error else ""
    plan = PlannedBulk(
        action,
        "lane",
        seen,
        f"{VERBS[action]} {count}{error}{waiting}?",
        [*([f"Only lanes{error}."] if error else []), *describe_lanes(action, seen)],
        _sample(seen),
        words(f"queue lanes {action}", options),
    )
    run_bulk(
        plan,
        lambda watch: database.run(
            bulk.change_lanes(
                action, which, bulk.Bulk(), by=by, reason=reason, until=until, watch=watch
            )
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
