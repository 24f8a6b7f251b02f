"""A connector that uses Django's own connections."""

from collections.abc import Callable
from typing import Any, Self, TypeVar

import psycopg
from asgiref.sync import sync_to_async
from django.db import connections
from psycopg import pq
from psycopg.conninfo import make_conninfo
from psycopg.rows import tuple_row
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.json import JsonbLoader

from inturn.database import caller_connection, drive
from inturn.database.connector import Connector
from inturn.database.connectors import PsycopgConnector
from inturn.errors import ConnectorException, DatabaseUnavailable
from inturn.operations import Operation

T = TypeVar("T")
TEST_IN_TRANSACTION = (
    "Use Django's TransactionTestCase instead of TestCase, with pytest-django "
    "@pytest.mark.django_db(transaction=True), or call the task's function yourself"
)


def connector_params(alias: str = "default") -> dict[str, Any]:
    """Return libpq's connection options for one of Django's DATABASES.

    other = App(connector=PsycopgConnector(**connector_params()))
    """
    caller_connection.check_django(connections[alias])
    given = connections[alias].get_connection_params()
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    return {name: value for name, value in given.items() if name in known and value is not None}


class DjangoConnector(Connector):
    """Reaches the queue through one of Django's DATABASES, which `alias` names.

    If this thread's connection is in a transaction, your jobs become part of it.
    Workers open connections of their own, with the same settings.
    """

    def __init__(self, alias: str, *, schema: str) -> None:
        super().__init__(schema=schema)
        self.alias = alias

    @property
    def dsn(self) -> str:
        """Read the settings each time, because a test runner changes the database's name."""
        return make_conninfo(**connector_params(self.alias))

    def get_worker_connector(self) -> Self:
        """Return this connector, because workers can use it: they open their own connections.

        It is here for scripts that were written for procrastinate.
        """
        return self

    def explain_transaction(self) -> str | None:
        """Return how a test can avoid the transaction that it runs in, or None outside of one."""
        return None if connections[self.alias].get_autocommit() else TEST_IN_TRANSACTION

    def close_idle(self) -> None:
        """Close this thread's connections that are in no transaction.

        A test database cannot be dropped while it has connections.
        """
        for each in connections.all(initialized_only=True):
            if not each.in_atomic_block:
                each.close()

    async def run_in_thread(self, function: Callable[[], T]) -> T:
        """Call the function in the thread of Django's async calls."""
        return await sync_to_async(function)()

    def at(self, dsn: str | None = None, *, schema: str | None = None) -> PsycopgConnector:
        return PsycopgConnector(**self._settings_at(dsn, schema))

    def run(self, operation: Operation[T], connection: object = None) -> T:
        """Run the operation. `connection` can also be an alias."""
        if connection is not None and not isinstance(connection, str):
            return super().run(operation, connection)
        django = connections[connection or self.alias]
        try:
            # Django's own cursors put values into the text of a statement, and do not decode JSON.
            cursor = psycopg.Cursor(caller_connection.django_driver(django), row_factory=tuple_row)
            cursor.adapters.register_loader("jsonb", JsonbLoader)
            cursor.adapters.register_loader("timestamptz", TimestamptzLoader)
            with drive.translate_errors(), cursor:
                return drive.run_on(cursor, operation, self.schema)
        except ConnectorException as error:
            if django.in_atomic_block:
                django.needs_rollback = True  # the server has aborted the transaction
            elif isinstance(error, DatabaseUnavailable) and error.connection_lost:
                django.close()  # the next call opens a new one
            raise

    async def run_async(self, operation: Operation[T], connection: object = None) -> T:
        if connection is not None and not isinstance(connection, str):
            return await super().run_async(operation, connection)
        return await sync_to_async(self.run)(operation, connection)
