"""The scopes of one lane, and for each mutant how little refutes it, by which promise."""

from tests.race.lane_model import (
    DISORDER,
    OVERLAP,
    OVERTAKEN,
    STALE_FINISH,
    STALE_RETRY,
    WORSE_FIRST,
    Faults,
    Scope,
)
from tests.race.search import STUCK

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
}

RARE = (
    "finish.sql DELETE A is refused",
    "retry.sql UPDATE A is refused",
    "acquire_lanes.sql loses",
    "acquire_lanes.sql takes over",
    "lane_heads is nobody",
    "block_behind.sql B",
    "handover_candidates.sql hands over B",
    "release_lanes.sql token B",
    "promote.sql A",
    "rescuer: CRASH",
    "ROLLBACK A+B",
)
