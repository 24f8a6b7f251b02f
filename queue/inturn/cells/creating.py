"""Create cells, and write their map."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast
from uuid import uuid4

from inturn.cells.asking import ask_all
from inturn.cells.connector import CellConnector, Cells
from inturn.cells.map import name_schema
from inturn.cells.map_file import write_server
from inturn.database import drive
from inturn.database.connector import Connector
from inturn.database.connectors import PsycopgConnector
from inturn.errors import CellsUnanswered, ConfigurationError
from inturn.operations.engine.cells import CellIdentity, show_cell
from inturn.sql import SCHEMA

TEXT = """\
# The map of cells: see docs/cells.md. Never change `map` and `of`.
map = "{map}"
of = {of}

# Before cells are created, move their numbers to other [[servers]]. After that: queue cells move
"""


def check_server(dsn: str | None, schema: str | None) -> None:
    """Raise an error if a new map cannot name this server: it is away, or has another map's cells.

    A map that was written in spite of that would be in the way of the next attempt.
    """
    found = find_identity(PsycopgConnector(dsn, schema=name_schema(schema or SCHEMA, 0)))
    if found is not None:
        raise ConfigurationError(
            f"The database has cells already. Use their map, or if it is lost, write one with map "
            f'= "{found.map}", of = {found.of}, and [[servers]]; see docs/cells.md'
        )


def refuse_other(cells: Cells, count: int | None, dsn: str | None, schema: str | None) -> None:
    """Raise ConfigurationError if the options contradict a map that exists."""
    if count not in (None, len(cells.homes)):
        raise ConfigurationError(
            f"{cells.file} has {len(cells.homes)} cells, which can never be changed. Omit --count"
        )
    for home in cells.homes:
        is_there = dsn is None or dsn == home.home[0]
        if is_there and (schema is None or home.schema == name_schema(schema, home.number)):
            return
    raise ConfigurationError(
        f"{cells.file} exists, and does not name this server. Name it there, and omit --dsn and "
        "--schema"
    )


def write_map(file: Path, count: int, dsn: str | None, schema: str | None) -> None:
    """Write the map of so many cells on one server. The file must not exist."""
    own_schema = None if schema == SCHEMA else schema
    server = {"dsn": dsn, "schema": own_schema, "cells": list(range(count))}
    text = TEXT.format(map=uuid4(), of=count) + write_server(server)
    mode = 0o600  # the address may contain a password
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}") from error
    with open(descriptor, "w", encoding="utf-8") as opened:
        opened.write(text)


def create_cells(
    cells: Cells, agree: Callable[[Sequence[int]], object] = lambda missing: None
) -> Iterator[tuple[CellConnector, bool]]:
    """Create or migrate each cell. Yield it, and whether it is new. It can be repeated.

    If some cells exist and others do not, `agree` is told which, and raises if they must not be
    made: perhaps they have moved away, and would get a second home.
    """
    from inturn.schema.migrate import make_cell, migrate, prepare_history

    found_all: Mapping[int, CellIdentity | None]
    try:
        found_all = ask_all(range(len(cells.homes)), lambda cell: find_identity(cells.homes[cell]))
    except CellsUnanswered as error:
        if cells.map_id is None:
            raise
        found_all = cast(Mapping[int, CellIdentity | None], error.answers)
    known = [found.map for found in found_all.values() if found is not None]
    missing = [cell for cell, found in found_all.items() if found is None]
    if known and missing:
        agree(missing)
    cells.map_id = cells.map_id or (known[0] if known else uuid4())
    for home in cells.homes:
        migrate(home.dsn, home.schema)
        prepare_history(home.dsn, home.schema)
        # First, so that another cell's schema is refused in words.
        found = find_identity(home)
        if found is not None:
            home.accept(found)
        yield home, make_cell(home.dsn, home.schema, home.number, len(cells.homes), cells.map_id)


def find_identity(home: Connector) -> CellIdentity | None:
    """Return which cell a database is, whatever the map says."""
    with Connector.connect(home) as session:
        return drive.run(show_cell(home.schema), session, home.schema)
