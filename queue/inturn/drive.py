"""The two drivers: the only code that executes SQL of the queue.

An operation yields statements and is sent their rows; a driver runs it on a connection that is already there. Every
operation is a single statement, atomic by itself, so a driver opens no transaction: on a caller's connection it becomes
part of the caller's, and never commits it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg.rows import tuple_row

from inturn import conditions
from inturn.operations import Operation
from inturn.sql import named

T = TypeVar("T")


def run(operation: Operation[T], connection: psycopg.Connection[Any], schema: str) -> T:
    with translated(), connection.cursor(row_factory=tuple_row) as cursor:
        try:
            statement = next(operation)
            while True:
                cursor.execute(named(statement.text, schema), statement.parameters)
                statement = operation.send(cursor.fetchall())
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


async def run_async(operation: Operation[T], connection: psycopg.AsyncConnection[Any], schema: str) -> T:
    with translated():
        async with connection.cursor(row_factory=tuple_row) as cursor:
            try:
                statement = next(operation)
                while True:
                    await cursor.execute(named(statement.text, schema), statement.parameters)
                    statement = operation.send(await cursor.fetchall())
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]


@contextmanager
def translated(*, connecting: bool = False) -> Iterator[None]:
    """The driver's errors as ours (see `conditions`). `connecting`: no statement is sent meanwhile."""
    try:
        yield
    except psycopg.Error as error:
        raise conditions.translate(error, connecting=connecting) from error
