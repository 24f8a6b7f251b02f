"""`queue cells move`: move a cell to another server while it works."""

from __future__ import annotations

import click

from inturn.cli.arguments.confirm import confirm, yes_option
from inturn.cli.output.progress_bar import show_progress
from inturn.cli.settings import Settings, app_option, find_connector, pass_settings, verbose_option
from inturn.errors import ConfigurationError

SAYS = {
    "publish": "the old server publishes the tables",
    "slot": "the old server keeps what changes",
    "schema": "the new server has the tables",
    "copy": "the new server copies",
    "wait": "the copy is complete, and follows",
    "close": "the old home is closed",
    "open": "the new home serves",
    "clean": "the old server is clean",
}


@click.command(
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
    "seen_from",
    metavar="DSN",
    help="The address of the old home as the new server reaches it.  [default: as in the map]",
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
    seen_from: str | None,
    abort: bool,
    yes: bool,
) -> None:
    """Move a cell to another server while it works.

    PostgreSQL copies the cell and keeps the copy up to date. Then the old home is closed, and the
    new one opens, which takes about a second. If the command is interrupted, run it again: it
    does the steps that are left. Until the old home is closed, --abort ends the move.
    """
    from inturn.cells.connector import Cells
    from inturn.cells.map import name_schema
    from inturn.cells.map_file import advise, rewrite_home
    from inturn.cells.moving import Move

    cells = find_connector(settings, None, None)
    if not isinstance(cells, Cells):
        raise ConfigurationError("There are no cells here. Set INTURN_CELLS to their map")
    home = cells.find_home(cell)
    kept = home.schema.removesuffix(f"_{cell:02}")
    final = name_schema(prefix, cell) if prefix else home.schema
    moving = Move(home, to, final, seen_from)
    if abort:
        confirm(
            f"End the move of cell {cell}, and delete the copy at {moving.new}?",
            yes=yes,
            command=f"queue cells move {cell} --to … --abort --yes",
        )
        moving.abort()
        click.echo(f"cell {cell} stays at {moving.old}; the copy is deleted")
        return
    with show_progress(counts=False) as advance:
        moving.run(lambda step: click.echo(SAYS[step]), advance)
    if cells.file is None:
        click.echo(f"Your app lists its cells. {advise(cell, None, prefix or kept)}", err=True)
        return
    if rewrite_home(cells.file, cell, to, prefix or kept):
        click.echo(f"{cells.file} names the new home. Copy it to all other machines")
    click.echo(f"cell {cell} is at {moving.new}, schema {final}")
