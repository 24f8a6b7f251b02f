"""A lease: one acquisition of one lock. The lease owns the lock, not a thread or task.

**Promises.** A lease decides by the monotonic clock whether it is valid, counting from before the
request that acquired or renewed it. A silent store or a stopped process cannot make a lease look
alive. A lease that ended without a release is lost: `lost` is set, the callbacks of `on_lost` run
once, and `ensure()` raises. After a fork the child's copies are invalid and touch nothing.

**What it does not promise.** Another holder may run at the same time, because a lease can be lost
between two calls of `ensure()`. If that matters, pass `fence` to what you protect, and let it
refuse every number lower than one it has seen.
"""

import json
import logging
import threading
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol
from weakref import ref

from inturn.locks.core.contender import Contender, Grant, Renewal
from inturn.locks.core.engine import repeat_if_unclear
from inturn.locks.core.lazy_event import LazyEvent
from inturn.locks.core.process import process
from inturn.locks.core.protocol import Steps
from inturn.locks.core.settings import LockSettings, check_ttl
from inturn.locks.errors import LockLost, LockNotHeld

logger = logging.getLogger(__name__)


class Watcher(Protocol):
    """Looks at a lease when its renewal or its end is due."""

    def reschedule(self, lease: "BaseLease") -> None:
        """Look at the lease sooner, if a change of its life requires it."""


class Lender(Protocol):
    """The lock that a lease came from."""

    settings: LockSettings

    def forget(self, lease: Any) -> None: ...


class BaseLease:
    """What the leases of threads and of tasks have in common."""

    def __init__(
        self, lock: Lender, contender: Contender, grant: Grant, port: Any, began: float
    ) -> None:
        settings = lock.settings
        self.name = contender.name
        self.lock_id = contender.lock_id
        self.fence = grant.fence
        self.owner = grant.owner
        self.acquired_at = grant.acquired_at
        self.port = port
        self.ttl = settings.ttl
        self._changing = threading.Lock()
        self.lost = LazyEvent(self._changing)
        self.released = False
        self.ending = False  # a release has begun, so there are no more renewals
        self.why_lost = ""
        self.clock = settings.clock
        self.began = began
        self.since = began  # when the request that set its present life began
        self.life = settings.ttl  # what the last renewal granted; the next one asks for `ttl`
        self.renews = settings.renew
        self.watched_by: Watcher | None = None
        self.last_end = None if settings.max_hold is None else began + settings.max_hold
        self.expires = self._end_of(settings.ttl, began)
        self._contender = contender
        # The lock refers to us. A reference cycle would keep both until garbage collection.
        self._lock = ref(lock)
        self._pid = process.pid
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
        """True in a forked child: the lease belongs to its parent."""
        return self._pid != process.pid

    def remaining(self) -> float:
        """Return the seconds until it ends unless renewed, infinite without a ttl."""
        return float("inf") if self.expires is None else max(0.0, self.expires - self.clock())

    def ensure(self) -> None:
        """Raise LockLost or LockNotHeld unless the lease is valid now."""
        if self.released or self.foreign:
            raise self._not_held()
        self.expire()
        if self.lost:
            raise self.loss()

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Call `callback` once when the lease is lost, or immediately if it is already lost.

        It runs in the watchdog's thread, or in the event loop.
        """
        with self._changing:
            if not self.lost:
                self._callbacks.append(callback)
                return
        self._run_callback(callback)

    def handle(self) -> str:
        """Return a string from which `from_handle` restores this lease in another function.

        Unless it is a mutex, this also works in another process.
        """
        facts = {
            "name": self.name,
            "lock_id": self.lock_id,
            "fence": self.fence,
            "owner": self.owner,
            "acquired_at": self.acquired_at,
        }
        return urlsafe_b64encode(json.dumps(facts).encode()).decode()

    def lose(self, why: str) -> None:
        """Mark the lease as lost and run its callbacks, unless it is already over."""
        with self._changing:
            if self.released or self.ending or self.lost or self.foreign:
                return
            self.why_lost = why
            self.lost.set()
            callbacks, self._callbacks = self._callbacks, []
            process.pinned_leases.discard(self)
        logger.warning("lock.lost: %s", self.loss())
        for callback in callbacks:
            self._run_callback(callback)

    def expire(self) -> None:
        """Mark the lease as lost if its time is up."""
        if self.remaining() <= 0:
            self.lose("its time to live ended")

    def loss(self) -> LockLost:
        """Return the error that tells why the lease is lost."""
        return LockLost(
            f"lost, because {self.why_lost or 'its time to live ended'}",
            name=self.name,
            owner=self.owner,
            age=self.age,
            ttl=self.ttl,
        )

    def next_ttl(self) -> float | None:
        """Return the time to live that a renewal may request, or 0 if `max_hold` is used up."""
        if self.ttl is None or self.last_end is None:
            return self.ttl
        return max(0.0, min(self.ttl, self.last_end - self.clock()))

    def _renew(self, new_ttl: float | None) -> Steps[None]:
        self.ttl = new_ttl or self.ttl
        ttl, began = self.next_ttl(), self.clock()
        end = self._end_of(ttl, began)
        if end is not None and self.expires is not None:
            # The request may set an earlier end even if its reply is lost.
            self.expires = min(self.expires, end)
        outcome = yield from repeat_if_unclear(self._contender.renew, ttl)
        if outcome is Renewal.RENEWED:
            self.since, self.life = began, self.ttl
            self.expires = self._end_of(ttl, began)
        elif outcome is Renewal.RELEASED:
            self.note_released()
        else:
            self.lose("it was taken over or broken")

    def note_released(self) -> None:
        self.released = True
        process.pinned_leases.discard(self)
        lock = self._lock()
        if lock is not None:
            lock.forget(self)

    def reschedule(self) -> None:
        """Tell the watchdog that the end of the lease has changed."""
        if self.watched_by is not None:
            self.watched_by.reschedule(self)

    def _begin_release(self) -> bool:
        """Return False if there is nothing to give back."""
        if self.foreign:
            raise self._not_held()
        if self.released:
            return False
        self.expire()
        self.ending = True
        return True

    def _end_release(self, was_ours: bool) -> None:
        self.note_released()
        if self.lost or not was_ours:
            self.why_lost = self.why_lost or "it was taken over or broken"
            raise self.loss()

    def _check_extension(self, ttl: float) -> None:
        check_ttl(ttl)
        if self.ttl is None:
            raise LockNotHeld(
                "it has no time to live, so there is nothing to extend",
                name=self.name,
                owner=self.owner,
            )
        self.ensure()

    def _end_of(self, ttl: float | None, began: float) -> float | None:
        if ttl is None:
            return self.last_end
        return began + ttl if self.last_end is None else min(began + ttl, self.last_end)

    def _not_held(self) -> LockNotHeld:
        forked = "it belongs to the process that this one was forked from"
        why = forked if self.foreign else "it was released"
        return LockNotHeld(why, name=self.name, owner=self.owner, age=self.age, ttl=self.ttl)

    def _run_callback(self, callback: Callable[[], object]) -> None:
        try:
            callback()
        except Exception:
            logger.exception("lock.lost: a callback of %r failed", self.name)


def decode_handle(handle: str) -> dict[str, Any]:
    """Return the facts that `BaseLease.handle` has put into this string."""
    with suppress(ValueError, KeyError):
        facts = json.loads(urlsafe_b64decode(handle))
        if (
            isinstance(facts, dict)
            and isinstance(facts["name"], str)
            and isinstance(facts["lock_id"], str)
            and facts.keys() >= {"owner", "fence", "acquired_at"}
        ):
            return facts
    raise ValueError("this is not a lock's handle; pass what Lease.handle() returned")
