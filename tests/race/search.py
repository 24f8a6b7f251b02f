"""The search through a model: every state once, breadth first, and then backwards from the states that are done.

A model is what `Model` asks for. A step is one statement or a commit. A session that waits for
another one has no step of its own and says for whom it waits: waiting in a circle is a deadlock.

States that differ only in names are explored once: `Model.same` returns the one that stands for
them. The numbers of claims are such names, and so are workers that serve the same queues. From two
such states the same steps lead to two such states, so nothing is lost. `test_explored.py` compares
searches with and without it.
"""

import gc
from array import array
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Generic, NamedTuple, Protocol, TypeVar

STUCK = "the lane can never drain"
S = TypeVar("S", bound=Hashable)
T = TypeVar("T")
by_text = cache(repr)  # an order of sessions, whose fields may have several types


def put(values: tuple[T, ...], place: int, value: T) -> tuple[T, ...]:
    return (*values[:place], value, *values[place + 1 :])


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

    def same(self, state: S) -> S:
        """Return the state that stands for all that differ from this one only in names."""


class Graph(Generic[S]):
    """The states found so far, by number, and how each was found."""

    def __init__(self, start: S) -> None:
        self.numbers = {start: 0}
        self.states = [start]
        self.leads_to: list[list[int]] = [[]]  # backwards along the steps that help
        self._origins = array("l", [-1])
        self._names = [""]

    def add(self, state: S, origin: int, name: str) -> int:
        number = self.numbers[state] = len(self.states)
        self.states.append(state)
        self.leads_to.append([])
        self._origins.append(origin)
        self._names.append(name)
        return number

    def story(self, number: int) -> tuple[str, ...]:
        names = []
        while number > 0:
            names.append(self._names[number])
            number = self._origins[number]
        return tuple(reversed(names))


def explore(model: Model[S], *, reduced: bool = True) -> Verdict:
    """Search to the end, or to the first violation, which is among the shortest."""
    with no_collector():
        graph = Graph(model.same(model.start()) if reduced else model.start())
        tried: set[str] = set()
        broken, last = find_violation(model, graph, tried, reduced)
    story = graph.story(last) if broken else ()
    return Verdict(broken, len(graph.states), story, frozenset(tried))


def find_violation(
    model: Model[S], graph: Graph[S], tried: set[str], reduced: bool
) -> tuple[str, int]:
    """Return which promise is broken and in which state, or an empty text."""
    numbers, states, leads_to = graph.numbers, graph.states, graph.leads_to
    if broken := model.broken(states[0]):
        return broken, 0
    for number, state in enumerate(states):  # it grows
        for name, raw, helps in model.steps(state):
            tried.add(name)
            after = model.same(raw) if reduced else raw
            found = numbers.get(after)
            if found is None:
                found = graph.add(after, number, name)
                if broken := model.broken(after):
                    return broken, found
            if helps:
                leads_to[found].append(number)
    lost = stuck(model, graph)
    return ("", -1) if lost is None else (STUCK, lost)


def stuck(model: Model[S], graph: Graph[S]) -> int | None:
    """The first state from which no way leads to the end of all jobs."""
    drains = bytearray(map(model.is_drained, graph.states))
    queue = [number for number, is_drained in enumerate(drains) if is_drained]
    while queue:
        for number in graph.leads_to[queue.pop()]:
            if not drains[number]:
                drains[number] = 1
                queue.append(number)
    lost = drains.find(0)
    return lost if lost >= 0 else None


@contextmanager
def no_collector() -> Iterator[None]:
    """Nothing here is in a circle, and the collector would look at all states again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
