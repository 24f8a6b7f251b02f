"""A contender for a smart lock: what its scripts are asked and what their answers mean."""

from typing import TYPE_CHECKING, Any

from inturn.locks.core.engine import Claim, Grant, Holder, Refusal, Renewal
from inturn.locks.core.protocol import Steps
from inturn.locks.errors import LockMalformed
from inturn.locks.files.guard import given_back, is_dead, keep_young, vouch_for
from inturn.locks.redis.scripts import Call, milliseconds, script

if TYPE_CHECKING:
    from inturn.locks.redis.smart import _Smart

HELD, SEED_WANTED = 0, 2  # replies of take.lua
NO_GUARD = "-"
TAKE, DROP = script("take", "take_free", "held"), script("drop", "drop_ours", "held")
LONGEST_PAUSE = 1.0  # seconds: a release is told, this is for what is not (an expiry by another's hand)


class SmartClaim(Claim):
    longest_pause = LONGEST_PAUSE

    def __init__(self, lock: "_Smart[Any]", lock_id: str | None) -> None:
        super().__init__(lock.name, lock_id)
        self.keys = lock.keys
        self.channel: bytes = lock.keys.lock
        self._lock = lock
        self._taken_at: float | None = None

    def take(self, patience: float) -> Steps[Grant | Refusal]:
        reply = yield self._request(self._lock.first_words)
        if isinstance(reply, list):
            reply = yield from self._ask_again(reply)
        if isinstance(reply, list):
            return self._refused(reply)
        self._taken_at = self._lock.terms.clock()
        fence, acquired_at = reply.split()
        return Grant(self._lock.identity.owner, int(fence), int(acquired_at))

    def _ask_again(self, reply: Any) -> Steps[Any]:
        """With what the server cannot know: whether a process of this host is dead, and the fence's seed."""
        lock = self._lock
        dead = NO_GUARD
        if reply[0] == HELD and is_dead(text(reply[-1])):
            dead = text(reply[-1])
            reply = yield self._request(lock.words(dead))
        if isinstance(reply, list) and reply[0] == SEED_WANTED:
            assert lock.seed is not None
            reply = yield self._request(lock.words(dead, str(checked(lock.seed()))))
        return reply

    def _refused(self, reply: list[Any]) -> Refusal:
        given_back(self.lock_id)
        if reply[0] != HELD:
            raise malformed(self.name, reply[1])
        holder = holder_of(self.name, reply[1:-1])
        return Refusal(holder, None if holder.ttl is None else holder.ttl + 0.001)

    def _request(self, words: bytes) -> Call:
        lock = self._lock
        proof = f'"guard":"{vouch_for(self.lock_id)}"' if lock.identity.guarded else '"portable":true'
        value = f'{{"lock_id":"{self.lock_id}",{lock.members},{proof}'
        return Call(TAKE, (self.keys.lock, self.keys.fence), (value, lock.life, words))

    def drop(self) -> Steps[bool]:
        keys = (self.keys.lock, self.keys.mark(self.lock_id))
        reply = yield Call(DROP, keys, (self.lock_id, *self._must_stay()))
        given_back(self.lock_id)
        return bool(reply)

    def _must_stay(self) -> tuple[int, ...]:
        if self._lock.min_hold and self._taken_at is not None:
            left = milliseconds(self._taken_at + self._lock.min_hold - self._lock.terms.clock())
            return (left,) if left > 0 else ()
        return ()

    def renew(self, ttl: float | None) -> Steps[Renewal]:
        assert ttl is not None
        keep_young()
        keys = (self.keys.lock, self.keys.mark(self.lock_id))
        reply = yield Call(script("renew", "held"), keys, (self.lock_id, milliseconds(ttl)))
        return Renewal(reply)

    def owned(self) -> Steps[bool]:
        holder = yield from self._lock.look()
        return holder is not None and holder.lock_id == self.lock_id


def checked(seed: int) -> int:
    """Beyond 2^53 the scripts of Redis cannot count."""
    if not 0 <= int(seed) < 2**53:
        raise ValueError(f"the fence's seed is {seed}: give a number from 0 to 2^53 - 1")
    return int(seed)


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
