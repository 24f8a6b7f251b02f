"""Database access for commands that inspect or change the queue without loading your code.

These commands share their options, and each uses one connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from inturn.cli.settings import Settings, database_options, find_connector
from inturn.operations import Operation

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")


class Database:
    """Runs operations. Each commits separately, unless it runs inside `transaction`."""

    def __init__(self, connection: psycopg.Connection[Any], schema: str) -> None:
        self._connection = connection
        self.schema = schema

    def run(self, operation: Operation[T]) -> T:
        from inturn.database import drive

        return drive.run(operation, self._connection, self.schema)

    def now(self) -> datetime:
        """Return the server's time, so that relative times ignore this machine's clock."""
        from inturn.operations.engine import maintenance

        return self.run(maintenance.get_now())

    def refuse_to_wait(self) -> None:
        """Raise DatabaseBusy if another session has locked a table of the queue."""
        from inturn.doctor.checks import find_table_lock
        from inturn.errors import DatabaseBusy

        found = find_table_lock(self.run)
        if found is not None:
            raise DatabaseBusy(f"{found.detail}: {found.advice}")

    def name_person(self, by: str | None) -> str:
        """Return the name for the audit: --by, or else the database user."""
        from inturn.operations.engine import maintenance

        return by or self.run(maintenance.get_user())

    def transaction(self) -> AbstractContextManager[object]:
        """Commit everything that runs inside, or nothing if the block raises."""
        return self._connection.transaction()


def with_database(command: Callable[..., None]) -> Callable[..., None]:
    """Add the database options, and pass the command a Database first."""

    @database_options
    @wraps(command)
    def connected(settings: Settings, /, **given: Any) -> None:
        homes = find_connector(settings).homes

        def run(cell: int, arguments: Mapping[str, Any]) -> None:
            with closing(homes[cell].connect()) as connection:
                command(Database(connection, homes[cell].schema), **arguments)

        from inturn.cli.over_cells import run_over_cells

        run_over_cells(command.__name__, len(homes), given, run)

    return connected
