"""The two drivers: the only code that executes SQL of the queue.

An operation yields statements and is sent their rows; a driver runs it on a connection that is already there. Every
operation is a single statement, atomic by itself, so a driver opens no transaction: on a caller's connection it becomes
part of the caller's, and never commits it.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg.rows import tuple_row

from inturn.database import conditions
from inturn.errors import DatabaseUnavailable
from inturn.operations import Operation, Rows, Statement
from inturn.sql import fill_schema

T = TypeVar("T")


def run(operation: Operation[T], connection: psycopg.Connection[Any], schema: str) -> T:
    with translate_errors(), connection.cursor(row_factory=tuple_row) as cursor:
        try:
            statement = next(operation)
            while True:
                cursor.execute(fill_schema(statement.text, schema), statement.parameters)
                statement = operation.send(cursor.fetchall())
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


async def run_async(
    operation: Operation[T], connection: psycopg.AsyncConnection[Any], schema: str
) -> T:
    with translate_errors():
        async with connection.cursor(row_factory=tuple_row) as cursor:
            try:
                statement = next(operation)
                while True:
                    await cursor.execute(fill_schema(statement.text, schema), statement.parameters)
                    statement = operation.send(await cursor.fetchall())
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]


class Repeatable(Generator[Statement, Rows, T]):
    """An operation whose first statement can be sent again, over another connection."""

    def __init__(self, operation: Operation[T]) -> None:
        self._operation = operation
        self._first: Statement | None = None
        self._may_repeat = True

    def __next__(self) -> Statement:
        if self._first is None:
            self._first = next(self._operation)
        return self._first

    def send(self, rows: Any) -> Statement:
        self._may_repeat = False
        return self._operation.send(rows)

    def throw(self, *error: Any) -> Statement:
        return self._operation.throw(*error)

    def may_repeat(self, error: DatabaseUnavailable) -> bool:
        """Once, if the server has certainly undone it, and only the connection was to blame: it became read-only, say."""
        may, self._may_repeat = self._may_repeat, False
        return may and error.connection_lost and not error.outcome_unknown


@contextmanager
def translate_errors(*, connecting: bool = False) -> Iterator[None]:
    """The driver's errors as ours (see `conditions`). `connecting`: no statement is sent meanwhile."""
    try:
        yield
    except psycopg.Error as error:
        raise conditions.translate(error, connecting=connecting) from error
