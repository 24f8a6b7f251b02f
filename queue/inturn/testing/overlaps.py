"""Which spans of time overlap. Standard library only."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar


class Timed(Protocol):
    """Anything with a beginning and an end. An `ended` of None means: not yet."""

    @property
    def started(self) -> Any: ...
    @property
    def ended(self) -> Any: ...


T = TypeVar("T", bound=Timed)


def overlaps(spans: Iterable[T]) -> list[tuple[T, Sequence[T]]]:
    """Return the spans that began while others went on, in order of time, each with those others.

    A span may begin at the moment at which another one ends.
    """
    found: list[tuple[T, Sequence[T]]] = []
    under_way: list[T] = []
    for span in sorted(spans, key=lambda each: (each.started, each.ended is None, each.ended or 0)):
        under_way = [each for each in under_way if each.ended is None or span.started < each.ended]
        if under_way:
            found.append((span, tuple(under_way)))
        under_way.append(span)
    return found
