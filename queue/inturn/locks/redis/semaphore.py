"""N permits, first come, first served, by the server's clock. A single script decides.

**Promises (a lease).** At most `limit` permits are live. Ended permits are removed before any
caller is refused. Waiters are served in the order in which they asked, whatever their own clocks. A
dead waiter is skipped after a few seconds.

**What it does not promise.** A holder that was paused does not know that its permit has ended: see
`Lease`.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from inturn.locks.core.base_lock import BaseLock, L
from inturn.locks.core.contender import Grant, Holder, Refusal, Renewal
from inturn.locks.core.protocol import Steps
from inturn.locks.core.settings import LockSettings, OnTimeout
from inturn.locks.errors import LockLost, LockNotHeld
from inturn.locks.redis.ports import AsyncRedisLock, RedisContender, RedisLock
from inturn.locks.redis.scripts import MARK_MS, Call, Keys, check_seed, milliseconds, script

TTL = 30.0
# A waiter asks at least every `longest_pause`. If it has not asked for this long, it is dead.
PATIENCE_MS = 4000


class PermitContender(RedisContender):
    _lock: "_Semaphore[Any]"
    _queued = False
    _granted = False

    def take(self, patience: float) -> Steps[Grant | Refusal]:
        reply = yield self._request(patience, "" if self._lock.seed else "0")
        if reply[0] == 2:
            assert self._lock.seed is not None
            reply = yield self._request(patience, check_seed(self._lock.seed()))
        self._queued = reply[0] == 0 and (self._queued or patience > 0)
        if reply[0] == 0:
            return Refusal(Holder(self.name), reply[1] / 1000)
        self._granted = True
        return Grant(None, reply[1], reply[2])

    def _request(self, patience: float, seed: str) -> Call:
        parts = ("permits", "queue", "waiters", "tickets", "fence")
        ttl_ms = milliseconds(self._lock.settings.first_ttl)
        patience_ms = PATIENCE_MS if patience > 0 else 0
        arguments = (self.lock_id, self._lock.limit, ttl_ms, patience_ms, seed)
        return Call(script("permit_take"), [self.keys.of(part) for part in parts], arguments)

    def leave(self) -> Steps[None]:
        if self._queued:
            keys = (self.keys.of("queue"), self.keys.of("waiters"))
            yield Call(script("permit_leave"), keys, (self.lock_id, self.channel))

    def drop(self) -> Steps[bool]:
        if not self._granted:  # cancelled, so it may still be in the queue
            self._queued = True
            yield from self.leave()
        keys = (self.keys.of("permits"), self.keys.mark(self.lock_id))
        reply = yield Call(script("permit_drop"), keys, (self.lock_id, self.channel, MARK_MS))
        return bool(reply)

    def renew(self, ttl: float | None) -> Steps[Renewal]:
        assert ttl is not None
        keys = (self.keys.of("permits"), self.keys.mark(self.lock_id))
        reply = yield Call(script("permit_renew"), keys, (self.lock_id, milliseconds(ttl)))
        return Renewal(reply)

    def owned(self) -> Steps[bool]:
        reply = yield Call(script("permit_owned"), (self.keys.of("permits"),), (self.lock_id,))
        return bool(reply)


class _Semaphore(BaseLock[L]):
    contender = PermitContender

    def __init__(
        self,
        redis: Any,
        name: str,
        limit: int,
        *,
        ttl: float = TTL,
        timeout: float | None = None,
        on_timeout: OnTimeout = "raise",
        prefix: str = "inturn",
        renew: bool = True,
        max_hold: float | None = None,
        seed: Callable[[], int] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(name, LockSettings(ttl, timeout, on_timeout, renew, max_hold, **settings))
        if limit < 1:
            raise ValueError(f"limit={limit}: the number of permits must be at least 1")
        self.redis = redis
        self.keys = Keys(prefix, name)
        self.limit = self.permits = limit
        self.seed = seed

    def look(self) -> Steps[Holder | None]:
        """Find out whether all permits are taken."""
        keys = (self.keys.of("permits"), self.keys.of("fence"))
        taken, left, fence = yield Call(script("permit_look"), keys)
        if taken < self.limit:
            return None
        return Holder(self.name, f"{taken} holders", ttl=left / 1000, fence=fence)


class Semaphore(_Semaphore[Any], RedisLock):
    """Lease. One of N permits in Redis, first come, first served."""

    def refresh(self) -> bool:
        """Extend the permit and return True. If it was lost, clean up and return False."""
        try:
            lease = self._get_own_lease()
        except LockNotHeld:
            return False
        try:
            lease.extend(lease.ttl or TTL)
        except (LockLost, LockNotHeld):
            with suppress(LockLost):
                lease.release()
            return False
        return True


class AsyncSemaphore(_Semaphore[Any], AsyncRedisLock):
    """Lease. The async twin of Semaphore."""

    async def refresh(self) -> bool:
        """Extend the permit and return True. If it was lost, clean up and return False."""
        try:
            lease = self._get_own_lease()
        except LockNotHeld:
            return False
        try:
            await lease.extend(lease.ttl or TTL)
        except (LockLost, LockNotHeld):
            with suppress(LockLost):
                await lease.release()
            return False
        return True
