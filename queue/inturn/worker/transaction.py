"""A task's own transaction, with the end of its job in it: both commit, or neither.

The job is finished by the same function as any other, last, fenced by its claim: if the job was taken over meanwhile, everything is
rolled back. Nothing is handed over: the lane is given back, and whoever is awake takes it on.

When the COMMIT fails it is unknown whether it took effect, so the server is asked.
"""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from types import TracebackType
from typing import TYPE_CHECKING, Any

import anyio
import psycopg

from inturn.database import drive
from inturn.database.connector import Connector
from inturn.errors import ConnectorException, DatabaseBusy, DatabaseUnavailable, JobLost
from inturn.model import Ended, Status
from inturn.operations import Operation, work
from inturn.tasks.context import JobTransaction

if TYPE_CHECKING:
    from inturn.worker.attempt import Attempt

HELD_UP_SECONDS = (
    5.0  # by another open transaction; ours holds locks too, so two could wait for each other
)


class FinishingTransaction(JobTransaction):
    """`async with` in an async task, `with` in a sync one."""

    def __init__(
        self, connector: Connector, attempt: "Attempt", forget: tuple[Status, ...]
    ) -> None:
        self._connector = connector
        self._attempt = attempt
        self._forget = forget
        self._sync: AbstractContextManager[psycopg.Connection[Any]]
        self._async: AbstractAsyncContextManager[psycopg.AsyncConnection[Any]]

    def __enter__(self) -> psycopg.Connection[Any]:
        self._sync = self._run()
        return self._sync.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> bool | None:
        return self._sync.__exit__(kind, error, at)

    async def __aenter__(self) -> psycopg.AsyncConnection[Any]:
        self._async = self._run_async()
        return await self._async.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> bool | None:
        return await self._async.__aexit__(kind, error, at)

    @contextmanager
    def _run(self) -> Iterator[psycopg.Connection[Any]]:
        self._refuse_a_second()
        is_done = False  # the body
        try:
            with self._connector.lend() as connection, connection.transaction():
                yield connection
                is_done = True
                drive.run(self._end(), connection, self._connector.schema)
        except BaseException as error:
            self._attempt.lost_database = isinstance(error, DatabaseUnavailable)
            if not is_done or isinstance(error, JobLost):
                raise
            self._attempt.committed = self._ask(error)
            if not self._attempt.committed or not isinstance(error, Exception):
                raise
        self._attempt.committed = True

    @asynccontextmanager
    async def _run_async(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        self._refuse_a_second()
        is_done = False  # the body
        try:
            async with self._connector.lend_async() as connection, _whole(connection.transaction()):
                yield connection
                is_done = True
                with anyio.CancelScope(shield=True):
                    await drive.run_async(self._end(), connection, self._connector.schema)
        except BaseException as error:
            self._attempt.lost_database = isinstance(error, DatabaseUnavailable)
            if not is_done or isinstance(error, JobLost):
                raise
            with anyio.CancelScope(shield=True):
                self._attempt.committed = await self._ask_async(error)
            if not self._attempt.committed or not isinstance(error, Exception):
                raise
        self._attempt.committed = True

    def _refuse_a_second(self) -> None:
        if self._attempt.committed:
            raise JobLost(
                f"Job {self._attempt.job.id} was finished by an earlier transaction of this run; write in that one"
            )

    def _end(self) -> Operation[None]:
        job = self._attempt.job
        give_up_at = time.monotonic() + HELD_UP_SECONDS
        while (
            True
        ):  # while somebody's open transaction is in the way; each call waits a moment for it
            done = yield from work.finish(
                None, None, 0, [Ended(job, Status.SUCCEEDED)], self._forget
            )
            if job.id not in done.busy:
                break
            if time.monotonic() > give_up_at:
                raise DatabaseBusy(
                    "Somebody's open transaction keeps the end of this job from being stored",
                    connection_lost=False,
                    outcome_unknown=False,
                )
        if job.id not in done.accepted:
            raise JobLost(
                f"Job {job.id} was taken over while its code ran here, so what it wrote is rolled back. "
                "The next attempt does it again; here there is nothing to do"
            )

    def _ask(self, error: BaseException) -> bool:
        try:
            with self._connector.connect("task") as connection:
                return drive.run(
                    work.has_ended(self._attempt.job), connection, self._connector.schema
                )
        except ConnectorException:
            raise error from None  # it stays unknown; what the worker reports then is fenced too

    async def _ask_async(self, error: BaseException) -> bool:
        try:
            async with await self._connector.connect_async("task") as connection:
                return await drive.run_async(
                    work.has_ended(self._attempt.job), connection, self._connector.schema
                )
        except ConnectorException:
            raise error from None


@asynccontextmanager
async def _whole(transaction: AbstractAsyncContextManager[object]) -> AsyncIterator[None]:
    """Its COMMIT or ROLLBACK is not cancelled: the one would leave it open whether it took effect, the other a connection."""
    await transaction.__aenter__()
    try:
        yield
    except BaseException as error:
        with anyio.CancelScope(shield=True):
            await transaction.__aexit__(type(error), error, error.__traceback__)
        raise
    with anyio.CancelScope(shield=True):
        await transaction.__aexit__(None, None, None)
