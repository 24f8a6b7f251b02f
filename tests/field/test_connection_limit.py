"""A worker whose role has too few connections works, and people hear of it."""

import logging
from contextlib import closing
from functools import partial
from typing import Any

import anyio
import psycopg
import pytest

from inturn import App
from inturn.cli.database import Database
from inturn.doctor.work import examine_work
from inturn.operations.reading.situation import get_situation
from tests.conftest import Query, Until
from tests.roles import PREFIX, as_login, create_role, grant_roles
from tests.waiting import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.fresh_database]
LOGIN = f"{PREFIX}_narrow"
CONNECTIONS = 2  # those of the loop and of its claims
SESSIONS = (
    "SELECT FROM pg_stat_activity WHERE datname = current_database() "
    "AND application_name = 'inturn worker'"
)
OPTIONS: dict[str, Any] = {
    "wait": True,
    "install_signal_handlers": False,
    "update_heartbeat_interval": 0.2,
    "stalled_worker_timeout": 5.0,
    "fetch_job_polling_interval": 0.1,
}


def allow(dsn: str, connections: int) -> str:
    """Return the address of a worker's login to which the server allows so many connections."""
    grant_roles(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        create_role(connection, LOGIN, "LOGIN")
        connection.execute(f"GRANT {PREFIX}_worker TO {LOGIN}")
        connection.execute(f"ALTER ROLE {LOGIN} CONNECTION LIMIT {connections}")
    return as_login(dsn, LOGIN)


def judge_workers(app: App) -> tuple[str, str]:
    """Return what the doctor says of the workers."""
    with closing(app.connector.connect()) as connection:
        database = Database(connection, app.connector.schema)
        seen = database.run(get_situation(database.schema))
        [found] = [each for each in examine_work(seen, None) if each.check == "workers"]
    return found.state, found.detail


async def test_the_doctor_names_a_worker_that_cannot_listen(
    dsn: str,
    app: App,
    query: Query,
    until: Until,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    narrow = App(allow(dsn, CONNECTIONS))
    connect = narrow.connector.connect
    runs: list[int] = []

    def connect_later(*given: Any, **options: Any) -> Any:
        """Let no other thread take the connection of a loop that is late."""
        wait_until(lambda: len(query(SESSIONS)) == CONNECTIONS)
        return connect(*given, **options)

    monkeypatch.setattr(narrow.connector, "connect", connect_later)

    @narrow.task(name="step")
    async def step(number: int) -> None:
        runs.append(number)

    caplog.set_level(logging.WARNING)
    async with anyio.create_task_group() as group:
        group.start_soon(partial(narrow.run_worker_async, name="alone", **OPTIONS))
        await until(lambda: query("SELECT FROM worker_status WHERE listens IS FALSE"))
        said = "cannot listen, so they find new jobs only by polling: alone"
        assert judge_workers(app) == ("warn", said)
        app.configure_task("step").defer(number=1)
        await until(lambda: runs == [1])
        allow(dsn, 10)
        await until(lambda: query("SELECT FROM worker_status WHERE listens"))
        assert judge_workers(app) == ("ok", "1 live")
        group.cancel_scope.cancel()
    lines = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    for event in ("listen.lost", "heartbeat.failed"):
        [line] = [text for text in lines if text.startswith(event)]
        assert "The server refuses more connections" in line
