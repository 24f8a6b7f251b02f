"""For commands that look at the database and change it, without anybody's code: one connection, the same options."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from inturn.cli.settings import (
    Settings,
    app_option,
    dsn_option,
    find_connector,
    pass_settings,
    schema_option,
    verbose_option,
)

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from datetime import datetime

    import psycopg

    from inturn.operations import Operation

T = TypeVar("T")


class Database:
    """Each operation is committed by itself, unless it is run inside `transaction`."""

    def __init__(self, connection: psycopg.Connection[Any], schema: str) -> None:
        self._connection = connection
        self.schema = schema

    def run(self, operation: Operation[T]) -> T:
        from inturn.database import drive

        return drive.run(operation, self._connection, self.schema)

    def now(self) -> datetime:
        """The server's clock: relative times must not depend on that of this machine."""
        from inturn.operations import maintenance

        return self.run(maintenance.get_now())

    def transaction(self) -> AbstractContextManager[object]:
        """All that is run in it takes effect, or nothing, if an error leaves it."""
        return self._connection.transaction()


def with_database(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that name a database, and passes it first."""

    @app_option
    @dsn_option
    @schema_option
    @verbose_option
    @pass_settings
    @wraps(command)
    def connected(settings: Settings, /, dsn: str | None, schema: str | None, **given: Any) -> None:
        connector = find_connector(settings, dsn, schema)
        with closing(connector.connect()) as connection:
            command(Database(connection, connector.schema), **given)

    return connected
