"""Defect C: maintenance that failed or took long kept silent workers from being declared dead."""

from contextlib import asynccontextmanager
from typing import Any

import anyio
import psycopg
import pytest

from inturn import App, JobContext
from tests.conftest import Until

pytestmark = pytest.mark.anyio
FAST: dict[str, Any] = {
    "update_heartbeat_interval": 0.2,
    "stalled_worker_timeout": 0.7,
    "wait": True,
}
DEAD = "SELECT id FROM claim(register_worker('{name}', 'there', 1, NULL, 1), NULL, 1)"
# Effects of users' triggers when a job leaves a dead worker.
RAISES = "RAISE EXCEPTION 'not this one'"
SWALLOWS_SLOWLY = "PERFORM pg_sleep(0.5); RETURN NULL"
# Its worker has no row any more, and its rescue is refused, or has no effect, again and again.
UNWILLING = """
CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {action}; END $$;
CREATE TRIGGER meddle BEFORE UPDATE ON jobs FOR EACH ROW
    WHEN (OLD.id = 1 AND OLD.status = 'doing') EXECUTE FUNCTION meddle();
DELETE FROM workers WHERE name = 'long gone';
"""
NO_DDL = """
CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no DDL here'; END $$;
CREATE EVENT TRIGGER refuse ON ddl_command_start EXECUTE FUNCTION refuse();
"""


def do(dsn: str, statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        connection.execute(statements.encode())


def names(dsn: str) -> list[str]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return [
            name for (name,) in connection.execute("SELECT name FROM inturn.workers ORDER BY name")
        ]


@asynccontextmanager
async def worker(app: App) -> Any:
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(lambda: app.run_worker_async(name="me", **FAST))
        yield
        group.cancel_scope.cancel()


@pytest.mark.fresh_database
@pytest.mark.parametrize("action", [RAISES, SWALLOWS_SLOWLY])
async def test_a_rescue_that_fails_or_takes_long_each_time_keeps_nobody_from_being_declared_dead(
    app: App, dsn: str, until: Until, action: str
) -> None:
    app.configure_task("unwilling").defer()
    do(dsn, DEAD.format(name="long gone"))
    do(dsn, UNWILLING.format(action=action))
    app.configure_task("note").defer()
    do(dsn, DEAD.format(name="silent"))
    runs: list[str] = []

    @app.task(name="note")
    async def note() -> None:
        runs.append("note")

    @app.task(name="unwilling")
    async def unwilling() -> None:
        runs.append("unwilling")

    async with worker(app):
        await until(lambda: names(dsn) == ["me"])
        do(dsn, "DROP TRIGGER meddle ON jobs")
        await until(lambda: len(runs) == 2)
    assert sorted(runs) == ["note", "unwilling"]


@pytest.mark.fresh_database
async def test_a_history_that_cannot_be_prepared_keeps_nobody_from_being_declared_dead(
    app: App, dsn: str, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    runs: list[int] = []

    @app.task(name="note", pass_context=True)
    async def note(context: JobContext) -> None:
        runs.append(context.job.id)

    job_id = note.defer()
    do(dsn, DEAD.format(name="silent"))
    do(dsn, NO_DDL)
    async with worker(app):
        await until(lambda: runs == [job_id])
        await until(
            lambda: (
                "maintenance.failed: prepare history: The database refused: no DDL here"
                in caplog.text
            )
        )
    assert caplog.text.count("no DDL here") < 20  # it is not tried all the time
