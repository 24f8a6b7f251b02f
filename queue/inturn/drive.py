"""The two drivers: the only code that executes SQL of the queue.

An operation yields statements and is sent their rows; a driver runs it on a connection that is already there. Every
operation is a single statement, atomic by itself, so a driver opens no transaction: on a caller's connection it becomes
part of the caller's, and never commits it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg.rows import tuple_row

from inturn.errors import ConnectorException, DatabaseUnavailable, LaneBusy, SchemaMismatch, StaleFence, WorkerLost
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
def translated() -> Iterator[None]:
    """The driver's errors as ours, with what to do where we know it."""
    try:
        yield
    except (pg.InvalidSchemaName, pg.UndefinedTable, pg.UndefinedFunction) as error:
        raise SchemaMismatch(
            f"The database lacks a part of inturn's schema ({_first_line(error)}). Create or update it: queue migrate"
        ) from error
    except pg.ObjectInUse as error:
        raise LaneBusy(f"{_first_line(error)}. Abort the job, or wait until it ends") from error
    except pg.ObjectNotInPrerequisiteState as error:
        raise StaleFence(_first_line(error)) from error
    except pg.NoDataFound as error:
        raise WorkerLost(_first_line(error)) from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise DatabaseUnavailable(f"The database cannot be reached or went away: {_first_line(error)}") from error
    except psycopg.Error as error:
        raise ConnectorException(f"The database refused: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
