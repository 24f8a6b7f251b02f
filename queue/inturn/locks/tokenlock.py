"""A drop-in for `redis.lock.Lock`: the same constructor, methods, attributes and exceptions, without its defects.

Promises a lease, as that one does: the stored value is exactly the token; it sleeps exactly `sleep` between two tries
and gives up when the next one would be too late. Beyond it: a reply that was lost changes nothing, other threads get a
proper error, and times that could only be mistakes are refused.
It does not renew and has no fence: `SmartLock` has both. Two holders of one static token can't be told apart.
"""

import logging
import secrets
import threading
import time as mod_time
from types import SimpleNamespace, TracebackType
from typing import Any, Literal, Self

from redis.exceptions import LockError, LockNotOwnedError

from inturn.locks.redis import MARK_MS, beside, milliseconds, script

logger = logging.getLogger(__name__)


class Minted(bytes):
    """A token that nobody else can have, so that finding it means that it is ours."""


class ThreadToken(threading.local):
    token: bytes | None = None  # of threads that never acquired too


class BaseTokenLock:
    LUA_RELEASE_SCRIPT = script("token_release").text
    LUA_EXTEND_SCRIPT = script("token_extend").text
    LUA_REACQUIRE_SCRIPT = script("token_reacquire").text
    LUA_ACQUIRE_SCRIPT = script("token_take").text

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
        """`timeout`: seconds that it lives; `blocking_timeout`: seconds that one waits. None: for ever."""
        if timeout is not None:
            life(timeout)
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

    def own_token(self) -> Any:
        return ThreadToken()

    def register_scripts(self) -> None:
        cls = type(self)
        if cls.lua_release is None:
            cls.lua_release = self.redis.register_script(cls.LUA_RELEASE_SCRIPT)
        if cls.lua_extend is None:
            cls.lua_extend = self.redis.register_script(cls.LUA_EXTEND_SCRIPT)
        if cls.lua_reacquire is None:
            cls.lua_reacquire = self.redis.register_script(cls.LUA_REACQUIRE_SCRIPT)
        if cls.lua_acquire is None:
            cls.lua_acquire = self.redis.register_script(cls.LUA_ACQUIRE_SCRIPT)

    def encoded(self, token: Any) -> bytes:
        if token is None:
            return Minted(secrets.token_hex(16).encode())
        try:
            encoder = self.redis.get_encoder()
        except AttributeError:  # an async client
            encoder = self.redis.connection_pool.get_encoder()
        return bytes(encoder.encode(token))

    def acquisition(self, token: bytes) -> dict[str, Any]:
        life_ms = "" if self.timeout is None else life(self.timeout)
        arguments = [token, life_ms, "1" if isinstance(token, Minted) else "0"]
        return {"keys": [self.name], "args": arguments, "client": self.redis}

    def acquired(self, reply: int) -> bool:
        if reply == -1:
            raise error(LockError, "Something else than a lock is stored under this name", self.name)
        return reply == 1

    def giving_back(self, token: bytes) -> dict[str, Any]:
        mark = beside(self.name, f":released:{token.hex()}")
        return {"keys": [self.name, mark], "args": [token, MARK_MS], "client": self.redis}

    def held_token(self, verb: str) -> bytes:
        token: bytes | None = self.local.token
        if token is None:
            raise error(LockError, f"Cannot {verb} an unlocked lock", self.name)
        if self.timeout is None:
            raise error(LockError, f"Cannot {verb} a lock with no timeout", self.name)
        return token

    def releasable_token(self) -> bytes:
        token: bytes | None = self.local.token
        if token is None:
            raise error(LockError, "Cannot release a lock that's not owned or is already unlocked.", self.name)
        return token

    def extension(self, additional_time: float, replace_ttl: bool) -> dict[str, Any]:
        arguments = [self.local.token, life(additional_time), "1" if replace_ttl else "0"]
        return {"keys": [self.name], "args": arguments, "client": self.redis}

    def reacquisition(self) -> dict[str, Any]:
        assert self.timeout is not None
        return {"keys": [self.name], "args": [self.local.token, life(self.timeout)], "client": self.redis}

    def confirmed(self, reply: object, verb: str) -> Literal[True]:
        if not reply:
            raise error(LockNotOwnedError, f"Cannot {verb} a lock that's no longer owned", self.name)
        return True


class TokenLock(BaseTokenLock):
    """Lease."""

    def __enter__(self) -> Self:
        if self.acquire():
            return self
        raise error(LockError, "Unable to acquire lock within the time specified", self.name)

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.release()
        except LockError:
            if self.raise_on_release_error:
                raise
            logger.warning("Lock %s was unlocked or no longer owned when exiting context manager.", self.name)

    def acquire(
        self,
        sleep: float | None = None,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: Any = None,
    ) -> bool:
        sleep = self.sleep if sleep is None else sleep
        blocking = self.blocking if blocking is None else blocking
        blocking_timeout = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        own = self.encoded(token)
        stop_trying_at = None if blocking_timeout is None else mod_time.monotonic() + blocking_timeout
        while True:
            if self.do_acquire(own):
                self.local.token = own
                return True
            if not blocking:
                return False
            if stop_trying_at is not None and mod_time.monotonic() + sleep > stop_trying_at:
                return False
            mod_time.sleep(sleep)

    def do_acquire(self, token: bytes) -> bool:
        return self.acquired(self.lua_acquire(**self.acquisition(token)))

    def locked(self) -> bool:
        """By anybody."""
        return bool(self.redis.exists(self.name))

    def owned(self) -> bool:
        """By us, as the server says."""
        token = self.local.token
        return token is not None and bool(self.redis.eval(OWNED, 1, self.name, token))

    def release(self) -> None:
        token = self.releasable_token()
        self.local.token = None
        self.do_release(token)

    def do_release(self, expected_token: bytes) -> None:
        self.confirmed(self.lua_release(**self.giving_back(expected_token)), "release")

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        self.held_token("extend")
        return self.do_extend(additional_time, replace_ttl)

    def do_extend(self, additional_time: float, replace_ttl: bool) -> Literal[True]:
        return self.confirmed(self.lua_extend(**self.extension(additional_time, replace_ttl)), "extend")

    def reacquire(self) -> Literal[True]:
        """Let it live for its timeout again, from now on."""
        self.held_token("reacquire")
        return self.do_reacquire()

    def do_reacquire(self) -> Literal[True]:
        return self.confirmed(self.lua_reacquire(**self.reacquisition()), "reacquire")


OWNED = script("token_owned").text


def life(seconds: float) -> int:
    """In milliseconds, never none: 0 would mean for ever to one command and an error to another."""
    if not seconds > 0:
        raise ValueError(f"timeout={seconds}: a time to live is more than nothing; give seconds, or None for ever")
    return milliseconds(seconds)


def error(kind: type[LockError], problem: str, name: Any) -> LockError:
    raised = kind(problem)
    raised.lock_name = name  # older clients' errors do not take it
    return raised
