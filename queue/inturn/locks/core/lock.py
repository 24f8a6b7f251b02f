"""The methods of every lock, for threads. `lock_async` has the same methods for tasks.

Threads and tasks can share a lock object. Each caller releases only what it acquired itself. To
release elsewhere, pass on the lease or its handle.

The context manager raises if it could not acquire, so its body never runs unlocked. The exception
is a lock with `on_timeout="proceed"`: its body then receives None, and nothing is released.
"""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from functools import partial

from inturn.locks.core import engine
from inturn.locks.core.base_lock import BaseLock
from inturn.locks.core.contender import Grant, Holder, Refusal
from inturn.locks.core.lease import Lease
from inturn.locks.core.protocol import Port, Steps, run
from inturn.locks.errors import LockBackendError, LockLost, LockNotHeld


class Lock(BaseLock[Lease]):
    """A lock for threads."""

    @abstractmethod
    def port(self) -> Port: ...

    def acquire(self, timeout: float | None = None, blocking: bool = True) -> Lease | None:
        """Return the lease, or None if the lock was held elsewhere for all of `timeout` seconds.

        By default the lock's own timeout applies.
        """
        lease, _ = self.try_acquire(timeout, blocking)
        return lease and self._hold(lease)

    def release(self) -> None:
        """Release what this thread or task acquired last."""
        self._get_own_lease().release()

    def extend(self, ttl: float) -> None:
        """Extend what this thread or task acquired last."""
        self._get_own_lease().extend(ttl)

    def locked(self) -> bool:
        """Return True if the lock is held."""
        return self.holder() is not None

    def owned(self) -> bool:
        """Return True if the store confirms that this thread or task holds the lock."""
        try:
            return self._get_own_lease().owned()
        except LockNotHeld:
            return False

    def holder(self) -> Holder | None:
        """Return who holds the lock, or None if it is free."""
        return self._run(self.look())

    def break_(self) -> bool:
        """Free the lock by force. Return False if it was not held.

        If the lock has a fence, the fence rises, so that the old holder is refused.
        """
        return self._run(self.break_steps())

    def from_handle(self, handle: str) -> Lease:
        """Return the lease of this handle, or raise LockNotHeld if that lease is over."""
        contender, grant = self._read_handle(handle)
        known = self._find_lease(contender, Lease)
        if known is not None:
            return known
        began = self.settings.clock()
        port = self.port()
        if run(engine.repeat_if_unclear(contender.owned), port):
            return self._make_lease(Lease, contender, grant, began, port)
        port.close()
        raise self._lease_over(grant.owner)

    def try_acquire(
        self, timeout: float | None, blocking: bool = True
    ) -> tuple[Lease | None, Refusal | None]:
        """Return a lease, or the refusal with its holder. Only the caller releases this lease."""
        deadline = self._deadline(timeout, blocking)
        contender, port = self.new_contender(), self.port()
        try:
            outcome, began = run(engine.acquire(contender, deadline, self.settings.clock), port)
            port.rest()
        except BaseException:
            port.close()
            raise
        if isinstance(outcome, Grant):
            return self._make_lease(Lease, contender, outcome, began, port), None
        port.close()
        return None, outcome

    @contextmanager
    def until_released(self, lease: Lease | None) -> Iterator[Lease | None]:
        """Release the lease at the end of the body.

        Raise LockLost if it was lost, unless the body itself raises an error.
        """
        with ExitStack() as stack:
            stack.push(partial(self.release_at_exit, lease))
            yield lease

    def __enter__(self) -> Lease | None:
        return self._enter(*self.try_acquire(None))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.release_at_exit(self._leave(), kind)

    def release_at_exit(self, lease: Lease | None, error: object, *_: object) -> None:
        """Release the lease, if there is one. An error of the body counts more than ours."""
        if lease is None:
            return
        with nullcontext() if error is None else suppress(LockLost, LockBackendError):
            lease.release()

    def _run(self, steps: Steps[engine.T]) -> engine.T:
        with closing(self.port()) as port:
            return run(steps, port)
