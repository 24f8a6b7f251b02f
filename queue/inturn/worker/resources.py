"""The resources of jobs: locks that are taken after the claim and given back after the commit that stores the job's end.

Promises. A job's code runs with all of its locks held, or (on_busy="proceed") with none; they are taken sorted by name, so
that two jobs cannot wait for each other. Losing one ends the run, as the death of its worker would: an async task is
cancelled, a sync one is asked, and whatever it reports is not stored as its end: the job takes its place again. A later
attempt at a job takes leases over from an earlier one at once.

It cannot promise that nothing was done after a loss; for that hand `context.leases[0].fence` to what you protect.
Loaded when the first job with resources comes.
"""

import asyncio
import logging
import socket
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from psycopg.conninfo import conninfo_to_dict

from inturn.database.connector import Connector
from inturn.errors import JobSkipped, Snoozed
from inturn.locks.errors import LockBackendError, LockError, LockTimeout
from inturn.locks.lock_async import AsyncLock
from inturn.locks.several import lock_all
from inturn.locks.urls import REDIS, lock_from_url
from inturn.model import Again, Ended, Outcome, Status
from inturn.tasks.resources import OnBusy
from inturn.worker.attempt import storable

if TYPE_CHECKING:
    from inturn.locks.lease import AsyncLease
    from inturn.worker.attempt import Attempt

T = TypeVar("T")
logger = logging.getLogger(__name__)
LET_GO_SECONDS = 10.0  # that a silent store may keep a slot; then its lease ends by itself
A_MOMENT = 0.1  # seconds to wait for what is being given back just now, before it counts as busy
LOST_PAUSE = timedelta(seconds=1)  # what took the lock may still be at work
Key = tuple[int, str]


class Keeper:
    """What the jobs of one worker hold."""

    def __init__(self, connector: Connector) -> None:
        self._place = database(connector)
        self._clients: dict[
            str, Any
        ] = {}  # of Redis, by address: a lock of its own each would be a connection each
        self._holdings: dict[Key, Holding] = {}
        self._going: set[anyio.Event] = set()

    def equip(self, attempt: "Attempt") -> None:
        attempt.holding = Holding(attempt, self)

    def lock(self, wanted: object, attempt: "Attempt") -> AsyncLock:
        lock = self._at(wanted) if isinstance(wanted, str) else wanted
        if not isinstance(lock, AsyncLock):
            raise TypeError(
                f"a resource of task {attempt.task.name} is {lock!r}: give an async lock, like AsyncSmartLock"
            )
        return lock.on_behalf_of(f"job {attempt.job.id} of {self._place}", attempt.job.fence)

    def judged(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """What may be reported: nothing that was done without the locks counts as done."""
        return [self._judged(outcome) for outcome in outcomes]

    def _judged(self, outcome: Outcome) -> Outcome:
        holding = self._holdings.get((outcome.job.id, outcome.job.claim_id))
        loss = holding and holding.loss()
        if (
            loss
            and isinstance(outcome, Ended)
            and outcome.status in (Status.SUCCEEDED, Status.FAILED)
        ):
            return Again(outcome.job, LOST_PAUSE, storable(f"{loss}\n{outcome.error or ''}"))
        return outcome

    def keep(self, holding: "Holding", attempt: "Attempt") -> None:
        self._holdings[key(attempt)] = holding

    def forget(self, attempt: "Attempt") -> None:
        self._holdings.pop(key(attempt), None)

    def reported(self, outcomes: Sequence[Outcome]) -> Coroutine[Any, Any, None] | None:
        """Their ends are stored. What there is to do so that others may have what they held, at once or later."""
        keys = [(outcome.job.id, outcome.job.claim_id) for outcome in outcomes]
        holdings = [self._holdings.pop(key) for key in keys if key in self._holdings]
        if not holdings:
            return None
        gone = anyio.Event()
        self._going.add(gone)
        return self._let_go(holdings, gone)

    async def _let_go(self, holdings: "Sequence[Holding]", gone: anyio.Event) -> None:
        try:
            for holding in holdings:
                await holding.let_go()
        finally:
            self._going.discard(gone)
            gone.set()

    async def settled(self) -> None:
        """The next of a lane, which was handed over this moment, does not find busy what the one before gives back."""
        for gone in list(self._going):
            await gone.wait()

    async def close(self) -> None:
        for holding in list(self._holdings.values()):
            await holding.let_go()
        for client in self._clients.values():
            with suppress(Exception):  # the worker is ending, and they are of no use to anybody
                await client.aclose()
        self._clients.clear()

    def _at(self, url: str) -> AsyncLock:
        address = url.partition("#")[0]
        if address.partition(":")[0] not in REDIS:
            return lock_from_url(url, asynchronous=True)
        if address not in self._clients:
            from inturn.locks.redis import async_client_at

            self._clients[address] = async_client_at(address)
        return lock_from_url(url, asynchronous=True, redis=self._clients[address])


class Holding:
    """The locks of one attempt."""

    def __init__(self, attempt: "Attempt", keeper: Keeper) -> None:
        self._attempt = attempt
        self._keeper = keeper
        self._all: lock_all | None = None
        self._leases: Sequence[AsyncLease] = ()

    async def take(self) -> None:
        """All of them; or it raises what becomes of the job."""
        spec = self._attempt.task.resources
        assert spec is not None
        wanted = [
            self._keeper.lock(one, self._attempt)
            for one in spec.fill(self._attempt.job.task_kwargs)
        ]
        locks = lock_all(wanted, spec.seconds if spec.on_busy is OnBusy.WAIT else A_MOMENT)
        await self._keeper.settled()
        try:
            self._leases = await _all_or_none(locks)
        except LockTimeout as busy:
            _is_busy(self._attempt, spec.on_busy, spec.seconds, busy)
            return
        except LockBackendError as error:
            if spec.on_busy is not OnBusy.SNOOZE:
                raise  # whether it is busy is unknown
            logger.warning("resource.unavailable: job %s: %s", self._attempt.job.id, error)
            raise Snoozed(timedelta(seconds=spec.seconds)) from error
        self._all = locks
        self._keeper.keep(self, self._attempt)
        if self._attempt.context is not None:
            self._attempt.context.leases = tuple(self._leases)
        loop = asyncio.get_running_loop()
        for lease in self._leases:  # it may be a sync task's thread that notices
            lease.on_lost(lambda: loop.call_soon_threadsafe(self._note_loss))

    def loss(self) -> LockError | None:
        return (
            next((lease.loss() for lease in self._leases if not lease.valid), None)
            if self._all
            else None
        )

    def _note_loss(self) -> None:
        if loss := self.loss():  # not, if it was given back meanwhile
            self._attempt.give_back(str(loss))

    async def ended(self, outcome: Outcome | None) -> Outcome | None:
        """The code has ended. Given back, it holds nothing any more; else it does until the end is stored."""
        if outcome is not None:
            return outcome
        loss = self.loss()
        if loss is None:
            await self.let_go()
            return None
        return Again(self._attempt.job, LOST_PAUSE, storable(str(loss)))

    async def let_go(self) -> None:
        self._keeper.forget(self._attempt)
        locks, self._all = self._all, None
        if locks is None:
            return
        with anyio.move_on_after(LET_GO_SECONDS, shield=True):
            try:
                await locks.__aexit__(None, None, None)
            except LockError as error:
                logger.warning("resource.lost: job %s: %s", self._attempt.job.id, error)


def _is_busy(attempt: "Attempt", on_busy: OnBusy, seconds: float, busy: LockTimeout) -> None:
    match on_busy:
        case OnBusy.SNOOZE:
            raise Snoozed(timedelta(seconds=seconds)) from busy
        case OnBusy.SKIP:
            raise JobSkipped(str(busy)) from busy
        case OnBusy.PROCEED:
            logger.warning("resource.busy: job %s runs without: %s", attempt.job.id, busy)
        case _:
            raise busy


async def _all_or_none(locks: lock_all) -> "Sequence[AsyncLease]":
    """Also when it is cancelled: a scope cancels again and again, and would cut off the giving back."""
    task = asyncio.ensure_future(locks.__aenter__())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        with anyio.move_on_after(LET_GO_SECONDS, shield=True):
            await asyncio.wait([task])
            if not task.cancelled() and task.exception() is None:
                await locks.__aexit__(None, None, None)
        raise


def key(attempt: "Attempt") -> Key:
    return attempt.job.id, attempt.job.claim_id


def database(connector: Connector) -> str:
    """A name of the database that every worker of it knows it by, as far as can be told; job ids are unique within."""
    given = conninfo_to_dict(connector.dsn)
    host = str(given.get("host") or given.get("hostaddr") or "")
    if not host or host.startswith("/") or host in ("localhost", "127.0.0.1", "::1"):
        host = socket.gethostname()
    return f"{host}:{given.get('port') or 5432}/{given.get('dbname') or ''}.{connector.schema}"
