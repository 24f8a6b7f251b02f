"""Where the last claim left off.

After a batch of free jobs, claim_further.sql finds more of them without walking over the jobs in
front. A full claim comes in between often enough that nothing else waits for long.
"""

import time
from collections.abc import Mapping, Sequence

from inturn.model import Job

# Only a full claim sees lanes and higher priorities, so one follows after FRESH_SECONDS. Slow full
# claims get a sixth of the worker's time, but are at most LONGEST seconds apart.
FRESH_SECONDS = 0.05
COST_SHARE = 5
LONGEST = 5.0


class ClaimCursor:
    """The last job claimed of each queue and priority."""

    def __init__(self) -> None:
        self._marks: dict[tuple[str, int], int] = {}  # the last id of each queue and priority
        self._fresh_until = 0.0

    def marks(self) -> Mapping[tuple[str, int], int] | None:
        """Return where the next claim can continue, or None if it must be a full one."""
        return self._marks if self._marks and time.monotonic() < self._fresh_until else None

    def begin(self, jobs: Sequence[Job], room: int, seconds: float) -> None:
        """Start over after a full claim that returned these jobs and took `seconds`.

        Lanes compete with free jobs by age. Only a full claim sees that, so the cursor is used
        only after a full batch of nothing but free jobs.
        """
        self._marks = {}
        if len(jobs) == room and all(job.lock is None for job in jobs):
            self._note(jobs)
            self._fresh_until = time.monotonic() + max(
                FRESH_SECONDS, min(COST_SHARE * seconds, LONGEST)
            )

    def advance(self, jobs: Sequence[Job], room: int) -> None:
        """Move on after a claim that continued here and returned these jobs."""
        if len(jobs) < room:
            self._marks = {}
        else:
            self._note(jobs)

    def _note(self, jobs: Sequence[Job]) -> None:
        for job in jobs:  # sorted by priority and id: the last one has the highest id
            self._marks[job.queue, job.priority] = job.id
