"""The dumb lock: a key that is there while it is held. It has no owner: whoever releases it deletes it.

Promises little (a hint). One of those who ask gets it; nothing else is checked. It does not know who holds it, is
not renewed, has no fence, and by default no expiry: one that a crash left behind is broken by hand, with `break_()` or
`queue locks break`.
"""

from typing import Any

from inturn.locks.core.base_lock import BaseLock, L
from inturn.locks.core.engine import Claim, Grant, Holder, Refusal, Renewal
from inturn.locks.core.lock import Lock
from inturn.locks.core.lock_async import AsyncLock
from inturn.locks.core.protocol import Steps
from inturn.locks.core.settings import OnTimeout, Terms
from inturn.locks.errors import LockError
from inturn.locks.redis.ports import AsyncRedisPort, RedisPort
from inturn.locks.redis.scripts import Call, Keys, milliseconds, script
from inturn.locks.redis.smart_contender import LONGEST_PAUSE, malformed


class BasicClaim(Claim):
    longest_pause = LONGEST_PAUSE

    def __init__(self, lock: "_Basic[Any]", lock_id: str | None) -> None:
        super().__init__(lock.name, lock_id)
        self.channel: bytes = lock.keys.lock
        self._lock = lock
        self._taken = False

    def take(self, patience: float) -> Steps[Grant | Refusal]:
        ttl = self._lock.terms.ttl
        arguments = (self._lock.value, "" if ttl is None else milliseconds(ttl))
        reply = yield Call(script("basic_take"), (self._lock.keys.lock,), arguments)
        if reply[0] == -1:
            raise malformed(self.name, reply[1])
        if reply[0] == 0:
            left = None if reply[1] < 0 else reply[1] / 1000
            return Refusal(Holder(self.name, ttl=left), None if left is None else left + 0.001)
        self._taken = True
        return Grant()

    def drop(self) -> Steps[bool]:
        if self._taken:  # after a try that did not get it, whatever is there is another's
            yield from self._lock.break_steps()
        return True

    def renew(self, ttl: float | None) -> Steps[Renewal]:
        yield from ()
        raise LockError("a basic lock cannot be extended: it does not know whether it is ours", name=self.name)

    def owned(self) -> Steps[bool]:
        return (yield from self._lock.look()) is not None


class _Basic(BaseLock[L]):
    def __init__(
        self,
        redis: Any,
        name: str,
        *,
        value: str | int | bytes = 1,
        ttl: float | None = None,
        timeout: float | None = None,
        on_timeout: OnTimeout = "raise",
        prefix: str = "inturn",
        **terms: Any,
    ) -> None:
        super().__init__(name, Terms(ttl, timeout, on_timeout, renew=False, **terms))
        self.redis = redis
        self.keys = Keys(prefix, name)
        self.value = value

    def claim(self, lock_id: str | None = None) -> Claim:
        return BasicClaim(self.settings(), lock_id)

    def look(self) -> Steps[Holder | None]:
        # PTTL knows every type of key: -2 is none at all.
        left = yield Call(script("basic_look"), (self.keys.lock,))
        return None if left == -2 else Holder(self.name, ttl=None if left < 0 else left / 1000)

    def note_broken(self) -> None:
        """What this lock object had is over, too: it would be given back a second time, from under the next holder."""
        for lease in list(self._held):
            lease.note_released()

    def break_steps(self) -> Steps[bool]:
        reply = yield Call(script("basic_drop"), (self.keys.lock,))
        if reply[0] == -1:
            raise malformed(self.name, reply[1])
        return bool(reply[0])


class BasicLock(_Basic[Any], Lock):
    """Hint. A key in Redis that has no owner; whoever releases it deletes it."""

    def port(self) -> RedisPort:
        return RedisPort(self.redis)

    def release(self) -> None:
        """Anybody's: deletes the lock, whoever acquired it."""
        self.break_()
        self.note_broken()


class AsyncBasicLock(_Basic[Any], AsyncLock):
    """Hint. The async twin of BasicLock."""

    def port(self) -> AsyncRedisPort:
        return AsyncRedisPort(self.redis)

    async def release(self) -> None:
        """Anybody's: deletes the lock, whoever acquired it."""
        await self.break_()
        self.note_broken()
