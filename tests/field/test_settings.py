"""Whatever a database or a role sets by default, a worker runs its jobs and reads the answers."""

import logging
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import Any

import anyio
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Identifier, Literal

from inturn import App, JobContext, RetryStrategy, shared
from inturn.database import drive
from inturn.operations.engine import maintenance
from tests.conftest import Query, Until
from tests.field.test_conditions import END_WORKERS, try_to

pytestmark = [pytest.mark.anyio, pytest.mark.fresh_database]

# Those of one transaction cannot be set by default. Who sets the last one wants no writes, so a
# worker waits until it is gone.
SETTINGS = """
SELECT name, vartype, enumvals, min_val, max_val FROM pg_settings
WHERE context = 'user' AND name <> ALL (ARRAY[
    'transaction_deferrable', 'transaction_isolation', 'transaction_read_only',
    'default_transaction_read_only'
])
"""
STRINGS = {
    "DateStyle": ["SQL, DMY", "German", "Postgres, MDY"],
    "TimeZone": ["Asia/Kathmandu", "<-1234>12:34", "Pacific/Kiritimati"],
    "client_encoding": ["SQL_ASCII", "LATIN1", "WIN1251"],
    "search_path": ["", "nowhere", "pg_temp, pg_catalog"],
    "timezone_abbreviations": ["India", "Australia"],
    "application_name": ["", "ü" * 20, "inturn worker"],
    "default_text_search_config": ["simple"],
    "restrict_nonsystem_relation_kind": ["view", "foreign-table", "view, foreign-table"],
}
SHORT = "500"  # milliseconds, for the settings that end what takes or idles for longer
TURNS = 11
OPTIONS: dict[str, Any] = {
    "wait": True,
    "install_signal_handlers": False,
    "update_heartbeat_interval": 0.2,
    "stalled_worker_timeout": 10.0,
}


def odd_values(
    name: str, kind: str, choices: Sequence[str] | None, least: str | None, most: str | None
) -> Sequence[str]:
    match kind:
        case "bool":
            return ["on", "off"]
        case "enum":
            return choices or []
        case "string":
            return STRINGS.get(name, [])
    values = [least or "0", most or "0"]
    return [*values, SHORT] if name.endswith("_timeout") else values


def choose(dsn: str, turn: int) -> dict[str, str]:
    """Return one odd value of each setting. The turns together have all of them."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(SETTINGS).fetchall()
    odd = {name: odd_values(name, *more) for name, *more in rows}
    return {name: values[turn % len(values)] for name, values in odd.items() if values}


def set_by_default(dsn: str, settings: dict[str, str]) -> None:
    database = Identifier(str(conninfo_to_dict(dsn)["dbname"]))
    with psycopg.connect(dsn, autocommit=True) as connection:
        for name, value in settings.items():
            connection.execute(
                SQL("ALTER DATABASE {} SET {} = {}").format(
                    database, Identifier(name), Literal(value)
                )
            )


def defer_all(app: App, runs: list[str]) -> int:
    """Defer jobs that use whatever has times, spans, arrays or text in it. Return how many."""

    @app.task(name="plain", retry=RetryStrategy(max_attempts=2))
    async def plain(word: str) -> str:
        runs.append(word)
        if runs.count("again") == 1:
            raise ValueError("ü")
        return word

    @app.task(name="thorough", pass_context=True, retry=True)
    def thorough(context: JobContext) -> None:
        context.progress(1, 2, "ü")
        with context.transaction() as connection:
            connection.execute("SELECT now(), interval '1 day', '{1}'::int[]")
        runs.append("thorough")

    @app.periodic(cron="0 0 1 1 *")
    @app.task(name="yearly")
    def yearly(timestamp: int) -> None: ...

    first = plain.configure(lock="lane", on_failure="halt").defer(word="again")
    plain.configure(lock=["lane", shared("other")], after=first).defer(word="after ü😀")
    plain.configure(schedule_in={"milliseconds": 10}, timeout=30).defer(word="soon")
    plain.configure(limit="key", group="tenant", expires_in={"hours": 1}).defer(word="limited")
    plain.configure(queueing_lock="one", headers={"a": "b"}).defer(word="headers")
    thorough.configure(lock="lane").defer()
    return 6


@pytest.mark.parametrize("turn", range(TURNS))
async def test_no_default_of_a_database_keeps_a_worker_from_its_jobs(
    app: App,
    dsn: str,
    query: Query,
    until: Until,
    caplog: pytest.LogCaptureFixture,
    turn: int,
) -> None:
    """Of all settings that a user may change. In a role's defaults they do the same."""
    runs: list[str] = []
    count = defer_all(app, runs)
    set_by_default(dsn, choose(dsn, turn))
    query(END_WORKERS)  # and what the app has in its pool
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(partial(app.run_worker_async, **OPTIONS))
            await until(lambda: query("SELECT FROM finished_jobs HAVING count(*) = %s", count))
            # Heartbeats and maintenance go on beside it.
            beat = "SELECT FROM workers WHERE heartbeat_at > started_at + interval '1 s'"
            await until(lambda: query(beat))
            group.cancel_scope.cancel()
    # The time limits that are set for a producer are its own.
    await until(lambda: try_to(app.job_manager.list_jobs))
    assert query("SELECT DISTINCT status::text FROM finished_jobs") == [("succeeded",)]
    assert set(runs) == {"again", "after ü😀", "soon", "limited", "headers", "thorough"}
    assert [
        each.getMessage()
        for each in caplog.records
        if each.levelno >= logging.WARNING
        and each.name.startswith("inturn.worker")
        and "is busy" not in each.getMessage()  # no setting has caused that
    ] == []


def test_the_turns_have_all_values(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(SETTINGS).fetchall()
    assert max(len(odd_values(*row)) for row in rows) <= TURNS


def test_the_lanes_are_looked_after_whatever_time_limit_a_database_sets(
    app: App, dsn: str, query: Query
) -> None:
    query("SELECT defer('t', lock => 'lane ' || n) FROM generate_series(1, 3) AS n")
    with psycopg.connect(dsn, options="-c search_path=inturn") as connection:
        connection.execute(
            "CREATE OR REPLACE FUNCTION recall_looks() RETURNS void LANGUAGE sql "
            "AS 'SELECT pg_sleep(1)'"
        )
    set_by_default(dsn, {"statement_timeout": "500"})  # ms
    with closing(app.connector.connect("maintenance")) as connection:
        last, steps = "", 0
        while last or not steps:
            step = maintenance.reconcile_lanes(last, 2)
            last, steps = drive.run(step, connection, app.connector.schema), steps + 1
    assert steps > 1
