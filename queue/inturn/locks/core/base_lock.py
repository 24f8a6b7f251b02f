"""The common part of sync and async locks: settings, the leases of each caller, and errors."""

import asyncio
import copy
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, Self, TypeVar

from inturn.locks.core.base_lease import BaseLease, decode_handle
from inturn.locks.core.contender import Contender, Grant, Holder, Refusal
from inturn.locks.core.process import process
from inturn.locks.core.protocol import Steps
from inturn.locks.core.settings import LockSettings
from inturn.locks.core.watchdog import watch
from inturn.locks.errors import LockDeadlock, LockError, LockNotHeld, LockTimeout

L = TypeVar("L", bound=BaseLease)


class BaseLock(ABC, Generic[L]):
    """A lock without its store, for threads (`Lock`) or for tasks (`AsyncLock`)."""

    portable = True  # another process can use its handles
    permits = 1
    place = "on this machine"  # where it is, for `repr`
    contender: type[Contender]

    def __init__(self, name: str, settings: LockSettings) -> None:
        if not name:
            raise ValueError("a lock needs a name")
        self.name = name
        self.settings = settings
        self._held: dict[L, object] = {}  # each lease with its acquirer, latest last
        self._entered: dict[object, list[L | None]] = {}
        self._template: Self | None = None

    def __repr__(self) -> str:
        # The store's address is left out, because it may contain a password.
        return f"<{type(self).__name__} {self.name!r} {self.place}>"

    def new_contender(self, lock_id: str | None = None) -> Contender:
        """Return a new contender, or the one whose `lock_id` came with a handle."""
        return self.contender(self.template(), lock_id)

    @abstractmethod
    def look(self) -> Steps[Holder | None]:
        """Find out who holds it. None means that it is free."""

    def template(self) -> Self:
        """Return a copy without leases, for contenders to refer to.

        A contender that referred to the lock itself would keep its leases alive after the last
        reference to the lock.
        """
        if self._template is None:
            self._template = copy.copy(self)
            self._template._held, self._template._entered = {}, {}
        return self._template

    def on_behalf_of(self, whom: str, attempt: int) -> Self:
        """Return a lock for one of several attempts at the same thing.

        If the store supports it, that lock does not wait for an earlier attempt.
        """
        return self

    def break_steps(self) -> Steps[bool]:
        yield from ()
        raise LockError(
            "it ends only with its holder: end that process or connection", name=self.name
        )

    def forget(self, lease: L) -> None:
        """Remove a lease that was released."""
        self._held.pop(lease, None)

    def busy(self, refusal: Refusal | None) -> LockTimeout:
        """Return the error for a lock that is held elsewhere."""
        holder = (refusal and refusal.holder) or Holder(self.name)
        return LockTimeout(
            "another holder has it",
            name=self.name,
            owner=holder.owner,
            age=holder.age,
            ttl=holder.ttl,
        )

    def _deadline(self, timeout: float | None, blocking: bool) -> float | None:
        if not blocking:
            return self.settings.clock()
        timeout = self.settings.timeout if timeout is None else timeout
        if timeout is not None:
            return self.settings.clock() + timeout
        if self.permits == 1 and any(lease.valid for lease in self._held_by(get_caller())):
            raise LockDeadlock(
                "you already hold it, and would wait for yourself forever; release it first",
                name=self.name,
            )
        return None

    def _make_lease(
        self, make: Callable[..., L], contender: Contender, grant: Grant, began: float, port: object
    ) -> L:
        lease = make(self, contender, grant, port, began)
        process.leases[id(lease)] = lease
        if self.settings.renew and not self.portable:
            process.pinned_leases.add(lease)
        watch(lease)
        return lease

    def _hold(self, lease: L) -> L:
        self._held[lease] = get_caller()
        return lease

    def _held_by(self, whom: object) -> list[L]:
        return [lease for lease, holder in self._held.copy().items() if holder is whom]

    def _get_own_lease(self) -> L:
        """Return the lease that this thread or task acquired last."""
        # Any task may release the leases of a task that has ended.
        ended = (
            who for who in list(self._held.values()) if isinstance(who, asyncio.Task) and who.done()
        )
        for who in (get_caller(), *ended):
            for lease in reversed(self._held_by(who)):
                if not lease.released and not lease.foreign:
                    return lease
        raise LockNotHeld(
            "this thread or task did not acquire it, or has released it. To release it elsewhere, "
            "use its lease",
            name=self.name,
        )

    def _enter(self, lease: L | None, refusal: Refusal | None) -> L | None:
        me = get_caller()
        if lease is not None:
            self._held[lease] = me
        elif self.settings.on_timeout == "raise":
            raise self.busy(refusal)
        self._entered.setdefault(me, []).append(lease)
        return lease

    def _leave(self) -> L | None:
        key = get_caller()
        entered = self._entered[key]
        lease = entered.pop()
        if lease is not None:
            self.forget(lease)
        if not entered:
            del self._entered[key]
        return lease

    def _find_lease(self, contender: Contender, kind: type[L]) -> L | None:
        """Return the lease of a handle, if it belongs to this process."""
        for known in process.list_leases():
            if isinstance(known, kind) and known.lock_id == contender.lock_id and not known.foreign:
                if known.released:
                    raise self._lease_over(known.owner)
                return known
        if self.portable:
            return None
        raise LockNotHeld(
            "it belongs to the process that acquired it; release it there", name=self.name
        )

    def _read_handle(self, handle: str) -> tuple[Contender, Grant]:
        facts = decode_handle(handle)
        if facts["name"] != self.name:
            raise ValueError(
                f"the handle belongs to the lock {facts['name']!r}, not to {self.name!r}"
            )
        grant = Grant(facts["owner"], facts["fence"], facts["acquired_at"])
        return self.new_contender(facts["lock_id"]), grant

    def _lease_over(self, owner: str | None) -> LockNotHeld:
        return LockNotHeld(
            "the lease of this handle is over; acquire the lock again", name=self.name, owner=owner
        )


def get_caller() -> object:
    """Return the running task, or else the thread."""
    task = asyncio.current_task() if asyncio._get_running_loop() else None
    return task or threading.current_thread()
