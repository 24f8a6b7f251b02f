"""A drop-in for `redis.lock.Lock`: the same constructor, methods, attributes and exceptions.

**Promises (a lease), as redis-py's lock does.** The stored value is exactly the token. It sleeps
exactly `sleep` between two tries and gives up when the next one would be too late.

**Without the original's defects.** A lost reply changes nothing. Another thread gets a proper
error. Nonsensical times are refused.

It does not renew and has no fence: `SmartLock` has both. Two holders that share one static token
cannot be told apart.
"""

import logging
import time as mod_time
from typing import Any, Literal, Self

from inturn.locks.compat.token_lock_base import OWNED, BaseTokenLock

logger = logging.getLogger(__name__)


class TokenLock(BaseTokenLock):
    """Lease. A drop-in for redis-py's `Lock`."""

    def __enter__(self) -> Self:
        if self.acquire():
            return self
        raise self._make_error("Unable to acquire lock within the time specified")

    def __exit__(self, *_: object) -> None:
        with self.tolerate_loss(logger):
            self.release()

    def acquire(
        self,
        sleep: float | None = None,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: Any = None,
    ) -> bool:
        sleep = self.sleep if sleep is None else sleep
        own = self.encode_token(token)
        stop_trying_at = self.stop_trying_at(blocking, blocking_timeout, mod_time.monotonic())
        while not self.do_acquire(own):
            if mod_time.monotonic() + sleep > stop_trying_at:
                return False
            mod_time.sleep(sleep)
        self.local.token = own
        return True

    def do_acquire(self, token: bytes) -> bool:
        return self.check_acquired(self.lua_acquire(**self.acquire_arguments(token)))

    def locked(self) -> bool:
        """Return True if the lock is held."""
        return bool(self.redis.exists(self.name))

    def owned(self) -> bool:
        """Return True if the server says that we hold the lock."""
        token = self.local.token
        return token is not None and bool(self.redis.eval(OWNED, 1, self.name, token))

    def release(self) -> None:
        token = self.get_releasable_token()
        self.local.token = None
        self.do_release(token)

    def do_release(self, expected_token: bytes) -> None:
        self.check_reply(self.lua_release(**self.release_arguments(expected_token)), "release")

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        self.check_held("extend")
        return self.do_extend(additional_time, replace_ttl)

    def do_extend(self, additional_time: float, replace_ttl: bool) -> Literal[True]:
        arguments = self.extend_arguments(additional_time, replace_ttl)
        return self.check_reply(self.lua_extend(**arguments), "extend")

    def reacquire(self) -> Literal[True]:
        """Restart its time to live."""
        self.check_held("reacquire")
        return self.do_reacquire()

    def do_reacquire(self) -> Literal[True]:
        return self.check_reply(self.lua_reacquire(**self.reacquire_arguments()), "reacquire")
