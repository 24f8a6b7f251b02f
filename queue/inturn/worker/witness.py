"""Decides which workers have fallen silent, based only on what this process has seen.

A worker is silent if its heartbeat did not change through an unbroken series of looks, for as long
as our patience lasts, while our own heartbeat continued. No worker is judged by what happened while
the database was away, frozen or locked, however long or often: whatever breaks the series restarts
all observations. Only the monotonic clock of this process counts, so setting a clock, here or on
the server, makes no worker look dead.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

HEARTBEATS = 3  # that a worker may miss; last_heartbeats has it too


class Observation(NamedTuple):
    """A heartbeat, and when we first saw it by our own clock."""

    heartbeat_at: datetime
    since: float


class Witness:
    """Observes the heartbeats of all workers.

    `patience`: how long a worker may be silent. It may always miss three of its own heartbeats,
    since its interval may be longer than ours. `gap`: how far apart two looks of one series may be.
    Both are in seconds.
    """

    def __init__(self, patience: float, gap: float) -> None:
        self._patience = patience
        self._gap = gap
        self._seen: dict[UUID, Observation] = {}
        self._looked_at = float("-inf")

    def look(
        self,
        heard: Mapping[UUID, datetime],
        mine: UUID,
        now: float,
        every: Mapping[UUID, float] = {},
    ) -> dict[UUID, datetime]:
        """Record the last heartbeat of each worker, and return those of the silent ones.

        `every` has the seconds between heartbeats, for the workers that announce them.
        """
        if now - self._looked_at > self._gap:
            self.forget()
        self._looked_at = now
        self._seen = {worker: self._observe(worker, at, now) for worker, at in heard.items()}
        if mine not in heard or now - self._seen[mine].since > self._gap:
            # Our own heartbeat does not get through, so those of others may not either.
            self._seen = {worker: Observation(at, now) for worker, at in heard.items()}
        return {
            worker: seen.heartbeat_at
            for worker, seen in self._seen.items()
            if worker != mine
            and now - seen.since >= max(self._patience, HEARTBEATS * every.get(worker, 0.0))
        }

    def forget(self, worker: UUID | None = None) -> None:
        """Restart the observation of one worker, or of all."""
        if worker is None:
            self._seen.clear()
        else:
            self._seen.pop(worker, None)

    def _observe(self, worker: UUID, at: datetime, now: float) -> Observation:
        seen = self._seen.get(worker)
        return seen if seen is not None and seen.heartbeat_at == at else Observation(at, now)
