"""The one engine of all locks: trying, waiting, deadlines, giving back. It touches no store and knows no colour.

A claim is one contender's dealings with a store under one lock_id. Its operations are generators of requests (steps.py),
each safe to repeat: the store recognises the lock_id, so a reply that was lost on the way changes nothing.
"""

import os
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, ParamSpec, TypeVar

from inturn.locks.core.protocol import Listen, Pause, Steps
from inturn.locks.errors import LockBackendError, LockError

T = TypeVar("T")
P = ParamSpec("P")
QUICKLY = 1.0  # seconds
SHORTEST_PAUSE, LONGEST_PAUSE = 0.001, 0.05  # seconds: where nothing tells a waiter that the lock is free


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock, as far as its store tells."""

    name: str
    owner: str | None = None
    lock_id: str | None = None
    acquired_at: float | None = None  # seconds since the epoch, by the store's clock
    age: float | None = None
    ttl: float | None = None  # seconds that are left; None: no expiry
    fence: int | None = None


class Grant(NamedTuple):
    owner: str | None = None
    fence: int | None = None
    acquired_at: float | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    holder: Holder | None = None
    retry_in: float | None = None  # seconds after which the lock may be free without anybody saying so


class Renewal(Enum):
    RENEWED = 1
    RELEASED = 2  # by its owner, through a handle
    GONE = 0


class Claim(ABC):
    channel: bytes | None = None  # where a release is told
    longest_pause: float = LONGEST_PAUSE

    def __init__(self, name: str, lock_id: str | None = None) -> None:
        self.name = name
        self.lock_id = lock_id or os.urandom(16).hex()

    @abstractmethod
    def take(self, patience: float) -> Steps[Grant | Refusal]:
        """One try. A store that has a queue of its own may wait there for `patience` seconds."""

    @abstractmethod
    def drop(self) -> Steps[bool]:
        """Give back; False if it was not ours any more. Also after a take whose outcome is unknown."""

    @abstractmethod
    def renew(self, ttl: float | None) -> Steps[Renewal]:
        """Prove that it is ours and, where it has a time to live, set that anew."""

    @abstractmethod
    def owned(self) -> Steps[bool]: ...

    def leave(self) -> Steps[None]:
        """Stop waiting: for stores that keep a queue."""
        yield from ()


def acquire(claim: Claim, deadline: float | None, clock: Callable[[], float]) -> Steps[tuple[Grant | Refusal, float]]:
    """The outcome, and when the try that brought it was begun. Without a deadline it waits for ever."""
    listening = False
    pauses: Iterator[float] | None = None
    try:
        while True:
            began = clock()
            patience = float("inf") if deadline is None else max(0.0, deadline - began)
            outcome = yield from _taken(claim, patience, clock, began, deadline)
            if isinstance(outcome, Grant):
                return outcome, began
            left = float("inf") if deadline is None else deadline - clock()
            if left <= 0:
                yield from claim.leave()
                return outcome, began
            if claim.channel and not listening:
                listening = True
                yield Listen(claim.channel)
                continue  # it may have become free before we listened
            pauses = pauses or growing(claim.longest_pause)
            yield Pause(min(left, next(pauses), float("inf") if outcome.retry_in is None else outcome.retry_in))
    except (GeneratorExit, LockBackendError):
        raise  # nobody is there to answer
    except BaseException:
        # Cancelled, perhaps between a grant and its reply.
        with suppress(LockError):
            yield from claim.drop()
        raise


def repeated(operation: Callable[P, Steps[T]], *args: P.args, **kwargs: P.kwargs) -> Steps[T]:
    """Once more at once, if the reply was lost: connections die in idle hours, and claims can be repeated."""
    try:
        return (yield from operation(*args, **kwargs))
    except LockBackendError as error:
        if not error.unclear:
            raise
    return (yield from operation(*args, **kwargs))


def _taken(
    claim: Claim, patience: float, clock: Callable[[], float], began: float, deadline: float | None
) -> Steps[Grant | Refusal]:
    """As `repeated`; but a store that was silent until the time was over is not asked again."""
    try:
        return (yield from claim.take(patience))
    except LockBackendError as error:
        if not error.unclear or (deadline is not None and clock() >= max(deadline, began + QUICKLY)):
            raise
    return (yield from claim.take(patience))


def growing(longest: float) -> Iterator[float]:
    """Pauses that double, with jitter, so that waiters who began together do not go on together."""
    pause = SHORTEST_PAUSE
    while True:
        yield pause * random.uniform(0.5, 1)  # noqa: S311 (spreads waiters, protects nothing)
        pause = min(longest, 2 * pause)
