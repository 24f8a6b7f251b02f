"""The design of the flow, explored completely: it holds, and nothing in it can be left out.

Each scope is explored to its end: its jobs, two database sessions (or three), and the faults that
it names, so many of each. Workers serve all queues, and the commit of the first job may come late,
unless the scope says otherwise. A job of the scopes in `FLOW` has lanes, shares and a limit, one of
`GRAPHS` has parents: a child that has become `todo` is a job like any other.
"""

from typing import NamedTuple

import pytest

from tests.race.flow_model import dependencies, dependents, state
from tests.race.flow_model.dependencies import Child
from tests.race.flow_model.model import Flow
from tests.race.flow_model.state import NOBODY, Faults, Kind, Scope
from tests.race.search import STUCK, explore

BOTH = Kind((0, 1))
BOTH_AS_WRITTEN = Kind((1, 0))
A = Kind((0,))
B = Kind((1,))
URGENT_IN_A = Kind((0,), priority=1)
READER = Kind((0,), shared=(0,))
READS_A_WRITES_B = Kind((0, 1), shared=(0,))
READS_BOTH = Kind((0, 1), shared=(0, 1))
LIMITED = Kind(limited=True)
LIMITED_IN_A = Kind((0,), limited=True)
LIMITED_IN_BOTH = Kind((0, 1), limited=True)
ELSEWHERE = Kind(limited=True, queue=1)


def lets_go(kind: Kind) -> Kind:
    return kind._replace(hold=False)


FLOW = {
    # several lanes
    "two jobs in both lanes, and a third": Scope((BOTH, BOTH, A)),
    "both lanes after one of each, at another priority": Scope((B, BOTH, URGENT_IN_A)),
    "both lanes, a crash": Scope((A, BOTH, B), Faults(crashes=1)),
    "both lanes, a retry that holds": Scope((A, BOTH, B), Faults(failures=1)),
    "both lanes, a retry that lets go": Scope((A, lets_go(BOTH), B), Faults(failures=1), late=()),
    "both lanes, a worker that is taken for dead and lives": Scope(
        (A, BOTH, B), Faults(expiries=1), late=()
    ),
    "both lanes, a pause": Scope((A, BOTH, B), Faults(pauses=1)),
    "both lanes, a user who locks a job": Scope((A, BOTH, B), Faults(locks=1)),
    "both lanes, a cancel": Scope((A, BOTH, B), Faults(cancels=1)),
    "both lanes, a failure that halts them": Scope((BOTH, A, B), Faults(halts=1), late=()),
    "a failure that halts, a retry and a crash": Scope(
        (BOTH, B), Faults(halts=1, failures=1, crashes=1)
    ),
    "a reader that halts, a writer and a reader": Scope((READER, A, READER), Faults(halts=1)),
    "two jobs, a crash, a retry and a pause": Scope(
        (BOTH, B), Faults(crashes=1, failures=1, pauses=1)
    ),
    "readers, a retry and a pause": Scope(
        (READER, READS_A_WRITES_B), Faults(failures=1, pauses=1), paused=0
    ),
    "a retry with a slot and a pause": Scope(
        (LIMITED_IN_A, LIMITED), Faults(failures=1, pauses=1), slots=1, paused=0
    ),
    "two jobs in both lanes, three sessions": Scope((BOTH, BOTH), sessions=3),
    "both lanes and one, three sessions": Scope((BOTH, B), sessions=3),
    # shared and exclusive
    "reader, writer, reader, a retry": Scope((READER, A, READER), Faults(failures=1)),
    "reader, writer, reader, a pause": Scope((READER, A, READER), Faults(pauses=1), paused=0),
    "reader, writer, reader, a user who locks a job": Scope((READER, A, READER), Faults(locks=1)),
    "writer, two readers, a crash": Scope((A, READER, READER), Faults(crashes=1)),
    "a reader that lets go, a retry": Scope((READER, lets_go(READER), A), Faults(failures=1)),
    "a reader of one lane that writes the other": Scope((READS_A_WRITES_B, A, B)),
    "a reader of both lanes, a writer of both": Scope((READS_BOTH, BOTH, READER)),
    "a reader of one lane that writes the other, a retry": Scope(
        (READS_A_WRITES_B, READER), Faults(failures=1, crashes=1)
    ),
    # a limit
    "two slots for three jobs, three sessions": Scope((LIMITED,) * 3, slots=2, sessions=3),
    "one slot and a lane, a crash": Scope((LIMITED, LIMITED_IN_A, A), Faults(crashes=1), slots=1),
    "one slot and a lane, a retry": Scope(
        (LIMITED_IN_A, LIMITED_IN_A, LIMITED), Faults(failures=1), slots=1, late=()
    ),
    "one slot and a lane, a cancel": Scope(
        (LIMITED, LIMITED_IN_A, LIMITED), Faults(cancels=1), slots=1
    ),
    "one slot and a lane, a pause": Scope(
        (LIMITED, LIMITED_IN_A, LIMITED), Faults(pauses=1), slots=1, paused=0
    ),
    "one slot and a lane, a user who locks a job": Scope(
        (LIMITED, LIMITED_IN_A, LIMITED), Faults(locks=1), slots=1
    ),
    "one slot and both lanes": Scope((LIMITED_IN_BOTH, LIMITED_IN_A, B), slots=1),
    "one slot and two queues": Scope((LIMITED, LIMITED, ELSEWHERE), slots=1, queues=(0, 1, NOBODY)),
    "a limit that is changed twice": Scope(
        (LIMITED, LIMITED_IN_A, LIMITED), Faults(changes=2), slots=1
    ),
    "a rate, two slots and a lane": Scope((LIMITED, LIMITED_IN_A, LIMITED), slots=2, burst=1),
    "a rate with a burst, a retry": Scope(
        (LIMITED, LIMITED_IN_A), Faults(failures=1, crashes=1), slots=1, burst=2
    ),
}


class Refutation(NamedTuple):
    """How little is needed to refute a mutant, and by which promise."""

    broken: str
    scope: Scope


REFUTATIONS = {
    "reserve while waiting": Refutation(STUCK, Scope((BOTH, BOTH, B))),
    "unsorted and waiting": Refutation(state.DEADLOCK, Scope((BOTH, BOTH_AS_WRITTEN))),
    "heads before all lanes are won": Refutation(state.WORSE_FIRST, Scope((B, BOTH))),
    "head of one lane is enough": Refutation(state.WORSE_FIRST, Scope((B, BOTH))),
    "one lane forgotten at finish": Refutation(STUCK, Scope((BOTH, B))),
    "one lane forgotten at cancel": Refutation(state.SLEEPS, Scope((BOTH, B), Faults(cancels=1))),
    "retry keeps only one of two lanes": Refutation(
        state.OVERTAKEN, Scope((BOTH, B), Faults(failures=1))
    ),
    "a retry takes what it gets": Refutation(
        state.PAUSED, Scope((BOTH, B), Faults(failures=1, pauses=1))
    ),
    "blocked for a lane that nobody holds": Refutation(state.SLEEPS, Scope((BOTH, B))),
    "blocked in a locked lane": Refutation(state.SLEEPS, Scope((BOTH, B))),
    "release without making a token": Refutation(state.SLEEPS, Scope((A, A))),
    "a retry sleeps in a lane that is resumed": Refutation(
        state.SLEEPS, Scope((BOTH,), Faults(failures=1, pauses=1))
    ),
    "a start in a paused lane": Refutation(state.PAUSED, Scope((BOTH,), Faults(pauses=1))),
    "finish does not look at several-lane heads": Refutation(state.SLEEPS, Scope((A, BOTH))),
    "the head that a user locks is forgotten": Refutation(
        state.SLEEPS, Scope((A, BOTH), Faults(locks=1))
    ),
    "finish takes its rows in any order": Refutation(
        state.DEADLOCK, Scope((BOTH,), Faults(expiries=1))
    ),
    "cancel locks its lanes unsorted": Refutation(
        state.DEADLOCK, Scope((BOTH_AS_WRITTEN,), Faults(cancels=1, failures=1, expiries=1))
    ),
    "brought back into some of its lanes": Refutation(
        state.OVERTAKEN, Scope((BOTH, B), Faults(halts=1))
    ),
    "a reader joins past a waiting writer": Refutation(
        state.DISORDER, Scope((READER, A, READER), late=())
    ),
    "a writer joins readers": Refutation(state.OVERLAP, Scope((READER, A))),
    "the first reader to end frees the lane": Refutation(state.OVERLAP, Scope((READER, READER, A))),
    "a reader wakes nobody": Refutation(state.SLEEPS, Scope((A, READER, READER))),
    "a reader is blocked behind readers": Refutation(state.SLEEPS, Scope((READER, READER))),
    "a failed reader gives its share up": Refutation(
        state.OVERTAKEN, Scope((READER, A), Faults(failures=1))
    ),
    "a cancelled reader keeps its share": Refutation(
        STUCK, Scope((READER, A), Faults(failures=1, cancels=1))
    ),
    "a reader that is brought back wakes nobody": Refutation(
        state.SLEEPS, Scope((READER, READER), Faults(halts=1))
    ),
    "counter read without the row lock": Refutation(
        state.TOO_MANY, Scope((LIMITED, LIMITED), slots=1)
    ),
    "token read without the row lock": Refutation(
        state.TOO_OFTEN, Scope((LIMITED, LIMITED), slots=2, burst=1)
    ),
    "a counter not restored by rescue": Refutation(
        STUCK, Scope((LIMITED,), Faults(crashes=1), slots=1)
    ),
    "a counter not restored by retry": Refutation(
        STUCK, Scope((LIMITED,), Faults(failures=1), slots=1)
    ),
    "a refused finish frees a slot": Refutation(
        state.TOO_MANY, Scope((LIMITED, LIMITED), Faults(expiries=1), slots=1)
    ),
    "limited without the row lock": Refutation(state.SLEEPS, Scope((LIMITED, LIMITED), slots=1)),
    "the slot goes to the woken job": Refutation(
        STUCK, Scope((LIMITED_IN_A, LIMITED_IN_A, LIMITED), slots=1)
    ),
    "the lane is kept while limited": Refutation(
        STUCK, Scope((LIMITED, LIMITED_IN_A, URGENT_IN_A), slots=1)
    ),
    "a wake-up is not passed on": Refutation(
        state.SLEEPS,
        Scope((LIMITED, LIMITED_IN_A, LIMITED), Faults(pauses=1), slots=1, paused=0),
    ),
    "a cancelled token passes nothing on": Refutation(
        state.SLEEPS, Scope((LIMITED,) * 3, Faults(cancels=1), slots=1)
    ),
    "one queue is woken": Refutation(
        state.SLEEPS, Scope((LIMITED, LIMITED, ELSEWHERE), slots=1, queues=(0, 1, NOBODY))
    ),
    "nobody looks at the key again": Refutation(STUCK, Scope((LIMITED, LIMITED), slots=2, burst=1)),
    "more slots wake nobody": Refutation(
        state.SLEEPS, Scope((LIMITED, LIMITED), Faults(changes=1), slots=1)
    ),
    "no claim looks again": Refutation(
        state.SLEEPS, Scope((LIMITED, LIMITED), Faults(changes=1), slots=1)
    ),
    "a freed slot wakes nobody": Refutation(state.SLEEPS, Scope((LIMITED, LIMITED), slots=1)),
}

PARENT = Child()
ONE = (PARENT, Child((0,)))
JOIN = (PARENT, PARENT, Child((0, 1)))
CHAIN = (PARENT, Child((0,)), Child((1,)))
FORK = (PARENT, Child((0,)), Child((0,), "hold"))
Graph = dependencies.Scope
Ills = dependencies.Faults

GRAPHS = {
    "a child of two, a crash and a cancel": Graph(JOIN, Ills(crashes=1, cancels=1)),
    "a child of two, a failure and a user who locks a job": Graph(JOIN, Ills(failures=1, locks=1)),
    "a child of two, a failure, three sessions": Graph(JOIN, Ills(failures=1), sessions=3),
    "a child that goes whatever its parents did": Graph(
        (PARENT, PARENT, Child((0, 1), "go")), Ills(failures=2, locks=1)
    ),
    "a child that is held when a parent fails": Graph(
        (PARENT, PARENT, Child((0, 1), "hold")), Ills(failures=2, locks=1)
    ),
    "a chain, a failure, a crash and a user who locks a job": Graph(
        CHAIN, Ills(failures=1, crashes=1, locks=1)
    ),
    "a chain, a retry, a cancel and a user who locks a job": Graph(
        CHAIN, Ills(retries=1, cancels=1, locks=1)
    ),
    "two children, a failure, a cancel and a user who locks a job": Graph(
        FORK, Ills(failures=1, cancels=1, locks=1)
    ),
    "two children, an expiry and a user who locks a job": Graph(FORK, Ills(expiries=1, locks=1)),
    "a chain, an expiry, a failure and a crash": Graph(
        CHAIN, Ills(failures=1, crashes=1, expiries=1)
    ),
    "a diamond of four, a failure": Graph(
        (PARENT, Child((0,)), Child((0,)), Child((1, 2))), Ills(failures=1)
    ),
}


class Disproof(NamedTuple):
    broken: str
    scope: Graph


DISPROOFS = {
    "count before mark": Disproof(STUCK, Graph(ONE)),
    "a locked parent needs no mark": Disproof(STUCK, Graph(ONE, Ills(locks=1))),
    "count without the child's lock": Disproof(STUCK, Graph(JOIN)),
    "finish frees the children": Disproof(STUCK, Graph(JOIN)),
    "finish waits for the children": Disproof(dependencies.HELD_UP, Graph(ONE, Ills(locks=1))),
    "a locked child is forgotten": Disproof(STUCK, Graph(ONE, Ills(locks=1))),
    "a cancelled child tells nobody": Disproof(STUCK, Graph(CHAIN, Ills(failures=1))),
    "a cancelled job tells nobody": Disproof(STUCK, Graph(ONE, Ills(cancels=1))),
    "the outcome is not kept": Disproof(dependencies.AGAINST, Graph(JOIN, Ills(failures=1))),
    "a claim forgets an end of its own": Disproof(STUCK, Graph(FORK, Ills(expiries=1))),
    "a retry ends the parent": Disproof(dependencies.EARLY, Graph(ONE, Ills(retries=1))),
    "marked as it was seen": Disproof(STUCK, Graph(ONE)),
}

RARE = (
    "acquire_lanes.sql loses b",
    "block_behind.sql B in b",
    "finish of A: hands B over",
    "finish of A: acquire_lanes.sql wins b",
    "finish of B: begins to wait",
    "lane_heads has nobody for us",
    "no slot for B",
    "does not get the key",
    "finish of A: is refused",
    "finish of A: DELETE A is refused",
    "resume_due.sql b",
    "resume_due.sql of the key",
    "resume_keys.sql, since somebody has asked",
    "resume_keys.sql, later",
    "cancel of B: it does not wait any more",
    "producer: ROLLBACK A",
    "CRASH",
)


@pytest.mark.parametrize("scope", FLOW.values(), ids=FLOW.keys())
def test_lanes_and_limits_keep_their_promises(scope: Scope) -> None:
    verdict = explore(Flow(scope))
    assert not verdict.broken, print_story(verdict.story)


@pytest.mark.parametrize("mutant", state.MUTANTS)
def test_every_protection_of_the_flow_is_needed(mutant: str) -> None:
    broken, scope = REFUTATIONS[mutant]
    verdict = explore(Flow(scope._replace(mutant=mutant)))
    assert verdict.broken == broken, print_story(verdict.story)


@pytest.mark.parametrize("scope", GRAPHS.values(), ids=GRAPHS.keys())
def test_jobs_after_other_jobs_keep_their_promises(scope: Graph) -> None:
    verdict = explore(dependents.Graph(scope))
    assert not verdict.broken, print_story(verdict.story)


@pytest.mark.parametrize("mutant", dependencies.MUTANTS)
def test_every_protection_of_dependencies_is_needed(mutant: str) -> None:
    broken, scope = DISPROOFS[mutant]
    verdict = explore(dependents.Graph(scope._replace(mutant=mutant)))
    assert verdict.broken == broken, print_story(verdict.story)


def test_the_rare_steps_of_the_flow_are_among_those_tried() -> None:
    scopes = (
        Scope((BOTH, B), Faults(crashes=1)),
        Scope((A, BOTH), Faults(locks=1)),
        Scope((A, BOTH), Faults(cancels=1), late=()),
        Scope((A,), Faults(expiries=1)),
        Scope((LIMITED,), Faults(expiries=1), slots=1),
        Scope((LIMITED, LIMITED_IN_A), Faults(pauses=1), slots=1, paused=0),
        Scope((LIMITED, LIMITED_IN_A), slots=1, burst=1),
        Scope((LIMITED_IN_A, A, LIMITED), slots=1, late=()),
        Scope((LIMITED, LIMITED), Faults(changes=1), slots=1),
    )
    tried = {name for scope in scopes for name in explore(Flow(scope)).tried}
    assert [rare for rare in RARE if not any(rare in name for name in tried)] == []


def print_story(story: tuple[str, ...]) -> str:
    return "\n" + "\n".join(story)
