"""The search through a model: every state once, breadth first, and then backwards from the states that are done.

A model is what `Model` asks for. A step is one statement or a commit. A session that waits for
another one has no step of its own and says for whom it waits: waiting in a circle is a deadlock.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

STUCK = "the lane can never drain"
S = TypeVar("S", bound=Hashable)


class Step(NamedTuple, Generic[S]):
    name: str
    state: S
    helps: bool = True  # neither a fault nor a newcomer: may be counted on to drain


class Verdict(NamedTuple):
    broken: str  # which promise, empty if all hold
    states: int
    story: tuple[str, ...]  # the steps that lead to the violation
    tried: frozenset[str]  # the names of all steps that were taken


class Model(Protocol[S]):
    def start(self) -> S: ...
    def steps(self, state: S) -> Iterator[Step[S]]: ...
    def broken(self, state: S) -> str: ...
    def is_drained(self, state: S) -> bool: ...


def explore(model: Model[S]) -> Verdict:
    start = model.start()
    came_from: dict[S, tuple[S, str] | None] = {start: None}
    leads_to: dict[S, list[S]] = {}  # backwards along the steps that help
    tried: set[str] = set()
    queue = deque([start])
    while queue:
        state = queue.popleft()
        if broken := model.broken(state):
            return Verdict(broken, len(came_from), story(came_from, state), frozenset(tried))
        for step in model.steps(state):
            tried.add(step.name)
            if step.helps:
                leads_to.setdefault(step.state, []).append(state)
            if step.state not in came_from:
                came_from[step.state] = (state, step.name)
                queue.append(step.state)
    lost = stuck(model, came_from, leads_to)
    if lost is not None:
        return Verdict(STUCK, len(came_from), story(came_from, lost), frozenset(tried))
    return Verdict("", len(came_from), (), frozenset(tried))


def stuck(model: Model[S], states: Iterable[S], leads_to: dict[S, list[S]]) -> S | None:
    """The first state from which no way leads to the end of all jobs."""
    drains = {state for state in states if model.is_drained(state)}
    queue = list(drains)
    while queue:
        for state in leads_to.get(queue.pop(), ()):
            if state not in drains:
                drains.add(state)
                queue.append(state)
    return next((state for state in states if state not in drains), None)


def story(came_from: dict[S, tuple[S, str] | None], state: S) -> tuple[str, ...]:
    names = []
    while (origin := came_from[state]) is not None:
        state, name = origin
        names.append(name)
    return tuple(reversed(names))
