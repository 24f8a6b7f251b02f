"""`app.batch` and `app.batches`: jobs that are counted together, and a callback at their end."""

from dataclasses import dataclass
from typing import Any

from inturn.control.twins import Control, blocking, in_loop
from inturn.errors import BadArgument, kind_of
from inturn.model import BatchProgress
from inturn.operations import Operation
from inturn.operations.engine import batches
from inturn.tasks.task import Deferrer

# In the class, `list` is the method.
BatchList = list[BatchProgress]


class Batches(Control):
    """Manages batches. You name a batch by the id that `app.batch` returned.

    for batch in app.batches.list():
        print(batch.name, batch.state, batch.remaining, "of", batch.total)

    `by` is the name of the person who closes or cancels a batch. Without it, `lane_audit` does not
    record the change.
    """

    @blocking
    def open(
        self,
        name: str,
        *,
        callback: Deferrer[..., Any] | None = None,
        connection: object = None,
    ) -> Operation[int]:
        """Open a batch and return its id. It cannot end until you close it.

            batch = app.batches.open("import")
            write.configure(batch=batch).defer(letter="a")
            app.batches.close(batch)

        For the arguments, see `app.batch`, which also closes the batch.
        """
        if callback is None:
            return batches.open_batch(name, None)
        if not isinstance(callback, Deferrer):
            raise BadArgument("callback", f"is {kind_of(callback)}, not a task of yours")
        job = callback.make_new_job()
        self._connector.check_lock(job.options.lock)
        return batches.open_batch(name, job)

    open_async = in_loop(open)

    @blocking
    def close(
        self, batch: int, *, connection: object = None, by: str | None = None
    ) -> Operation[bool]:
        """Let a batch end, and its callback run, once all its jobs have ended.

        Closing a batch again does nothing. Return False if the batch does not exist.
        """
        return batches.close_batch(batch, by)

    close_async = in_loop(close)

    @blocking
    def cancel(self, batch: int, *, abort: bool = False, by: str | None = None) -> Operation[int]:
        """Cancel the callback and the waiting jobs of a batch, and close it.

        Return how many were cancelled. Running jobs continue, unless `abort` asks them to end.
        """
        cancelled, _ = yield from batches.cancel_batch(batch, abort, by)
        return cancelled

    cancel_async = in_loop(cancel)

    @blocking
    def show(self, batch: int) -> Operation[BatchProgress | None]:
        """Return how many jobs of a batch have ended, or None if the batch does not exist."""
        return batches.show_batch(batch)

    show_async = in_loop(show)

    @blocking
    def list(self, limit: int = 1000) -> Operation[BatchList]:
        """Return the batches, newest first."""
        return batches.list_batches(limit)

    list_async = in_loop(list)


@dataclass(eq=False, repr=False)
class BatchBlock:
    """A batch that `with` or `async with` opens and closes. See `app.batch`."""

    _owner: Batches
    _name: str
    _callback: Deferrer[..., Any] | None
    _connection: object
    _id: int = 0

    def __enter__(self) -> int:
        self._id = self._owner.open(
            self._name, callback=self._callback, connection=self._connection
        )
        return self._id

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        if error is None:
            self._owner.close(self._id, connection=self._connection)

    async def __aenter__(self) -> int:
        self._id = await self._owner.open_async(
            self._name, callback=self._callback, connection=self._connection
        )
        return self._id

    async def __aexit__(self, kind: object, error: BaseException | None, at: object) -> None:
        if error is None:
            await self._owner.close_async(self._id, connection=self._connection)
