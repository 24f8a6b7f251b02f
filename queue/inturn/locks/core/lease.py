"""Leases of threads and of tasks. See `base_lease` for what they promise."""

import asyncio
import threading
from contextlib import AbstractContextManager

from inturn.locks.core.base_lease import BaseLease
from inturn.locks.core.engine import repeat_if_unclear
from inturn.locks.core.protocol import AsyncPort, Port, run, run_async


class Lease(BaseLease):
    """One acquisition of a lock, from `acquire()` or `with`. Its `fence` grows each time."""

    port: Port

    @property
    def _one_at_a_time(self) -> AbstractContextManager[object]:
        """A lock for renewals: of two at once, we could not tell which the store saw last."""
        lock: AbstractContextManager[object] = vars(self).setdefault("_renewing", threading.RLock())
        return lock

    def release(self) -> None:
        """Give the lock back. Raise LockLost if it was lost; a second call does nothing."""
        if self._begin_release():
            try:
                was_ours = run(repeat_if_unclear(self._contender.drop), self.port)
            finally:
                self.port.close()  # without its connection, a mutex is free
            self._end_release(was_ours)

    def extend(self, ttl: float) -> None:
        """Let it live for `ttl` seconds from now. The watchdog keeps renewing it for as long."""
        self._check_extension(ttl)
        try:
            self.renew(ttl)
        finally:
            self.reschedule()
        self.ensure()

    def renew(self, new_ttl: float | None = None) -> None:
        """Restart its time to live, or give it one of `new_ttl` seconds."""
        with self._one_at_a_time:
            run(self._renew(new_ttl), self.port)

    def owned(self) -> bool:
        """Return True if the store says that the lock is still held by this lease."""
        if self.foreign or self.released:
            return False
        return run(repeat_if_unclear(self._contender.owned), self.port)


class AsyncLease(BaseLease):
    """One acquisition of one async lock."""

    port: AsyncPort

    @property
    def _one_at_a_time(self) -> asyncio.Lock:
        lock: asyncio.Lock = vars(self).setdefault("_renewing", asyncio.Lock())
        return lock

    async def release(self) -> None:
        """Give the lock back. Raise LockLost if it was lost; a second call does nothing."""
        if self._begin_release():
            try:
                was_ours = await run_async(repeat_if_unclear(self._contender.drop), self.port)
            finally:
                await self.port.close()
            self._end_release(was_ours)

    async def extend(self, ttl: float) -> None:
        """Let it live for `ttl` seconds from now. The watchdog keeps renewing it for as long."""
        self._check_extension(ttl)
        try:
            await self.renew(ttl)
        finally:
            self.reschedule()
        self.ensure()

    async def renew(self, new_ttl: float | None = None) -> None:
        """Restart its time to live, or give it one of `new_ttl` seconds."""
        async with self._one_at_a_time:
            await run_async(self._renew(new_ttl), self.port)

    async def owned(self) -> bool:
        """Return True if the store says that the lock is still held by this lease."""
        if self.foreign or self.released:
            return False
        return await run_async(repeat_if_unclear(self._contender.owned), self.port)
