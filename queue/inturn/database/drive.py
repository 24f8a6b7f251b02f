"""Run operations on a connection, sync or async. Only this module executes the queue's SQL.

An operation yields statements and is sent their rows. Each operation is a single statement, and
therefore atomic. No transaction is opened here: on a caller's connection, the statement becomes
part of the caller's transaction, which is never committed here.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg.rows import tuple_row

from inturn.database import conditions
from inturn.database.foreign_drivers import AsyncpgConnection, Psycopg2Connection
from inturn.database.rights import Tried
from inturn.errors import DatabaseUnavailable, InturnError
from inturn.operations import Operation, Rows, Statement
from inturn.sql import fill_schema

T = TypeVar("T")
# See `caller_connection`. Those of other drivers are also their own cursors.
Connection = psycopg.Connection[Any] | Psycopg2Connection
AsyncConnection = psycopg.AsyncConnection[Any] | AsyncpgConnection
Cursor = psycopg.Cursor[Any] | Psycopg2Connection
AsyncCursor = psycopg.AsyncCursor[Any] | AsyncpgConnection
# A cursor keeps the rows of its last result, so it is closed after a larger one.
MOST_ROWS_KEPT = 1000
NOTHING = Statement("")


def run(operation: Operation[T], connection: Connection, schema: str) -> T:
    with translate_errors(), connection.cursor(row_factory=tuple_row) as cursor:
        return run_on(cursor, operation, schema)


async def run_async(operation: Operation[T], connection: AsyncConnection, schema: str) -> T:
    with translate_errors():
        async with connection.cursor(row_factory=tuple_row) as cursor:
            return await run_on_async(cursor, operation, schema)


def run_on(cursor: Cursor, operation: Operation[T], schema: str) -> T:
    """Run an operation on a cursor that nothing else uses, such as `kept_cursor`."""
    statement = NOTHING
    try:
        statement = next(operation)
        while True:
            cursor.execute(fill_schema(statement.text, schema), statement.parameters)
            statement = operation.send(cursor.fetchall())
    except StopIteration as end:
        if cursor.rowcount > MOST_ROWS_KEPT:
            cursor.close()
        value: T = end.value
        return value
    except psycopg.Error as error:
        raise _explain(error, cursor, statement, schema) from error


async def run_on_async(cursor: AsyncCursor, operation: Operation[T], schema: str) -> T:
    statement = NOTHING
    try:
        statement = next(operation)
        while True:
            await cursor.execute(fill_schema(statement.text, schema), statement.parameters)
            statement = operation.send(await cursor.fetchall())
    except StopIteration as end:
        if cursor.rowcount > MOST_ROWS_KEPT:
            await cursor.close()
        value: T = end.value
        return value
    except psycopg.Error as error:
        raise _explain(error, cursor, statement, schema) from error


def _explain(
    error: psycopg.Error, cursor: Cursor | AsyncCursor, statement: Statement, schema: str
) -> InturnError:
    return conditions.translate(error, tried=Tried(cursor, statement.text, schema))


class Repeatable(Generator[Statement, Rows, T]):
    """An operation whose first statement can be sent again, over another connection."""

    def __init__(self, operation: Operation[T]) -> None:
        self._operation = operation
        self._first: Statement | None = None
        self.is_unanswered = True  # the first can be sent again after an error that undid it

    def __next__(self) -> Statement:
        if self._first is None:
            self._first = next(self._operation)
        return self._first

    def send(self, rows: Any) -> Statement:
        self.is_unanswered = False
        return self._operation.send(rows)

    def throw(self, *error: Any) -> Statement:
        return self._operation.throw(*error)

    def may_repeat(self, error: DatabaseUnavailable) -> bool:
        """Return True once, if the server certainly undid it and the connection was at fault.

        For example, the server may have become read-only.
        """
        may, self.is_unanswered = self.is_unanswered, False
        return may and error.connection_lost and not error.outcome_unknown


@contextmanager
def translate_errors(*, connecting: bool = False) -> Iterator[None]:
    """Raise driver errors as inturn's; see `conditions`.

    `connecting` means that no statement is sent inside the block.
    """
    try:
        yield
    except psycopg.Error as error:
        raise conditions.translate(error, connecting=connecting) from error
