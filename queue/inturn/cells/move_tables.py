"""The tables of a cell that moves: which are copied, and who may write to them."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

from psycopg.sql import SQL, Identifier, Literal

from inturn.cells.move_servers import NewServer, Raw, ask
from inturn.operations.engine import moving
from inturn.sql import find_comments

# The migration of the new server makes these, and `cell` differs.
NOT_COPIED = ("cell", "schema_version", "applied_code")
HISTORY = "finished_jobs"


def list_tables() -> list[str]:
    """Return the names of the tables that are copied, without the partitions of the history."""
    return sorted(find_comments("TABLE").keys() - {*NOT_COPIED, f"{HISTORY}_default"})


def sum_tables(connection: Raw, schema: str) -> dict[str, list[Any]]:
    """Return the number of rows and their sum for each table that is copied, but the history."""
    columns = dict(ask(connection, moving.COLUMNS, schema))
    queries = [
        SQL(moving.SUM_ROWS).format(
            name=Literal(table),
            table=Identifier(schema, table),
            columns=SQL(", ").join(map(Identifier, columns[table])),
        )
        for table in list_tables()
        if table != HISTORY
    ]
    rows = connection.execute(SQL(" UNION ALL ").join(queries)).fetchall()
    return {name: rest for name, *rest in rows}


def sum_history(connection: Raw, schema: str, until: datetime) -> list[tuple[Any, ...]]:
    """Return the number and the sum of the jobs that had finished by then."""
    query = SQL(moving.SUM_HISTORY).format(history=Identifier(schema, HISTORY))
    return connection.execute(query, [until]).fetchall()


def make_partitions(connection: Raw, schema: str, days: list[date]) -> None:
    """Create the partitions of the history that are missing, as prepare_history does."""
    connection.execute("SET LOCAL timezone = 'UTC'")
    history = Identifier(schema, HISTORY)
    for day in days:
        name = f"finished_jobs_{day:%Y%m%d}"
        if ask(connection, moving.HAS_TABLE, schema, name) == [(True,)]:
            continue
        partition = Identifier(schema, name)
        for change in moving.MAKE_PARTITION:
            connection.execute(
                SQL(change).format(
                    history=history,
                    partition=partition,
                    day=Literal(str(day)),
                    next=Literal(str(day + timedelta(days=1))),
                )
            )


def refuse_writes(connection: Raw, schema: str, message: str) -> None:
    """Make the tables of a schema refuse all writes but those of replication."""
    name = Identifier(schema)
    function = SQL(moving.REFUSE_WRITES).format(schema=name, message=Literal(message))
    connection.execute(function)
    trigger = SQL(moving.REFUSE_WRITE)
    for table in list_tables():
        connection.execute(trigger.format(schema=name, table=Identifier(schema, table)))


def open_schema(connection: Raw, new: NewServer, comment: str | None) -> None:
    """Make a copy the home of its cell, and give the schema its final name."""
    schema, final = Identifier(new.schema), Identifier(new.final)
    connection.execute(SQL("DROP FUNCTION {}.refuse_while_moving() CASCADE").format(schema))
    path = SQL("SET LOCAL search_path = {}, pg_temp")
    connection.execute(path.format(schema))
    connection.execute(moving.OPEN.encode())
    new.set_comment(connection, new.schema, comment)
    if new.final != new.schema:
        connection.execute(SQL("ALTER SCHEMA {} RENAME TO {}").format(schema, final))
        connection.execute(path.format(final))
        for (function,) in ask(connection, moving.FUNCTIONS, new.final):
            change = f"ALTER FUNCTION {function} SET search_path = "
            connection.execute(SQL(change).format() + SQL("{}, pg_temp").format(final))
