"""Leases of threads and of tasks; what they promise stands in baselease.py."""

from typing import Any

from inturn.locks.baselease import BaseLease
from inturn.locks.engine import Claim, Grant, repeated
from inturn.locks.steps import AsyncPort, Port, run, run_async


class Lease(BaseLease):
    """One acquisition of one lock: what `acquire()` and `with` give; its `fence` rises with each."""

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
    """One acquisition of one async lock."""

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
