"""The main lock in Redis. Its value is JSON that names its holder. A watchdog renews it.

**Promises (a lease).** Only the lock_id that took the lock can release or renew it, atomically.
Repeating a request whose reply was lost changes nothing. Each acquisition has a greater fence than
all before it, even after Redis has lost its data, if `seed` returns the highest fence that
PostgreSQL has seen (see `postgres/fences.py`). A value that is not a lock is reported and never
touched.

**Taking over.** A host does not take its own lock twice. If its name is in the value, an earlier
process of the host may have crashed. That is believed only if the kernel confirms it: the value
names a file that the process keeps locked while it is alive (see `files/guard.py`). Another host's
lock is judged by its age alone, and only if a policy allows it.

**What it does not promise.** A holder that is paused for longer than its time to live wakes up
beside its successor. Use the fence to refuse its writes.
"""

import copy
import json
import socket
from collections.abc import Callable
from typing import Any, Self

from inturn.locks.core.base_lock import BaseLock, L
from inturn.locks.core.contender import Grant, Holder, Refusal, Renewal
from inturn.locks.core.protocol import Steps
from inturn.locks.core.settings import LockSettings, OnTimeout
from inturn.locks.files.guard import boot_id, forget_lock, guard_lock, is_dead, keep_guard_fresh
from inturn.locks.redis.policy import DEFAULT, Policy
from inturn.locks.redis.ports import (
    AsyncRedisLock,
    RedisContender,
    RedisLock,
    make_malformed,
    to_text,
)
from inturn.locks.redis.scripts import Call, Keys, check_seed, check_utf8, milliseconds, script
from inturn.locks.sigterm import expire_on_sigterm

TTL = 30.0
HELD, SEED_WANTED = 0, 2  # replies of take.lua
NO_GUARD = "-"
TAKE, DROP = script("take", "take_free", "held"), script("drop", "drop_ours", "held")


def host_name(prefix: str = "inturn", process: str | None = None) -> str:
    """Return the name under which this host takes smart locks.

    If several workers run on a host, each adds its process name, which must stay the same after a
    crash.
    """
    return "-".join(part for part in (prefix, socket.gethostname(), process) if part)


class SmartContender(RedisContender):
    _lock: "_Smart[Any]"
    _taken_at: float | None = None

    def take(self, patience: float) -> Steps[Grant | Refusal]:
        reply = yield self._request(self._lock.first_words)
        if isinstance(reply, list):
            reply = yield from self._ask_again(reply)
        if isinstance(reply, list):
            return self._refuse(reply)
        self._taken_at = self._lock.settings.clock()
        fence, acquired_at = reply.split()
        return Grant(self._lock.owner, int(fence), int(acquired_at))

    def _ask_again(self, reply: Any) -> Steps[Any]:
        """Ask again, with what the server lacks: the dead process and the fence's seed."""
        lock = self._lock
        dead = NO_GUARD
        if reply[0] == HELD and is_dead(to_text(reply[-1])):
            dead = to_text(reply[-1])
            reply = yield self._request(lock.words(dead))
        if isinstance(reply, list) and reply[0] == SEED_WANTED:
            assert lock.seed is not None
            reply = yield self._request(lock.words(dead, check_seed(lock.seed())))
        return reply

    def _refuse(self, reply: list[Any]) -> Refusal:
        forget_lock(self.lock_id)
        if reply[0] != HELD:
            raise make_malformed(self.name, reply[1])
        holder = make_holder(self.name, reply[1:-1])
        return Refusal(holder, None if holder.ttl is None else holder.ttl + 0.001)

    def _request(self, words: bytes) -> Call:
        lock = self._lock
        proof = f'"guard":"{guard_lock(self.lock_id)}"' if lock.is_guarded else '"portable":true'
        value = f'{{"lock_id":"{self.lock_id}",{lock.members},{proof}'
        return Call(TAKE, (self.keys.lock, self.keys.fence), (value, lock.life, words))

    def drop(self) -> Steps[bool]:
        keys = (self.keys.lock, self.keys.mark(self.lock_id))
        must_stay: tuple[int, ...] = ()  # for the remaining milliseconds of `min_hold`, if any
        if self._lock.min_hold and self._taken_at is not None:
            end = self._taken_at + self._lock.min_hold
            left = milliseconds(end - self._lock.settings.clock())
            must_stay = (left,) if left > 0 else ()
        reply = yield Call(DROP, keys, (self.lock_id, *must_stay))
        forget_lock(self.lock_id)
        return bool(reply)

    def renew(self, ttl: float | None) -> Steps[Renewal]:
        assert ttl is not None
        keep_guard_fresh()
        keys = (self.keys.lock, self.keys.mark(self.lock_id))
        reply = yield Call(script("renew", "held"), keys, (self.lock_id, milliseconds(ttl)))
        return Renewal(reply)

    def owned(self) -> Steps[bool]:
        holder = yield from self._lock.look()
        if holder is None or holder.lock_id != self.lock_id:
            return False
        if self._taken_at is None:  # restored from a handle. The age is in whole seconds
            self._taken_at = self._lock.settings.clock() - max(0, (holder.age or 0) - 1)
        return True


class _Smart(BaseLock[L]):
    contender = SmartContender

    def __init__(
        self,
        redis: Any,
        name: str,
        *,
        ttl: float = TTL,
        timeout: float | None = None,
        on_timeout: OnTimeout = "raise",
        prefix: str = "inturn",
        host: str | None = None,
        process: str | None = None,
        policy: Policy = DEFAULT,
        portable: bool = False,
        renew: bool = True,
        max_hold: float | None = None,
        min_hold: float | None = None,
        sigterm: float | None = 60.0,
        seed: Callable[[], int] | None = None,
        **settings: Any,
    ) -> None:
        """Create a lock, without contacting Redis yet.

        `portable`: the lock may outlive this process through a handle, so the end of the process is
        not a crash. `sigterm`: if SIGTERM kills the process at once, a lock with a longer remaining
        life expires after this many seconds.
        """
        super().__init__(name, LockSettings(ttl, timeout, on_timeout, renew, max_hold, **settings))
        self.hostname = self.owner = check_utf8("host", host or host_name(prefix, process))
        self.redis = redis
        self.keys = Keys(prefix, name)
        self.policy = policy
        self.min_hold = min_hold
        self.seed = seed
        self.is_guarded = not portable
        self.members = self._write_members()
        self.life = b"%d" % milliseconds(self.settings.first_ttl)
        self.first_words = self.words(NO_GUARD)
        if sigterm is not None and ttl > sigterm:
            expire_on_sigterm(sigterm)

    def words(self, dead: str, seed: str | None = None) -> bytes:
        """Return the input of take.lua, as bytes that clients need not encode."""
        if seed is None:
            seed = "" if self.seed else "0"
        return b"%b %b %b" % (self.policy.words, dead.encode(), seed.encode())

    def on_behalf_of(self, whom: str, attempt: int) -> Self:
        """Return a copy that immediately takes the lock from an earlier attempt at the same thing.

        It does so even if that attempt is still alive, because it was given up.
        """
        other = copy.copy(self.template())
        other._held, other._entered, other._template = {}, {}, None
        other.owner = f"{self.hostname} for {whom}, attempt {attempt}"
        other.members = other._write_members(on_behalf_of=whom, attempt=attempt)
        return other

    def _write_members(self, **more: str | int) -> str:
        """Return the constant members of the value, as JSON without its braces."""
        boot = boot_id()
        members = {
            "hostname": self.hostname,
            "owner": self.owner,
            **({"boot": boot} if boot else {}),
            **more,
        }
        return json.dumps(members, separators=(",", ":"))[1:-1]

    def look(self) -> Steps[Holder | None]:
        reply = yield Call(script("look", "held"), (self.keys.lock,))
        if reply[0] == -1:
            raise make_malformed(self.name, reply[1])
        return make_holder(self.name, reply[1:]) if reply[0] else None

    def break_steps(self) -> Steps[bool]:
        keys = (self.keys.lock, self.keys.fence)
        reply = yield Call(script("break", "held"), keys)
        if reply[0] == -1:
            raise make_malformed(self.name, reply[1])
        return bool(reply[0])


class SmartLock(_Smart[Any], RedisLock):
    """Lease. The main lock in Redis: it is renewed, names its holder, and has a fence."""


class AsyncSmartLock(_Smart[Any], AsyncRedisLock):
    """Lease. The async twin of SmartLock."""


def make_holder(name: str, facts: Any) -> Holder:
    """Return the holder from a script's reply."""
    owner, lock_id, acquired_at, age, left, fence = facts
    return Holder(
        name,
        to_text(owner),
        to_text(lock_id),
        acquired_at,
        age,
        None if left < 0 else left / 1000,
        None if fence < 0 else fence,
    )
