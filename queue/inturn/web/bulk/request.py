"""The address of a bulk change: an action, and a filter or selected rows.

The preview page and the action that starts the change read the same address.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import cast, get_args

from inturn.doctor.reader import RunOperation
from inturn.operations.changes.bulk import STATES, JobAction, LaneAction, LaneFilter, for_action
from inturn.operations.changes.jobs import JobFilter
from inturn.operations.reading import failures, job_pages
from inturn.states import ENDED, LANE_STATES, WAITING
from inturn.web.jobs.filter import read_filter
from inturn.whole_numbers import read_id

MOST_CHOSEN = 1_000  # jobs; a page has far fewer
CONFIRMED_BY_CLICK = 100  # for more, you type the number
# The right that each action needs. Addresses and forms allow only these actions, and no move.
RIGHTS = {
    "job": {"retry": "retry", "cancel": "cancel", "delete": "delete"},
    "lane": {"resume": "pause", "retry-head": "retry", "skip-head": "cancel", "pause": "pause"},
}
PATHS = {"job": "/bulk", "lane": "/bulk/lanes"}  # of the previews
assert RIGHTS["job"].keys() | {"move"} == set(get_args(JobAction))
assert RIGHTS["lane"].keys() == set(get_args(LaneAction))


class BadBulk(ValueError):
    """The address does not describe a bulk change. The text gives the reason."""


@dataclass(frozen=True, slots=True)
class JobBulk:
    """A bulk change of jobs. Without `ids`, it covers all jobs that match the filter."""

    action: JobAction
    text: str
    ids: list[int] | None
    abort: bool
    before: datetime | None

    @classmethod
    def read(cls, action: str, query: Mapping[str, str], chosen: list[str]) -> JobBulk:
        """Return the bulk change that an address describes. `chosen` are the ticked boxes."""
        if action not in RIGHTS["job"]:
            raise BadBulk("Choose what to do with the jobs: retry, cancel or delete.")
        return cls(
            cast(JobAction, action),
            query.get("q", "").replace("\0", "").strip(),
            _read_ids(query, chosen),
            action == "cancel" and query.get("abort") == "1",
            _read_time(query.get("before", "")),
        )

    def address(self) -> dict[str, str]:
        return {
            "action": self.action,
            "q": self.text,
            "ids": "" if self.ids is None else ",".join(map(str, self.ids)),
            "abort": "1" if self.abort else "",
            "before": self.before.isoformat() if self.before else "",
        }

    def resolve(self, run: RunOperation, now: datetime) -> JobFilter:
        """Return the filter for the database, or raise BadBulk."""
        asked = read_filter(self.text, now)
        if asked.problems:
            raise BadBulk(" ".join(asked.problems))
        which = asked.which
        if self.ids is not None:
            # Selected jobs are all meant, so scheduled ones are retried too.
            usual = {"retry": ("scheduled", *ENDED), "delete": (*WAITING, *ENDED)}
            statuses = asked.statuses or usual.get(self.action, ())
            which = JobFilter(ids=self.ids, before=which.before, statuses=statuses)
        which = for_action(self.action, which, abort=self.abort)
        if self.before is not None:
            which = replace(which, before=self.before)
        if self.ids is not None:
            return which
        if asked.like is not None:
            which = replace(which, ids=run(failures.list_alike(asked.like)))
        if asked.task_prefix is not None:
            found = run(job_pages.find_ids(which, asked.task_prefix))
            among = found if which.ids is None else set(which.ids) & set(found)
            which = replace(which, ids=sorted(among))
        return which


@dataclass(frozen=True, slots=True)
class LaneBulk:
    """A bulk change of lanes in some state."""

    action: LaneAction
    state: str
    prefix: str

    @classmethod
    def read(cls, action: str, query: Mapping[str, str]) -> LaneBulk:
        state = query.get("state", "")
        if action not in RIGHTS["lane"]:
            raise BadBulk(f"Choose what to do with the lanes: {', '.join(RIGHTS['lane'])}.")
        if state and state not in LANE_STATES:
            raise BadBulk(f"Choose one of these states: {', '.join(LANE_STATES)}")
        prefix = query.get("prefix", "").replace("\0", "")
        return cls(cast(LaneAction, action), state, prefix)

    def address(self) -> dict[str, str]:
        return {"action": self.action, "state": self.state, "prefix": self.prefix}

    @property
    def which(self) -> LaneFilter:
        states = (self.state,) if self.state else STATES[self.action]
        return LaneFilter(states, self.prefix or None)


def check_number(count: int, form: Mapping[str, str], noun: str) -> None:
    """Raise BadBulk unless the person has seen this count and, if it is large, typed it."""
    shown = read_id(form.get("count", ""))
    if shown is None or count > shown:
        raise BadBulk(f"It now covers {count:,} {noun}s. Check the preview again.")
    typed = read_id(re.sub(r"[\s,.'+]", "", form.get("typed", "")))
    if shown > CONFIRMED_BY_CLICK and typed != shown:
        raise BadBulk(f"Type the number of {noun}s, {shown:,}, to confirm.")


def read_until(form: Mapping[str, str]) -> datetime:
    """Return the time of the preview, which the confirmation carries."""
    until = _read_time(form.get("until", ""))
    if until is None:
        raise BadBulk("The time of the preview is missing. Check the preview again.")
    return until


def _read_ids(query: Mapping[str, str], chosen: list[str]) -> list[int] | None:
    scope = query.get("which", "")
    if scope == "all":
        return None
    texts = chosen if scope == "rows" else query.get("ids", "").split(",")
    ids = [read_id(text) for text in texts if text]
    if None in ids or len(ids) > MOST_CHOSEN:
        raise BadBulk(f"Select at most {MOST_CHOSEN:,} jobs by id.")
    if not ids and scope:
        raise BadBulk("You have selected no jobs. Select some, or choose the whole page.")
    return sorted({id for id in ids if id is not None}) or None


def _read_time(text: str) -> datetime | None:
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text.replace(" ", "+"))
        if found.tzinfo is not None:
            return found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadBulk("The time in the address cannot be read.") from None
    raise BadBulk("The time in the address needs a time zone.")
