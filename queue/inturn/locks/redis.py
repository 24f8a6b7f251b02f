"""Redis below the locks: the shipped scripts, the names of keys, and a port for each colour of client.

Every script names all its keys, and all keys of a lock lie in one hash slot: `prefix:{name}…`. Clients may decode
replies or not. Redis 6.2, 7 and Valkey do.
"""

import asyncio
import hashlib
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from redis import exceptions

from inturn.locks.errors import LockBackendError
from inturn.locks.steps import Listen, Pause

SCRIPTS = Path(__file__).parent / "lua"
MARK_MS = 30_000  # how long a release can be repeated: longer than any client retries
ANSWER_SECONDS = 1.0  # to hear that a subscription stands


@dataclass(frozen=True, slots=True)
class Script:
    text: str
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha", hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest())


@dataclass(frozen=True, slots=True)
class Call:
    script: Script
    keys: Sequence[str]
    arguments: Sequence[str | int | bytes] = ()

    @property
    def words(self) -> tuple[Any, ...]:
        return (len(self.keys), *self.keys, *self.arguments)


@cache
def script(name: str, *preludes: str) -> Script:
    return Script("\n".join((SCRIPTS / f"{part}.lua").read_text(encoding="utf-8") for part in (*preludes, name)))


class Keys:
    """The keys of one lock."""

    def __init__(self, prefix: str, name: str) -> None:
        if not name or name.startswith("}") or len(name) > 1024:
            raise ValueError(f"name={name[:50]!r}: give 1 to 1,024 characters, the first of them not }}")
        self.lock = f"{prefix}:{{{name}}}"
        self.fence = self.of("fence")
        self.channel = self.of("free")

    def of(self, part: str) -> str:
        return f"{self.lock}:{part}"

    def mark(self, lock_id: str) -> str:
        return self.of(f"released:{lock_id}")


def beside(key: str | bytes, suffix: str) -> bytes:
    """A key in the slot of another, whatever that is called."""
    key = key.encode() if isinstance(key, str) else bytes(key)
    start = key.find(b"{")
    tagged = start >= 0 and key.find(b"}", start + 2) > 0
    return (key if tagged else b"{" + key + b"}") + suffix.encode()


def milliseconds(seconds: float) -> int:
    """Rounded up: a life of 0.4 ms is short, and not none."""
    return ceil(seconds * 1000)


class RedisPort:
    def __init__(self, client: Any) -> None:
        self._client = client
        self._messages: Any = None

    @property
    def lane(self) -> object:
        return getattr(self._client, "connection_pool", self._client)  # a cluster has many

    def do(self, request: Any) -> Any:
        match request:
            case Pause(seconds):
                self._pause(seconds)
            case Listen(channel):
                self._listen(channel)
            case _:
                try:
                    return self._call(request)
                except exceptions.RedisError as error:
                    raise translated(error) from error

    def rest(self) -> None:
        messages, self._messages = self._messages, None
        if messages is not None:
            with suppress(exceptions.RedisError, OSError):
                messages.close()

    def close(self) -> None:
        self.rest()

    def _call(self, call: Call) -> Any:
        try:
            return self._client.evalsha(call.script.sha, *call.words)
        except exceptions.NoScriptError:
            return self._client.eval(call.script.text, *call.words)

    def _listen(self, channel: str) -> None:
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
            case Pause(seconds):
                await self._pause(seconds)
            case Listen(channel):
                await self._listen(channel)
            case _:
                try:
                    return await self._call(request)
                except exceptions.RedisError as error:
                    raise translated(error) from error

    async def rest(self) -> None:
        messages, self._messages = self._messages, None
        if messages is not None:
            with suppress(exceptions.RedisError, OSError):
                await messages.aclose()

    async def close(self) -> None:
        await self.rest()

    async def _call(self, call: Call) -> Any:
        try:
            return await self._client.evalsha(call.script.sha, *call.words)
        except exceptions.NoScriptError:
            return await self._client.eval(call.script.text, *call.words)

    async def _listen(self, channel: str) -> None:
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
