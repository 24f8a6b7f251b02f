"""The scopes of lanes and limits, and for each mutant how little refutes it, by which promise.

Each scope is explored to its end: its jobs, two database sessions (or three), and the faults that
it names, so many of each. Workers serve all queues, and the commit of the first job may come late,
unless the scope says otherwise.
"""

from tests.race.flow_model import state
from tests.race.flow_model.state import NOBODY, Faults, Kind, Scope
from tests.race.search import STUCK

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


SCOPES = {
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
    "one slot, a worker that is taken for dead and lives": Scope(
        (LIMITED, LIMITED_IN_A), Faults(expiries=1), slots=1
    ),
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
REFUTATIONS: dict[str, tuple[str, Scope]] = {
    "reserve while waiting": (STUCK, Scope((BOTH, BOTH, B))),
    "unsorted and waiting": (state.DEADLOCK, Scope((BOTH, BOTH_AS_WRITTEN))),
    "heads before all lanes are won": (state.WORSE_FIRST, Scope((B, BOTH))),
    "head of one lane is enough": (state.WORSE_FIRST, Scope((B, BOTH))),
    "one lane forgotten at finish": (STUCK, Scope((BOTH, B))),
    "one lane forgotten at cancel": (state.SLEEPS, Scope((BOTH, B), Faults(cancels=1))),
    "retry keeps only one of two lanes": (state.OVERTAKEN, Scope((BOTH, B), Faults(failures=1))),
    "a retry takes what it gets": (state.PAUSED, Scope((BOTH, B), Faults(failures=1, pauses=1))),
    "blocked for a lane that nobody holds": (state.SLEEPS, Scope((BOTH, B))),
    "blocked in a locked lane": (state.SLEEPS, Scope((BOTH, B))),
    "release without making a token": (state.SLEEPS, Scope((A, A))),
    "a retry sleeps in a lane that is resumed": (
        state.SLEEPS,
        Scope((BOTH,), Faults(failures=1, pauses=1)),
    ),
    "a start in a paused lane": (state.PAUSED, Scope((BOTH,), Faults(pauses=1))),
    "finish does not look at several-lane heads": (state.SLEEPS, Scope((A, BOTH))),
    "the head that a user locks is forgotten": (state.SLEEPS, Scope((A, BOTH), Faults(locks=1))),
    "finish takes its rows in any order": (state.DEADLOCK, Scope((BOTH,), Faults(expiries=1))),
    "cancel locks its lanes unsorted": (
        state.DEADLOCK,
        Scope((BOTH_AS_WRITTEN,), Faults(cancels=1, failures=1, expiries=1)),
    ),
    "brought back into some of its lanes": (state.OVERTAKEN, Scope((BOTH, B), Faults(halts=1))),
    "a reader joins past a waiting writer": (state.DISORDER, Scope((READER, A, READER), late=())),
    "a writer joins readers": (state.OVERLAP, Scope((READER, A))),
    "the first reader to end frees the lane": (state.OVERLAP, Scope((READER, READER, A))),
    "a reader wakes nobody": (state.SLEEPS, Scope((A, READER, READER))),
    "a reader is blocked behind readers": (state.SLEEPS, Scope((READER, READER))),
    "a failed reader gives its share up": (state.OVERTAKEN, Scope((READER, A), Faults(failures=1))),
    "a cancelled reader keeps its share": (
        STUCK,
        Scope((READER, A), Faults(failures=1, cancels=1)),
    ),
    "a reader that is brought back wakes nobody": (
        state.SLEEPS,
        Scope((READER, READER), Faults(halts=1)),
    ),
    "counter read without the row lock": (state.TOO_MANY, Scope((LIMITED, LIMITED), slots=1)),
    "token read without the row lock": (
        state.TOO_OFTEN,
        Scope((LIMITED, LIMITED), slots=2, burst=1),
    ),
    "a counter not restored by rescue": (STUCK, Scope((LIMITED,), Faults(crashes=1), slots=1)),
    "a counter not restored by retry": (STUCK, Scope((LIMITED,), Faults(failures=1), slots=1)),
    "a refused finish frees a slot": (
        state.TOO_MANY,
        Scope((LIMITED, LIMITED), Faults(expiries=1), slots=1),
    ),
    "limited without the row lock": (state.SLEEPS, Scope((LIMITED, LIMITED), slots=1)),
    "the slot goes to the woken job": (
        STUCK,
        Scope((LIMITED_IN_A, LIMITED_IN_A, LIMITED), slots=1),
    ),
    "a slot that is handed over stays free": (state.TOO_MANY, Scope((LIMITED,) * 3, slots=1)),
    "the lane is kept while limited": (STUCK, Scope((LIMITED, LIMITED_IN_A, URGENT_IN_A), slots=1)),
    "a wake-up is not passed on": (
        state.SLEEPS,
        Scope((LIMITED, LIMITED_IN_A, LIMITED), Faults(pauses=1), slots=1, paused=0),
    ),
    "a cancelled token passes nothing on": (
        state.SLEEPS,
        Scope((LIMITED,) * 3, Faults(cancels=1), slots=1),
    ),
    "one queue is woken": (
        state.SLEEPS,
        Scope((LIMITED, LIMITED, ELSEWHERE), slots=1, queues=(0, 1, NOBODY)),
    ),
    "nobody looks at the key again": (STUCK, Scope((LIMITED, LIMITED), slots=2, burst=1)),
    "more slots wake nobody": (state.SLEEPS, Scope((LIMITED, LIMITED), Faults(changes=1), slots=1)),
    "no claim looks again": (state.SLEEPS, Scope((LIMITED, LIMITED), Faults(changes=1), slots=1)),
    "a freed slot wakes nobody": (state.SLEEPS, Scope((LIMITED, LIMITED), slots=1)),
}

RARE = (
    "acquire_lanes.sql loses b",
    "block_behind.sql B in b",
    "finish of A: hands B over",
    "finish of A: hands its slot to B",
    "finish of A: acquire_lanes.sql wins b",
    "finish of B: begins to wait",
    "lane_heads has nobody for us",
    "no slot for B",
    "does not get the key",
    "finish of A: is refused",
    "finish of A: DELETE A is refused",
    "resume_lanes.sql b",
    "check_gates.sql of the key",
    "check_gates.sql, after a look",
    "check_gates.sql, later",
    "cancel of B: it does not wait any more",
    "producer: ROLLBACK A",
    "CRASH",
)
