"""The map of cells: a list, a TOML file, or the file that INTURN_CELLS names.

    map = "0b31f6a4-…"      # made by `queue cells create`, and stored in each cell
    of = 8
    [[servers]]
    dsn = "postgresql://db1/shop"
    cells = [0, 1, 2, 3]    # in the schemas inturn_00, inturn_01, …
    [[servers]]
    dsn = "postgresql://db2/shop"
    cells = [4, 5, 6, 7]

A server may name another `schema` than "inturn", to which its cells add their numbers, and a
`listen_dsn` for notifications, if its `dsn` leads through a pooler.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from psycopg.conninfo import conninfo_to_dict

from inturn.cells.placing import STEP
from inturn.database.connectors import PsycopgConnector
from inturn.errors import ConfigurationError, kind_of
from inturn.sql import SCHEMA

Home = str | PsycopgConnector
CellsOption = str | os.PathLike[str] | Sequence[Home]


@dataclass
class CellMap:
    """The connector of each cell's database, by number, and the id of the map if it is known."""

    homes: list[PsycopgConnector]
    id: UUID | None = None
    file: Path | None = None


def read_map(cells: CellsOption) -> CellMap:
    """Return the map that was given to the App, or raise ConfigurationError."""
    if isinstance(cells, str | os.PathLike):
        return read_file(Path(cells))
    homes = [
        PsycopgConnector(home, schema=name_schema(SCHEMA, number), listen_dsn=home)
        if isinstance(home, str)
        else home
        for number, home in enumerate(cells)
    ]
    for number, home in enumerate(homes):
        if not isinstance(home, PsycopgConnector):
            raise ConfigurationError(
                f"Cell {number} is {kind_of(home)}. Give a DSN or a PsycopgConnector."
            )
    return _check(CellMap(homes))


def read_file(file: Path) -> CellMap:
    """Return the map in a TOML file."""
    try:
        read = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigurationError(
            f"The map of cells {str(file)!r} does not exist. Name it in INTURN_CELLS or "
            "App(cells=…), or write it: queue cells create"
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{file} cannot be read: {error}") from error
    try:
        return _check(_read_servers(file, read))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigurationError(
            f"{file} is not a map of cells: {type(error).__name__} {error}. It needs map, of, and "
            "[[servers]] with dsn and cells; see docs/cells.md"
        ) from error


def _read_servers(file: Path, read: dict[str, Any]) -> CellMap:
    of = int(read["of"])
    homes: dict[int, PsycopgConnector] = {}
    names: dict[int, str] = {}
    for place, server in enumerate(read["servers"], 1):
        for number in map(int, server["cells"]):
            name = f"server {place}"
            if number in homes:
                raise ConfigurationError(
                    f"{file}: cell {number} has two homes, {names[number]} and {name}. Remove it "
                    "from one of them: queue cells check"
                )
            schema = name_schema(server.get("schema", SCHEMA), number)
            dsn = server.get("dsn")
            # INTURN_LISTEN_DSN belongs to INTURN_DSN alone.
            listen_dsn = server.get("listen_dsn", dsn)
            homes[number] = PsycopgConnector(dsn, schema=schema, listen_dsn=listen_dsn)
            names[number] = name
    if missing := sorted(set(range(of)) - homes.keys()):
        raise ConfigurationError(
            f"{file}: of = {of}, but no server has {_name_cells(missing)}. Add the numbers to the "
            "`cells` of a server"
        )
    if beyond := sorted(homes.keys() - set(range(of))):
        raise ConfigurationError(
            f"{file}: of = {of}, so the cells are 0 to {of - 1}. Remove {_name_cells(beyond)}"
        )
    return CellMap([homes[number] for number in range(of)], UUID(read["map"]), file)


def name_schema(prefix: str, number: int) -> str:
    return f"{prefix}_{number:02}"


def name_place(dsn: str) -> str:
    """Return a database's host, port and name, without its password."""
    given = conninfo_to_dict(dsn)
    host = given.get("host") or given.get("hostaddr") or "local"
    return f"{host}:{given.get('port') or 5432}/{given.get('dbname') or ''}"


def _name_cells(numbers: Sequence[int]) -> str:
    return f"cell{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _check(cells: CellMap) -> CellMap:
    if not 1 <= len(cells.homes) <= STEP:
        raise ConfigurationError(f"The map has {len(cells.homes)} cells. Give 1 to {STEP:,}.")
    seen: dict[tuple[str, str], int] = {}
    for number, home in enumerate(cells.homes):
        other = seen.setdefault((home.dsn, home.schema), number)
        if other != number:
            raise ConfigurationError(
                f"Cells {other} and {number} have the same home, the schema {home.schema!r} of one "
                "database. Give each cell a database or a schema of its own."
            )
    return cells
