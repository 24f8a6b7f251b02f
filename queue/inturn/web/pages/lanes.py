"""Lanes: every lane that does not move or is in use, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inturn.doctor.troubled_lane import StuckLane, describe_lanes, find_troubled
from inturn.operations import dashboard
from inturn.operations.dashboard import Situation
from inturn.operations.overview import TroubledLane, get_lanes
from inturn.web.page import Page, View
from inturn.web.reading import Panel, Reader

LISTED = 50
STATES = (
    "halted", "stalled", "delayed", "unserved", "unknown", "limited", "paused", "retrying",
    "waiting", "idle", "held",
)  # fmt: skip
SORTS = {
    "worst": lambda lane: STATES.index(lane.state),
    "oldest": lambda lane: lane.since,
    "waiting": lambda lane: -lane.waiting,
    "name": lambda lane: lane.lock,
}


@dataclass(frozen=True, slots=True)
class Choice:
    """What the address asks for."""

    state: str
    prefix: str
    sort: str


def read(view: View) -> dict[str, Any]:
    """Return the lanes that the address asks for."""
    choice = Choice(
        view.choose("state", ("", *STATES)), view.get("prefix"), view.choose("sort", tuple(SORTS))
    )
    seen = view.header.value
    found: Panel[list[StuckLane]] = (
        view.panel(lambda reader: _read_lanes(reader, seen, choice))
        if seen
        else Panel(None, view.header.problem)
    )
    shown = [each for each in found.value or [] if choice.state in ("", each.state)]
    return {
        "found": found,
        "lanes": sorted(shown, key=SORTS[choice.sort]),
        "choice": choice,
        "states": STATES,
        "sorts": tuple(SORTS),
        "counts": seen.lanes if seen else {},
        "cut": len(found.value or []) >= LISTED,
        "listed": LISTED,
    }


def _read_lanes(reader: Reader, seen: Situation, choice: Choice) -> list[StuckLane]:
    if choice.prefix:
        found = reader.run(dashboard.find_lanes(choice.prefix, LISTED))
        rows = reader.run(get_lanes([each.lock for each in found]))
        troubled = [
            TroubledLane(
                each.lock,
                row.state if (row := rows.get(each.lock)) else "waiting",
                row.stopped_at or row.since if row else each.since or seen.now,
                None if row else each.job_id,
                each.waiting,
            )
            for each in found
        ]
    else:
        troubled = find_troubled(reader.run, seen.workers, seen.queues, seen.unknown_tasks, LISTED)
    return describe_lanes(reader.run, troubled, seen.now)


PAGE = Page("/lanes", "lanes", "lanes.html", read, "Lanes")
