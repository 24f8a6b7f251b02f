"""A job joins the caller's transaction in a cell of the caller's database, by any driver."""

from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from inturn import App
from inturn.database.connectors import PsycopgConnector
from inturn.errors import BadArgument
from tests.cells.conftest import AT
from tests.cells.test_app import LOCKS
from tests.database.test_transactional_defer import CALLERS, Owner, note

pytestmark = pytest.mark.anyio


@pytest.fixture
def app(homes: list[PsycopgConnector]) -> App:
    app = App(cells=homes)
    app.task(name="note")(note)
    return app


def list_ids(dsns: list[str]) -> list[int]:
    found = []
    for cell, at in enumerate(AT):
        with psycopg.connect(dsns[at]) as connection:
            asked = f"SELECT id FROM inturn_{cell:02}.jobs"
            found += [id for (id,) in connection.execute(asked.encode())]
    return found


@pytest.mark.parametrize("caller", CALLERS)
async def test_a_job_is_born_beside_what_the_caller_writes(
    app: App, dsns: list[str], caller: Owner
) -> None:
    await caller(app, dsns[1], False)
    assert list_ids(dsns) == []
    await caller(app, dsns[1], True)
    [id] = list_ids(dsns)
    assert AT[id % 1024] == 1


def test_a_connection_of_django_works_and_keeps_its_thread(
    app: App, dsns: list[str], django: Any
) -> None:
    from django.utils.connection import ConnectionProxy

    given, connections = conninfo_to_dict(dsns[0]), django.connections
    settings = {**connections["default"].settings_dict, "NAME": given["dbname"]}
    settings.update(HOST=given["host"], PORT=given["port"], USER=given["user"])
    connections.settings["cells"] = settings
    connection = ConnectionProxy(connections, "cells")  # as django.db.connection is: of its thread
    task = app.tasks["note"]
    try:
        with django.transaction.atomic(using="cells"):
            new = [task.configure(lock=lock).make_new_job(text="x") for lock in LOCKS[:3]]
            made = app.job_manager.batch_defer_jobs(new, connection)
            assert [id % 1024 for id in made] == [0, 1, 2]
            with pytest.raises(BadArgument, match="is for cell 7"):
                task.configure(lock=LOCKS[7], connection=connection).defer(text="x")
            assert list_ids(dsns) == []
        assert sorted(list_ids(dsns)) == sorted(made)
    finally:
        connections["cells"].close()
        del connections["cells"], connections.settings["cells"]
