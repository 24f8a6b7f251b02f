"""Leases of threads and of tasks; what they promise stands in baselease.py."""

from inturn.locks.baselease import BaseLease
from inturn.locks.engine import repeated
from inturn.locks.steps import AsyncPort, Port, run, run_async


class Lease(BaseLease):
    """One acquisition of one lock: what `acquire()` and `with` give; its `fence` rises with each."""

    port: Port

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
        self._extended()

    def renew(self) -> None:
        ttl, began = self.next_ttl(), self.clock()
        self.renewed(run(repeated(self._claim.renew, ttl), self.port), ttl, began)

    def owned(self) -> bool:
        return not self.foreign and not self.released and run(repeated(self._claim.owned), self.port)


class AsyncLease(BaseLease):
    """One acquisition of one async lock."""

    port: AsyncPort

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
        self._extended()

    async def renew(self) -> None:
        ttl, began = self.next_ttl(), self.clock()
        self.renewed(await run_async(repeated(self._claim.renew, ttl), self.port), ttl, began)

    async def owned(self) -> bool:
        return not self.foreign and not self.released and await run_async(repeated(self._claim.owned), self.port)
