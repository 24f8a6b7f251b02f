"""Where the last claim left off: a batch of free jobs is followed by more of them, which claim_further.sql finds without walking
over what is in front. A full claim comes in between often enough that nothing else waits for long.
"""

import time
from collections.abc import Mapping, Sequence

from inturn.model import Job

FRESH_SECONDS = 0.05  # what only a full claim sees waits no longer than this ...
COST_SHARE, LONGEST = (
    5,
    5.0,
)  # ... unless full claims are slow: then they take a sixth of the time, up to so many seconds


class ClaimCursor:
    def __init__(self) -> None:
        self._marks: dict[tuple[str, int], int] = {}  # the last id of each queue and priority
        self._fresh_until = 0.0

    def marks(self) -> Mapping[tuple[str, int], int] | None:
        """Where to go on; None: make a full claim."""
        return self._marks if self._marks and time.monotonic() < self._fresh_until else None

    def begin(self, jobs: Sequence[Job], room: int, seconds: float) -> None:
        """A full claim took so long and brought these. Lanes compete with free jobs by age, which only a full claim sees."""
        self._marks = {}
        if len(jobs) == room and all(job.lock is None for job in jobs):
            self._note(jobs)
            self._fresh_until = time.monotonic() + max(
                FRESH_SECONDS, min(COST_SHARE * seconds, LONGEST)
            )

    def went_on(self, jobs: Sequence[Job], room: int) -> None:
        if len(jobs) < room:
            self._marks = {}
        else:
            self._note(jobs)

    def _note(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self._marks[job.queue, job.priority] = (
                job.id
            )  # sorted by priority and id: the last one is the highest
