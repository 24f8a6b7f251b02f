"""A task's own transaction, which also stores the end of its job: both commit, or neither.

The last statement finishes the job with the same function as any other job. The claim is the fence:
if another worker has taken the job over, everything is rolled back. No job is handed over in
return. The lane goes back to the queue, where any awake worker takes it.

If the COMMIT fails, its outcome is unknown, so the transaction asks the server.
"""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import Any

import anyio
import psycopg

from inturn.database.connector import Connector
from inturn.errors import ConnectorException, DatabaseBusy, DatabaseUnavailable, JobLost
from inturn.model import Ended, Status
from inturn.operations import Operation
from inturn.operations.engine import finish
from inturn.tasks.context import JobTransaction
from inturn.worker import result_json
from inturn.worker.attempt import Attempt
from inturn.worker.options import Options

# Another open transaction may be in the way. Ours holds locks too, so it must not wait long.
HELD_UP_SECONDS = 5.0


class FinishingTransaction(JobTransaction):
    """The result of `context.transaction()`: for `async with` in an async task, else for `with`."""

    def __init__(self, connector: Connector, attempt: Attempt, options: Options) -> None:
        self._connector = connector
        self._attempt = attempt
        self._options = options
        self.result: Any = None
        self._result: str | None = None  # its JSON text
        self._sync: AbstractContextManager[psycopg.Connection[Any]]
        self._async: AbstractAsyncContextManager[psycopg.AsyncConnection[Any]]

    def __enter__(self) -> psycopg.Connection[Any]:
        self._sync = self._run()
        return self._sync.__enter__()

    def __exit__(self, *error: Any) -> bool | None:
        return self._sync.__exit__(*error)

    async def __aenter__(self) -> psycopg.AsyncConnection[Any]:
        self._async = self._run_async()
        return await self._async.__aenter__()

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._async.__aexit__(*error)

    @contextmanager
    def _run(self) -> Iterator[psycopg.Connection[Any]]:
        self._refuse_a_second()
        body_is_done = False
        try:
            with self._connector.lend() as connection, connection.transaction():
                yield connection
                body_is_done = True
                self._connector.run(self._end(), connection)
        except BaseException as error:
            self._attempt.lost_database = isinstance(error, DatabaseUnavailable)
            if not body_is_done or isinstance(error, JobLost) or not self._ask(error):
                raise
            self._attempt.note_committed(self._result)
            if not isinstance(error, Exception):
                raise
        self._attempt.note_committed(self._result)

    @asynccontextmanager
    async def _run_async(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        self._refuse_a_second()
        body_is_done = False
        try:
            async with (
                self._connector.lend_async() as connection,
                _shielded(connection.transaction()),
            ):
                yield connection
                body_is_done = True
                with anyio.CancelScope(shield=True):
                    await self._connector.run_async(self._end(), connection)
        except BaseException as error:
            self._attempt.lost_database = isinstance(error, DatabaseUnavailable)
            if not body_is_done or isinstance(error, JobLost):
                raise
            with anyio.CancelScope(shield=True):
                has_ended = await self._ask_async(error)
            if not has_ended:
                raise
            self._attempt.note_committed(self._result)
            if not isinstance(error, Exception):
                raise
        self._attempt.note_committed(self._result)

    def _refuse_a_second(self) -> None:
        if self._attempt.committed:
            raise JobLost(
                f"Job {self._attempt.job.id} was already finished by an earlier transaction of "
                "this run; do all writes in that one"
            )

    def _end(self) -> Operation[None]:
        """Finish the job, or raise an error that rolls everything back."""
        job = self._attempt.job
        if self.result is not None:
            most = self._options.max_result_size
            self._result = result_json.encode(job, self.result, most)
        ended = Ended(job, Status.SUCCEEDED, None, self._result)
        give_up_at = time.monotonic() + HELD_UP_SECONDS
        while True:  # while an open transaction is in the way; each call waits a moment
            done = yield from finish.finish(None, None, 0, [ended], self._options.forget)
            if job.id not in done.busy:
                break
            if time.monotonic() > give_up_at:
                raise DatabaseBusy(
                    "An open transaction keeps the end of this job from being stored"
                )
        if job.id not in done.accepted:
            raise JobLost(
                f"Job {job.id} was taken over while its code ran here, so its writes are rolled "
                "back. The next attempt repeats them; you need not do anything"
            )

    def _ask(self, error: BaseException) -> bool:
        """Return True if the COMMIT took effect. Raise `error` if that is unknown."""
        try:
            with self._connector.connect("task") as connection:
                return self._connector.run(finish.has_ended(self._attempt.job), connection)
        except ConnectorException:
            raise error from None  # what the worker then reports is fenced too

    async def _ask_async(self, error: BaseException) -> bool:
        has_ended = finish.has_ended(self._attempt.job)
        try:
            async with await self._connector.connect_async("task") as connection:
                return await self._connector.run_async(has_ended, connection)
        except ConnectorException:
            raise error from None


@asynccontextmanager
async def _shielded(transaction: AbstractAsyncContextManager[object]) -> AsyncIterator[None]:
    """Shield COMMIT and ROLLBACK from cancellation.

    A cancelled COMMIT has an unknown outcome. A cancelled ROLLBACK leaks the connection.
    """
    await transaction.__aenter__()
    try:
        yield
    except BaseException as error:
        with anyio.CancelScope(shield=True):
            await transaction.__aexit__(type(error), error, error.__traceback__)
        raise
    with anyio.CancelScope(shield=True):
        await transaction.__aexit__(None, None, None)
