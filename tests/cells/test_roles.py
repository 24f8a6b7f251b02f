"""Programs with few rights can check and use their cells."""

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from inturn import App
from inturn.database.connectors import PsycopgConnector
from inturn.errors import ConnectorException
from inturn.schema.migrate import grant
from tests.cells.conftest import AT, WORKER, make_home
from tests.cells.test_app import LOCKS

LOGINS = ("cells_web", "cells_jobs")


@pytest.fixture
def granted(dsns: list[str]) -> list[str]:
    for dsn in dsns:
        with psycopg.connect(dsn, autocommit=True) as connection:
            for login in LOGINS:
                connection.execute(f"DROP ROLE IF EXISTS {login}".encode())
                connection.execute(f"CREATE ROLE {login} LOGIN".encode())
    for cell, at in enumerate(AT):
        members = {"producer": ["cells_web"], "worker": ["cells_jobs"]}
        grant(dsns[at], f"inturn_{cell:02}", members=members)
    return dsns


def open_as(login: str, dsns: list[str]) -> App:
    homes: list[PsycopgConnector] = [
        make_home(make_conninfo(dsns[at], user=login), cell) for cell, at in enumerate(AT)
    ]
    app = App(cells=homes, worker_defaults=WORKER)
    app.task(name="double")(lambda n: 2 * n)
    return app.open()


def test_a_producer_defers_and_a_worker_runs(granted: list[str]) -> None:
    with open_as("cells_web", granted) as web, open_as("cells_jobs", granted) as jobs:
        [job] = web.job_manager.batch_defer_jobs(
            [web.tasks["double"].configure(lock=LOCKS[6]).make_new_job(n=3)]
        )
        with psycopg.connect(make_conninfo(granted[0], user="cells_web")) as connection:
            task = web.configure_task("double", lock=LOCKS[1], connection=connection)
            assert task.defer(n=1) % 1024 == 1
        jobs.cell(6).run_worker()
        assert job.result(timeout=60) == 6
        with pytest.raises(ConnectorException, match="permission denied"):
            web.job_manager.list_jobs(lock=LOCKS[6])
