"""The locks of a job: one, several, and shared ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple
from uuid import UUID

from inturn.arguments import check_lock
from inturn.errors import BadArgument

MOST_LOCKS = 8
_CELL_KEY = re.compile(r"[^{]*\{([^}]+)\}")


@dataclass(frozen=True, slots=True)
class Shared:
    """A lock that a job shares with others: see `shared`."""

    lock: str


OneLock = str | int | UUID | Shared
Lock = OneLock | Sequence[OneLock]


def shared(lock: str | int | UUID) -> Shared:
    """Return a lock whose lane a job shares.

    Jobs that share a lane run side by side in it. A job that does not share it runs alone. All of
    them start in order. See docs/several-locks.md.

        @app.task
        def search(word: str) -> None: ...

        search.configure(lock=[shared("catalogue"), "user:7"]).defer(word="lamp")
    """
    name = check_lock(lock)
    if name is None:
        raise BadArgument("lock", "is None. Pass the name of a lock to share")
    return Shared(name)


class JobLanes(NamedTuple):
    """The locks of a job that has several or shares one, sorted, and the shared ones."""

    locks: tuple[str, ...]
    shared: tuple[str, ...]


def check_locks(lock: object) -> str | JobLanes | None:
    """Return one lock as text, several or shared ones as `JobLanes`, or raise BadArgument."""
    if not isinstance(lock, list | tuple | Shared):
        return check_lock(lock)
    given = [lock] if isinstance(lock, Shared) else list(lock)
    names = [each.lock if isinstance(each, Shared) else check_lock(each) for each in given]
    locks = [name for name in names if name is not None]
    if not locks or len(locks) < len(names):
        raise BadArgument("lock", f"is {lock!r}. Pass 1 to {MOST_LOCKS} locks")
    if len(locks) > MOST_LOCKS:
        raise BadArgument("lock", f"has {len(locks)} locks; the limit is {MOST_LOCKS}")
    if len(set(locks)) < len(locks):
        raise BadArgument("lock", "has the same lock twice. Pass each lock once")
    some = [each.lock for each in given if isinstance(each, Shared)]
    if len(locks) == 1 and not some:
        return locks[0]
    return JobLanes(_sort(locks), _sort(some))


def check_cell_key(cell: object) -> str | None:
    """Return a cell key as text, or raise BadArgument."""
    if isinstance(cell, int):
        raise BadArgument("cell", f"{cell!r} is the number of a cell. Pass a cell key: str({cell})")
    key = check_lock(cell, "cell")
    if key is not None and ("{" in key or "}" in key):
        raise BadArgument("cell", f"{key!r} contains braces, which are added to it")
    return key


def check_cell(number: object, key: object) -> int | str:
    """Return the number or the key of a cell, whichever is given, or raise BadArgument."""
    given = check_cell_key(key)
    if isinstance(number, str):
        raise BadArgument("number", f"{number!r} is text. Pass a cell key as key={number!r}")
    if (number is None) == (given is None):
        raise BadArgument("number", "is needed, or a key, and not both: key='tenant:7'")
    if given is not None:
        return given
    if not isinstance(number, int):
        raise BadArgument("number", f"{number!r} is not the number of a cell")
    return number


def add_cell_key(
    cell: str, lock: str | JobLanes | None, before: str | None = None
) -> str | JobLanes | None:
    """Return the lock or locks with the cell key in braces in front, instead of that of before."""
    if lock is None:
        return None
    if isinstance(lock, str):
        bare = lock if before is None else lock.removeprefix(f"{{{before}}}")
        own = _CELL_KEY.match(bare)
        if own is None:
            return check_lock(f"{{{cell}}}{bare}")
        if own[1] != cell:
            raise BadArgument("cell", f"{cell!r} differs from the cell key in the lock {bare!r}")
        return bare
    locks, shared = ([str(add_cell_key(cell, each, before)) for each in some] for some in lock)
    return JobLanes(_sort(locks), _sort(shared))


def cell_of(lock: str, cells: int) -> int:
    """Return the cell of a lock. The SQL function of this name returns the same."""
    found = _CELL_KEY.match(lock)
    hashed = sha256((lock if found is None else found[1]).encode()).digest()
    return int.from_bytes(hashed[:8]) % cells


def first_lock(lock: str | JobLanes | None) -> str | None:
    """Return the lock to show where there is room for only one."""
    return lock.locks[0] if isinstance(lock, JobLanes) else lock


def list_locks(lock: str | JobLanes | None) -> tuple[str, ...]:
    return () if lock is None else lock.locks if isinstance(lock, JobLanes) else (lock,)


def _sort(locks: Sequence[str]) -> tuple[str, ...]:
    """Return them in the order in which the database locks lanes."""
    return tuple(sorted(locks, key=str.encode))
