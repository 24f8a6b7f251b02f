"""Where to begin to look for the next job of a lane, and how often hand-overs look elsewhere.

While a snapshot is open, the index entries of all jobs that have run since lie in front of those
that wait. A search from the front would walk over them after every job.
"""

import math
import time
from collections import Counter
from collections.abc import Iterable
from itertools import islice

from inturn.model import Ended, Job
from inturn.operations.engine.claim import Floor
from inturn.operations.engine.finish import final_ids
from inturn.worker.connection import WorkerConnection

HOT = 32  # jobs that a lane must have run before it gets a floor: until then, little is in front
EVERY = 32  # jobs of such lanes after which to ask again which ids are final
PATIENCE = 0.25  # seconds that open transactions may keep ids from becoming final
MOST_LANES = 1000
MOST_AT_ONCE = 100  # that a claim is given
# Slow looks at other ready jobs get a twentieth of the time, but are at most LONGEST seconds apart.
COST_SHARE = 19
LONGEST = 1.0
SLOW = 1.1  # times as long as a hand-over without one
TRIAL_EVERY = 100  # calls in which one measures a hand-over without a look


class Floors:
    """The floors of the lanes that the worker runs, by priority, as seen over one connection.

    If a search has found a job first in its lane, no job of its priority with a lower id can come
    later if that id was final before, except one that comes back, and those are found without a
    floor (line_from.sql). A job that its lane waited for was not searched for.
    """

    def __init__(self, connection: WorkerConnection) -> None:
        self._connection = connection
        self.horizon: str | None = None  # tells the server that the floors are from its session
        self._noted: int | None = None
        self._noted_at = 0.0
        self._begin()

    def _begin(self) -> None:
        self.final = 0  # all ids up to this one are final
        self.are_due = False  # it is time to ask again
        self.by_lock: dict[str, dict[int, int]] = {}  # the latest is the last
        self._count = 0  # jobs of hot lanes since we asked
        self._found: Counter[str] = Counter()

    async def refresh(self) -> None:
        """Ask which ids are final."""
        self.are_due, self._count = False, 0
        asked_at = time.monotonic()
        patient = asked_at - self._noted_at > PATIENCE
        final, noted, horizon = await self._connection.run(
            final_ids(self._noted, self.horizon, patient=patient)
        )
        if horizon == self.horizon:  # not known yet
            return
        if final is None:  # a new session, perhaps of another server
            self._begin()
        else:
            self.final = final
        self._noted, self.horizon, self._noted_at = noted, horizon, asked_at

    def of(self, ended: Iterable[Ended]) -> list[Floor]:
        """Return the floors of the lanes of these jobs."""
        return [
            Floor(lock, priority, id)
            for lock in {outcome.job.lock for outcome in ended}
            if lock is not None and lock in self.by_lock
            for priority, id in self.by_lock[lock].items()
        ]

    def latest(self) -> list[Floor]:
        """Return the floors of the lanes that had them raised last."""
        return [
            Floor(lock, priority, id)
            for lock in islice(reversed(self.by_lock), MOST_AT_ONCE)
            for priority, id in self.by_lock[lock].items()
        ]

    def note_first(self, jobs: Iterable[Job], final: int) -> None:
        """Note that a search has found these jobs first in their lanes.

        `final` is what was known before it.
        """
        for job in jobs:
            if job.lock is None or job.locks is not None:
                continue
            self._found[job.lock] += 1
            if self._found[job.lock] < HOT:
                continue
            self._count += 1
            self.are_due = self._count >= EVERY
            if final:
                floors = self.by_lock.pop(job.lock, {})
                id = min(job.id, final + 1)
                floors[job.priority] = max(id, floors.get(job.priority, 0))
                self.by_lock[job.lock] = floors
        if len(self._found) > MOST_LANES:
            self._begin()


class Looks:
    """Decides which hand-overs of hot lanes look for better jobs elsewhere.

    Such a look walks over what an open snapshot keeps in front of all ready jobs. If it makes
    hand-overs slow, some of them go without.
    """

    def __init__(self) -> None:
        self._due_at = 0.0
        self._calls = 0  # since one without a look was measured
        self._seconds = 0.0  # that the last one took
        self._plain_seconds = math.inf

    def should_look(self) -> bool:
        """Return False if the next hand-over of hot lanes should not look."""
        self._calls += 1
        return time.monotonic() >= self._due_at and self._calls < TRIAL_EVERY

    def note(self, seconds: float, *, looked: bool) -> None:
        """Note how long a hand-over of hot lanes took."""
        if not looked:
            self._calls = 0
            self._plain_seconds = min(seconds, 1.1 * self._plain_seconds)
            return
        least = min(seconds, self._seconds)
        self._seconds = seconds
        if least > SLOW * self._plain_seconds:
            pause = min(COST_SHARE * (least - self._plain_seconds), LONGEST)
            self._due_at = time.monotonic() + pause
