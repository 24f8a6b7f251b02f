"""The model of batches, explored to the end, and its mutants.

flow_model/README.md says what it has.
"""

import pytest

from tests.race.flow_model import batches
from tests.race.flow_model.batches import EARLY, TWICE, Batch, Faults, Scope
from tests.race.search import STUCK, explore

SCOPES = {
    "an empty batch, or one job": Scope(1),
    "two jobs, a rollback and a retry": Scope(2, Faults(rollbacks=1, retries=1)),
    "two jobs, a retry and a crash": Scope(2, Faults(retries=1, crashes=1)),
    "three jobs, a rollback": Scope(3, Faults(rollbacks=1)),
}
TWO = Scope(2, Faults(rollbacks=1, retries=1))
REFUTATIONS = {
    "a join does not share the gate": EARLY,
    "an end does not need the gate": EARLY,
    "no second look": EARLY,
    "the gate stays": EARLY,
    "a count without the row": TWICE,
    "nobody looks again": STUCK,
    "the close ends the batch": EARLY,
    "a retry is not counted": EARLY,
    "a retry does not share the gate": EARLY,
    "ends go on counting": TWICE,
}
RARE = ("is refused", "claim: look again", "retry of B", "producer: ROLLBACK", "claim: CRASH")


@pytest.mark.parametrize("scope", SCOPES.values(), ids=SCOPES.keys())
def test_batches_keep_their_promises(scope: Scope) -> None:
    verdict = explore(Batch(scope))
    assert not verdict.broken, "\n".join(verdict.story)


@pytest.mark.parametrize("mutant", batches.MUTANTS)
def test_every_protection_of_batches_is_needed(mutant: str) -> None:
    verdict = explore(Batch(TWO._replace(mutant=mutant)))
    assert verdict.broken == REFUTATIONS[mutant], "\n".join(verdict.story)


def test_the_rare_steps_of_batches_are_among_those_tried() -> None:
    tried = explore(Batch(Scope(2, Faults(1, 1, 1)))).tried
    assert [rare for rare in RARE if not any(rare in name for name in tried)] == []
