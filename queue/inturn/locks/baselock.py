"""What every lock has, whatever its colour: its terms, who acquired it, what it says when it is busy."""

import asyncio
import copy
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, Self, TypeVar

from inturn.locks.baselease import BaseLease, kept, living
from inturn.locks.engine import Claim, Grant, Holder, Refusal
from inturn.locks.errors import LockDeadlock, LockError, LockNotHeld, LockTimeout
from inturn.locks.handles import facts_of
from inturn.locks.steps import Steps
from inturn.locks.terms import Terms
from inturn.locks.watchdog import watch

L = TypeVar("L", bound=BaseLease)
T = TypeVar("T")


class BaseLock(ABC, Generic[L]):
    portable = True  # its leases mean something in another process
    permits = 1

    def __init__(self, name: str, terms: Terms) -> None:
        if not name:
            raise ValueError("a lock needs a name")
        self.name = name
        self.terms = terms
        self._held: dict[object, list[L]] = {}
        self._entered: dict[object, list[L | None]] = {}
        self._settings: Self | None = None

    @abstractmethod
    def claim(self, lock_id: str | None = None) -> Claim:
        """A new contender, or the one of a handle."""

    @abstractmethod
    def look(self) -> Steps[Holder | None]:
        """Who holds it; None: nobody."""

    def settings(self) -> Self:
        """Itself without its leases, for claims: a lock that nobody refers to takes its leases along at once."""
        if self._settings is None:
            self._settings = copy.copy(self)
            self._settings._held, self._settings._entered = {}, {}
        return self._settings

    def on_behalf_of(self, whom: str, attempt: int) -> Self:
        """For one of several attempts at one thing: itself, or a copy that need not wait for an earlier attempt."""
        return self

    def break_steps(self) -> Steps[bool]:
        yield from ()
        raise LockError("only its holder's end frees it: end that process or connection", name=self.name)

    def _deadline(self, timeout: float | None, blocking: bool) -> float | None:
        if not blocking:
            return self.terms.clock()
        timeout = self.terms.timeout if timeout is None else timeout
        if timeout is not None:
            return self.terms.clock() + timeout
        if self.permits == 1 and self._held and any(lease.valid for lease in self._held.get(caller(), ())):
            raise LockDeadlock("you hold it already, and would wait for yourself for ever", name=self.name)
        return None

    def _granted(self, make: Callable[..., L], claim: Claim, outcome: Grant, began: float, port: object) -> L:
        terms = self.terms
        lease = make(claim, outcome, port, ttl=terms.ttl, began=began, max_hold=terms.max_hold, clock=terms.clock)
        living[lease.lock_id] = lease
        if terms.renew and not self.portable:
            kept.add(lease)
        watch(lease, renewing=terms.renew)
        return lease

    def _hold(self, lease: L) -> L:
        _append(self._held, caller(), lease)
        return lease

    def _mine(self) -> L:
        """The lease that this thread or task acquired last."""
        ended = (key for key in list(self._held) if isinstance(key, asyncio.Task) and key.done())
        for key in (caller(), *ended):  # what a task acquired that has ended since belongs to whoever goes on
            for lease in reversed(self._held.get(key, [])):
                if not lease.released and not lease.foreign:
                    return lease
        raise LockNotHeld(
            "this thread or task did not acquire it, or has released it; elsewhere release the lease", name=self.name
        )

    def _forget(self, lease: L) -> None:
        for key, leases in list(self._held.items()):
            if any(other is lease for other in leases):
                leases[:] = [other for other in leases if other is not lease]
                if not leases:
                    self._held.pop(key, None)
                return

    def _entered_with(self, lease: L | None, refusal: Refusal | None) -> L | None:
        me = caller()
        if lease is not None:
            _append(self._held, me, lease)
        elif self.terms.on_timeout == "raise":
            raise self.busy(refusal)
        _append(self._entered, me, lease)
        return lease

    def _leave(self) -> L | None:
        key = caller()
        entered = self._entered[key]
        lease = entered.pop()
        if not entered:
            del self._entered[key]
        return lease

    def busy(self, refusal: Refusal | None) -> LockTimeout:
        holder = refusal.holder if refusal else None
        if holder is None:
            return LockTimeout("somebody else holds it", name=self.name)
        return LockTimeout("somebody else holds it", name=self.name, owner=holder.owner, age=holder.age, ttl=holder.ttl)

    def _known(self, claim: Claim) -> BaseLease | None:
        """The lease itself, if it is one of this process."""
        known = living.get(claim.lock_id)
        if known is not None and not known.foreign:
            if known.released:
                raise LockNotHeld("the lease of this handle is over", name=self.name, owner=known.owner)
            return known
        if self.portable:
            return None
        raise LockNotHeld("it lives and dies with the process that acquired it; release it there", name=self.name)

    def _facts(self, handle: str) -> tuple[Claim, Grant]:
        facts = facts_of(handle)
        if facts["name"] != self.name:
            raise ValueError(f"the handle is one of the lock {facts['name']!r}, and this is {self.name!r}")
        return self.claim(facts["lock_id"]), Grant(facts["owner"], facts["fence"], facts["acquired_at"])


def caller() -> object:
    """The running task, or else the thread."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    return task or threading.current_thread()


def _append(lists: dict[object, list[T]], key: object, value: T) -> None:
    known = lists.get(key)
    if known is None:
        lists[key] = [value]
    else:
        known.append(value)
