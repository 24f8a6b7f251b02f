"""As lock.py, for tasks."""

from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from inturn.locks.core import engine
from inturn.locks.core.base_lock import BaseLock
from inturn.locks.core.engine import Grant, Holder, Refusal
from inturn.locks.core.lease import AsyncLease
from inturn.locks.core.protocol import AsyncPort, Steps, run_async
from inturn.locks.errors import LockBackendError, LockLost, LockNotHeld


class AsyncLock(BaseLock[AsyncLease]):
    @abstractmethod
    def port(self) -> AsyncPort: ...

    async def acquire(self, timeout: float | None = None, blocking: bool = True) -> AsyncLease | None:  # noqa: ASYNC109
        """The lease, or None if somebody else held the lock all the time (`timeout`: seconds, by default the lock's)."""
        lease, _ = await self._try(self._deadline(timeout, blocking))
        return lease and self._hold(lease)

    async def release(self) -> None:
        await self._mine().release()

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
        known = self._known(claim, AsyncLease)
        if known is not None:
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
            await lease.release()

    async def __aenter__(self) -> AsyncLease | None:
        lease, refusal = await self._try(self._deadline(None, True))
        return self._entered_with(lease, refusal)

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        lease = self._leave()
        if lease is None:
            return
        if kind is None:
            await lease.release()
        else:
            with suppress(LockLost, LockBackendError):
                await lease.release()

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
