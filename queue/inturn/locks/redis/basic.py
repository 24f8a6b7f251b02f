"""The simplest lock: a key that exists while it is held. It has no owner.

**Promises (a hint).** One of the callers gets it. Nothing else is checked: it does not know its
holder, is not renewed, and has no fence. Any caller's release deletes it. By default it does not
expire either: break one left behind by a crash with `break_()` or `queue locks break`.
"""

from typing import Any

from inturn.locks.core.base_lock import BaseLock, L
from inturn.locks.core.contender import Grant, Holder, Refusal, Renewal
from inturn.locks.core.protocol import Steps
from inturn.locks.core.settings import LockSettings, OnTimeout
from inturn.locks.errors import LockError
from inturn.locks.redis.ports import AsyncRedisLock, RedisContender, RedisLock, make_malformed
from inturn.locks.redis.scripts import Call, Keys, milliseconds, script


class BasicContender(RedisContender):
    _lock: "_Basic[Any]"
    _taken = False

    def take(self, patience: float) -> Steps[Grant | Refusal]:
        ttl = self._lock.settings.ttl
        arguments = (self._lock.value, "" if ttl is None else milliseconds(ttl))
        reply = yield Call(script("basic_take"), (self.keys.lock,), arguments)
        if reply[0] == -1:
            raise make_malformed(self.name, reply[1])
        if reply[0] == 0:
            left = None if reply[1] < 0 else reply[1] / 1000
            return Refusal(Holder(self.name, ttl=left), None if left is None else left + 0.001)
        self._taken = True
        return Grant()

    def drop(self) -> Steps[bool]:
        if self._taken:  # otherwise, what is there is not ours
            yield from self._lock.break_steps()
        return True

    def renew(self, ttl: float | None) -> Steps[Renewal]:
        yield from ()
        raise LockError(
            "a basic lock cannot be extended, because it does not know its holder", name=self.name
        )

    def owned(self) -> Steps[bool]:
        return (yield from self._lock.look()) is not None


class _Basic(BaseLock[L]):
    contender = BasicContender

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
        **settings: Any,
    ) -> None:
        super().__init__(name, LockSettings(ttl, timeout, on_timeout, renew=False, **settings))
        self.redis = redis
        self.keys = Keys(prefix, name)
        self.value = value

    def look(self) -> Steps[Holder | None]:
        # PTTL works on every type of key. It replies -2 if there is none.
        left = yield Call(script("basic_look"), (self.keys.lock,))
        return None if left == -2 else Holder(self.name, ttl=None if left < 0 else left / 1000)

    def note_broken(self) -> None:
        """End the leases of this lock object.

        Otherwise the end of a `with` would release the next holder's lock.
        """
        for lease in list(self._held):
            lease.note_released()

    def break_steps(self) -> Steps[bool]:
        reply = yield Call(script("basic_drop"), (self.keys.lock,))
        if reply[0] == -1:
            raise make_malformed(self.name, reply[1])
        return bool(reply[0])


class BasicLock(_Basic[Any], RedisLock):
    """Hint. A key in Redis without an owner. Any release deletes it."""

    def release(self) -> None:
        """Delete the lock, whoever acquired it."""
        self.break_()
        self.note_broken()


class AsyncBasicLock(_Basic[Any], AsyncRedisLock):
    """Hint. The async twin of BasicLock."""

    async def release(self) -> None:
        """Delete the lock, whoever acquired it."""
        await self.break_()
        self.note_broken()
