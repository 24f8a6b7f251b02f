"""Lanes: every lane that is stuck or in use, and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from inturn.doctor.troubled_lane import StuckLane, describe_lanes
from inturn.operations.reading.history import measure_paces
from inturn.operations.reading.situation import Situation
from inturn.web.lanes.filter import SORTS, STATES, LaneSearch
from inturn.web.lanes.runs import MOVING
from inturn.web.lanes.search import find_candidates
from inturn.web.page import View
from inturn.web.reading import PageReader

LISTED = 50
SEARCHED = 200  # lanes, if the filter or the sort order needs more than the first ones


@dataclass(frozen=True, slots=True)
class LaneRow:
    """A lane, its jobs per minute, and the time it needs for its waiting jobs."""

    lane: StuckLane
    per_minute: float | None
    left: timedelta | None


@dataclass(frozen=True, slots=True)
class Found:
    """The lanes shown, how many match, and how many were searched if there may be more."""

    rows: Sequence[LaneRow] = ()
    fitting: int = 0
    searched: int | None = None


def read(view: View) -> dict[str, Any]:
    asked = LaneSearch.read(view)
    seen = view.header.value
    found = view.panel_of(partial(_read_lanes, asked))
    return {
        "found": found,
        "asked": asked,
        "states": STATES,
        "sorts": tuple(SORTS),
        "counts": seen.lanes if seen and not (asked.prefix or asked.looks_closer) else {},
        "foot": _say_what_is_missing(found.value, asked) if found.value else None,
    }


def _read_lanes(asked: LaneSearch, reader: PageReader, seen: Situation) -> Found:
    if asked.problems:
        return Found()
    looks_further = asked.prefix or asked.looks_closer or asked.sort != "worst"
    limit = SEARCHED if looks_further else LISTED
    candidates = find_candidates(reader, seen, asked, limit + 1)
    fitting = [
        each
        for each in candidates.lanes[:limit]
        if asked.fits(each, candidates.jobs.get(each.lock), seen.now)
    ]
    shown = sorted(fitting, key=SORTS[asked.sort])[:LISTED]
    lanes = describe_lanes(reader.run, shown, seen.now, candidates.rows)
    paces = reader.run(measure_paces([each.lock for each in lanes])) if lanes else {}
    return Found(
        [_make_row(each, paces.get(each.lock)) for each in lanes],
        len(fitting),
        limit if len(candidates.lanes) > limit else None,
    )


def _make_row(lane: StuckLane, pace: float | None) -> LaneRow:
    if lane.state not in MOVING:
        pace = None  # a stuck lane has none
    left = timedelta(minutes=lane.waiting / pace) if pace and lane.waiting else None
    return LaneRow(lane, pace, left)


def _say_what_is_missing(found: Found, asked: LaneSearch) -> str | None:
    """Return which matching lanes may be missing."""
    said = []
    if found.fitting > len(found.rows):
        said.append(f"{len(found.rows)} of {found.fitting} matching lanes are shown.")
    if found.searched is not None:
        which = "first {:,} lanes with this prefix" if asked.prefix else "{:,} worst lanes"
        verb = "shown" if found.searched == len(found.rows) else "searched"
        advice = "type more of their locks" if asked.prefix else "enter the start of their locks"
        said.append(f"Only the {which.format(found.searched)} are {verb}. For others, {advice}.")
    elif not asked.prefix and (asked.looks_closer or asked.state == "free"):
        said.append("Free lanes are only found by the start of their locks.")
    return " ".join(said) or None
