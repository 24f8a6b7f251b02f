"""A connector whose database may move to another server while it is open."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, TypeVar

from inturn.cells.map import name_place
from inturn.database import drive, forks
from inturn.database.connectors import PsycopgConnector
from inturn.database.pools import AsyncPool
from inturn.database.session import AsyncSession, Session
from inturn.errors import DatabaseUnavailable, InturnError, SchemaMismatch, WrongCell
from inturn.operations import Operation
from inturn.operations.engine.cells import find_new_home

T = TypeVar("T")
LOOK_EVERY = 0.05  # seconds between two looks at the map, while it lacks the new home


class CellHomes(Protocol):
    """The connectors of all cells, which can be read again from the map's file."""

    file: Path | None

    def reread(self) -> None: ...


@contextlib.contextmanager
def undone_anyway() -> Iterator[None]:
    """Say of an outage in the block that the call before it had no effect."""
    try:
        yield
    except DatabaseUnavailable as error:
        raise DatabaseUnavailable(str(error), outcome_unknown=False) from error


class FollowingConnector(PsycopgConnector):
    """A connector that reads the map again when its cell has left, and then repeats the call.

    Only calls that the server undid are repeated. A cell that has just closed is not in the map
    yet, so a call waits for the new home, for up to `timeout` seconds.
    """

    cells: CellHomes
    _is_checked = False
    _left: AsyncPool | None = None  # the pool of the old home, to be closed in its loop
    _closing: asyncio.Task[None] | None = None  # kept, or it may be garbage-collected

    @property
    def home(self) -> tuple[str | None, str]:
        return self._dsn, self.schema

    def follow(self, given: PsycopgConnector) -> None:
        """Use another connector's address from now on, and connect again."""
        with self._opening:
            self._listen_dsn = given._listen_dsn
            if (given.dsn, given.schema) == self.home:
                return
            self._dsn, self.schema, self._is_checked = given.dsn, given.schema, False
            self.moves += 1
            pool, self._pool = self._pool, None
            self._left, self._async_pool = self._async_pool, None
        if pool is not None:  # beside, since one of its threads may be waiting for a dead server
            threading.Thread(target=pool.close, name="inturn old home", daemon=True).start()

    def _await_home(
        self, home: tuple[str | None, str], moved: str | None, error: InturnError
    ) -> Iterator[float]:
        """Yield pauses until the map names another home. Raise if the call may have had effect."""
        if isinstance(error, DatabaseUnavailable) and error.outcome_unknown:
            raise error
        until = time.monotonic() + self._timeout
        while True:
            self.cells.reread()
            if self.home != home:
                return
            if moved is None or self.cells.file is None or time.monotonic() > until:
                raise self._explain(moved, error) from error.__cause__
            yield LOOK_EVERY

    def _run_following(self, operation: Operation[T]) -> T:
        again, home = drive.Repeatable(operation), self.home
        try:
            return super().run(again)
        except (SchemaMismatch, DatabaseUnavailable) as error:
            moved = None
            if isinstance(error, SchemaMismatch):
                with undone_anyway():
                    moved = super().run(find_new_home(home[1]))
            for pause in self._await_home(home, moved, error):
                time.sleep(pause)
            if not again.is_unanswered:
                raise
        return self.run(again)

    async def _run_following_async(self, operation: Operation[T]) -> T:
        again, home = drive.Repeatable(operation), self.home
        try:
            return await super().run_async(again)
        except (SchemaMismatch, DatabaseUnavailable) as error:
            moved = None
            if isinstance(error, SchemaMismatch):
                with undone_anyway():
                    moved = await super().run_async(find_new_home(home[1]))
            for pause in self._await_home(home, moved, error):
                await asyncio.sleep(pause)
            if not again.is_unanswered:
                raise
        return await self.run_async(again)

    def _explain_call(self, error: SchemaMismatch, session: Session) -> InturnError:
        """Return where the cell is, if the call failed because it has left."""
        moved = None
        with contextlib.suppress(InturnError):  # as in a transaction, which has failed
            moved = drive.run(find_new_home(self.schema), session, self.schema)
        return self._explain(moved, error)

    async def _explain_call_async(self, error: InturnError, session: AsyncSession) -> InturnError:
        """Return where the cell is, if the call failed because it has left."""
        moved = None
        if isinstance(error, SchemaMismatch):
            with contextlib.suppress(InturnError):
                moved = await drive.run_async(find_new_home(self.schema), session, self.schema)
        return self._explain(moved, error)

    def _explain(self, moved: str | None, error: InturnError) -> InturnError:
        return error if moved is None else self.name_new_home(moved)

    def name_new_home(self, moved: str) -> InturnError:
        """Return the error for a call at the old home, or for a map that does not name the new one.

        A file may be replaced at any time, so a worker waits for that. A list in the code cannot.
        """
        file = self.cells.file
        if moved == f"was moved to {name_place(self.dsn)}, schema {self.schema}":
            return DatabaseUnavailable(f"{self} has just moved there", outcome_unknown=False)
        if file is None:
            return WrongCell(f"{self} {moved}. Name that home in the list of cells, and restart")
        problem = (
            f"{self} {moved}. Name that home in the map of cells, {file}, or finish the move if it "
            "was interrupted"
        )
        return DatabaseUnavailable(problem, outcome_unknown=False)

    def _forget(self) -> None:
        super()._forget()
        forks.abandon(self._left)
        self._left = self._closing = None

    async def close_async(self) -> None:
        self._close_left()
        await super().close_async()
        if self._closing is not None and not self._closing.done():
            await self._closing  # a worker of the pool could outlive its loop's cancellation

    async def _find_async_pool(self) -> AsyncPool:
        self._close_left()
        return await super()._find_async_pool()

    def _close_left(self) -> None:
        left, self._left = self._left, None
        if left is not None:
            self._closing = asyncio.create_task(left.close())
