"""What every lock has, whatever its colour: its terms, who acquired it, what it says when it is busy."""

import asyncio
import copy
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, Self, TypeVar

from inturn.locks.core.base_lease import BaseLease, all_living, kept, living
from inturn.locks.core.engine import Claim, Grant, Holder, Refusal
from inturn.locks.core.handles import facts_of
from inturn.locks.core.protocol import Steps
from inturn.locks.core.settings import Terms
from inturn.locks.core.watchdog import watch
from inturn.locks.errors import LockDeadlock, LockError, LockNotHeld, LockTimeout

L = TypeVar("L", bound=BaseLease)


class BaseLock(ABC, Generic[L]):
    portable = True  # its leases mean something in another process
    permits = 1

    def __init__(self, name: str, terms: Terms) -> None:
        if not name:
            raise ValueError("a lock needs a name")
        self.name = name
        self.terms = terms
        self._held: dict[L, object] = {}  # who acquired it; the last is the latest
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
        if self.permits == 1 and self._held and any(lease.valid for lease in self._held_by(caller())):
            raise LockDeadlock("you hold it already, and would wait for yourself for ever", name=self.name)
        return None

    def _granted(self, make: Callable[..., L], claim: Claim, outcome: Grant, began: float, port: object) -> L:
        terms = self.terms
        lease = make(self, claim, outcome, port, began)
        living[id(lease)] = lease
        if terms.renew and not self.portable:
            kept.add(lease)
        watch(lease)
        return lease

    def _hold(self, lease: L) -> L:
        self._held[lease] = caller()
        return lease

    def _held_by(self, whom: object) -> list[L]:
        return [lease for lease, holder in self._held.copy().items() if holder is whom]

    def _mine(self) -> L:
        """The lease that this thread or task acquired last."""
        ended = (who for who in list(self._held.values()) if isinstance(who, asyncio.Task) and who.done())
        for who in (caller(), *ended):  # what a task acquired that has ended since belongs to whoever goes on
            for lease in reversed(self._held_by(who)):
                if not lease.released and not lease.foreign:
                    return lease
        raise LockNotHeld(
            "this thread or task did not acquire it, or has released it; elsewhere release the lease", name=self.name
        )

    def forget(self, lease: L) -> None:
        """It was released, by whomever."""
        self._held.pop(lease, None)

    def _entered_with(self, lease: L | None, refusal: Refusal | None) -> L | None:
        me = caller()
        if lease is not None:
            self._held[lease] = me
        elif self.terms.on_timeout == "raise":
            raise self.busy(refusal)
        self._entered.setdefault(me, []).append(lease)
        return lease

    def _leave(self) -> L | None:
        key = caller()
        entered = self._entered[key]
        lease = entered.pop()
        if lease is not None:
            self.forget(lease)
        if not entered:
            del self._entered[key]
        return lease

    def busy(self, refusal: Refusal | None) -> LockTimeout:
        holder = refusal.holder if refusal else None
        if holder is None:
            return LockTimeout("somebody else holds it", name=self.name)
        return LockTimeout("somebody else holds it", name=self.name, owner=holder.owner, age=holder.age, ttl=holder.ttl)

    def _known(self, claim: Claim, colour: type[L]) -> L | None:
        """The lease itself, if it is one of this process."""
        for known in all_living():
            if isinstance(known, colour) and known.lock_id == claim.lock_id and not known.foreign:
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
    task = asyncio.current_task() if asyncio._get_running_loop() else None
    return task or threading.current_thread()
