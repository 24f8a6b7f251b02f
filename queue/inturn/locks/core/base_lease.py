"""A lease: one acquisition of one lock, and the only thing that owns it. Threads and tasks own nothing.

Promises. Validity ends here, on the monotonic clock, measured from before the request that acquired or renewed: a
store that has gone silent, or a process that was stopped, cannot make a lease look alive. What ended without being
released is lost: `lost` is set, the callbacks of `on_lost` run once, `ensure()` raises.
After a fork the child's copies are invalid and touch nothing.

It does not promise that nobody else runs meanwhile: between two calls of `ensure()` a lease can be lost. Where that
matters, hand `fence` to whatever is protected, and let it refuse a smaller number than it has seen.
"""

import json
import logging
import os
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary, ref

from inturn.locks.core.engine import Claim, Grant, Renewal
from inturn.locks.core.lazy_event import Loss
from inturn.locks.core.settings import check_ttl
from inturn.locks.errors import LockLost, LockNotHeld

if TYPE_CHECKING:
    from inturn.locks.core.base_lock import BaseLock

logger = logging.getLogger(__name__)
_pid = os.getpid()
# Of this process, by id(): a handle may make two of one lock_id.
living: "WeakValueDictionary[int, BaseLease]" = WeakValueDictionary()
kept: "set[BaseLease]" = set()  # a mutex is not lost with the last reference to it, but with its process


def all_living() -> "list[BaseLease]":
    """Safe while other threads acquire."""
    return [lease for known in living.valuerefs() if (lease := known()) is not None]


class Watcher(Protocol):
    def hasten(self, lease: "BaseLease") -> None:
        """Its life has changed: look at it sooner, if that is due sooner now."""


def _note_fork() -> None:
    global _pid
    _pid = os.getpid()


os.register_at_fork(after_in_child=_note_fork)


class BaseLease:
    def __init__(self, lock: "BaseLock[Any]", claim: Claim, grant: Grant, port: Any, began: float) -> None:
        terms = lock.terms
        self.name = claim.name
        self.lock_id = claim.lock_id
        self.fence = grant.fence
        self.owner = grant.owner
        self.acquired_at = grant.acquired_at
        self.port = port
        self.ttl = terms.ttl
        self._changing = threading.Lock()
        self.lost = Loss(self._changing)
        self.released = False
        self.ending = False  # a release was begun: no more renewals
        self.why_lost = ""
        self.clock = terms.clock
        self.began = began
        self.since = began  # when the request was begun that set its present life
        self.life = terms.ttl  # of which a renewal was granted last; `ttl` is what the next one asks for
        self.renews = terms.renew
        self.watched_by: Watcher | None = None
        self.last_end = None if terms.max_hold is None else began + terms.max_hold
        self.expires = self._end_of(terms.ttl, began)
        self._claim = claim
        self._lock = ref(lock)  # which has us: two that know each other would not be gone at once
        self._pid = _pid
        self._callbacks: list[Callable[[], object]] = []

    def __repr__(self) -> str:
        state = "released" if self.released else "valid" if self.valid else "lost"
        return f"<lease on {self.name!r}: {state}, fence {self.fence}, lock_id {self.lock_id}>"

    @property
    def age(self) -> float:
        return self.clock() - self.began

    @property
    def valid(self) -> bool:
        return not (self.released or self.lost or self.foreign or self.remaining() <= 0)

    @property
    def foreign(self) -> bool:
        """It belongs to the process that we were forked from."""
        return self._pid != _pid

    def remaining(self) -> float:
        """Seconds until it ends unless it is renewed; infinite for a lock without a time to live."""
        return float("inf") if self.expires is None else max(0.0, self.expires - self.clock())

    def ensure(self) -> None:
        """Raise unless it is valid now."""
        if self.released or self.foreign:
            raise self._not_held()
        self.expire()
        if self.lost:
            raise self.loss()

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Call it once, from the watchdog's thread or in the event loop; at once if it is lost already."""
        with self._changing:
            if not self.lost:
                self._callbacks.append(callback)
                return
        self._tell(callback)

    def handle(self) -> str:
        """A string from which another function, or for leases another process, gets this lease: `from_handle`."""
        facts = {
            "name": self.name,
            "lock_id": self.lock_id,
            "fence": self.fence,
            "owner": self.owner,
            "acquired_at": self.acquired_at,
        }
        return urlsafe_b64encode(json.dumps(facts).encode()).decode()

    def lose(self, why: str) -> None:
        with self._changing:
            if self.released or self.ending or self.lost or self.foreign:
                return
            self.why_lost = why
            self.lost.set()
            callbacks, self._callbacks = self._callbacks, []
            kept.discard(self)
        logger.warning("lock.lost: %s", self.loss())
        for callback in callbacks:
            self._tell(callback)

    def expire(self) -> None:
        if self.remaining() <= 0:
            self.lose("its time to live ended")

    def loss(self) -> LockLost:
        return LockLost(
            f"lost, because {self.why_lost or 'its time to live ended'}",
            name=self.name,
            owner=self.owner,
            age=self.age,
            ttl=self.ttl,
        )

    def next_ttl(self) -> float | None:
        """What a renewal may ask for; 0 when `max_hold` is used up."""
        if self.ttl is None or self.last_end is None:
            return self.ttl
        return max(0.0, min(self.ttl, self.last_end - self.clock()))

    def renewed(self, outcome: Renewal, ttl: float | None, began: float) -> None:
        """Take in what a renewal that was begun then has brought."""
        if outcome is Renewal.RENEWED:
            self.since, self.life = began, self.ttl
            self.expires = self._end_of(ttl, began)
        elif outcome is Renewal.RELEASED:
            self.note_released()
        else:
            self.lose("somebody else has it or has broken it")

    def _begin_release(self) -> bool:
        """False: there is nothing to give back."""
        if self.foreign:
            raise self._not_held()
        if self.released:
            return False
        self.expire()
        self.ending = True
        return True

    def note_released(self) -> None:
        self.released = True
        kept.discard(self)
        lock = self._lock()
        if lock is not None:
            lock.forget(self)

    def _end_release(self, given_back: bool) -> None:
        self.note_released()
        if self.lost or not given_back:
            self.why_lost = self.why_lost or "somebody else has it or has broken it"
            raise self.loss()

    def _extension(self, ttl: float) -> None:
        check_ttl(ttl)
        if self.ttl is None:
            raise LockNotHeld("it has no time to live that could be extended", name=self.name, owner=self.owner)
        self.ensure()

    def hasten(self) -> None:
        if self.watched_by is not None:
            self.watched_by.hasten(self)

    def _asks_for(self, ttl: float | None, began: float) -> None:
        """The reply may be lost, so what it shortens is shorter from now on."""
        end = self._end_of(ttl, began)
        if end is not None and self.expires is not None:
            self.expires = min(self.expires, end)

    def _end_of(self, ttl: float | None, began: float) -> float | None:
        if ttl is None:
            return self.last_end
        return began + ttl if self.last_end is None else min(began + ttl, self.last_end)

    def _not_held(self) -> LockNotHeld:
        why = "it belongs to the process that this one was forked from" if self.foreign else "it was released"
        return LockNotHeld(why, name=self.name, owner=self.owner, age=self.age, ttl=self.ttl)

    def _tell(self, callback: Callable[[], object]) -> None:
        try:
            callback()
        except Exception:
            logger.exception("lock.lost: a callback of %r failed", self.name)
