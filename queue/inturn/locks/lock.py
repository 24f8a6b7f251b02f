"""The face of every lock: acquire, release, extend, locked, owned, and the context manager, in two colours.

A lock object may be shared by threads and tasks; each caller releases only what it acquired itself. Whoever wants to
release elsewhere takes the lease, or its handle, along. The context manager raises when it could not acquire: its body
never runs unlocked, unless the lock was made with `on_timeout="proceed"`; then it receives None and releases nothing.
"""

import asyncio
import copy
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Generic, Literal, Self, TypeVar

from inturn.locks import engine
from inturn.locks.engine import Claim, Grant, Holder, Refusal
from inturn.locks.errors import LockBackendError, LockDeadlock, LockError, LockLost, LockNotHeld, LockTimeout
from inturn.locks.lease import AsyncLease, BaseLease, Lease, check_ttl, facts_of, kept, living
from inturn.locks.steps import AsyncPort, Port, Steps, run, run_async
from inturn.locks.watchdog import watch

L = TypeVar("L", bound=BaseLease)
T = TypeVar("T")
OnTimeout = Literal["raise", "proceed"]


@dataclass(frozen=True, slots=True)
class Terms:
    """How long a lock lives, and how long one waits for it; seconds."""

    ttl: float | None = None
    timeout: float | None = None
    on_timeout: OnTimeout = "raise"
    renew: bool = True
    max_hold: float | None = None
    clock: Callable[[], float] = time.monotonic

    @property
    def first_ttl(self) -> float:
        """For locks that have one."""
        assert self.ttl is not None
        return self.ttl if self.max_hold is None else min(self.ttl, self.max_hold)

    def __post_init__(self) -> None:
        check_ttl(self.ttl)
        if self.max_hold is not None and not self.max_hold > 0:
            raise ValueError(f"max_hold={self.max_hold}: give more than no seconds, or None")
        if self.on_timeout not in ("raise", "proceed"):
            raise ValueError(f"on_timeout={self.on_timeout!r}: choose 'raise' or 'proceed'")


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


class Lock(BaseLock[Lease]):
    @abstractmethod
    def port(self) -> Port: ...

    def acquire(self, timeout: float | None = None, blocking: bool = True) -> Lease | None:
        """The lease, or None if somebody else held the lock all the time (`timeout`: seconds, by default the lock's)."""
        lease, _ = self._try(self._deadline(timeout, blocking))
        return lease and self._hold(lease)

    def release(self) -> None:
        lease = self._mine()
        try:
            lease.release()
        finally:
            if lease.released:
                self._forget(lease)

    def extend(self, ttl: float) -> None:
        self._mine().extend(ttl)

    def locked(self) -> bool:
        """Held by anybody."""
        return self.holder() is not None

    def owned(self) -> bool:
        """Held by this thread or task, as the store says."""
        try:
            return self._mine().owned()
        except LockNotHeld:
            return False

    def holder(self) -> Holder | None:
        return self._once(self.look())

    def break_(self) -> bool:
        """Free it by force, whoever holds it; False if nobody did. Its fence rises, so that the old holder is refused."""
        return self._once(self.break_steps())

    def from_handle(self, handle: str) -> Lease:
        """The lease that this handle was made of; raises LockNotHeld if that is over."""
        claim, grant = self._facts(handle)
        known = self._known(claim)
        if isinstance(known, Lease):
            return known
        began = self.terms.clock()
        port = self.port()
        if run(engine.repeated(claim.owned), port):
            return self._granted(Lease, claim, grant, began, port)
        port.close()
        raise LockNotHeld("the lease of this handle is over", name=self.name, owner=grant.owner)

    def attempt(self, timeout: float | None) -> tuple[Lease | None, Refusal | None]:
        """A lease that only its receiver releases, or who was in the way."""
        return self._try(self._deadline(timeout, True))

    @contextmanager
    def until_released(self, lease: Lease | None) -> Iterator[Lease | None]:
        """Release it at the end; a loss that nobody noticed is raised, unless the body's own error says more."""
        try:
            yield lease
        except BaseException:
            with suppress(LockLost, LockBackendError):
                self._release(lease)
            raise
        self._release(lease)

    def _release(self, lease: Lease | None) -> None:
        if lease is not None:
            try:
                lease.release()
            finally:
                self._forget(lease)

    def __enter__(self) -> Lease | None:
        lease, refusal = self._try(self._deadline(None, True))
        return self._entered_with(lease, refusal)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        lease = self._leave()
        if kind is None:
            self._release(lease)
        else:
            with suppress(LockLost, LockBackendError):
                self._release(lease)

    def _try(self, deadline: float | None) -> tuple[Lease | None, Refusal | None]:
        claim, port = self.claim(), self.port()
        try:
            outcome, began = run(engine.acquire(claim, deadline, self.terms.clock), port)
            port.rest()
        except BaseException:
            port.close()
            raise
        if isinstance(outcome, Grant):
            return self._granted(Lease, claim, outcome, began, port), None
        port.close()
        return None, outcome

    def _once(self, steps: Steps[engine.T]) -> engine.T:
        port = self.port()
        try:
            return run(steps, port)
        finally:
            port.close()


class AsyncLock(BaseLock[AsyncLease]):
    @abstractmethod
    def port(self) -> AsyncPort: ...

    async def acquire(self, timeout: float | None = None, blocking: bool = True) -> AsyncLease | None:  # noqa: ASYNC109
        """The lease, or None if somebody else held the lock all the time (`timeout`: seconds, by default the lock's)."""
        lease, _ = await self._try(self._deadline(timeout, blocking))
        return lease and self._hold(lease)

    async def release(self) -> None:
        lease = self._mine()
        try:
            await lease.release()
        finally:
            if lease.released:
                self._forget(lease)

    async def extend(self, ttl: float) -> None:
        await self._mine().extend(ttl)

    async def locked(self) -> bool:
        """Held by anybody."""
        return await self.holder() is not None

    async def owned(self) -> bool:
        """Held by this task, as the store says."""
        try:
            return await self._mine().owned()
        except LockNotHeld:
            return False

    async def holder(self) -> Holder | None:
        return await self._once(self.look())

    async def break_(self) -> bool:
        """Free it by force, whoever holds it; False if nobody did. Its fence rises, so that the old holder is refused."""
        return await self._once(self.break_steps())

    async def from_handle(self, handle: str) -> AsyncLease:
        """The lease that this handle was made of; raises LockNotHeld if that is over."""
        claim, grant = self._facts(handle)
        known = self._known(claim)
        if isinstance(known, AsyncLease):
            return known
        began = self.terms.clock()
        port = self.port()
        if await run_async(engine.repeated(claim.owned), port):
            return self._granted(AsyncLease, claim, grant, began, port)
        await port.close()
        raise LockNotHeld("the lease of this handle is over", name=self.name, owner=grant.owner)

    async def attempt(self, timeout: float | None) -> tuple[AsyncLease | None, Refusal | None]:  # noqa: ASYNC109
        """A lease that only its receiver releases, or who was in the way."""
        return await self._try(self._deadline(timeout, True))

    @asynccontextmanager
    async def until_released(self, lease: AsyncLease | None) -> AsyncIterator[AsyncLease | None]:
        """Release it at the end; a loss that nobody noticed is raised, unless the body's own error says more."""
        try:
            yield lease
        except BaseException:
            with suppress(LockLost, LockBackendError):
                await self._release(lease)
            raise
        await self._release(lease)

    async def _release(self, lease: AsyncLease | None) -> None:
        if lease is not None:
            try:
                await lease.release()
            finally:
                self._forget(lease)

    async def __aenter__(self) -> AsyncLease | None:
        lease, refusal = await self._try(self._deadline(None, True))
        return self._entered_with(lease, refusal)

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        lease = self._leave()
        if kind is None:
            await self._release(lease)
        else:
            with suppress(LockLost, LockBackendError):
                await self._release(lease)

    async def _try(self, deadline: float | None) -> tuple[AsyncLease | None, Refusal | None]:
        claim, port = self.claim(), self.port()
        try:
            outcome, began = await run_async(engine.acquire(claim, deadline, self.terms.clock), port)
            await port.rest()
        except BaseException:
            await port.close()
            raise
        if isinstance(outcome, Grant):
            return self._granted(AsyncLease, claim, outcome, began, port), None
        await port.close()
        return None, outcome

    async def _once(self, steps: Steps[engine.T]) -> engine.T:
        port = self.port()
        try:
            return await run_async(steps, port)
        finally:
            await port.close()


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
