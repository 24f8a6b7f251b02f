"""The shared watchdog. It renews leases at a third of their life and detects when one ends.

For leases of threads, one timer thread keeps the time. It never talks to a store, so a silent
server cannot hide that a lease has ended. Renewals run in a separate thread for each server. Leases
of tasks are watched by their event loop.

A lease without references is no longer renewed. A forked child starts without a watchdog.

At first, a lease is watched together with all others. It gets its own watch if it is still held at
the first look.
"""

import asyncio
import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from weakref import WeakKeyDictionary, ref

from inturn.locks.core.base_lease import BaseLease
from inturn.locks.core.lease import AsyncLease, Lease
from inturn.locks.core.process import process
from inturn.locks.core.threads import Action, RenewalThreads, TimerThread, run_logging_errors
from inturn.locks.errors import LockBackendError

logger = logging.getLogger(__name__)
PROOF_INTERVAL = 5.0  # seconds between two looks at a lock without a time to live
FOR_EVER = float("inf")


def in_thread(seconds: float, action: Action) -> None:
    watchdog.timer.after(seconds, action)


def in_loop(seconds: float, action: Action) -> None:
    asyncio.get_running_loop().call_later(seconds, action)


class Watch(ABC):
    """Looks at one lease whenever its renewal or its end is due."""

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

    def reschedule(self, lease: BaseLease) -> None:
        # Only for an earlier time: a look that comes too early plans the next one by itself.
        if lease.clock() + self._wait(lease) < self.planned_at:
            self.plan(lease)

    def look(self, turn: int) -> None:
        lease = self.get_living_lease()
        if lease is None or turn != self.turn:
            return
        renewal_is_due = self._renews(lease) and lease.clock() >= self._renew_at(lease)
        self.in_flight = self.in_flight or renewal_is_due
        self.plan(lease)  # before the renewal, whose own look replaces this one
        if renewal_is_due:
            self.start_renewal(lease)

    def get_living_lease(self) -> BaseLease | None:
        """Return the lease unless it is over. A lease whose time is up is marked as lost here."""
        lease = self.lease()
        if lease is None or lease.ending or lease.released or lease.foreign:
            return None
        lease.expire()
        return None if lease.lost else lease

    def note_failure(self, lease: BaseLease, error: LockBackendError) -> None:
        """Plan another try within the time to live. A mutex has none, and is lost."""
        if lease.ttl is None:
            lease.lose(f"its connection is gone: {error}")
        else:
            logger.warning("lock.renewal_failed: %s", error)
            self.failed_at = lease.clock()

    def end_renewal(self) -> None:
        self.in_flight = False
        lease = self.get_living_lease()
        if lease is not None:
            self.plan(lease)

    def _renews(self, lease: BaseLease) -> bool:
        return lease.renews and not self.in_flight and lease.next_ttl() != 0

    def _renew_at(self, lease: BaseLease) -> float:
        retry_at = self.failed_at + min(1.0, interval(lease) / 3)
        return max(retry_at, lease.since + interval(lease))

    def _wait(self, lease: BaseLease) -> float:
        to_renewal = PROOF_INTERVAL
        if self._renews(lease):
            to_renewal = self._renew_at(lease) - lease.clock()
        return max(0.001, min(lease.remaining(), to_renewal))


class ThreadWatch(Watch):
    def after(self, seconds: float, action: Action) -> None:
        in_thread(seconds, action)

    def start_renewal(self, lease: BaseLease) -> None:
        assert isinstance(lease, Lease)
        watchdog.renewals.put(lease.port.server, self._renew)

    def _renew(self) -> None:
        lease = self.get_living_lease()
        if isinstance(lease, Lease):
            try:
                lease.renew()
            except LockBackendError as error:
                self.note_failure(lease, error)
        self.end_renewal()


class TaskWatch(Watch):
    renewal: "asyncio.Task[None] | None" = None  # a task without references could be collected

    def after(self, seconds: float, action: Action) -> None:
        in_loop(seconds, action)

    def start_renewal(self, lease: BaseLease) -> None:
        self.renewal = asyncio.get_running_loop().create_task(self._renew())

    async def _renew(self) -> None:
        lease = self.get_living_lease()
        if isinstance(lease, AsyncLease):
            try:
                await lease.renew()
            except LockBackendError as error:
                self.note_failure(lease, error)
        self.end_renewal()


class FirstLooks:
    """The first look at every new lease, scheduled once for all of them: at the earliest time.

    Most leases are over before their first look, so scheduling each would be wasteful. A lease that
    is still held when its time comes, or soon after, gets its own watch.
    """

    def __init__(self, after: Callable[[float, Action], None], watch: type[Watch]) -> None:
        self._after = after
        self._watch = watch
        self._at = FOR_EVER

    def reschedule(self, lease: BaseLease) -> None:
        wait, now = due_in(lease), time.monotonic()
        # A time in the past means that an interruption kept us from scheduling its look.
        if now + wait < self._at or self._at < now:
            self._at = now + wait
            self._after(wait, self._look)

    def _look(self) -> None:
        # Do this first: a later lease that may be missed below schedules its own look.
        self._at = FOR_EVER
        for lease in process.list_leases():
            if lease.watched_by is not self or lease.released:
                continue
            if due_in(lease) > interval(lease) / 4:
                self.reschedule(lease)
            else:
                lease.watched_by = own = self._watch(lease)
                run_logging_errors(partial(own.look, own.turn))


class Watchdog:
    """The threads and the first looks of this process."""

    def __init__(self) -> None:
        self.after_fork()

    def after_fork(self) -> None:
        """Start without threads and without leases to watch."""
        self.timer = TimerThread()
        self.renewals = RenewalThreads()
        self.of_threads = FirstLooks(in_thread, ThreadWatch)
        self.of_loops = WeakKeyDictionary[asyncio.AbstractEventLoop, FirstLooks]()


watchdog = Watchdog()
os.register_at_fork(after_in_child=watchdog.after_fork)


def watch(lease: BaseLease) -> None:
    """Start watching a newly acquired lease."""
    if not lease.renews and lease.expires is None:
        return
    looks = watchdog.of_threads
    if not isinstance(lease, Lease):
        new = FirstLooks(in_loop, TaskWatch)
        looks = watchdog.of_loops.setdefault(asyncio.get_running_loop(), new)
    lease.watched_by = looks
    looks.reschedule(lease)


def interval(lease: BaseLease) -> float:
    """Return the seconds between two renewals.

    They fit the present life, and the next one if that is shorter.
    """
    if lease.ttl is None or lease.life is None:
        return PROOF_INTERVAL
    return min(lease.life, lease.ttl) / 3


def due_in(lease: BaseLease) -> float:
    """Return the seconds until the lease must be renewed or ends."""
    to_renewal = lease.since + interval(lease) - lease.clock() if lease.renews else FOR_EVER
    return max(0.0, min(to_renewal, lease.remaining()))
