"""The shared watchdog: it renews leases at a third of their life and notices when one ends.

One thread keeps the time for all leases of threads; it never talks to a store, so that a silent server cannot hide
that a lease has ended. Renewals run in a second thread for each server. Leases of tasks are kept by their event loop.
A lease that nobody refers to any more is not renewed. After a fork the child starts with no watchdog.
"""

import asyncio
import logging
import os
from abc import ABC, abstractmethod
from functools import partial
from weakref import ref

from inturn.locks.baselease import BaseLease
from inturn.locks.errors import LockBackendError
from inturn.locks.lease import AsyncLease, Lease
from inturn.locks.timing import Action, Clock, Lane

logger = logging.getLogger(__name__)
PROOF_INTERVAL = 5.0  # seconds between two looks at a lock without a time to live

_clock = Clock()
_lanes: dict[object, Lane] = {}


def _forget() -> None:
    global _clock
    _clock = Clock()
    _lanes.clear()


os.register_at_fork(after_in_child=_forget)


class Watch(ABC):
    """Looks at one lease whenever a renewal or its end is due."""

    def __init__(self, lease: BaseLease, renewing: bool) -> None:
        self.lease = ref(lease)
        self.renewing = renewing
        self.in_flight = False
        self.renew_at = lease.began + interval(lease)
        self.turn = 0

    @abstractmethod
    def after(self, seconds: float, action: Action) -> None: ...

    @abstractmethod
    def start_renewal(self, lease: BaseLease) -> None: ...

    def arm(self, lease: BaseLease) -> None:
        self.turn += 1
        turn = self.turn
        self.after(self._wait(lease), lambda: self.look(turn))

    def look(self, turn: int) -> None:
        lease = self.living()
        if lease is None or turn != self.turn:
            return
        renewal_is_due = self._renews(lease) and lease.clock() >= self.renew_at
        self.in_flight = self.in_flight or renewal_is_due
        self.arm(lease)  # before the renewal, whose own look replaces this one
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
            self.renew_at = lease.clock() + min(1.0, interval(lease) / 3)

    def finished(self) -> None:
        self.in_flight = False
        lease = self.living()
        if lease is not None:
            self.arm(lease)

    def _renews(self, lease: BaseLease) -> bool:
        return self.renewing and not self.in_flight and lease.next_ttl() != 0

    def _wait(self, lease: BaseLease) -> float:
        to_renewal = self.renew_at - lease.clock() if self._renews(lease) else PROOF_INTERVAL
        return max(0.001, min(lease.remaining(), to_renewal))


class ThreadWatch(Watch):
    def after(self, seconds: float, action: Action) -> None:
        _clock.after(seconds, action, partial(_unfinished, self.lease))

    def start_renewal(self, lease: BaseLease) -> None:
        assert isinstance(lease, Lease)
        _lanes.setdefault(lease.port.lane, Lane()).put(self._renew)

    def _renew(self) -> None:
        lease = self.living()
        if isinstance(lease, Lease):
            self.renew_at = lease.clock() + interval(lease)
            try:
                lease.renew()
            except LockBackendError as error:
                self.failed(lease, error)
        self.finished()


class TaskWatch(Watch):
    renewal: "asyncio.Task[None] | None" = None  # referred to here, or it could be collected while it runs

    def after(self, seconds: float, action: Action) -> None:
        asyncio.get_running_loop().call_later(seconds, action)

    def start_renewal(self, lease: BaseLease) -> None:
        self.renewal = asyncio.get_running_loop().create_task(self._renew())

    async def _renew(self) -> None:
        lease = self.living()
        if isinstance(lease, AsyncLease):
            self.renew_at = lease.clock() + interval(lease)
            try:
                await lease.renew()
            except LockBackendError as error:
                self.failed(lease, error)
        self.finished()


def watch(lease: BaseLease, *, renewing: bool) -> None:
    """Most leases are over before the first look, so all that is made for one now is a date."""
    if not renewing and lease.expires is None:
        return
    wait = interval(lease) if renewing else lease.remaining()
    if lease.last_end is not None:
        wait = min(wait, lease.remaining())
    kept: ref[BaseLease] = ref(lease)
    if isinstance(lease, AsyncLease):
        lease.first_look = asyncio.get_running_loop().call_later(wait, _begin, kept, renewing)
    else:
        _clock.after(wait, partial(_begin, kept, renewing), partial(_unfinished, kept))


def _begin(kept: "ref[BaseLease]", renewing: bool) -> None:
    lease = kept()
    if lease is not None and not lease.released:
        watch = (ThreadWatch if isinstance(lease, Lease) else TaskWatch)(lease, renewing)
        watch.look(watch.turn)


def _unfinished(kept: "ref[BaseLease]") -> bool:
    lease = kept()
    return lease is not None and not lease.released


def interval(lease: BaseLease) -> float:
    return PROOF_INTERVAL if lease.ttl is None else lease.ttl / 3
