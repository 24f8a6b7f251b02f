"""The methods of every lock, for tasks. See `lock`."""

from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from functools import partial

from inturn.locks.core import engine
from inturn.locks.core.base_lock import BaseLock
from inturn.locks.core.contender import Grant, Holder, Refusal
from inturn.locks.core.lease import AsyncLease
from inturn.locks.core.protocol import AsyncPort, Steps, run_async
from inturn.locks.errors import LockBackendError, LockLost, LockNotHeld


class AsyncLock(BaseLock[AsyncLease]):
    """A lock for tasks."""

    @abstractmethod
    def port(self) -> AsyncPort: ...

    async def acquire(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 (as in Lock)
        blocking: bool = True,
    ) -> AsyncLease | None:
        """Return the lease, or None if the lock was held elsewhere for all of `timeout` seconds.

        By default the lock's own timeout applies.
        """
        lease, _ = await self.try_acquire(timeout, blocking)
        return lease and self._hold(lease)

    async def release(self) -> None:
        """Release what this task acquired last."""
        await self._get_own_lease().release()

    async def extend(self, ttl: float) -> None:
        """Extend what this task acquired last."""
        await self._get_own_lease().extend(ttl)

    async def locked(self) -> bool:
        """Return True if the lock is held."""
        return await self.holder() is not None

    async def owned(self) -> bool:
        """Return True if the store confirms that this task holds the lock."""
        try:
            return await self._get_own_lease().owned()
        except LockNotHeld:
            return False

    async def holder(self) -> Holder | None:
        """Return who holds the lock, or None if it is free."""
        return await self._run(self.look())

    async def break_(self) -> bool:
        """Free the lock by force. Return False if it was not held.

        If the lock has a fence, the fence rises, so that the old holder is refused.
        """
        return await self._run(self.break_steps())

    async def from_handle(self, handle: str) -> AsyncLease:
        """Return the lease of this handle, or raise LockNotHeld if that lease is over."""
        contender, grant = self._read_handle(handle)
        known = self._find_lease(contender, AsyncLease)
        if known is not None:
            return known
        began = self.settings.clock()
        port = self.port()
        if await run_async(engine.repeat_if_unclear(contender.owned), port):
            return self._make_lease(AsyncLease, contender, grant, began, port)
        await port.close()
        raise self._lease_over(grant.owner)

    async def try_acquire(
        self,
        timeout: float | None,  # noqa: ASYNC109 (as in Lock)
        blocking: bool = True,
    ) -> tuple[AsyncLease | None, Refusal | None]:
        deadline = self._deadline(timeout, blocking)
        contender, port = self.new_contender(), self.port()
        try:
            outcome, began = await run_async(
                engine.acquire(contender, deadline, self.settings.clock), port
            )
            await port.rest()
        except BaseException:
            await port.close()
            raise
        if isinstance(outcome, Grant):
            return self._make_lease(AsyncLease, contender, outcome, began, port), None
        await port.close()
        return None, outcome

    @asynccontextmanager
    async def until_released(self, lease: AsyncLease | None) -> AsyncIterator[AsyncLease | None]:
        async with AsyncExitStack() as stack:
            stack.push_async_exit(partial(self.release_at_exit, lease))
            yield lease

    async def __aenter__(self) -> AsyncLease | None:
        return self._enter(*await self.try_acquire(None))

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.release_at_exit(self._leave(), kind)

    async def release_at_exit(self, lease: AsyncLease | None, error: object, *_: object) -> None:
        if lease is None:
            return
        with nullcontext() if error is None else suppress(LockLost, LockBackendError):
            await lease.release()

    async def _run(self, steps: Steps[engine.T]) -> engine.T:
        port = self.port()
        try:
            return await run_async(steps, port)
        finally:
            await port.close()
