"""Several locks at once, all or none, with one deadline.

They are acquired in sorted order, so that two callers cannot deadlock.
"""

from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from itertools import pairwise
from typing import Any

from inturn.locks.core.base_lock import BaseLock
from inturn.locks.core.lease import AsyncLease, Lease
from inturn.locks.core.lock import Lock
from inturn.locks.core.lock_async import AsyncLock
from inturn.locks.errors import LockDeadlock


class lock_all:
    """Acquire several locks, all or none: `with lock_all([a, b]):`, or `async with` for async ones.

    It returns their leases in the same order. If not all of them become free within `timeout`
    seconds, it raises LockTimeout and holds none.
    """

    def __init__(self, locks: Iterable[BaseLock[Any]], timeout: float | None = None) -> None:
        self._locks = list(locks)
        self._timeout = timeout
        self._sorted = sorted(self._locks, key=_place)
        places = [_place(lock) for lock in self._sorted]
        for place, following in pairwise(places):
            if place == following:
                raise LockDeadlock(
                    "it is in the list twice, and would wait for itself. List it once",
                    name=place[1],
                )
        self._stack = ExitStack()
        self._async_stack = AsyncExitStack()

    def __enter__(self) -> Sequence[Lease]:
        leases: dict[int, Lease] = {}
        with ExitStack() as stack:
            deadline = self._deadline()
            for lock in self._sorted:
                assert isinstance(lock, Lock)
                lease, refusal = lock.try_acquire(_left(lock, deadline))
                if lease is None:
                    raise lock.busy(refusal)
                stack.push(partial(lock.release_at_exit, lease))
                leases[id(lock)] = lease
            self._stack = stack.pop_all()
        return [leases[id(lock)] for lock in self._locks]

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    async def __aenter__(self) -> Sequence[AsyncLease]:
        leases: dict[int, AsyncLease] = {}
        async with AsyncExitStack() as stack:
            deadline = self._deadline()
            for lock in self._sorted:
                assert isinstance(lock, AsyncLock)
                lease, refusal = await lock.try_acquire(_left(lock, deadline))
                if lease is None:
                    raise lock.busy(refusal)
                stack.push_async_exit(partial(lock.release_at_exit, lease))
                leases[id(lock)] = lease
            self._async_stack = stack.pop_all()
        return [leases[id(lock)] for lock in self._locks]

    async def __aexit__(self, *error: Any) -> None:
        await self._async_stack.__aexit__(*error)

    def _deadline(self) -> float | None:
        if self._timeout is None or not self._sorted:
            return None
        return self._sorted[0].settings.clock() + self._timeout


def _place(lock: BaseLock[Any]) -> tuple[str, str]:
    return type(lock).__name__, lock.name


def _left(lock: BaseLock[Any], deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - lock.settings.clock())
