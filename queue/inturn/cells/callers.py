"""Which cells are in the database of a caller's connection."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Protocol, cast
from weakref import WeakKeyDictionary

from inturn.database import caller_connection, drive
from inturn.operations import Operation
from inturn.operations.engine.cells import CellIdentity, list_cells, read_cell

Looks = Generator[tuple[Operation[Any], str], Any, frozenset[int]]


class Home(Protocol):
    number: int
    schema: str

    def check(self, found: CellIdentity | None) -> None: ...


class Callers:
    """Looks once for each connection, until a cell moves."""

    def __init__(self, homes: Sequence[Home]) -> None:
        self._homes = homes
        self._found: WeakKeyDictionary[Any, frozenset[int]] = WeakKeyDictionary()

    def forget(self) -> None:
        """Look again at each connection, because a cell may have moved."""
        self._found = WeakKeyDictionary()

    def find_cells(self, connection: object) -> frozenset[int]:
        """Return the cells in the database of the caller's connection."""
        looks, answer = self._look(caller_connection.find_connection(connection)), None
        while True:
            try:
                operation, schema = looks.send(answer)
            except StopIteration as end:
                return cast(frozenset[int], end.value)
            # Found again, because a connection of psycopg 2 runs only one operation.
            given = caller_connection.find_connection(connection)
            answer = drive.run(operation, given, schema)

    async def find_cells_async(self, connection: object) -> frozenset[int]:
        looks = self._look(await caller_connection.find_connection_async(connection))
        answer = None
        while True:
            try:
                operation, schema = looks.send(answer)
            except StopIteration as end:
                return cast(frozenset[int], end.value)
            given = await caller_connection.find_connection_async(connection)
            answer = await drive.run_async(operation, given, schema)

    def _look(self, given: Any) -> Looks:
        """Yield operations with their schemas, once for each connection."""
        driver, places = getattr(given, "_driver", given), self._found
        try:
            if (known := places.get(driver)) is not None:
                return known
        except TypeError:  # asyncpg's pool lends proxies, which cannot be remembered
            driver = None
        there = yield list_cells([home.schema for home in self._homes]), self._homes[0].schema
        local = set()
        for schema in there:
            found: CellIdentity | None = yield read_cell(), schema
            if found is not None and found.number < len(self._homes):
                home = self._homes[found.number]
                if home.schema == schema and found.of == len(self._homes):
                    home.check(found)
                    local.add(home.number)
        if driver is not None:
            places[driver] = frozenset(local)
        return frozenset(local)
