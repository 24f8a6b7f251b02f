"""The scopes of one lane, its promises by name, and for each mutant how little refutes it."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tests.race.search import STUCK, Step

NOBODY = -1

# The ways to break the promises.
OVERLAP = "two jobs of the lane are done at once"
OVERTAKEN = "a job started before the end of one that had begun"
DISORDER = "a job started before one that was committed before its INSERT"
WORSE_FIRST = "a job started before a better one that already waited"
STALE_FINISH = "a stale worker's finish was accepted"
STALE_RETRY = "a stale worker's retry was accepted"

MUTANTS = {
    "head from the candidate scan": "claim starts the best job it saw before it won the lane",
    "block without the lane lock": "a loser blocks what it saw while the holder is deciding",
    "finish looks before it locks": "finish reads the next job, then waits for the lane row",
    "unfenced finish": "finish deletes by id, whatever the claim",
    "unfenced retry": "retry and rescue take a job back by id, whatever the claim",
    "rescue leaves no token": "a rescued job goes back as blocked",
    "finish in two transactions": "the ended job is deleted and committed before the lane moves on",
    "reservation ignored by claim": "a claim takes over the reserved lane and starts its head",
    "a loser blocks the reserved job": "blocking spares no job",
    "release without making a token": "the lane row goes, the best job stays blocked",
    "retry gives the lane up": "a retry deletes the lane row instead of reserving it",
    "the youngest job is the head": "jobs of one priority are not ordered by id",
    "a lost lane counts as won": "a claim goes on without the lane row",
    "a reservation is won before its job is due": "a claim takes over a lane for a job that it saw before its first attempt",
    "a lane goes without a token": "the lane row goes although its blocked head is locked and cannot be made a token",
    "a delayed lane is never looked at again": "a lane that was kept for its locked head is left to itself",
    "a locked job is overtaken": "a claim starts the best job that nobody has locked",
    "the row is looked for before its name is locked": "a claim inserts a row beside one that has come and was raised since",
    "a job sleeps behind a free row": "a loser blocks what it saw although nobody holds the lane",
}


class Faults(NamedTuple):
    """How many may happen."""

    crashes: int = 0
    expiries: int = 0  # a worker that lives is taken for dead
    failures: int = 0  # a job ends with a retry
    replaces: int = 0  # a user locks a job that waits, and holds on to it


class Scope(NamedTuple):
    """The jobs to explore, their priorities, the job that worker 1 does not serve, and the mutant."""

    priorities: tuple[int, ...] = (0, 0, 1)
    unserved: int = NOBODY
    faults: Faults = Faults()
    mutant: str = ""

    def breaks(self, mutant: str) -> bool:
        assert mutant in MUTANTS
        return self.mutant == mutant

    def serves(self, who: int, job: int) -> bool:
        return job != NOBODY and (who != 1 or job != self.unserved)

    def rank(self, job: int) -> tuple[int, int]:
        return -self.priorities[job], job

    def best(self, jobs: Iterable[int]) -> int:
        """Return who is first in line: the highest priority, then the lowest id."""
        age = -1 if self.breaks("the youngest job is the head") else 1
        return min(jobs, key=lambda job: (-self.priorities[job], age * job), default=NOBODY)


def fault(kind: str, steps: Iterable[Step[Any]]) -> Iterator[Step[Any]]:
    """What may happen a few times, and is not relied on."""
    for what, state, _ in steps:
        if left := getattr(state.faults, kind):
            faults = state.faults._replace(**{kind: left - 1})
            yield Step(what, state._replace(faults=faults), helps=False)


def named(*jobs: int) -> str:
    return "+".join("ABCDEF"[job] for job in jobs if job != NOBODY) or "nobody"


THREE_JOBS = (0, 0, 1)  # the last one has a higher priority
TWO_JOBS = (0, 1)
EQUALS = (0, 0)

SCOPES = {
    "with a crash and a retry": Scope(THREE_JOBS, faults=Faults(crashes=1, failures=1)),
    "with a worker that is taken for dead and lives": Scope(THREE_JOBS, faults=Faults(expiries=1)),
    "with one fault of each kind": Scope(
        TWO_JOBS, faults=Faults(crashes=1, expiries=1, failures=1)
    ),
    "with a job that only one worker serves, and a crash": Scope(
        THREE_JOBS, unserved=1, faults=Faults(crashes=1)
    ),
    "with a user who replaces jobs": Scope(TWO_JOBS, faults=Faults(replaces=2)),
    "with a user who replaces a job, and a retry": Scope(
        TWO_JOBS, faults=Faults(replaces=1, failures=1)
    ),
    "with a user who replaces a job that only one worker serves, and a crash": Scope(
        TWO_JOBS, unserved=0, faults=Faults(replaces=1, crashes=1)
    ),
    "with a job that only one worker serves, and a retry": Scope(
        THREE_JOBS, unserved=1, faults=Faults(failures=1)
    ),
}
REFUTATIONS: dict[str, tuple[str, Scope]] = {
    "head from the candidate scan": (WORSE_FIRST, Scope(EQUALS)),
    "block without the lane lock": (STUCK, Scope(TWO_JOBS)),
    "finish looks before it locks": (STUCK, Scope(TWO_JOBS)),
    "unfenced finish": (STALE_FINISH, Scope(TWO_JOBS, faults=Faults(expiries=1))),
    "unfenced retry": (STALE_RETRY, Scope(TWO_JOBS, faults=Faults(expiries=1, failures=1))),
    "rescue leaves no token": (STUCK, Scope(TWO_JOBS, faults=Faults(crashes=1))),
    "finish in two transactions": (STUCK, Scope(TWO_JOBS, faults=Faults(crashes=1))),
    "reservation ignored by claim": (OVERTAKEN, Scope(TWO_JOBS, faults=Faults(crashes=1))),
    "a loser blocks the reserved job": (STUCK, Scope(TWO_JOBS, faults=Faults(crashes=1))),
    "release without making a token": (STUCK, Scope(TWO_JOBS)),
    "retry gives the lane up": (OVERTAKEN, Scope(TWO_JOBS, faults=Faults(failures=1))),
    "the youngest job is the head": (DISORDER, Scope(EQUALS)),
    "a lost lane counts as won": (OVERLAP, Scope(TWO_JOBS)),
    "a reservation is won before its job is due": (
        OVERTAKEN,
        Scope(TWO_JOBS, faults=Faults(failures=1)),
    ),
    "a lane goes without a token": (STUCK, Scope(TWO_JOBS, faults=Faults(replaces=1))),
    "a delayed lane is never looked at again": (STUCK, Scope(TWO_JOBS, faults=Faults(replaces=1))),
    "a locked job is overtaken": (DISORDER, Scope(EQUALS, faults=Faults(replaces=1))),
    "the row is looked for before its name is locked": (
        OVERTAKEN,
        Scope(TWO_JOBS, faults=Faults(failures=1)),
    ),
    "a job sleeps behind a free row": (STUCK, Scope(TWO_JOBS)),
}

RARE = (
    "archive_jobs A is refused",
    "retry A is refused",
    "acquire_lanes loses",
    "acquire_lanes takes over",
    "acquire_lanes takes a free row",
    "acquire_lanes does not get the name",
    "release_lanes keeps the row",
    "reconcile",
    "lane_heads is nobody",
    "block_behind B",
    "handover_candidates B",
    "release_lanes token B",
    "promotes A",
    "resume_lanes",
    "rescuer: CRASH",
    "client: CRASH A+B",
)
