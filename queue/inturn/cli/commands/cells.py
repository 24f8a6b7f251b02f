"""`queue cells`: create, list, check and move the cells of a queue over several servers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from inturn.cli.arguments.confirm import confirm, yes_option
from inturn.cli.output.exit_status import UNHEALTHY
from inturn.cli.output.printing import Output, output_options
from inturn.cli.output.progress_bar import show_progress
from inturn.cli.settings import (
    Settings,
    app_option,
    database_options,
    find_connector,
    pass_settings,
    verbose_option,
)
from inturn.cli.values import Number
from inturn.errors import CellsUnanswered, ConfigurationError

if TYPE_CHECKING:
    from inturn.cells.connector import Cells

FILE = "inturn_cells.toml"
COUNT = 8
COPY_IT = (
    "Copy it to all other machines within 30 seconds (--stalled-after), or what runs there then "
    "starts again elsewhere"
)
SAYS = {
    "publish": "the old server publishes the tables",
    "slot": "the old server keeps what changes",
    "schema": "the new server has the tables",
    "copy": "the new server copies",
    "wait": "the copy is complete, and follows",
    "close": "the old home is closed",
    "clean": "the old server is clean",
    "open": "the new home serves",
}


@click.group(
    "cells",
    epilog="""\b
Examples:
  queue cells create --dsn postgresql://user@host/database
  export INTURN_CELLS=inturn_cells.toml
  queue cells check""",
)
def command() -> None:
    """Create, list, check and move cells: one queue over several servers."""


@command.command(
    epilog="""\b
Examples:
  queue cells create --dsn postgresql://user@host/database
  queue cells create --count 16 --file cells.toml
  queue cells create          after a change of the file, or an interruption""",
)
@click.option(
    "--count",
    type=Number(1, 1024),
    help="How many cells a new map gets. This can never be changed.  [default: 8]",
)
@click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help=f"The map.  [default: INTURN_CELLS, or {FILE}]",
)
@yes_option
@database_options
def create(settings: Settings, /, count: int | None, file: Path | None, yes: bool) -> None:
    """Create cells and their map.

    If the map does not exist yet, it is written, with all cells on one server in schemas of their
    own. Then each cell is created in the schema that the map names, or migrated. If some exist, it
    asks before it makes the others, which may have moved.
    """
    from inturn.cells.connector import Cells
    from inturn.cells.creating import check_server, create_cells, refuse_other, write_map

    dsn, schema = settings.dsn, settings.schema
    if settings.app is None:
        file = (file or Path(os.environ.get("INTURN_CELLS") or FILE)).absolute()
        is_old = file.exists()
        if not is_old:
            check_server(dsn, schema)
            write_map(file, count or COUNT, dsn, schema)
            click.echo(f"wrote {file}: {count or COUNT} cells")
        cells = Cells(file)
        if is_old:
            refuse_other(cells, count, dsn, schema)
    else:
        cells = _find_cells(settings)

    def agree(missing: Sequence[int]) -> None:
        others = ", ".join(map(str, missing))
        confirm(
            f"Only some cells exist where the map says. Have the others ({others}) never existed? "
            "If they have moved, the map is old.",
            yes=yes,
            command="queue cells create --yes",
        )

    for home, is_new in create_cells(cells, agree):
        click.echo(f"{home}: {'created' if is_new else 'up to date'}")
    if settings.app is None and not os.environ.get("INTURN_CELLS"):
        click.echo(f"Set this wherever you use the queue: INTURN_CELLS={file}", err=True)


@command.command("list", epilog="Example: queue cells list --json")
@output_options
@database_options
def list_cells(settings: Settings, /, form: str) -> None:
    """List the cells of the map, without a connection to them."""
    cells = _find_cells(settings)
    rows = [
        {"cell": home.number, "home": home.place, "schema": home.schema} for home in cells.homes
    ]
    columns = {
        "CELL": lambda row: str(row["cell"]),
        "HOME": lambda row: str(row["home"]),
        "SCHEMA": lambda row: str(row["schema"]),
    }
    Output(form).records(rows, columns, "")


@command.command(epilog="Example: queue cells check --json")
@output_options
@database_options
def check(settings: Settings, /, form: str) -> None:
    """Ask each cell whether it is the one that the map says.

    Exits with status 10 if one does not answer, or is another one.
    """
    from inturn.cells.asking import ask_all

    cells = _find_cells(settings)
    problems: dict[int, str] = {}
    try:
        ask_all(range(len(cells.homes)), lambda cell: cells.homes[cell].connect().close())
    except CellsUnanswered as error:
        problems = {cell: str(each) for cell, each in error.errors.items()}
    rows = [{"cell": home.number, "problem": problems.get(home.number)} for home in cells.homes]
    Output(form).lines(rows, [problems.get(home.number, f"{home} ok") for home in cells.homes])
    if problems:
        raise SystemExit(UNHEALTHY)


@command.command(epilog="Example: queue cells adopt --cell 3")
@yes_option
@database_options
def adopt(settings: Settings, /, yes: bool) -> None:
    """Make a copy of a cell its only home.

    After pg_upgrade, pg_restore or CREATE DATABASE, a cell refuses to work, because the database
    that it was copied from may still serve it. Close that one first: two homes of one cell would
    run its lanes twice. If a server is lost during a move, this makes the other one the home.
    """
    if settings.cell is None:
        raise click.UsageError("Name the cell: --cell 3")
    home = find_connector(settings)

    def agree(other: str) -> None:
        confirm(
            f"Is every other home of cell {settings.cell} closed for good"
            f"{other and f', also that at {other}'}?",
            yes=yes,
            command=f"queue cells adopt --cell {settings.cell} --yes",
        )

    from inturn.cells import adopting

    adopting.adopt(home.dsn, home.schema, agree)
    home.connect().close()
    click.echo(f"{home} is now the home of this cell")


@command.command(
    epilog="""\b
Examples:
  queue cells move 3 --to postgresql://user@db2/shop
  queue cells move 3 --to postgresql://user@db2/shop --abort"""
)
@click.argument("cell", type=click.IntRange(0), metavar="CELL")
@click.option("--to", required=True, metavar="DSN", help="The database of the new home.")
@click.option(
    "--schema",
    "prefix",
    metavar="NAME",
    help="The schema at the new home, to which the number is added, as in the map.  "
    "[default: as now]",
)
@click.option(
    "--from",
    "from_",
    metavar="DSN",
    help="The old home's address for the move and the new server.  [default: as in the map]",
)
@click.option(
    "--admin",
    metavar="DSN",
    help="The address for the move, with another login or without a pooler.  [default: --to]",
)
@click.option(
    "--ignore-standbys",
    is_flag=True,
    help="Open the new home although standbys of the old one lag. Never promote those.",
)
@click.option("--abort", is_flag=True, help="End the move, and delete the copy.")
@yes_option
@app_option
@verbose_option
@pass_settings
def move(
    settings: Settings,
    /,
    cell: int,
    to: str,
    prefix: str | None,
    from_: str | None,
    admin: str | None,
    ignore_standbys: bool,
    abort: bool,
    yes: bool,
) -> None:
    """Move a cell to another server while it works.

    PostgreSQL copies the cell and keeps the copy up to date. Then the old home is closed, and the
    new one opens, which takes half a second. With --schema jobs, cell 3 gets the schema jobs_03.

    If the command is interrupted, run it again: it does the steps that are left. Until the old home
    is closed, --abort ends the move.
    """
    from inturn.cells.map import name_schema
    from inturn.cells.map_file import check_map, rewrite_home
    from inturn.cells.moving import CellMove

    cells = _find_cells(settings)
    home = cells.find_home(cell)
    kept = home.schema.removesuffix(f"_{cell:02}")
    final = name_schema(prefix, cell) if prefix else home.schema
    moving = CellMove(home, to, final, from_=from_, admin=admin, ignore_standbys=ignore_standbys)
    if abort:
        confirm(
            f"End the move of cell {cell}, and delete the copy at {moving.new}?",
            yes=yes,
            command=f"queue cells move {cell} --to … --abort --yes",
        )
        copy = "the copy is deleted" if moving.abort() else f"there is no copy at {moving.new}"
        click.echo(f"cell {cell} stays at {moving.old}; {copy}")
        return
    if cells.file is not None:
        check_map(cells.file, cell, to, prefix or kept)
    with show_progress(counts=False) as advance:
        left = moving.run(lambda step: click.echo(SAYS[step]), advance)
    if left is not None:
        click.echo(f"The cell has moved, but its slot at {moving.old} is left: {left}", err=True)
    if cells.file is None:
        click.echo(f"Your app lists its cells. Name {moving.to} there as cell {cell}", err=True)
        return
    if rewrite_home(cells.file, cell, to, prefix or kept):
        click.echo(f"{cells.file} names the new home. {COPY_IT}")
    click.echo(f"cell {cell} is at {moving.new.target}")


def _find_cells(settings: Settings) -> Cells:
    from inturn.cells.connector import Cells

    connector = find_connector(settings)
    if not isinstance(connector, Cells):
        raise ConfigurationError(
            "There are no cells here. Set INTURN_CELLS, name an app that has cells with -a, or "
            "create them: queue cells create"
        )
    return connector
