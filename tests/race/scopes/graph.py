"""The scopes of jobs that come after others, and for each mutant how little refutes it."""

from tests.race.flow_model import dependencies
from tests.race.flow_model.dependencies import Child, Faults, Scope
from tests.race.search import STUCK

PARENT = Child()
ONE = (PARENT, Child((0,)))
JOIN = (PARENT, PARENT, Child((0, 1)))
CHAIN = (PARENT, Child((0,)), Child((1,)))
FORK = (PARENT, Child((0,)), Child((0,), "hold"))

SCOPES = {
    "a child of two, a crash and a cancel": Scope(JOIN, Faults(crashes=1, cancels=1)),
    "a child of two, a failure and a user who locks a job": Scope(
        JOIN, Faults(failures=1, locks=1)
    ),
    "a child of two, a failure, three sessions": Scope(JOIN, Faults(failures=1), sessions=3),
    "a child that goes whatever its parents did": Scope(
        (PARENT, PARENT, Child((0, 1), "go")), Faults(failures=2, locks=1)
    ),
    "a child that is held when a parent fails": Scope(
        (PARENT, PARENT, Child((0, 1), "hold")), Faults(failures=2, locks=1)
    ),
    "a chain, a failure, a crash and a user who locks a job": Scope(
        CHAIN, Faults(failures=1, crashes=1, locks=1)
    ),
    "a chain, a retry, a cancel and a user who locks a job": Scope(
        CHAIN, Faults(retries=1, cancels=1, locks=1)
    ),
    "two children, a failure, a cancel and a user who locks a job": Scope(
        FORK, Faults(failures=1, cancels=1, locks=1)
    ),
    "two children, an expiry and a user who locks a job": Scope(FORK, Faults(expiries=1, locks=1)),
    "a chain, an expiry, a failure and a crash": Scope(
        CHAIN, Faults(failures=1, crashes=1, expiries=1)
    ),
    "a diamond of four, a failure": Scope(
        (PARENT, Child((0,)), Child((0,)), Child((1, 2))), Faults(failures=1)
    ),
}


REFUTATIONS: dict[str, tuple[str, Scope]] = {
    "count before mark": (STUCK, Scope(ONE)),
    "a locked parent needs no mark": (STUCK, Scope(ONE, Faults(locks=1))),
    "count without the child's lock": (STUCK, Scope(JOIN)),
    "finish frees the children": (STUCK, Scope(JOIN)),
    "finish waits for the children": (dependencies.HELD_UP, Scope(ONE, Faults(locks=1))),
    "a locked child is forgotten": (STUCK, Scope(ONE, Faults(locks=1))),
    "a cancelled child tells nobody": (STUCK, Scope(CHAIN, Faults(failures=1))),
    "a cancelled job tells nobody": (STUCK, Scope(ONE, Faults(cancels=1))),
    "the outcome is not kept": (dependencies.AGAINST, Scope(JOIN, Faults(failures=1))),
    "a claim forgets an end of its own": (STUCK, Scope(FORK, Faults(expiries=1))),
    "a retry ends the parent": (dependencies.EARLY, Scope(ONE, Faults(retries=1))),
    "marked as it was seen": (STUCK, Scope(ONE)),
}
RARE = (
    "is locked: another time",
    "is refused",
    "leaves it alone",
    "it does not wait any more",
    "it is not due any more",
    "person: lets C go",
    "CRASH",
)
