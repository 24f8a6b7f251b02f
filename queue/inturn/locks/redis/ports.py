"""What all Redis locks share: ports on clients, which may decode replies or not, and errors."""

import asyncio
import time
from contextlib import suppress
from typing import Any

from redis import exceptions

from inturn.locks.core.contender import Contender
from inturn.locks.core.lock import Lock
from inturn.locks.core.lock_async import AsyncLock
from inturn.locks.core.protocol import AsyncPort, Listen, Pause, Port
from inturn.locks.errors import LockBackendError, LockMalformed
from inturn.locks.redis.scripts import Call, Keys

ANSWER_SECONDS = 1.0  # to confirm a subscription


class RedisPort(Port):
    """Carries out requests on a sync client."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._messages: Any = None
        # A cluster's client has many pools, and therefore not this attribute.
        self.server = getattr(client, "connection_pool", client)

    def do(self, request: Any) -> Any:
        match request:
            case Call():
                try:
                    return self._client.execute_command(*request.words)
                except exceptions.NoScriptError as error:
                    if not request.is_known:
                        raise translate_error(error) from error
                    return self.do(request._replace(is_known=False))
                except exceptions.RedisError as error:
                    raise translate_error(error) from error
            case Pause(seconds):
                self._pause(seconds)
            case Listen(channel):
                self._listen(channel)

    def rest(self) -> None:
        messages, self._messages = self._messages, None
        if messages is not None:
            with suppress(exceptions.RedisError, OSError):
                messages.close()

    def _listen(self, channel: bytes) -> None:
        # Without a spare connection, we wait by the clock.
        with suppress(exceptions.RedisError, OSError):
            self._messages = self._client.pubsub()
            self._messages.subscribe(channel)
            self._messages.get_message(timeout=ANSWER_SECONDS)

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        if self._messages is not None:
            try:
                self._messages.get_message(timeout=seconds)
                return
            except (exceptions.RedisError, OSError):
                self.rest()
        time.sleep(max(0.0, end - time.monotonic()))


class AsyncRedisPort(AsyncPort):
    """Carries out requests on an async client."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._messages: Any = None

    async def do(self, request: Any) -> Any:
        match request:
            case Call():
                try:
                    return await self._client.execute_command(*request.words)
                except exceptions.NoScriptError as error:
                    if not request.is_known:
                        raise translate_error(error) from error
                    return await self.do(request._replace(is_known=False))
                except exceptions.RedisError as error:
                    raise translate_error(error) from error
            case Pause(seconds):
                await self._pause(seconds)
            case Listen(channel):
                await self._listen(channel)

    async def rest(self) -> None:
        messages, self._messages = self._messages, None
        if messages is not None:
            with suppress(exceptions.RedisError, OSError):
                await messages.aclose()

    async def _listen(self, channel: bytes) -> None:
        with suppress(exceptions.RedisError, OSError):
            self._messages = self._client.pubsub()
            await self._messages.subscribe(channel)
            await self._messages.get_message(timeout=ANSWER_SECONDS)

    async def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        if self._messages is not None:
            try:
                await self._messages.get_message(timeout=seconds)
                return
            except (exceptions.RedisError, OSError):
                await self.rest()
        await asyncio.sleep(max(0.0, end - time.monotonic()))


class RedisContender(Contender):
    # Releases are announced, but not when another holder's lock expires.
    longest_pause = 1.0  # seconds

    def __init__(self, lock: Any, lock_id: str | None = None) -> None:
        super().__init__(lock, lock_id)
        self.keys: Keys = lock.keys
        self.channel: bytes = self.keys.lock


class RedisLock(Lock):
    place = "in Redis"
    redis: Any

    def port(self) -> RedisPort:
        return RedisPort(self.redis)


class AsyncRedisLock(AsyncLock):
    place = "in Redis"
    redis: Any

    def port(self) -> AsyncRedisPort:
        return AsyncRedisPort(self.redis)


def make_malformed(name: str, what: Any) -> LockMalformed:
    """Return the error for a key that holds something other than a lock."""
    return LockMalformed(
        f"{to_text(what)} is in its place and is not a lock. It was not touched: remove it, or "
        "choose another name",
        name=name,
    )


def to_text(reply: str | bytes) -> str:
    """Return text, whether or not the client decodes replies."""
    return reply.decode() if isinstance(reply, bytes) else reply


def translate_error(error: Exception) -> LockBackendError:
    if isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError):
        return LockBackendError(f"Redis cannot be reached or went away: {error}", unclear=True)
    return LockBackendError(f"Redis refused: {error}")
