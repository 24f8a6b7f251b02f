"""The main Redis lock: a JSON value that says who holds it, a life that is renewed, rules for taking over, a fence.

Promises (a lease). Only its lock_id releases or renews it, atomically; a request that is repeated because its reply was
lost changes nothing; each acquisition has a greater fence than all before, also after Redis lost its data if `seed`
tells the highest fence that PostgreSQL has seen (pg_fence.py). A value that is no lock is reported and never touched.

Taking over. A host does not enter its own lock twice: its name in the value means that its former self crashed. That
is believed only if the kernel says so too: whoever acquires first takes a lock of this host (guard.py), which no living
process may have. Another host's lock is judged by its age alone, and only if a policy says so.

It does not promise exclusion: a holder that is stopped for longer than its ttl wakes up beside its successor. What it
writes then must be refused by its fence.
"""

import copy
import json
import math
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from inturn.locks.engine import Claim, Grant, Holder, Refusal, Renewal
from inturn.locks.errors import LockMalformed
from inturn.locks.guard import Guard, boot_id, take_guard
from inturn.locks.lock import AsyncLock, BaseLock, L, Lock, OnTimeout, Terms
from inturn.locks.redis import AsyncRedisPort, Call, Keys, RedisPort, milliseconds, script
from inturn.locks.sigterm import expire_on_sigterm
from inturn.locks.steps import Steps

LONGEST_PAUSE = 1.0  # seconds: a release is told, this is for what is not (an expiry by another's hand)
TTL = 30.0


@dataclass(frozen=True)
class Policy:
    """When a lock may be taken from its holder; seconds, None: never."""

    same_host: float | None = 0.0  # our dead former self's: at once, or after its life was shortened to this
    stale_after: float | None = None  # the age from which another host's lock is taken to be dead
    stale: float = 0.0  # as same_host, for such a lock

    @cached_property
    def words(self) -> str:
        """For the script that takes."""
        same_host = -1 if self.same_host is None else milliseconds(self.same_host)
        stale_after = -1 if self.stale_after is None else math.ceil(self.stale_after)
        return f"{same_host} {stale_after} {milliseconds(self.stale)}"


JOB = Policy(same_host=300, stale_after=6 * 3600, stale=3600)
"""For background jobs, which have time: nothing is stolen at once."""


def host_name(prefix: str = "inturn", process: str | None = None) -> str:
    """Who we are. Several workers on a host add the *name* of the process, which is the same again after a crash."""
    return "-".join(part for part in (prefix, socket.gethostname(), process) if part)


@dataclass(frozen=True, slots=True)
class Identity:
    hostname: str
    owner: str
    guarded: bool


class SmartClaim(Claim):
    longest_pause = LONGEST_PAUSE

    def __init__(self, lock: "_Smart[Any]", lock_id: str | None) -> None:
        super().__init__(lock.name, lock_id)
        self.keys = lock.keys
        self.channel: str = lock.keys.channel
        self._lock = lock
        self._guard: Guard | None = None
        self._taken_at: float | None = None

    def take(self, patience: float) -> Steps[Grant | Refusal]:
        self._take_guard()
        outcome: Grant | Refusal | None = None
        try:
            outcome = yield from self._take()
        finally:
            if not isinstance(outcome, Grant):
                self._free_guard()
        if isinstance(outcome, Grant) and self._guard is None and (guard := self._take_guard()):
            # The last holder told of its release a moment before it let go of the guard.
            yield Call(script("adopt", "held"), (self.keys.lock,), (self.lock_id, guard.identity))
        return outcome

    def _take(self) -> Steps[Grant | Refusal]:
        reply = yield self._request("" if self._lock.seed else "0")
        if reply[0] == 2:
            assert self._lock.seed is not None
            reply = yield self._request(str(int(self._lock.seed())))
        if reply[0] == -1:
            raise malformed(self.name, reply[1])
        if reply[0] == 0:
            holder = holder_of(self.name, reply[1:])
            return Refusal(holder, None if holder.ttl is None else holder.ttl + 0.001)
        self._taken_at = self._lock.terms.clock()
        return Grant(self._lock.identity.owner, reply[1], reply[2])

    def _request(self, seed: str) -> Call:
        lock = self._lock
        proof = '"portable":true' if self._guard is None else f'"guard":{json.dumps(self._guard.identity)}'
        value = f'{lock.value_start},"lock_id":{json.dumps(self.lock_id)},{proof}'
        arguments = (self.lock_id, value, milliseconds(lock.terms.first_ttl), seed, lock.policy.words)
        return Call(script("take", "held"), (self.keys.lock, self.keys.fence), arguments)

    def drop(self) -> Steps[bool]:
        stay = 0
        if self._lock.min_hold and self._taken_at is not None:
            stay = max(0, milliseconds(self._taken_at + self._lock.min_hold - self._lock.terms.clock()))
        keys = (self.keys.lock, self.keys.mark(self.lock_id))
        reply = yield Call(script("drop", "held"), keys, (self.lock_id, self.channel, stay))
        self._free_guard()
        return bool(reply)

    def renew(self, ttl: float | None) -> Steps[Renewal]:
        assert ttl is not None
        keys = (self.keys.lock, self.keys.mark(self.lock_id))
        reply = yield Call(script("renew", "held"), keys, (self.lock_id, milliseconds(ttl)))
        return Renewal(reply)

    def owned(self) -> Steps[bool]:
        holder = yield from self._lock.look()
        return holder is not None and holder.lock_id == self.lock_id

    def lost(self) -> None:
        self._free_guard()

    def _take_guard(self) -> Guard | None:
        """Without it the lock can be had when it is free, but not be stolen."""
        if self._lock.identity.guarded and self._guard is None:
            self._guard = take_guard(self._lock.identity.hostname, self.keys.lock)
        return self._guard

    def _free_guard(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.free()


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
        policy: Policy = Policy(),
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
        hostname = host or host_name(prefix, process)
        self.redis = redis
        self.keys = Keys(prefix, name)
        self.policy = policy
        self.min_hold = min_hold
        self.seed = seed
        self.identity = Identity(hostname, hostname, guarded=not portable)
        self.value_start = _value_start(self.identity)
        if sigterm is not None and ttl > sigterm:
            expire_on_sigterm(sigterm)

    def claim(self, lock_id: str | None = None) -> Claim:
        return SmartClaim(self.settings(), lock_id)

    def on_behalf_of(self, whom: str, attempt: int) -> Self:
        """A copy that takes the lock from an earlier attempt at the same thing at once, alive or not: it was given up."""
        other = copy.copy(self.settings())
        other._held, other._entered, other._settings = {}, {}, None
        other.identity = replace(self.identity, owner=f"{self.identity.hostname} for {whom}, attempt {attempt}")
        other.value_start = _value_start(other.identity, on_behalf_of=whom, attempt=attempt)
        return other

    def look(self) -> Steps[Holder | None]:
        reply = yield Call(script("look", "held"), (self.keys.lock,))
        if reply[0] == -1:
            raise malformed(self.name, reply[1])
        return holder_of(self.name, reply[1:]) if reply[0] else None

    def break_steps(self) -> Steps[bool]:
        keys = (self.keys.lock, self.keys.of("fence"))
        reply = yield Call(script("break", "held"), keys, (self.keys.of("free"),))
        if reply[0] == -1:
            raise malformed(self.name, reply[1])
        return bool(reply[0])


class SmartLock(_Smart[Any], Lock):
    """Lease."""

    def port(self) -> RedisPort:
        return RedisPort(self.redis)


class AsyncSmartLock(_Smart[Any], AsyncLock):
    """Lease."""

    def port(self) -> AsyncRedisPort:
        return AsyncRedisPort(self.redis)


def _value_start(identity: Identity, **more: str | int) -> str:
    """The lock's value as JSON, but for what each acquisition adds and the closing brace."""
    members = {"hostname": identity.hostname, "owner": identity.owner, "boot": boot_id(), **more}
    return json.dumps(members, separators=(",", ":")).removesuffix("}")


def holder_of(name: str, facts: Any) -> Holder:
    owner, lock_id, acquired_at, age, left, fence = facts
    return Holder(
        name,
        text(owner),
        text(lock_id),
        acquired_at,
        age,
        None if left < 0 else left / 1000,
        None if fence < 0 else fence,
    )


def malformed(name: str, what: Any) -> LockMalformed:
    return LockMalformed(f"{text(what)} stands in its place, and is no lock; it was not touched", name=name)


def text(reply: str | bytes) -> str:
    """Of clients that decode replies, and of those that do not."""
    return reply.decode() if isinstance(reply, bytes) else reply
