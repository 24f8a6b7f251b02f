"""A contender for a smart lock: what its scripts are asked and what their answers mean."""

import json
from typing import TYPE_CHECKING, Any

from inturn.locks.engine import Claim, Grant, Holder, Refusal, Renewal
from inturn.locks.errors import LockMalformed
from inturn.locks.guard import Guard, take_guard
from inturn.locks.redis_scripts import Call, milliseconds, script
from inturn.locks.steps import Steps

if TYPE_CHECKING:
    from inturn.locks.smart import _Smart

LONGEST_PAUSE = 1.0  # seconds: a release is told, this is for what is not (an expiry by another's hand)


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
