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
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

from inturn.locks.engine import Claim, Grant, Renewal, repeated
from inturn.locks.errors import LockLost, LockNotHeld
from inturn.locks.steps import AsyncPort, Port, run, run_async

logger = logging.getLogger(__name__)
Clock = Callable[[], float]
_pid = os.getpid()
living: "WeakValueDictionary[str, BaseLease]" = WeakValueDictionary()  # of this process, by lock_id


kept: "set[BaseLease]" = set()  # a mutex is not lost with the last reference to it, but with its process


def _note_fork() -> None:
    global _pid
    _pid = os.getpid()


os.register_at_fork(after_in_child=_note_fork)


class Loss:
    """An event that can also be asked in an `if`; what it takes to wait for it is made when somebody does."""

    __slots__ = ("_changing", "_event", "_set")

    def __init__(self, changing: "threading.Lock") -> None:
        self._set = False
        self._event: threading.Event | None = None
        self._changing = changing

    def __bool__(self) -> bool:
        return self._set

    is_set = __bool__

    def wait(self, timeout: float | None = None) -> bool:
        with self._changing:
            if self._set:
                return True
            self._event = event = self._event or threading.Event()
        return event.wait(timeout)

    def set(self) -> None:
        """Under the lock that it was made with."""
        self._set = True
        if self._event is not None:
            self._event.set()


class BaseLease:
    def __init__(
        self,
        claim: Claim,
        grant: Grant,
        *,
        ttl: float | None,
        began: float,
        max_hold: float | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self.name = claim.name
        self.lock_id = claim.lock_id
        self.fence = grant.fence
        self.owner = grant.owner
        self.acquired_at = grant.acquired_at
        self.ttl = ttl
        self._changing = threading.Lock()
        self.lost = Loss(self._changing)
        self.released = False
        self.ending = False  # a release was begun: no more renewals
        self.why_lost = ""
        self.clock = clock
        self.began = began
        self.last_end = None if max_hold is None else began + max_hold
        self.expires = self._end_of(ttl, began)
        self._claim = claim
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
            self._claim.lost()
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
            self.expires = self._end_of(ttl, began)
        elif outcome is Renewal.RELEASED:
            self.released = True
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

    def _end_release(self, given_back: bool) -> None:
        self.released = True
        kept.discard(self)
        if self.lost or not given_back:
            self.why_lost = self.why_lost or "somebody else has it or has broken it"
            raise self.loss()

    def _extension(self, ttl: float) -> None:
        check_ttl(ttl)
        if self.ttl is None:
            raise LockNotHeld("it has no time to live that could be extended", name=self.name, owner=self.owner)
        self.ensure()

    def _end_of(self, ttl: float | None, began: float) -> float | None:
        ends = [end for end in (None if ttl is None else began + ttl, self.last_end) if end is not None]
        return min(ends, default=None)

    def _not_held(self) -> LockNotHeld:
        why = "it belongs to the process that this one was forked from" if self.foreign else "it was released"
        return LockNotHeld(why, name=self.name, owner=self.owner, age=self.age, ttl=self.ttl)

    def _tell(self, callback: Callable[[], object]) -> None:
        try:
            callback()
        except Exception:
            logger.exception("lock.lost: a callback of %r failed", self.name)


class Lease(BaseLease):
    def __init__(self, claim: Claim, grant: Grant, port: Port, **terms: Any) -> None:
        super().__init__(claim, grant, **terms)
        self.port = port

    def release(self) -> None:
        """Give it back; raises LockLost if there was nothing left to give. Releasing again does nothing."""
        if self._begin_release():
            given_back = run(repeated(self._claim.drop), self.port)
            self.port.close()
            self._end_release(given_back)

    def extend(self, ttl: float) -> None:
        """From now on it lives for `ttl` seconds, and the watchdog renews it for as long."""
        self._extension(ttl)
        self.ttl = ttl
        self.renew()
        self.ensure()

    def renew(self) -> None:
        ttl, began = self.next_ttl(), self.clock()
        self.renewed(run(repeated(lambda: self._claim.renew(ttl)), self.port), ttl, began)

    def owned(self) -> bool:
        return not self.foreign and not self.released and run(repeated(self._claim.owned), self.port)


class AsyncLease(BaseLease):
    def __init__(self, claim: Claim, grant: Grant, port: AsyncPort, **terms: Any) -> None:
        super().__init__(claim, grant, **terms)
        self.port = port

    async def release(self) -> None:
        """Give it back; raises LockLost if there was nothing left to give. Releasing again does nothing."""
        if self._begin_release():
            given_back = await run_async(repeated(self._claim.drop), self.port)
            await self.port.close()
            self._end_release(given_back)

    async def extend(self, ttl: float) -> None:
        """From now on it lives for `ttl` seconds, and the watchdog renews it for as long."""
        self._extension(ttl)
        self.ttl = ttl
        await self.renew()
        self.ensure()

    async def renew(self) -> None:
        ttl, began = self.next_ttl(), self.clock()
        self.renewed(await run_async(repeated(lambda: self._claim.renew(ttl)), self.port), ttl, began)

    async def owned(self) -> bool:
        return not self.foreign and not self.released and await run_async(repeated(self._claim.owned), self.port)


def check_ttl(ttl: float | None) -> None:
    if ttl is not None and not ttl > 0:
        raise ValueError(f"ttl={ttl}: a time to live is more than nothing; give seconds")


def facts_of(handle: str) -> dict[str, Any]:
    try:
        facts = json.loads(urlsafe_b64decode(handle))
        if isinstance(facts, dict) and isinstance(facts["name"], str) and isinstance(facts["lock_id"], str):
            return facts
    except (ValueError, KeyError):
        pass
    raise ValueError("this is no handle of a lock; give what Lease.handle() returned")
