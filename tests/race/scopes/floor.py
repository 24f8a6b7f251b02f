"""The scopes of a lane's floor, its promise, and for each mutant how little refutes it."""

from typing import NamedTuple

SKIPPED = "a job started before one with a lower id that waited"

MUTANTS = {
    "ids are final at once": "the last id counts as final without a look at open transactions",
    "the horizon is taken before the id is read": "a transaction that begins between them draws one of the noted ids, and is not waited for",
    "an id is drawn before there is a transaction id": "a producer draws one of the noted ids, and then gets a transaction id that is not waited for",
    "patience looks at no locks": "after a while, open transactions count as over",
    "patience looks for locks on jobs": "after a while, a transaction that has drawn an id and not yet inserted its job counts as over",
    "the floor is the last job": "a floor rises to the job that was found, whatever is final",
    "the floor rises without a look": "a floor rises when ids become final, up to the job that was found before that",
    "a job comes back without a mark": "a job that comes back is like one that has just come",
    "a job that the lane waits for counts as found": "a floor rises to a job that started without a look at the line",
    "a number is old once it is final": "a number counts as old if it is final now, not when the floor was noted",
    "a floor stays with what is final now": "a search that finds a job below the floor leaves the floor, and raises what was final for it",
    "a floor outlives its session": "a standby that lacks some jobs is promoted, and gives their ids once more",
    "an unknown horizon is over": "in another session, what was noted counts as final without a look",
}


class Scope(NamedTuple):
    """What happens: how many jobs are deferred, and have run before that, how often one comes back,
    how many sessions end, and the mutant.
    """

    jobs: int = 3
    returns: int = 0
    sessions: int = 0
    gone: int = 0
    mutant: str = ""

    def breaks(self, mutant: str) -> bool:
        assert mutant in MUTANTS
        return self.mutant == mutant


SCOPES = {
    "with three producers": Scope(),
    "with jobs that come back": Scope(2, returns=2),
    "with three producers and a job that comes back": Scope(3, returns=1),
    "with two that come back, and have run before": Scope(1, returns=2, gone=2),
    "with a session that ends": Scope(3, sessions=1),
}
REFUTATIONS: dict[str, tuple[str, Scope]] = {
    "ids are final at once": (SKIPPED, Scope(3)),
    "the horizon is taken before the id is read": (SKIPPED, Scope(3)),
    "an id is drawn before there is a transaction id": (SKIPPED, Scope(3)),
    "patience looks at no locks": (SKIPPED, Scope(3)),
    "patience looks for locks on jobs": (SKIPPED, Scope(3)),
    "the floor is the last job": (SKIPPED, Scope(3)),
    "the floor rises without a look": (SKIPPED, Scope(3)),
    "a job comes back without a mark": (SKIPPED, Scope(2, returns=1)),
    "a job that the lane waits for counts as found": (SKIPPED, Scope(2, returns=1)),
    "a number is old once it is final": (SKIPPED, Scope(3, returns=1)),
    "a floor stays with what is final now": (SKIPPED, Scope(1, returns=2, gone=2)),
    "a floor outlives its session": (SKIPPED, Scope(3, sessions=1)),
    "an unknown horizon is over": (SKIPPED, Scope(3, sessions=1)),
}
RARE = (
    "learns: 2 is final, though a transaction is open",
    "learns: 3 is final",
    "begins anew",
    "comes back, and the lane waits for it",
    "begins to come back",
    "comes back into the line",
    "rolls back",
    "skips 2",
)
