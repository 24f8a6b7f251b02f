"""Redis below the locks: a port for each colour of client. Clients may decode replies or not."""

import asyncio
import time
from contextlib import suppress
from typing import Any

from redis import Redis, exceptions
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from inturn.locks.core.protocol import Listen, Pause
from inturn.locks.errors import LockBackendError
from inturn.locks.redis.scripts import Call

ANSWER_SECONDS = 1.0  # to hear that a subscription stands
SILENCE = 2.5  # seconds without an answer, after which a client of ours gives its connection up
UNIX = "unix://"


def client_at(address: str, **options: Any) -> Any:
    """A client of ours. The engine repeats what can be repeated, so it need not; what the address says wins."""
    return _made(Redis, address, retry=Retry(NoBackoff(), 0), **options)


def async_client_at(address: str, **options: Any) -> Any:
    return _made(AsyncRedis, address, retry=AsyncRetry(NoBackoff(), 0), **options)


def _made(kind: Any, address: str, **options: Any) -> Any:
    try:
        return kind.from_url(address, **_limits(address), **options)
    except ValueError:  # the client's own words repeat the address, and there may be a password in it
        raise ValueError(
            "this is not a Redis address. Write redis://user:password@host:6379/0, and of a password "
            "that holds one of / @ ? # [ or % that as %2F %40 %3F %23 %5B or %25"
        ) from None


def _limits(address: str) -> dict[str, Any]:
    limits = {"socket_timeout": SILENCE}
    return limits if address.startswith(UNIX) else {**limits, "socket_connect_timeout": SILENCE}


class RedisPort:
    def __init__(self, client: Any) -> None:
        self._client = client
        self._messages: Any = None

    @property
    def lane(self) -> object:
        return getattr(self._client, "connection_pool", self._client)  # a cluster has many

    def do(self, request: Any) -> Any:
        match request:
            case Call():
                try:
                    return self._client.execute_command(*request.words)
                except exceptions.NoScriptError as error:
                    if not request.is_known:
                        raise translated(error) from error
                    return self.do(request._replace(is_known=False))
                except exceptions.RedisError as error:
                    raise translated(error) from error
            case Pause(seconds):
                self._pause(seconds)
            case Listen(channel):
                self._listen(channel)

    def rest(self) -> None:
        messages, self._messages = self._messages, None
        if messages is not None:
            with suppress(exceptions.RedisError, OSError):
                messages.close()

    def close(self) -> None:
        self.rest()

    def _listen(self, channel: bytes) -> None:
        # Without a connection to spare we wait by the clock.
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


class AsyncRedisPort:
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
                        raise translated(error) from error
                    return await self.do(request._replace(is_known=False))
                except exceptions.RedisError as error:
                    raise translated(error) from error
            case Pause(seconds):
                await self._pause(seconds)
            case Listen(channel):
                await self._listen(channel)

    async def rest(self) -> None:
        messages, self._messages = self._messages, None
        if messages is not None:
            with suppress(exceptions.RedisError, OSError):
                await messages.aclose()

    async def close(self) -> None:
        await self.rest()

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


def translated(error: Exception) -> LockBackendError:
    if isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError):
        return LockBackendError(f"Redis cannot be reached or went away: {error}", unclear=True)
    return LockBackendError(f"Redis refused: {error}")
