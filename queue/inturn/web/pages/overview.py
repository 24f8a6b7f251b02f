"""Overview: a verdict in words, then what to check."""

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from inturn.doctor.finding import Finding
from inturn.doctor.troubled_lane import StuckLane, describe_lanes
from inturn.doctor.work import RETRY_ALL
from inturn.operations.reading.measures import ALWAYS
from inturn.operations.reading.overview import list_troubled_lanes
from inturn.operations.reading.situation import Situation
from inturn.operations.reading.standstill import Standstill, find_standstill
from inturn.web.history import read_history
from inturn.web.page import View
from inturn.web.reading import PageReader, Panel
from inturn.web.verdict import describe, find_troubles

LOOKED, SHOWN = 50, 10  # lanes
MOVING = ("held",)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Totals of all queues. `more`: a queue has more than was counted."""

    runnable: int
    running: int
    blocked: int
    limited: int
    scheduled: int
    more: bool
    oldest: timedelta | None
    workers: dict[str, int]

    @property
    def lacks_worker(self) -> bool:
        """True if work waits and no worker serves it."""
        return not self.workers["live"] and bool(
            self.runnable or self.running or self.blocked or self.limited
        )


def read(view: View) -> dict[str, Any]:
    seen = view.header.value
    troubled = view.panel_of(_read_lanes)
    may_read = seen is not None and seen.may_read_errors
    still = view.read(find_standstill(view.reader.schema, with_errors=may_read))
    troubles = find_troubles(seen, still) if seen else []
    verdict = describe(seen, troubles) if seen else _unknown(view)
    failures = still.value.recent if still.value else []
    newest = sorted(failures, key=lambda each: each.last_at, reverse=True)
    return {
        "verdict": verdict,
        "is_new": bool(seen and seen.is_new),
        "retry_all": RETRY_ALL,
        "troubles": troubles[1:],
        "numbers": _sum_up(seen) if seen else None,
        **read_history(view),
        "troubled": troubled,
        "stalled": _choose_stalled(troubled.value or [], still.value),
        "deepest": sorted(troubled.value or [], key=lambda each: -each.waiting)[:SHOWN],
        "errors": Panel(newest[:SHOWN], still.problem),
    }


def _unknown(view: View) -> Finding:
    problem = view.header.problem
    assert problem is not None
    return Finding("verdict", "fail", problem.title, problem.detail)


def _sum_up(seen: Situation) -> Numbers:
    queues = seen.queues
    since = min((each.runnable_since for each in queues if each.runnable_since), default=None)
    states = dict.fromkeys(ALWAYS, 0) | Counter(worker.state for worker in seen.workers)
    return Numbers(
        runnable=sum(each.runnable for each in queues),
        running=sum(each.doing + each.claimed for each in queues),
        blocked=sum(each.blocked for each in queues),
        limited=sum(each.limited for each in queues),
        scheduled=sum(each.scheduled + each.pending for each in queues),
        more=any(each.more for each in queues),
        oldest=None if since is None else seen.now - since,
        workers=states,
    )


def _read_lanes(reader: PageReader, seen: Situation) -> list[StuckLane]:
    found = reader.run(list_troubled_lanes(LOOKED))
    return describe_lanes(reader.run, found, seen.now)


def _choose_stalled(lanes: list[StuckLane], still: Standstill | None) -> list[StuckLane]:
    """Return the stuck lanes, and those held by one job for long."""
    held = {each.lock for each in still.held} if still else set()
    return [each for each in lanes if each.state not in MOVING or each.lock in held][:SHOWN]
