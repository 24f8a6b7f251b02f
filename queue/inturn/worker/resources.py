"""The resources of jobs: locks that are held from the claim until the job's end is stored.

Promises:

- A job's code runs with all of its locks held, or (`on_busy="proceed"`) with none. They are taken
  sorted by name, so that two jobs cannot wait for each other.
- Losing a lock ends the run, as the death of its worker would: an async task is cancelled, a sync
  one is asked to end. Its result is not stored as the job's end, and the job takes its place again.
- A later attempt at a job takes over the leases of an earlier one at once.

Nothing can guarantee that no code runs after a loss. If that matters, pass
`context.leases[0].fence` to what you protect.

This module is loaded for the first job with resources.
"""

import asyncio
import logging
import socket
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import anyio
from psycopg.conninfo import conninfo_to_dict

from inturn.database.connector import Connector
from inturn.errors import JobSkipped, Snoozed
from inturn.locks.core.lock_async import AsyncLock
from inturn.locks.errors import LockBackendError, LockError, LockTimeout
from inturn.locks.several import lock_all
from inturn.locks.urls import REDIS, lock_from_url
from inturn.model import Again, Ended, Outcome, Status
from inturn.tasks.resources import OnBusy
from inturn.worker.attempt import Attempt
from inturn.worker.error_text import storable

if TYPE_CHECKING:
    from inturn.locks.core.lease import AsyncLease

logger = logging.getLogger(__name__)
RELEASE_SECONDS = 10.0  # how long an unresponsive store may keep a slot; then the lease expires
A_MOMENT = 0.1  # seconds to wait for a lock that is just being released before it counts as busy
LOST_PAUSE = timedelta(seconds=1)  # the new holder of the lock may still be at work
Key = tuple[int, str]


class ResourceLocks:
    """The locks that the jobs of one worker hold."""

    def __init__(self, connector: Connector) -> None:
        self._database = name_of_database(connector)
        # Redis clients by address: a client per lock would mean a connection per lock.
        self._clients: dict[str, Any] = {}
        self.held: dict[Key, HeldLocks] = {}
        self._releasing: set[anyio.Event] = set()

    def lock(self, wanted: object, attempt: Attempt) -> AsyncLock:
        """Return the lock for what the task declared: a URL, or an async lock."""
        lock = self._lock_at(wanted) if isinstance(wanted, str) else wanted
        if not isinstance(lock, AsyncLock):
            raise TypeError(
                f"a resource of task {attempt.task.name} is {lock!r}: use an async lock, like "
                "AsyncSmartLock"
            )
        return lock.on_behalf_of(f"job {attempt.job.id} of {self._database}", attempt.job.fence)

    def judge(self, outcome: Outcome) -> Outcome:
        """Return the outcome to report. Work done without its locks does not count."""
        held = self.held.get((outcome.job.id, outcome.job.claim_id))
        loss = held and held.loss()
        is_end = isinstance(outcome, Ended) and outcome.status in (Status.SUCCEEDED, Status.FAILED)
        if loss and is_end:
            return Again(outcome.job, LOST_PAUSE, storable(f"{loss}\n{outcome.error or ''}"))
        return outcome

    def release(self, outcomes: Sequence[Outcome]) -> Coroutine[Any, Any, None] | None:
        """Return a coroutine that releases the locks of these jobs, or None if they hold none.

        Their ends are stored. You may run the coroutine now or later.
        """
        keys = [(outcome.job.id, outcome.job.claim_id) for outcome in outcomes]
        locks = [self.held.pop(key) for key in keys if key in self.held]
        if not locks:
            return None
        released = anyio.Event()
        self._releasing.add(released)
        return self._release(locks, released)

    async def _release(self, locks: "Sequence[HeldLocks]", released: anyio.Event) -> None:
        try:
            for held in locks:
                await held.release()
        finally:
            self._releasing.discard(released)
            released.set()

    async def wait_for_releases(self) -> None:
        """Wait until everything that is being released is free.

        This way the next job of a lane, handed over just now, does not find the locks of the
        previous one busy.
        """
        for released in list(self._releasing):
            await released.wait()

    async def close(self) -> None:
        """Release everything and close the connections."""
        for held in list(self.held.values()):
            await held.release()
        for client in self._clients.values():
            with suppress(Exception):  # the worker is ending, and nothing needs them any more
                await client.aclose()
        self._clients.clear()

    def _lock_at(self, url: str) -> AsyncLock:
        address = url.partition("#")[0]
        if address.partition(":")[0] not in REDIS:
            return lock_from_url(url, asynchronous=True)
        if address not in self._clients:
            from inturn.locks.redis.clients import async_client_at

            self._clients[address] = async_client_at(address)
        return lock_from_url(url, asynchronous=True, redis=self._clients[address])


class HeldLocks:
    """The locks of one attempt."""

    def __init__(self, attempt: Attempt, resource_locks: ResourceLocks) -> None:
        self._attempt = attempt
        self._key: Key = (attempt.job.id, attempt.job.claim_id)
        self._resource_locks = resource_locks
        self._all: lock_all | None = None
        self._leases: Sequence[AsyncLease] = ()

    async def take(self) -> None:
        job, spec = self._attempt.job, self._attempt.task.resources
        assert spec is not None
        filled = spec.fill(job.task_kwargs)
        wanted = [self._resource_locks.lock(one, self._attempt) for one in filled]
        locks = lock_all(wanted, spec.seconds if spec.on_busy is OnBusy.WAIT else A_MOMENT)
        await self._resource_locks.wait_for_releases()
        try:
            self._leases = await _take_all_or_none(locks)
        except LockTimeout as busy:
            match spec.on_busy:
                case OnBusy.SNOOZE:
                    raise Snoozed(timedelta(seconds=spec.seconds)) from busy
                case OnBusy.SKIP:
                    raise JobSkipped(str(busy)) from busy
                case OnBusy.PROCEED:
                    logger.warning(
                        "resource.busy: job %s runs without its resources: %s", job.id, busy
                    )
                    return
                case _:  # it has waited in vain, or fails at once
                    raise
        except LockBackendError as error:
            if spec.on_busy is not OnBusy.SNOOZE:
                raise  # whether the lock is busy is unknown
            logger.warning("resource.unavailable: job %s: %s", job.id, error)
            raise Snoozed(timedelta(seconds=spec.seconds)) from error
        self._all = locks
        self._resource_locks.held[self._key] = self
        if self._attempt.context is not None:
            self._attempt.context.provide_leases(tuple(self._leases))
        loop = asyncio.get_running_loop()
        for lease in self._leases:  # a sync task's thread may notice the loss
            lease.on_lost(lambda: loop.call_soon_threadsafe(self._note_loss))

    def loss(self) -> LockError | None:
        """Return why a lock is no longer certainly held, or None if all are."""
        if self._all is None:
            return None
        return next((lease.loss() for lease in self._leases if not lease.valid), None)

    def _note_loss(self) -> None:
        if loss := self.loss():  # None if the lock was released first
            self._attempt.end_run(str(loss))

    async def settle(self, outcome: Outcome | None) -> Outcome | None:
        """Return the final outcome of an attempt whose code has ended with `outcome`.

        An attempt that was given back releases its locks now. Any other keeps them until its
        outcome is stored.
        """
        if outcome is not None:
            return outcome
        loss = self.loss()
        if loss is None:
            await self.release()
            return None
        return Again(self._attempt.job, LOST_PAUSE, storable(str(loss)))

    async def release(self) -> None:
        self._resource_locks.held.pop(self._key, None)
        locks, self._all = self._all, None
        if locks is None:
            return
        with anyio.move_on_after(RELEASE_SECONDS, shield=True):
            try:
                await locks.__aexit__(None, None, None)
            except LockError as error:
                logger.warning("resource.lost: job %s: %s", self._attempt.job.id, error)


async def _take_all_or_none(locks: lock_all) -> "Sequence[AsyncLease]":
    """Take all locks or none, even if cancelled.

    A cancel scope cancels repeatedly, which would interrupt the release.
    """
    task = asyncio.ensure_future(locks.__aenter__())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        with anyio.move_on_after(RELEASE_SECONDS, shield=True):
            await asyncio.wait([task])
            if not task.cancelled() and task.exception() is None:
                await locks.__aexit__(None, None, None)
        raise


def name_of_database(connector: Connector) -> str:
    """Return a name for the database that is the same for all its workers, as far as possible.

    Job ids are unique within it.
    """
    given = conninfo_to_dict(connector.dsn)
    host = str(given.get("host") or given.get("hostaddr") or "")
    if not host or host.startswith("/") or host in ("localhost", "127.0.0.1", "::1"):
        host = socket.gethostname()
    return f"{host}:{given.get('port') or 5432}/{given.get('dbname') or ''}.{connector.schema}"
