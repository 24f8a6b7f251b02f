"""A contender: one attempt to hold a lock in a store, under its own lock_id.

Each store implements its operations as generators of requests (see `protocol`). Every operation is
safe to repeat, because the store recognises the lock_id, so a lost reply changes nothing.
"""

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from inturn.locks.core.pauses import LONGEST_PAUSE
from inturn.locks.core.protocol import Steps


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a lock, as far as the store knows."""

    name: str
    owner: str | None = None
    lock_id: str | None = None
    acquired_at: float | None = None  # seconds since the epoch, by the store's clock
    age: float | None = None
    ttl: float | None = None  # seconds left; None means that it does not expire
    fence: int | None = None


class Grant(NamedTuple):
    """The contender holds the lock."""

    owner: str | None = None
    fence: int | None = None
    acquired_at: float | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Another holder has the lock."""

    holder: Holder | None = None
    retry_in: float | None = None  # seconds after which the lock may be free without a message


class Renewal(Enum):
    RENEWED = 1
    RELEASED = 2  # by its owner, through a handle
    GONE = 0


class Contender(ABC):
    """What a contender asks of the store: to take, renew and give back one lock."""

    channel: bytes | None = None  # where the store announces a release
    longest_pause: float = LONGEST_PAUSE

    def __init__(self, lock: Any, lock_id: str | None = None) -> None:
        self.name: str = lock.name
        self.lock_id = lock_id or os.urandom(16).hex()
        self._lock = lock

    @abstractmethod
    def take(self, patience: float) -> Steps[Grant | Refusal]:
        """Try once. A store with its own queue may wait there for `patience` seconds."""

    @abstractmethod
    def drop(self) -> Steps[bool]:
        """Give the lock back. Return False if it was no longer ours.

        Also called after a `take` whose outcome is unknown.
        """

    def renew(self, ttl: float | None) -> Steps[Renewal]:
        """Check that the lock is still ours. A lock with a time to live also restarts it."""
        return Renewal.RENEWED if (yield from self.owned()) else Renewal.GONE

    @abstractmethod
    def owned(self) -> Steps[bool]: ...

    def leave(self) -> Steps[None]:
        """Stop waiting. Only stores that keep a queue of waiters need this."""
        yield from ()
