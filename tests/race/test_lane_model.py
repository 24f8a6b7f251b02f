"""The design of a lane, explored completely: it holds, and nothing in it can be left out."""

from typing import NamedTuple

import pytest

from tests.race.lane_model import (
    DISORDER,
    MUTANTS,
    OVERLAP,
    OVERTAKEN,
    STALE_FINISH,
    STALE_RETRY,
    WORSE_FIRST,
    Faults,
    OneLane,
    Scope,
)
from tests.race.search import STUCK, explore

THREE_JOBS = (0, 0, 1)  # the last one has a higher priority
TWO_JOBS = (0, 1)
EQUALS = (0, 0)

DESIGN = {
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


class Refutation(NamedTuple):
    """How little is needed to refute a mutant, and by which promise."""

    broken: str
    jobs: tuple[int, ...]
    faults: Faults = Faults()


REFUTATIONS = {
    "head from the candidate scan": Refutation(WORSE_FIRST, EQUALS),
    "block without the lane lock": Refutation(STUCK, TWO_JOBS),
    "finish looks before it locks": Refutation(STUCK, TWO_JOBS),
    "unfenced finish": Refutation(STALE_FINISH, TWO_JOBS, Faults(expiries=1)),
    "unfenced retry": Refutation(STALE_RETRY, TWO_JOBS, Faults(expiries=1, failures=1)),
    "rescue leaves no token": Refutation(STUCK, TWO_JOBS, Faults(crashes=1)),
    "finish in two transactions": Refutation(STUCK, TWO_JOBS, Faults(crashes=1)),
    "reservation ignored by claim": Refutation(OVERTAKEN, TWO_JOBS, Faults(crashes=1)),
    "a loser blocks the reserved job": Refutation(STUCK, TWO_JOBS, Faults(crashes=1)),
    "release without making a token": Refutation(STUCK, TWO_JOBS),
    "retry gives the lane up": Refutation(OVERTAKEN, TWO_JOBS, Faults(failures=1)),
    "the youngest job is the head": Refutation(DISORDER, EQUALS),
    "a lost lane counts as won": Refutation(OVERLAP, TWO_JOBS),
    "a reservation is won before its job is due": Refutation(
        OVERTAKEN, TWO_JOBS, Faults(failures=1)
    ),
    "a lane goes without a token": Refutation(STUCK, TWO_JOBS, Faults(replaces=1)),
    "a delayed lane is never looked at again": Refutation(STUCK, TWO_JOBS, Faults(replaces=1)),
    "a locked job is overtaken": Refutation(DISORDER, EQUALS, Faults(replaces=1)),
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


@pytest.mark.parametrize("scope", DESIGN.values(), ids=DESIGN.keys())
def test_the_lane_keeps_its_promises(scope: Scope) -> None:
    verdict = explore(OneLane(scope))
    assert not verdict.broken, print_story(verdict.story)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_every_protection_is_needed(mutant: str) -> None:
    broken, jobs, faults = REFUTATIONS[mutant]
    verdict = explore(OneLane(Scope(jobs, faults=faults, mutant=mutant)))
    assert verdict.broken == broken, print_story(verdict.story)


def test_the_rare_steps_are_among_those_tried() -> None:
    tried = explore(OneLane(DESIGN["with one fault of each kind"])).tried
    assert [rare for rare in RARE if not any(rare in name for name in tried)] == []


def print_story(story: tuple[str, ...]) -> str:
    return "\n" + "\n".join(story)
