"""Where hand-overs begin to look for the next job of a lane, and how often they look elsewhere.

While a snapshot is open, the index entries of all jobs that have run since lie in front of those
that wait. A search from the front would walk over them after every job.
"""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable

from inturn.model import Ended, Job
from inturn.operations.engine.finish import FinalIds, Floor, final_ids
from inturn.worker.connection import WorkerConnection

HOT = 32  # hand-overs before a lane gets a floor: until then, little lies in front
EVERY = 16  # hand-overs in such lanes after which to ask again which ids are final
PATIENCE = 0.5  # seconds that open transactions may keep ids from becoming final
MOST_LANES = 1000
# Slow looks at other ready jobs get a twentieth of the time, but are at most LONGEST seconds apart.
COST_SHARE = 19
LONGEST = 1.0
SLOW = 1.5  # times as long as a hand-over without one
TRIAL_EVERY = 100  # calls in which one measures a hand-over without a look


class Floors:
    """The floors of the lanes that the worker hands over, by priority.

    A job that was handed over was the first of its lane. Of its priority, no job with a lower id
    can come behind it if that id was final by then, except one that comes back, and those are found
    without a floor (line_from.sql).
    """

    def __init__(self, connection: WorkerConnection) -> None:
        self._connection = connection
        self._answer = FinalIds()
        self._noted_at = 0.0
        self._begin()

    def _begin(self) -> None:
        self.final = 0  # all ids up to this one are final
        self._count = 0  # hand-overs in hot lanes since we asked
        self._handed_over: Counter[str] = Counter()
        self._floors: defaultdict[str, dict[int, int]] = defaultdict(dict)

    @property
    def horizon(self) -> str | None:
        """Return what tells the server that the floors are from this session."""
        return self._answer.horizon

    async def refresh(self) -> None:
        """Ask which ids are final, if that is due."""
        if self._count < EVERY:
            return
        self._count = 0
        asked_at = time.monotonic()
        patient = asked_at - self._noted_at > PATIENCE
        answer = await self._connection.run(final_ids(self._answer, patient=patient))
        if answer.horizon == self._answer.horizon:  # not known yet
            return
        if answer.final is None:  # a new session, perhaps of another server
            self._begin()
        else:
            self.final = answer.final
        self._answer, self._noted_at = answer, asked_at

    def of(self, ended: Iterable[Ended]) -> list[Floor]:
        """Return the floors of the lanes of these jobs."""
        if not self._floors:
            return []
        return [
            Floor(lock, priority, id)
            for lock in {outcome.job.lock for outcome in ended}
            if lock is not None and lock in self._floors
            for priority, id in self._floors[lock].items()
        ]

    def note_handed_over(self, jobs: Iterable[Job], final: int) -> None:
        """Note that these jobs were the first of their lanes.

        `final` is what was known before the call that found them.
        """
        for job in jobs:
            if job.lock is None:
                continue
            self._handed_over[job.lock] += 1
            if self._handed_over[job.lock] < HOT:
                continue
            self._count += 1
            if final:
                floors = self._floors[job.lock]
                id = min(job.id, final + 1)
                floors[job.priority] = max(id, floors.get(job.priority, 0))
        if len(self._handed_over) > MOST_LANES:
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
