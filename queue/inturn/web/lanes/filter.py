"""The filter in the address of the lane list.

The page reports invalid values; they never widen the filter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from inturn.doctor.troubled_lane import BOUND
from inturn.operations.reading.dashboard import LaneJob
from inturn.operations.reading.overview import TroubledLane
from inturn.web.page import View
from inturn.web.terms import BadTerm, read_length, read_number, show

STATES = (
    "halted", "stalled", "delayed", "unserved", "unknown", "limited", "paused", "retrying",
    "free", "idle", "held",
)  # fmt: skip
SORTS: dict[str, Callable[[TroubledLane], Any]] = {
    "worst": lambda lane: STATES.index(lane.trouble),
    "oldest": lambda lane: lane.since,
    "waiting": lambda lane: -lane.waiting,
    "name": lambda lane: lane.lock,
}
WORDS = ("state", "prefix", "queue", "task", "waiting", "oldest")


@dataclass
class LaneSearch:
    """Which lanes, and in which order. `words` are the values as written."""

    words: dict[str, str]
    sort: str
    problems: dict[str, str] = field(default_factory=dict)  # by the name of the value
    least_waiting: int = 0
    least_age: timedelta = timedelta(0)

    @classmethod
    def read(cls, view: View) -> LaneSearch:
        words = {name: view.get(name) for name in WORDS}
        asked = cls(words, view.choose("sort", tuple(SORTS)))
        for name, text in words.items():
            try:
                if text:
                    asked._take(name, text.strip())
            except BadTerm as bad:
                asked.problems[name] = str(bad)
        return asked

    def _take(self, name: str, text: str) -> None:
        if name == "state" and text not in STATES:
            raise BadTerm(f"“{show(text)}” is not a state. Use one of: {', '.join(STATES)}")
        if name == "waiting":
            self.least_waiting = read_number(text, "100", BOUND)
        if name == "oldest":
            self.least_age = read_length(text, "5m")

    @property
    def state(self) -> str:
        """The state of the lanes. Empty: any."""
        return self.words["state"]

    @property
    def prefix(self) -> str:
        """The prefix of their locks."""
        return self.words["prefix"]

    @property
    def names_jobs(self) -> bool:
        """True if it filters by the job that a lane waits for or that holds it."""
        return bool(self.words["queue"] or self.words["task"])

    @property
    def looks_closer(self) -> bool:
        """True if it has more than a state and a prefix, which is all that bulk changes support."""
        return any(self.words[name] for name in ("queue", "task", "waiting", "oldest"))

    def asking(self, **other: str) -> dict[str, str]:
        """Return the values of this address with some of them changed."""
        return {**self.words, "sort": self.sort, **other}

    def fits(self, lane: TroubledLane, job: LaneJob | None, now: datetime) -> bool:
        """Return True if a lane matches. `job` is the one that it waits for or runs."""
        return (
            self.state in ("", lane.trouble)
            and lane.waiting >= self.least_waiting
            and now - lane.since >= self.least_age
            and (not self.names_jobs or (job is not None and self._fits_job(job)))
        )

    def _fits_job(self, job: LaneJob) -> bool:
        queue, task = self.words["queue"], self.words["task"]
        fits = job.task.startswith(task[:-1]) if task.endswith("*") else task in ("", job.task)
        return fits and queue in ("", job.queue)
