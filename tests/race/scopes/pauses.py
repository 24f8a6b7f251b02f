"""The scopes of the pauses of a task, and for each mutant how little refutes it."""

from tests.race.flow_model.task_pauses import OVERTAKEN, SLEEPS, STARTED, Kind, Scope
from tests.race.search import STUCK

MAIL, OTHER = Kind(), Kind(paused=False)
URGENT, FREE_MAIL = Kind(paused=False, late=True), Kind(in_lane=False)

SCOPES = {
    "two of the task in a lane, two pauses": Scope((MAIL, MAIL), pauses=2),
    "another job first, and one behind": Scope((OTHER, MAIL, OTHER)),
    "one behind, and a free one": Scope((MAIL, OTHER, FREE_MAIL)),
    "free jobs, three claims": Scope((FREE_MAIL, FREE_MAIL), claims=3),
    "one that comes later and goes first": Scope((URGENT, MAIL, OTHER)),
}
REFUTATIONS: dict[str, tuple[str, Scope]] = {
    "aside without the gate": (SLEEPS, Scope((FREE_MAIL,))),
    "judged by the first look": (SLEEPS, Scope((FREE_MAIL,))),
    "a locked gate needs no look": (SLEEPS, Scope((FREE_MAIL, FREE_MAIL))),
    "opened without the gate": (SLEEPS, Scope((FREE_MAIL,), pauses=2)),
    "looked before the lock": (SLEEPS, Scope((FREE_MAIL,))),
    "the look goes with the first": (SLEEPS, Scope((FREE_MAIL, FREE_MAIL))),
    "the resume leaves no look": (SLEEPS, Scope((FREE_MAIL,))),
    "a paused head is handed over": (STARTED, Scope((OTHER, MAIL))),
    "a head that is aside is handed over": (STUCK, Scope((URGENT, MAIL))),
    "a claim starts what it cannot set aside": (STARTED, Scope((FREE_MAIL,))),
    "a head that is aside is passed by": (OVERTAKEN, Scope((MAIL, OTHER))),
    "the lane is kept": (STUCK, Scope((MAIL,))),
    "only aside is woken": (STUCK, Scope((MAIL, MAIL), pauses=2)),
}
RARE = (
    "claim: does not get the gate",
    "claim: knows that it stays locked",
    "claim: finds the gate open",
    "claim: cannot start the head",
    "finish: gives the lane back",
    "finish: hands B over",
    "take_slots.sql B",
)
