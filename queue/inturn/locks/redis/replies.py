"""Interprets the scripts' replies."""

from typing import Any

from inturn.locks.core.contender import Holder
from inturn.locks.errors import LockMalformed


def make_holder(name: str, facts: Any) -> Holder:
    """Return the holder from a reply of a smart lock's script."""
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


def make_malformed(name: str, what: Any) -> LockMalformed:
    """Return the error for a key that holds something other than a lock."""
    return LockMalformed(
        f"{to_text(what)} is in its place and is not a lock. It was not touched: remove it, or "
        "choose another name",
        name=name,
    )


def to_text(reply: str | bytes) -> str:
    """Return text, whether or not the client decodes replies."""
    return reply.decode() if isinstance(reply, bytes) else reply
