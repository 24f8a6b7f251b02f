"""Finds overlapping time spans. Standard library only."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar


class Timed(Protocol):
    """Anything with a start and an end. `ended` is None if it has not ended."""

    @property
    def started(self) -> Any: ...
    @property
    def ended(self) -> Any: ...


T = TypeVar("T", bound=Timed)


def overlaps(spans: Iterable[T]) -> list[tuple[T, Sequence[T]]]:
    """Return the spans that began during others, in order of time, each with those others.

    A span may begin the moment another ends.
    """
    found: list[tuple[T, Sequence[T]]] = []
    under_way: list[T] = []
    for span in sorted(spans, key=lambda each: (each.started, each.ended is None, each.ended or 0)):
        under_way = [each for each in under_way if each.ended is None or span.started < each.ended]
        if under_way:
            found.append((span, tuple(under_way)))
        under_way.append(span)
    return found
