"""Eight cells on two embedded servers."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Composed, Identifier

from inturn import App
from inturn.cells.connector import Cells
from inturn.cells.creating import create_cells
from inturn.database.connectors import PsycopgConnector
from inturn.embedded import Server
from inturn.schema.migrate import adopt_cell
from tests.cells.load import make_cells

LOGICAL = {"wal_level": "logical"}  # or no cell could move
COUNT = 8
AT = [0, 0, 0, 0, 0, 1, 1, 1]  # the server of each cell
WORKER = {
    "wait": False,
    "install_signal_handlers": False,
    "update_heartbeat_interval": 0.2,
    "stalled_worker_timeout": 30.0,
}


@pytest.fixture(scope="session")
def servers(bin_dir: Path | None) -> Iterator[list[Server]]:
    with ExitStack() as ends:
        yield [ends.enter_context(Server(bin_dir=bin_dir, settings=LOGICAL)) for _ in range(2)]


@pytest.fixture(scope="session")
def template(servers: list[Server]) -> list[str]:
    """On each server, a database with its cells, to copy."""
    for server in servers:
        run(server, SQL("CREATE DATABASE cells_template"))
    dsns = [server.dsn("cells_template") for server in servers]
    homes = [make_home(dsns[at], cell) for cell, at in enumerate(AT)]
    assert all(is_new for _, is_new in create_cells(Cells(homes)))
    return dsns


@pytest.fixture
def empty(servers: list[Server]) -> Iterator[list[str]]:
    """An empty database on each server."""
    yield from _make_databases(servers, "template1")


@pytest.fixture
def dsns(servers: list[Server], template: list[str]) -> Iterator[list[str]]:
    """On each server, a database of the test's own with its cells."""
    for made in _make_databases(servers, "cells_template"):
        for dsn in made:
            adopt(dsn)
        yield made


def adopt(dsn: str) -> None:
    """Say that the cells of a copied database live there now."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        found = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'inturn\\__%'"
        schemas = [schema for (schema,) in connection.execute(found)]
    for schema in schemas:
        adopt_cell(dsn, schema)


def _make_databases(servers: list[Server], template: str) -> Iterator[list[str]]:
    name = Identifier("cells_test")
    for server in servers:
        run(server, SQL("CREATE DATABASE {} TEMPLATE {}").format(name, Identifier(template)))
    yield [make_conninfo(server.dsn(), dbname="cells_test") for server in servers]
    for server in servers:
        run(server, SQL("DROP DATABASE {} WITH (FORCE)").format(name))


def run(server: Server, statement: SQL | Composed) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(statement)


def make_home(dsn: str, cell: int) -> PsycopgConnector:
    return PsycopgConnector(dsn, schema=f"inturn_{cell:02}", timeout=20)


@pytest.fixture
def homes(dsns: list[str]) -> list[PsycopgConnector]:
    """The connectors of the cells."""
    return [make_home(dsns[at], cell) for cell, at in enumerate(AT)]


@pytest.fixture
def app(homes: list[PsycopgConnector]) -> Iterator[App]:
    """An open app on the cells."""
    app = App(cells=homes, worker_defaults=WORKER)
    with app.open():
        yield app


@pytest.fixture
def cells(empty: list[str], tmp_path: Path) -> Cells:
    """Two cells on the first server, with a map in a file."""
    return make_cells(tmp_path, empty[0])
