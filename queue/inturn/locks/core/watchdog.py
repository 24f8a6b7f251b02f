"""The shared watchdog: it renews leases at a third of their life and notices when one ends.

One thread keeps the time for all leases of threads; it never talks to a store, so that a silent server cannot hide
that a lease has ended. Renewals run in a second thread for each server. Leases of tasks are kept by their event loop.
A lease that nobody refers to any more is not renewed. After a fork the child starts with no watchdog.

A lease is watched together with all others at first, and by a watch of its own if it is still held at the first look.
"""

import asyncio
import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from weakref import WeakKeyDictionary, ref

from inturn.locks.core.base_lease import BaseLease, all_living
from inturn.locks.core.lease import AsyncLease, Lease
from inturn.locks.core.threads import Action, Clock, Lane, guarded
from inturn.locks.errors import LockBackendError

logger = logging.getLogger(__name__)
PROOF_INTERVAL = 5.0  # seconds between two looks at a lock without a time to live
FOR_EVER = float("inf")

_clock = Clock()
_lanes: dict[object, Lane] = {}


def in_thread(seconds: float, action: Action) -> None:
    _clock.after(seconds, action)


def in_loop(seconds: float, action: Action) -> None:
    asyncio.get_running_loop().call_later(seconds, action)


class Watch(ABC):
    """Looks at one lease whenever a renewal or its end is due."""

    def __init__(self, lease: BaseLease) -> None:
        self.lease = ref(lease)
        self.in_flight = False
        self.failed_at = -FOR_EVER
        self.planned_at = FOR_EVER
        self.turn = 0

    @abstractmethod
    def after(self, seconds: float, action: Action) -> None: ...

    @abstractmethod
    def start_renewal(self, lease: BaseLease) -> None: ...

    def plan(self, lease: BaseLease) -> None:
        self.turn += 1
        turn, wait = self.turn, self._wait(lease)
        self.planned_at = lease.clock() + wait
        self.after(wait, lambda: self.look(turn))

    def hasten(self, lease: BaseLease) -> None:
        if lease.clock() + self._wait(lease) < self.planned_at:  # a look that comes too early plans the next one
            self.plan(lease)

    def look(self, turn: int) -> None:
        lease = self.living()
        if lease is None or turn != self.turn:
            return
        renewal_is_due = self._renews(lease) and lease.clock() >= self._renew_at(lease)
        self.in_flight = self.in_flight or renewal_is_due
        self.plan(lease)  # before the renewal, whose own look replaces this one
        if renewal_is_due:
            self.start_renewal(lease)

    def living(self) -> BaseLease | None:
        """The lease, unless it is over; an end that is due is told here."""
        lease = self.lease()
        if lease is None or lease.ending or lease.released or lease.foreign:
            return None
        lease.expire()
        return None if lease.lost else lease

    def failed(self, lease: BaseLease, error: LockBackendError) -> None:
        """No answer is no loss yet: try again until its time is over. Without a time to live, it was a connection."""
        if lease.ttl is None:
            lease.lose(f"its connection is gone: {error}")
        else:
            logger.warning("lock.renewal_failed: %s", error)
            self.failed_at = lease.clock()

    def finished(self) -> None:
        self.in_flight = False
        lease = self.living()
        if lease is not None:
            self.plan(lease)

    def _renews(self, lease: BaseLease) -> bool:
        return lease.renews and not self.in_flight and lease.next_ttl() != 0

    def _renew_at(self, lease: BaseLease) -> float:
        return max(self.failed_at + min(1.0, interval(lease) / 3), lease.since + interval(lease))

    def _wait(self, lease: BaseLease) -> float:
        to_renewal = self._renew_at(lease) - lease.clock() if self._renews(lease) else PROOF_INTERVAL
        return max(0.001, min(lease.remaining(), to_renewal))


class ThreadWatch(Watch):
    def after(self, seconds: float, action: Action) -> None:
        in_thread(seconds, action)

    def start_renewal(self, lease: BaseLease) -> None:
        assert isinstance(lease, Lease)
        _lanes.setdefault(lease.port.lane, Lane()).put(self._renew)

    def _renew(self) -> None:
        lease = self.living()
        if isinstance(lease, Lease):
            try:
                lease.renew()
            except LockBackendError as error:
                self.failed(lease, error)
        self.finished()


class TaskWatch(Watch):
    renewal: "asyncio.Task[None] | None" = None  # referred to here, or it could be collected while it runs

    def after(self, seconds: float, action: Action) -> None:
        in_loop(seconds, action)

    def start_renewal(self, lease: BaseLease) -> None:
        self.renewal = asyncio.get_running_loop().create_task(self._renew())

    async def _renew(self) -> None:
        lease = self.living()
        if isinstance(lease, AsyncLease):
            try:
                await lease.renew()
            except LockBackendError as error:
                self.failed(lease, error)
        self.finished()


class FirstLooks:
    """Most leases are over before the first look at them. So there is no date for each, but one for all: the earliest.
    Whoever is still held at its time, or nearly, gets a watch of its own."""

    def __init__(self, after: Callable[[float, Action], None], watch: type[Watch]) -> None:
        self._after = after
        self._watch = watch
        self._at = FOR_EVER

    def hasten(self, lease: BaseLease) -> None:
        wait, now = due_in(lease), time.monotonic()
        if now + wait < self._at or self._at < now:  # overdue: it was interrupted before it asked for its look
            self._at = now + wait
            self._after(wait, self._look)

    def _look(self) -> None:
        self._at = FOR_EVER  # first of all: whoever comes from now on, and may not be seen below, asks for a look
        for lease in all_living():
            if lease.watched_by is not self or lease.released:
                continue
            if due_in(lease) > interval(lease) / 4:
                self.hasten(lease)
            else:
                lease.watched_by = own = self._watch(lease)
                guarded(partial(own.look, own.turn))


_of_threads = FirstLooks(in_thread, ThreadWatch)
_of_loops: "WeakKeyDictionary[asyncio.AbstractEventLoop, FirstLooks]" = WeakKeyDictionary()


def watch(lease: BaseLease) -> None:
    if not lease.renews and lease.expires is None:
        return
    lease.watched_by = looks = _of_threads if isinstance(lease, Lease) else _of_loop()
    looks.hasten(lease)


def _of_loop() -> FirstLooks:
    loop = asyncio.get_running_loop()
    looks = _of_loops.get(loop)
    if looks is None:
        looks = _of_loops[loop] = FirstLooks(in_loop, TaskWatch)
    return looks


def interval(lease: BaseLease) -> float:
    """Before its present life is over, and in time for the next one, should that be shorter."""
    return PROOF_INTERVAL if lease.ttl is None or lease.life is None else min(lease.life, lease.ttl) / 3


def due_in(lease: BaseLease) -> float:
    to_renewal = lease.since + interval(lease) - lease.clock() if lease.renews else FOR_EVER
    return max(0.0, min(to_renewal, lease.remaining()))


def _forget() -> None:
    global _clock, _of_threads
    _clock = Clock()
    _of_threads = FirstLooks(in_thread, ThreadWatch)
    _of_loops.clear()
    _lanes.clear()


os.register_at_fork(after_in_child=_forget)
