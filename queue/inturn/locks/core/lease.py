"""Leases of threads and of tasks; what they promise stands in baselease.py."""

import asyncio
import threading
from contextlib import AbstractContextManager

from inturn.locks.core.base_lease import BaseLease
from inturn.locks.core.engine import repeated
from inturn.locks.core.protocol import AsyncPort, Port, run, run_async


class Lease(BaseLease):
    """One acquisition of one lock: what `acquire()` and `with` give; its `fence` rises with each."""

    port: Port

    @property
    def _one_at_a_time(self) -> AbstractContextManager[object]:
        """Renewals: of two at once nobody could tell which the store has heard last."""
        return self.__dict__.setdefault("_renewing", threading.RLock())  # type: ignore[no-any-return]

    def release(self) -> None:
        """Give it back; raises LockLost if there was nothing left to give. Releasing again does nothing."""
        if self._begin_release():
            given_back = run(repeated(self._claim.drop), self.port)
            self.port.close()
            self._end_release(given_back)

    def extend(self, ttl: float) -> None:
        """From now on it lives for `ttl` seconds, and the watchdog renews it for as long."""
        self._extension(ttl)
        try:
            self.renew(ttl)
        finally:
            self.hasten()
        self.ensure()

    def renew(self, new_ttl: float | None = None) -> None:
        with self._one_at_a_time:
            self.ttl = new_ttl or self.ttl
            ttl, began = self.next_ttl(), self.clock()
            self._asks_for(ttl, began)
            self.renewed(run(repeated(self._claim.renew, ttl), self.port), ttl, began)

    def owned(self) -> bool:
        return not self.foreign and not self.released and run(repeated(self._claim.owned), self.port)


class AsyncLease(BaseLease):
    """One acquisition of one async lock."""

    port: AsyncPort

    @property
    def _one_at_a_time(self) -> asyncio.Lock:
        return self.__dict__.setdefault("_renewing", asyncio.Lock())  # type: ignore[no-any-return]

    async def release(self) -> None:
        """Give it back; raises LockLost if there was nothing left to give. Releasing again does nothing."""
        if self._begin_release():
            given_back = await run_async(repeated(self._claim.drop), self.port)
            await self.port.close()
            self._end_release(given_back)

    async def extend(self, ttl: float) -> None:
        """From now on it lives for `ttl` seconds, and the watchdog renews it for as long."""
        self._extension(ttl)
        try:
            await self.renew(ttl)
        finally:
            self.hasten()
        self.ensure()

    async def renew(self, new_ttl: float | None = None) -> None:
        async with self._one_at_a_time:
            self.ttl = new_ttl or self.ttl
            ttl, began = self.next_ttl(), self.clock()
            self._asks_for(ttl, began)
            self.renewed(await run_async(repeated(self._claim.renew, ttl), self.port), ttl, began)

    async def owned(self) -> bool:
        return not self.foreign and not self.released and await run_async(repeated(self._claim.owned), self.port)
