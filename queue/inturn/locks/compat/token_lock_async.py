"""A drop-in for `redis.asyncio.lock.Lock`: like `token_lock`, but for tasks.

Tasks share a thread, so the token is stored per task. Any task may use the token of an ended task,
because `wait_for` and helpers run in separate tasks. No other task can release a lock that a live
task holds, unless the lock was created with `thread_local=False`.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any, Literal, Self

from redis.exceptions import LockNotOwnedError

from inturn.locks.compat.token_lock_base import OWNED, BaseTokenLock

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
        for key in [key for key in self._tokens if _has_ended(key)]:
            del self._tokens[key]  # we acquired the lock, so whatever they held is over
        self._tokens[_get_task()] = token

    def _key(self) -> object:
        mine = _get_task()
        if mine in self._tokens:
            return mine
        return next((key for key in self._tokens if _has_ended(key)), None)


def _get_task() -> object:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _has_ended(key: object) -> bool:
    return not isinstance(key, asyncio.Task) or key.done()


class AsyncTokenLock(BaseTokenLock):
    """Lease. A drop-in for redis-py's async `Lock`."""

    own_token = TaskToken

    async def __aenter__(self) -> Self:
        if await self.acquire():
            return self
        raise self._make_error("Unable to acquire lock within the time specified")

    async def __aexit__(self, *_: object) -> None:
        with self.tolerate_loss(logger):
            await self.release()

    async def acquire(
        self, blocking: bool | None = None, blocking_timeout: float | None = None, token: Any = None
    ) -> bool:
        own = self.encode_token(token)
        clock = asyncio.get_running_loop().time
        stop_trying_at = self.stop_trying_at(blocking, blocking_timeout, clock())
        while not await self.do_acquire(own):
            if clock() + self.sleep > stop_trying_at:
                return False
            await asyncio.sleep(self.sleep)
        self.local.token = own
        return True

    async def do_acquire(self, token: bytes) -> bool:
        return self.check_acquired(await self.lua_acquire(**self.acquire_arguments(token)))

    async def locked(self) -> bool:
        """Return True if the lock is held."""
        return bool(await self.redis.exists(self.name))

    async def owned(self) -> bool:
        """Return True if the server says that we hold the lock."""
        token = self.local.token
        return token is not None and bool(await self.redis.eval(OWNED, 1, self.name, token))

    async def release(self) -> None:
        """Release the lock.

        A cancelled release can be repeated: the token is only forgotten after the reply.
        """
        token = self.get_releasable_token()
        try:
            await self.do_release(token)
        except LockNotOwnedError:
            self.local.token = None
            raise
        self.local.token = None

    async def do_release(self, expected_token: bytes) -> None:
        arguments = self.release_arguments(expected_token)
        self.check_reply(await self.lua_release(**arguments), "release")

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Awaitable[Literal[True]]:
        self.check_held("extend")
        return self.do_extend(additional_time, replace_ttl)

    async def do_extend(self, additional_time: float, replace_ttl: bool) -> Literal[True]:
        arguments = self.extend_arguments(additional_time, replace_ttl)
        return self.check_reply(await self.lua_extend(**arguments), "extend")

    def reacquire(self) -> Awaitable[Literal[True]]:
        """Restart its time to live."""
        self.check_held("reacquire")
        return self.do_reacquire()

    async def do_reacquire(self) -> Literal[True]:
        return self.check_reply(await self.lua_reacquire(**self.reacquire_arguments()), "reacquire")
