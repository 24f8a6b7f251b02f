"""The scopes of batches, and the promise that each mutant breaks."""

from tests.race.flow_model.batches import EARLY, TWICE, Faults, Scope
from tests.race.search import STUCK

SCOPES = {
    "an empty batch, or one job": Scope(1),
    "two jobs, a rollback and a retry": Scope(2, Faults(rollbacks=1, retries=1)),
    "two jobs, a retry and a crash": Scope(2, Faults(retries=1, crashes=1)),
    "three jobs, a rollback": Scope(3, Faults(rollbacks=1)),
}
TWO = Scope(2, Faults(rollbacks=1, retries=1))
REFUTATIONS: dict[str, tuple[str, Scope]] = {
    "a join does not share the gate": (EARLY, TWO),
    "an end does not need the gate": (EARLY, TWO),
    "no second look": (EARLY, TWO),
    "the gate stays": (EARLY, TWO),
    "a count without the row": (TWICE, TWO),
    "nobody looks again": (STUCK, TWO),
    "the close ends the batch": (EARLY, TWO),
    "a retry is not counted": (EARLY, TWO),
    "a retry does not share the gate": (EARLY, TWO),
    "ends go on counting": (TWICE, TWO),
}
RARE = ("is refused", "claim: look again", "retry of B", "producer: ROLLBACK", "claim: CRASH")
