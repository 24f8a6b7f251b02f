"""A drop-in for `redis.asyncio.lock.Lock`: as tokenlock.py, for tasks.

Tasks share a thread, so the token is kept for each task. What a task acquired that has ended since (`wait_for` and
helpers run in tasks of their own) belongs to whoever goes on; what a living task holds, no other releases, unless the
lock was made with `thread_local=False`.
"""

import asyncio
import logging
from collections.abc import Awaitable
from types import TracebackType
from typing import Any, Literal, Self

from redis.exceptions import LockError, LockNotOwnedError

from inturn.locks.compat.token_lock_base import OWNED, BaseTokenLock, error

logger = logging.getLogger(__name__)


class TaskToken:
    def __init__(self) -> None:
        self._tokens: dict[object, bytes] = {}

    @property
    def token(self) -> bytes | None:
        key = self._key()
        return None if key is None else self._tokens[key]

    @token.setter
    def token(self, token: bytes | None) -> None:
        if token is None:
            self._tokens.pop(self._key(), None)
            return
        for key in [key for key in self._tokens if _ended(key)]:
            del self._tokens[key]  # whatever they held is over, since it could be acquired again
        self._tokens[_current()] = token

    def _key(self) -> object:
        mine = _current()
        return mine if mine in self._tokens else next((key for key in self._tokens if _ended(key)), None)


def _current() -> object:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _ended(key: object) -> bool:
    return not isinstance(key, asyncio.Task) or key.done()


class AsyncTokenLock(BaseTokenLock):
    """Lease. A drop-in for redis-py's async `Lock`."""

    def own_token(self) -> TaskToken:
        return TaskToken()

    async def __aenter__(self) -> Self:
        if await self.acquire():
            return self
        raise error(LockError, "Unable to acquire lock within the time specified", self.name)

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.release()
        except LockError:
            if self.raise_on_release_error:
                raise
            logger.warning("Lock %s was unlocked or no longer owned when exiting context manager.", self.name)

    async def acquire(
        self, blocking: bool | None = None, blocking_timeout: float | None = None, token: Any = None
    ) -> bool:
        blocking = self.blocking if blocking is None else blocking
        blocking_timeout = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        own = self.encoded(token)
        clock = asyncio.get_running_loop().time
        stop_trying_at = None if blocking_timeout is None else clock() + blocking_timeout
        while True:
            if await self.do_acquire(own):
                self.local.token = own
                return True
            if not blocking:
                return False
            if stop_trying_at is not None and clock() + self.sleep > stop_trying_at:
                return False
            await asyncio.sleep(self.sleep)

    async def do_acquire(self, token: bytes) -> bool:
        return self.acquired(await self.lua_acquire(**self.acquisition(token)))

    async def locked(self) -> bool:
        """By anybody."""
        return bool(await self.redis.exists(self.name))

    async def owned(self) -> bool:
        """By us, as the server says."""
        token = self.local.token
        return token is not None and bool(await self.redis.eval(OWNED, 1, self.name, token))

    async def release(self) -> None:
        """Cancelled on the way, it can be repeated: the token is forgotten only when the answer is there."""
        token = self.releasable_token()
        try:
            await self.do_release(token)
        except LockNotOwnedError:
            self.local.token = None
            raise
        self.local.token = None

    async def do_release(self, expected_token: bytes) -> None:
        self.confirmed(await self.lua_release(**self.giving_back(expected_token)), "release")

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Awaitable[Literal[True]]:
        self.held_token("extend")
        return self.do_extend(additional_time, replace_ttl)

    async def do_extend(self, additional_time: float, replace_ttl: bool) -> Literal[True]:
        return self.confirmed(await self.lua_extend(**self.extension(additional_time, replace_ttl)), "extend")

    def reacquire(self) -> Awaitable[Literal[True]]:
        """Let it live for its timeout again, from now on."""
        self.held_token("reacquire")
        return self.do_reacquire()

    async def do_reacquire(self) -> Literal[True]:
        return self.confirmed(await self.lua_reacquire(**self.reacquisition()), "reacquire")
