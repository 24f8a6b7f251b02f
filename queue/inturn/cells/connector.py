"""The connector of one cell, and the one of an app with cells."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, NoReturn, TypeVar, cast
from uuid import UUID

from inturn.cells.callers import Callers
from inturn.cells.following import FollowingConnector
from inturn.cells.jobs import CellBatches, CellJobs
from inturn.cells.map import CellsOption, name_place, read_map
from inturn.cells.placing import place_job, refuse_elsewhere
from inturn.cells.router import Router
from inturn.control.batches import Batches
from inturn.control.jobs import Jobs
from inturn.control.schema import SchemaManager
from inturn.database import drive, forks
from inturn.database.connector import Connector
from inturn.database.connectors import PsycopgConnector
from inturn.database.pools import AsyncPool, Pool
from inturn.database.session import AsyncSession, Session
from inturn.errors import (
    BadArgument,
    ConfigurationError,
    DatabaseBusy,
    DatabaseUnavailable,
    SchemaMismatch,
    WrongCell,
)
from inturn.operations import Operation
from inturn.operations.engine.cells import CellIdentity, find_cell
from inturn.tasks.lanes import JobLanes, cell_of, list_locks
from inturn.tasks.task import Schedule
from inturn.whole_numbers import is_whole

T = TypeVar("T")
ROUTERS: dict[object, type[Router]] = {Jobs: CellJobs, Batches: CellBatches}


class CellConnector(FollowingConnector):
    """A connector to one cell. It checks that its database is that cell, for pools once.

    While one of `cells` is open, the others open when needed, so that a cell that is down does not
    keep an app from opening.
    """

    number: int
    cells: Cells
    _on_demand = False

    @property
    def place(self) -> str:
        """The database, without its password."""
        return name_place(self.dsn)

    def __str__(self) -> str:
        return f"cell {self.number} ({self.place}, schema {self.schema})"

    def accept(self, found: CellIdentity | str | None) -> None:
        """Remember that the address leads to the right cell, or raise WrongCell."""
        if isinstance(found, str):
            raise self.name_new_home(found)
        self.check(found)
        assert found is not None
        self.cells.map_id = found.map
        self._is_checked = True

    def check(self, found: CellIdentity | None) -> None:
        """Raise WrongCell unless this is what the cell says about itself, in whatever database."""
        of, map = len(self.cells.homes), self.cells.map_id
        if found is None:
            raise WrongCell(f"{self} is not a cell yet. Make it one: queue cells create")
        if found.of != of:
            raise WrongCell(
                f"{self} is one of {found.of} cells, but the map has {of}. The number of cells "
                "never changes: use the map that the cells were created with"
            )
        if found.number != self.number:
            raise WrongCell(
                f"{self} is cell {found.number}. Put the cells into the map in the order in which "
                "they were created: queue cells list"
            )
        if map is not None and found.map != map:
            raise WrongCell(
                f"{self} belongs to another map ({found.map}, not {map}). Give it the address of "
                "its own cell"
            )
        if not found.is_home:
            raise WrongCell(
                f"{self} is a copy: the cell was created in another database, which may still "
                "serve it. If this is its only home now, after pg_upgrade or a restore: queue "
                f"cells adopt --cell {self.number}"
            )

    def connect(
        self, role: str = "command", *, to_listen: bool = False, lock_timeout: float | None = None
    ) -> Session:
        self.cells.reread()
        with self._named():
            session = super().connect(role, to_listen=to_listen, lock_timeout=lock_timeout)
        try:  # each time: the cell may have moved while a worker was connected
            self.accept(drive.run(find_cell(self.schema), session, self.schema))
        except BaseException:
            session.close()
            raise
        return session

    async def connect_async(
        self, role: str, *, to_listen: bool = False, lock_timeout: float | None = None
    ) -> AsyncSession:
        self.cells.reread()
        with self._named():
            session = await super().connect_async(
                role, to_listen=to_listen, lock_timeout=lock_timeout
            )
        try:
            self.accept(await drive.run_async(find_cell(self.schema), session, self.schema))
        except BaseException:
            await session.close()
            raise
        return session

    def run(self, operation: Operation[T], connection: object = None) -> T:
        if connection is None:
            with self._named():
                if not self._is_checked:
                    self.cells.reread()
                    self.accept(super().run(find_cell(self.schema)))
                return self._run_following(operation)
        if isinstance(connection, Session):
            try:
                return super().run(operation, connection)
            except SchemaMismatch as error:
                raise self._explain_call(error, connection) from error.__cause__
        self._refuse_elsewhere(self.cells.callers.find_cells(connection))
        with self._looking_again():
            return super().run(operation, connection)

    async def run_async(self, operation: Operation[T], connection: object = None) -> T:
        if connection is None:
            with self._named():
                if not self._is_checked:
                    self.cells.reread()
                    self.accept(await super().run_async(find_cell(self.schema)))
                return await self._run_following_async(operation)
        if isinstance(connection, AsyncSession):
            try:
                return await super().run_async(operation, connection)
            except SchemaMismatch as error:
                explained = await self._explain_call_async(error, connection)
                raise explained from error.__cause__
        self._refuse_elsewhere(await self.cells.callers.find_cells_async(connection))
        with self._looking_again():
            return await super().run_async(operation, connection)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Say in the error of an outage which cell does not answer."""
        try:
            yield
        except DatabaseUnavailable as error:
            if not str(error).startswith("cell "):
                error.args = (f"{self}: {error}",)
            raise

    @contextmanager
    def _looking_again(self) -> Iterator[None]:
        """If the cell has left the caller's database, look again which cells are there."""
        try:
            yield
        except SchemaMismatch as error:
            home = self.home
            self.cells.callers.forget()
            self.cells.reread()
            if self.home != home:
                raise DatabaseBusy(
                    f"{self} has just moved there. Repeat the transaction"
                ) from error
            raise

    def _refuse_elsewhere(self, local: frozenset[int]) -> None:
        if self.number not in local:
            raise refuse_elsewhere(self, local)

    def serve(self, control: Callable[..., T], *more: Any) -> T:
        return self.cells.serve(control, *more, home=self.number)

    def find_home(self, cell: int | str) -> CellConnector:
        return self.cells.find_home(cell)

    def check_lock(self, lock: str | JobLanes | None) -> None:
        for each in list_locks(lock):
            place = cell_of(each, len(self.cells.homes))
            if place != self.number:
                raise BadArgument(
                    "lock",
                    f"{each!r} is in cell {place}, but the job is in cell {self.number}. A job "
                    "cannot leave its cell",
                )

    def check_cell(self) -> None:
        self.connect().close()

    def has_schedule(self, schedule: Schedule) -> bool:
        """Return True if the cell of its jobs' lock is this one, or else that of its name."""
        of = len(self.cells.homes)
        place = place_job(schedule.task.configure(**schedule.options)._options, of)
        name = f"{schedule.task.name} {schedule.periodic_id}"
        return self.number == (cell_of(name, of) if place is None else place)

    def open(self, pool: Pool | None = None) -> None:
        _refuse_pool(pool)
        with self._opening:
            self._opens += 1

    async def open_async(self, pool: AsyncPool | None = None) -> None:
        _refuse_pool(pool)
        await self.open_async_later()

    def close(self) -> None:
        super().close()
        for each in self._idle_siblings():
            super(CellConnector, each).close()

    async def close_async(self) -> None:
        await super().close_async()
        for each in self.cells.homes:
            if not each._opens:
                await super(CellConnector, each).close_async()

    def _idle_siblings(self) -> list[CellConnector]:
        """Return those to close with the last that was opened by name."""
        homes = self.cells.homes
        is_open = any(each._opens and not each._on_demand for each in homes)
        return [] if is_open else [each for each in homes if each._on_demand]

    def _open_on_demand(self, *, in_loop: bool) -> None:
        with self._opening:
            if not self._opens and any(each._opens for each in self.cells.homes):
                self._opens, self._on_demand = 1, True
            if self._opens and in_loop:
                self._opens_async_later = True

    def _sync_pool(self) -> Pool:
        self._open_on_demand(in_loop=False)
        return super()._sync_pool()

    async def _find_async_pool(self) -> AsyncPool:
        self._open_on_demand(in_loop=True)
        return await super()._find_async_pool()


class Cells(Connector):
    """The connector of an app with cells. It runs nothing itself: `App.cell` returns one cell.

    app = App(cells="inturn_cells.toml")
    print(len(app.connector.homes), app.cell(key="tenant:7").check_connection())
    """

    def __init__(self, cells: CellsOption) -> None:
        given = read_map(cells)
        self.file = given.file
        self.map_id: UUID | None = given.id
        self._homes = [_make_home(self, *each) for each in enumerate(given.homes)]
        self._turn = count(os.getpid())
        self.callers = Callers(self._homes)
        self.json_dumps = self._homes[0].json_dumps
        self.json_loads = self._homes[0].json_loads
        self._forget()
        forks.forget_in_child(self, Cells._forget)
        self._read: tuple[int, ...] | None = None  # what the file was like when it was read again

    def _forget(self) -> None:
        self._reading = threading.Lock()

    def reread(self) -> None:
        """Take the homes of cells that have moved from the map's file, if it has changed."""
        if self.file is None:
            return
        # A file that cannot be read, or is another map, may just be written: keep the homes.
        with self._reading, suppress(OSError, ConfigurationError):
            found = self.file.stat()
            if (now := (found.st_mtime_ns, found.st_size, found.st_ino)) == self._read:
                return
            given = read_map(self.file)
            if len(given.homes) == len(self._homes) and self.map_id in (None, given.id):
                for home, new in zip(self._homes, given.homes, strict=True):
                    home.follow(new)
                self.callers.forget()
            self._read = now

    @property
    def homes(self) -> Sequence[CellConnector]:
        return self._homes

    def find_home(self, cell: int | str) -> CellConnector:
        if isinstance(cell, str):
            return self._homes[cell_of(cell, len(self._homes))]
        if not is_whole(cell, 0, len(self._homes) - 1):
            raise BadArgument("cell", f"{cell!r} is not one of 0 to {len(self._homes) - 1}")
        return self._homes[cell]

    def serve(self, control: Callable[..., T], *more: Any, home: int | None = None) -> T:
        if control is SchemaManager:  # which migrates one cell after another
            return control(self if home is None else self._homes[home])
        return cast(T, ROUTERS.get(control, Router)(self, control, *more, home=home))

    def choose_free(self, used: set[int], local: frozenset[int] | None) -> int:
        """Return the cell of work that may be in any: one in use, else the next in turn.

        `local` has the cells in the database of the caller's connection, if there is one.
        """
        if local is not None and not local:
            raise BadArgument(
                "connection",
                "is to a database with no cell of this map, so no job can join its transaction. "
                "Defer without connection= after your commit",
            )
        allowed = range(len(self._homes)) if local is None else sorted(local)
        if shared := used.intersection(allowed):
            return min(shared)
        return allowed[next(self._turn) % len(allowed)]

    def open(self, pool: Pool | None = None) -> None:
        _refuse_pool(pool)
        self._homes[0].open()

    def close(self) -> None:
        self._homes[0].close()

    async def open_async(self, pool: AsyncPool | None = None) -> None:
        _refuse_pool(pool)
        await self._homes[0].open_async_later()

    async def close_async(self) -> None:
        await self._homes[0].close_async()

    def at(self, dsn: str | None = None, *, schema: str | None = None) -> NoReturn:
        raise ConfigurationError(
            "The app has cells, which a DSN or a schema cannot replace. Name one: --cell 3"
        )

    def _refuse(self) -> NoReturn:  # all that needs one database needs its address or schema
        raise ConfigurationError(
            f"This concerns one database, but the app has {len(self._homes)} cells. "
            "Name one: app.cell(3), or --cell 3"
        )

    @property
    def dsn(self) -> str:
        self._refuse()

    @property
    def schema(self) -> str:  # type: ignore[override]
        self._refuse()


def _make_home(cells: Cells, number: int, given: PsycopgConnector) -> CellConnector:
    home = CellConnector(**given._pool_options, **given._settings_at(None, None))
    home.number, home.cells = number, cells
    return home


def _refuse_pool(pool: object) -> None:
    if pool is not None:
        raise ConfigurationError(
            "An app with cells opens a pool for each cell, so it cannot use yours. Omit the pool."
        )
