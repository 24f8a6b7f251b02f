"""The main Redis lock: a JSON value that says who holds it, a life that is renewed, rules for taking over, a fence.

Promises (a lease). Only its lock_id releases or renews it, atomically; a request that is repeated because its reply was
lost changes nothing; each acquisition has a greater fence than all before, also after Redis lost its data if `seed`
tells the highest fence that PostgreSQL has seen (pg_fence.py). A value that is no lock is reported and never touched.

Taking over. A host does not enter its own lock twice: its name in the value means that its former self crashed. That
is believed only if the kernel says so too: the value names a file that its process has locked while it lives
(guard.py). Another host's lock is judged by its age alone, and only if a policy says so.

It does not promise exclusion: a holder that is stopped for longer than its ttl wakes up beside its successor. What it
writes then must be refused by its fence.
"""

import copy
import json
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

from inturn.locks.core.base_lock import BaseLock, L
from inturn.locks.core.engine import Claim, Holder
from inturn.locks.core.lock import Lock
from inturn.locks.core.lock_async import AsyncLock
from inturn.locks.core.protocol import Steps
from inturn.locks.core.settings import OnTimeout, Terms
from inturn.locks.files.guard import boot_id
from inturn.locks.redis.policy import DEFAULT, Policy
from inturn.locks.redis.ports import AsyncRedisPort, RedisPort
from inturn.locks.redis.scripts import Call, Keys, milliseconds, script, written
from inturn.locks.redis.smart_contender import NO_GUARD, SmartClaim, holder_of, malformed
from inturn.locks.sigterm import expire_on_sigterm

TTL = 30.0


def host_name(prefix: str = "inturn", process: str | None = None) -> str:
    """Who we are. Several workers on a host add the *name* of the process, which is the same again after a crash."""
    return "-".join(part for part in (prefix, socket.gethostname(), process) if part)


@dataclass(frozen=True, slots=True)
class Identity:
    hostname: str
    owner: str
    guarded: bool


class _Smart(BaseLock[L]):
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
        **terms: Any,
    ) -> None:
        """`portable`: its handle may outlive this process, so nobody takes our end for a crash.

        `sigterm`: where SIGTERM would kill at once, a lock with more to live expires after so many seconds.
        """
        super().__init__(name, Terms(ttl, timeout, on_timeout, renew, max_hold, **terms))
        hostname = written("host", host or host_name(prefix, process))
        self.redis = redis
        self.keys = Keys(prefix, name)
        self.policy = policy
        self.min_hold = min_hold
        self.seed = seed
        self.identity = Identity(hostname, hostname, guarded=not portable)
        self.members = _members(self.identity)
        self.life = b"%d" % milliseconds(self.terms.first_ttl)
        self.first_words = self.words(NO_GUARD)
        if sigterm is not None and ttl > sigterm:
            expire_on_sigterm(sigterm)

    def words(self, dead: str, seed: str | None = None) -> bytes:
        """For the script that takes; clients need not encode bytes."""
        if seed is None:
            seed = "" if self.seed else "0"
        return b"%b %b %b" % (self.policy.words, dead.encode(), seed.encode())

    def claim(self, lock_id: str | None = None) -> Claim:
        return SmartClaim(self.settings(), lock_id)

    def on_behalf_of(self, whom: str, attempt: int) -> Self:
        """A copy that takes the lock from an earlier attempt at the same thing at once, alive or not: it was given up."""
        other = copy.copy(self.settings())
        other._held, other._entered, other._settings = {}, {}, None
        other.identity = replace(self.identity, owner=f"{self.identity.hostname} for {whom}, attempt {attempt}")
        other.members = _members(other.identity, on_behalf_of=whom, attempt=attempt)
        return other

    def look(self) -> Steps[Holder | None]:
        reply = yield Call(script("look", "held"), (self.keys.lock,))
        if reply[0] == -1:
            raise malformed(self.name, reply[1])
        return holder_of(self.name, reply[1:]) if reply[0] else None

    def break_steps(self) -> Steps[bool]:
        keys = (self.keys.lock, self.keys.fence)
        reply = yield Call(script("break", "held"), keys)
        if reply[0] == -1:
            raise malformed(self.name, reply[1])
        return bool(reply[0])


class SmartLock(_Smart[Any], Lock):
    """Lease. The main lock in Redis; it is renewed, says who holds it, and has a fence."""

    def port(self) -> RedisPort:
        return RedisPort(self.redis)


class AsyncSmartLock(_Smart[Any], AsyncLock):
    """Lease. The async twin of SmartLock."""

    def port(self) -> AsyncRedisPort:
        return AsyncRedisPort(self.redis)


def _members(identity: Identity, **more: str | int) -> str:
    """Of the lock's value, those that are the same for each acquisition, as JSON without braces."""
    boot = boot_id()
    members = {"hostname": identity.hostname, "owner": identity.owner, **({"boot": boot} if boot else {}), **more}
    return json.dumps(members, separators=(",", ":"))[1:-1]
