"""Where to begin to look for the next job of a lane.

While a snapshot is open, the index entries of all jobs that have run since lie in front of those
that wait. A search from the front would walk over them after every job.
"""

import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from inturn.model import Ended, Job
from inturn.operations.engine import claim
from inturn.operations.engine.finish import final_ids
from inturn.worker.connection import WorkerConnection

HOT = 32  # jobs that a lane must have run before it gets a floor: until then, little is in front
# Calls that found jobs of such lanes, after which to ask again which ids are final: sooner while
# looks read much, or while nothing is final.
EVERY, SOON = 256, 32
PATIENCE = 0.25  # seconds that open transactions may keep ids from becoming final
MOST_LANES = 1000
MOST_AT_ONCE = 100  # that a claim is given
MOST_PRIORITIES = 8  # of a lane
# Jobs in a row that came back, each with a higher id than the one before, after which the floor
# falls to them. Until then, each search reads all that came back at once. Then one of them walks
# over all that has run since.
MANY_BACK = 64


class Floor(NamedTuple):
    """No job of the priority with a lower id waited when all ids up to `final` were final."""

    id: int
    final: int
    last: int  # the job that was found last
    rising: int  # how many jobs in a row had a higher id than the one before


NO_FLOOR = Floor(0, 0, 0, 0)


@dataclass(slots=True)
class LaneFloors:
    """How many jobs the lane has run, and the floors of its latest priorities."""

    found: int = 0
    floors: dict[int, Floor] = field(default_factory=dict)  # by priority, the latest is the last

    def note_first(self, job: Job, final: int) -> None:
        reached = min(job.id, final + 1)
        id, known, last, rising = self.floors.pop(job.priority, NO_FLOOR)
        rising = rising + 1 if job.id > last else 0
        # A floor does not fall to a job that came back, or each search would walk over what has run
        # since. But if many came back at once, it goes with them, or each would look at them all.
        if reached >= id or rising >= MANY_BACK:
            id, known = reached, final
        self.floors[job.priority] = Floor(id, known, job.id, rising)
        if len(self.floors) > MOST_PRIORITIES:
            del self.floors[next(iter(self.floors))]

    def as_list(self) -> list[claim.Floor]:
        """Return the floors as line_from.sql reads them."""
        ranked = sorted(self.floors.items(), reverse=True)
        return [(priority, floor.id, floor.final) for priority, floor in ranked]


class Floors:
    """The floors of the lanes that the worker runs, as seen over one connection.

    If a search has found a job first in its lane, no job of its priority with a lower id can come
    later if that id was final before, except one that comes back, and those are found by a number
    (line_from.sql). A job that its lane waited for was not searched for.
    """

    def __init__(self, connection: WorkerConnection) -> None:
        self._connection = connection
        self.horizon: str | None = None  # tells the server that the floors are from its session
        self._noted: int | None = None
        self._noted_at = 0.0
        self._every = SOON
        self._begin()

    def _begin(self) -> None:
        self.final = 0  # all ids up to this one are final
        self.are_due = False  # it is time to ask again
        self._lanes: OrderedDict[str, LaneFloors] = OrderedDict()  # the latest is the last
        self._count = 0  # calls with jobs of hot lanes since we asked

    async def refresh(self) -> None:
        """Ask which ids are final."""
        self.are_due, self._count = False, 0
        asked_at = time.monotonic()
        patient = asked_at - self._noted_at > PATIENCE
        final, noted, horizon, reads_much = await self._connection.run(
            final_ids(self._noted, self.horizon, patient=patient)
        )
        self._every = SOON if final is None or reads_much else EVERY
        if horizon == self.horizon:  # not known yet
            return
        if final is None:  # a new session, perhaps of another server
            self._begin()
        else:
            self.final = final
        self._noted, self.horizon, self._noted_at = noted, horizon, asked_at

    def of(self, ended: Iterable[Ended]) -> dict[str, list[claim.Floor]]:
        """Return the floors of the lanes of these jobs."""
        return self._among(outcome.job.lock for outcome in ended)

    def latest(self) -> dict[str, list[claim.Floor]]:
        """Return the floors of the lanes that ran last."""
        return self._among(islice(reversed(self._lanes), MOST_AT_ONCE))

    def _among(self, locks: Iterable[str | None]) -> dict[str, list[claim.Floor]]:
        return {
            lock: lane.as_list()
            for lock in locks
            if lock is not None and (lane := self._lanes.get(lock)) and lane.floors
        }

    def note_first(self, jobs: Iterable[Job], final: int) -> None:
        """Note that a search has found these jobs first in their lanes.

        `final` is what was known before it.
        """
        is_hot = False
        for job in jobs:
            if job.lock is None or job.locks is not None:
                continue
            lane = self._lanes.get(job.lock)
            if lane is None:
                lane = self._lanes[job.lock] = LaneFloors()
            else:
                self._lanes.move_to_end(job.lock)
            lane.found += 1
            if lane.found >= HOT:
                is_hot = True
                if final:
                    lane.note_first(job, final)
        while len(self._lanes) > MOST_LANES:
            self._lanes.popitem(last=False)
        self._count += is_hot
        self.are_due = self._count >= self._every
