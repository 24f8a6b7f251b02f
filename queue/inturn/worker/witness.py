"""Which workers have fallen silent, judged by nothing but what this process has seen with its own eyes.

A worker is silent when its heartbeat stood still through an unbroken series of looks, for as long as our patience lasts, while
our own heartbeat went on. So nobody is judged by what happened while the database was away, frozen, or locked, however long
or often that was: whatever breaks the series starts all observations anew. Only the monotonic clock of this
process takes part, so a clock that is set, here or on the server, makes nobody look dead.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple
from uuid import UUID


class Observation(NamedTuple):
    heartbeat_at: datetime
    since: float  # when we first saw it, by our clock


class Witness:
    """`patience`: how long a worker may be silent. `gap`: how far two looks may lie apart and still be one series."""

    def __init__(self, patience: float, gap: float) -> None:
        self._patience = patience
        self._gap = gap
        self._seen: dict[UUID, Observation] = {}
        self._looked_at = float("-inf")

    def look(self, heard: Mapping[UUID, datetime], mine: UUID, now: float) -> dict[UUID, datetime]:
        """Take in everybody's last heartbeat; return those of the silent."""
        if now - self._looked_at > self._gap:
            self.forget()
        self._looked_at = now
        self._seen = {worker: self._observed(worker, at, now) for worker, at in heard.items()}
        if mine not in heard or now - self._seen[mine].since > self._gap:
            # Our own does not get through: then those of others may not either.
            self._seen = {worker: Observation(at, now) for worker, at in heard.items()}
        return {
            worker: seen.heartbeat_at
            for worker, seen in self._seen.items()
            if worker != mine and now - seen.since >= self._patience
        }

    def forget(self, worker: UUID | None = None) -> None:
        """Observe a worker, or all, from the beginning."""
        if worker is None:
            self._seen.clear()
        else:
            self._seen.pop(worker, None)

    def _observed(self, worker: UUID, at: datetime, now: float) -> Observation:
        seen = self._seen.get(worker)
        return seen if seen is not None and seen.heartbeat_at == at else Observation(at, now)
