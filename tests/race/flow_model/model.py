"""The flow of two lanes and a key with a limit: everything that can happen next."""

from collections.abc import Callable, Iterator

from tests.race.flow_model import claim, finish, people
from tests.race.flow_model.promises import sleeps
from tests.race.flow_model.state import (
    DEADLOCK,
    ENDED,
    NO_ROW,
    NOBODY,
    UNBORN,
    Key,
    Scope,
    State,
    Step,
    Turn,
    number_claims,
)

STATEMENTS: dict[str, Callable[[Turn], Iterator[Step]]] = {
    "acquire": claim.acquire,
    "heads": claim.read_heads,
    "slots": claim.take_slot,
    "start": claim.start,
    "block": claim.block,
    "release": claim.release,
    "commit": claim.end,
    "lock": finish.lock_lanes,
    "lock key": finish.lock_key,
    "finish": finish.delete,
    "retry": finish.retry,
    "rescue": finish.retry,
    "hand over": finish.hand_over,
    "cancel": people.cancel,
}


class Flow:
    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def start(self) -> State:
        count = len(self.scope.kinds)
        return State(
            jobs=(UNBORN,) * count,
            lanes=(NO_ROW, NO_ROW),
            key=Key(tokens=self.scope.burst),
            inserted=0,
            producers=(),
            sessions=(),
            known=(),
            faults=self.scope.faults,
            earlier=((),) * count,
            bucket=self.scope.burst,
        )

    def steps(self, state: State) -> Iterator[Step]:
        yield from people.outside(self.scope, state)
        if len(state.sessions) < self.scope.sessions:
            yield from claim.look_at_tokens(self.scope, state)
            yield from finish.end_attempts(self.scope, state)
            yield from people.begin_cancels(self.scope, state)
        waits = {}
        for place, session in enumerate(state.sessions):
            others = (*state.sessions[:place], *state.sessions[place + 1 :])
            try:
                steps = STATEMENTS[session.next]
                yield from steps(Turn(self.scope, state, session, others))
            except claim.Waits as wait:
                waits[place] = state.sessions.index(wait.on)
        if any(runs_in_a_circle(waits, place) for place in waits):
            yield Step("PostgreSQL: deadlock detected", state._replace(broken=DEADLOCK), False)

    def broken(self, state: State) -> str:
        return state.broken or sleeps(self.scope, state)

    def same(self, state: State) -> State:
        """The numbers of claims are random ids, so only which of them are equal counts."""
        return number_claims(state)

    def is_drained(self, state: State) -> bool:
        return (
            all(job in (UNBORN, ENDED) for job in state.jobs)
            and all(row == NO_ROW for row in state.lanes)
            and not (state.producers or state.sessions or state.known)
            and state.key.used == 0
            and state.locked == NOBODY
        )


def runs_in_a_circle(waits: dict[int, int], place: int) -> bool:
    seen = set()
    while place in waits and place not in seen:
        seen.add(place)
        place = waits[place]
    return place in seen
