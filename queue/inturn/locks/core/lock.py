"""The face of every lock: acquire, release, extend, locked, owned, and the context manager, for threads; lock_async.py for tasks.

A lock object may be shared by threads and tasks; each caller releases only what it acquired itself. Whoever wants to
release elsewhere takes the lease, or its handle, along. The context manager raises when it could not acquire: its body
never runs unlocked, unless the lock was made with `on_timeout="proceed"`; then it receives None and releases nothing.
"""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from inturn.locks.core import engine
from inturn.locks.core.base_lock import BaseLock
from inturn.locks.core.engine import Grant, Holder, Refusal
from inturn.locks.core.lease import Lease
from inturn.locks.core.protocol import Port, Steps, run
from inturn.locks.errors import LockBackendError, LockLost, LockNotHeld


class Lock(BaseLock[Lease]):
    @abstractmethod
    def port(self) -> Port: ...

    def acquire(self, timeout: float | None = None, blocking: bool = True) -> Lease | None:
        """The lease, or None if somebody else held the lock all the time (`timeout`: seconds, by default the lock's)."""
        lease, _ = self._try(self._deadline(timeout, blocking))
        return lease and self._hold(lease)

    def release(self) -> None:
        self._mine().release()

    def extend(self, ttl: float) -> None:
        self._mine().extend(ttl)

    def locked(self) -> bool:
        """Held by anybody."""
        return self.holder() is not None

    def owned(self) -> bool:
        """Held by this thread or task, as the store says."""
        try:
            return self._mine().owned()
        except LockNotHeld:
            return False

    def holder(self) -> Holder | None:
        return self._once(self.look())

    def break_(self) -> bool:
        """Free it by force, whoever holds it; False if nobody did. Its fence rises, so that the old holder is refused."""
        return self._once(self.break_steps())

    def from_handle(self, handle: str) -> Lease:
        """The lease that this handle was made of; raises LockNotHeld if that is over."""
        claim, grant = self._facts(handle)
        known = self._known(claim, Lease)
        if known is not None:
            return known
        began = self.terms.clock()
        port = self.port()
        if run(engine.repeated(claim.owned), port):
            return self._granted(Lease, claim, grant, began, port)
        port.close()
        raise LockNotHeld("the lease of this handle is over", name=self.name, owner=grant.owner)

    def attempt(self, timeout: float | None) -> tuple[Lease | None, Refusal | None]:
        """A lease that only its receiver releases, or who was in the way."""
        return self._try(self._deadline(timeout, True))

    @contextmanager
    def until_released(self, lease: Lease | None) -> Iterator[Lease | None]:
        """Release it at the end; a loss that nobody noticed is raised, unless the body's own error says more."""
        try:
            yield lease
        except BaseException:
            with suppress(LockLost, LockBackendError):
                self._release(lease)
            raise
        self._release(lease)

    def _release(self, lease: Lease | None) -> None:
        if lease is not None:
            lease.release()

    def __enter__(self) -> Lease | None:
        lease, refusal = self._try(self._deadline(None, True))
        return self._entered_with(lease, refusal)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        lease = self._leave()
        if lease is None:
            return
        if kind is None:
            lease.release()
        else:
            with suppress(LockLost, LockBackendError):
                lease.release()

    def _try(self, deadline: float | None) -> tuple[Lease | None, Refusal | None]:
        claim, port = self.claim(), self.port()
        try:
            outcome, began = run(engine.acquire(claim, deadline, self.terms.clock), port)
            port.rest()
        except BaseException:
            port.close()
            raise
        if isinstance(outcome, Grant):
            return self._granted(Lease, claim, outcome, began, port), None
        port.close()
        return None, outcome

    def _once(self, steps: Steps[engine.T]) -> engine.T:
        port = self.port()
        try:
            return run(steps, port)
        finally:
            port.close()
