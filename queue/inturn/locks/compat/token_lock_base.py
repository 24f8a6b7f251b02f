"""What both drop-ins for redis-py's locks have in common: tokens, scripts and errors."""

import logging
import math
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Literal

from redis.exceptions import LockError, LockNotOwnedError

from inturn.locks.redis.scripts import MARK_MS, beside, milliseconds, script


class Minted(bytes):
    """A token that no one else can have, so finding it means that the lock is ours."""


class ThreadToken(threading.local):
    """The token of each thread, and None for a thread that never acquired."""

    token: bytes | None = None


class BaseTokenLock:
    """Everything but the waiting and the calls to the client."""

    LUA_RELEASE_SCRIPT = script("token_release").text
    LUA_EXTEND_SCRIPT = script("token_extend").text
    LUA_REACQUIRE_SCRIPT = script("token_reacquire").text
    LUA_ACQUIRE_SCRIPT = script("token_take").text

    own_token: Callable[[], Any] = ThreadToken

    lua_release: Any = None
    lua_extend: Any = None
    lua_reacquire: Any = None
    lua_acquire: Any = None

    def __init__(
        self,
        redis: Any,
        name: str,
        timeout: float | None = None,
        sleep: float = 0.1,
        blocking: bool = True,
        blocking_timeout: float | None = None,
        thread_local: bool = True,
        raise_on_release_error: bool = True,
    ) -> None:
        """Take the arguments of redis-py's lock.

        `timeout` is how many seconds the lock lives, and `blocking_timeout` how many seconds
        `acquire` waits. None means forever.
        """
        if timeout is not None:
            life_ms(timeout)
        self.redis = redis
        self.name = name
        self.timeout = timeout
        self.sleep = sleep
        self.blocking = blocking
        self.blocking_timeout = blocking_timeout
        self.thread_local = bool(thread_local)
        self.raise_on_release_error = raise_on_release_error
        self.local: Any = self.own_token() if self.thread_local else SimpleNamespace(token=None)
        self.register_scripts()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} in Redis>"

    def register_scripts(self) -> None:
        cls = type(self)
        for verb in ("release", "extend", "reacquire", "acquire"):
            if getattr(cls, f"lua_{verb}") is None:
                text = getattr(cls, f"LUA_{verb.upper()}_SCRIPT")
                setattr(cls, f"lua_{verb}", self.redis.register_script(text))

    def encode_token(self, token: Any) -> bytes:
        if token is None:
            return Minted(secrets.token_hex(16).encode())
        try:
            encoder = self.redis.get_encoder()
        except AttributeError:  # an async client
            encoder = self.redis.connection_pool.get_encoder()
        return bytes(encoder.encode(token))

    @contextmanager
    def tolerate_loss(self, logger: logging.Logger) -> Iterator[None]:
        """Only log that the lock was lost, unless the caller wants the error."""
        try:
            yield
        except LockError:
            if self.raise_on_release_error:
                raise
            logger.warning(
                "Lock %s was unlocked or no longer owned when exiting context manager.", self.name
            )

    def stop_trying_at(
        self, blocking: bool | None, blocking_timeout: float | None, now: float
    ) -> float:
        """Return when to stop trying: at once if not blocking, never without a timeout."""
        if not (self.blocking if blocking is None else blocking):
            return -math.inf
        timeout = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        return math.inf if timeout is None else now + timeout

    def acquire_arguments(self, token: bytes) -> dict[str, Any]:
        ttl = "" if self.timeout is None else life_ms(self.timeout)
        return self._pack(token, ttl, "1" if isinstance(token, Minted) else "0")

    def check_acquired(self, reply: int) -> bool:
        if reply == -1:
            raise self._make_error("Something other than a lock is stored under this name")
        return reply == 1

    def release_arguments(self, token: bytes) -> dict[str, Any]:
        mark = beside(self.name, f":released:{token.hex()}")
        return {"keys": [self.name, mark], "args": [token, MARK_MS], "client": self.redis}

    def check_held(self, verb: str) -> None:
        if self.local.token is None:
            raise self._make_error(f"Cannot {verb} an unlocked lock")
        if self.timeout is None:
            raise self._make_error(f"Cannot {verb} a lock with no timeout")

    def get_releasable_token(self) -> bytes:
        token: bytes | None = self.local.token
        if token is None:
            raise self._make_error("Cannot release a lock that's not owned or is already unlocked.")
        return token

    def extend_arguments(self, additional_time: float, replace_ttl: bool) -> dict[str, Any]:
        ttl = life_ms(additional_time)
        return self._pack(self.local.token, ttl, "1" if replace_ttl else "0")

    def reacquire_arguments(self) -> dict[str, Any]:
        assert self.timeout is not None
        return self._pack(self.local.token, life_ms(self.timeout))

    def _pack(self, *arguments: Any) -> dict[str, Any]:
        return {"keys": [self.name], "args": arguments, "client": self.redis}

    def check_reply(self, reply: object, verb: str) -> Literal[True]:
        if not reply:
            raise self._make_error(
                f"Cannot {verb} a lock that's no longer owned", LockNotOwnedError
            )
        return True

    def _make_error(self, problem: str, kind: type[LockError] = LockError) -> LockError:
        raised = kind(problem)
        raised.lock_name = self.name  # older clients' errors do not accept it
        return raised


OWNED = script("token_owned").text


def life_ms(seconds: float) -> int:
    """Convert a time to live to milliseconds, or raise ValueError if it is not greater than 0.

    To Redis, 0 means forever in one command and is an error in another.
    """
    if not seconds > 0:
        raise ValueError(
            f"timeout={seconds}: a time to live must be more than 0 seconds, or None for no limit"
        )
    return milliseconds(seconds)
