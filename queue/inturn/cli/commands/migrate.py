"""`queue migrate`: create or upgrade the schema in a database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from inturn.cli.settings import Settings, database_options, find_connector

if TYPE_CHECKING:
    from inturn.schema.plan import MigrationPlan


@click.command(
    "migrate",
    epilog="""\b
Examples:
  queue migrate --dsn postgresql://user@host/database
  queue migrate --plan
  queue -a shop.tasks:app migrate      the app's database""",
)
@click.option("--plan", is_flag=True, help="Show what would be done, and exit.")
@database_options
def command(settings: Settings, plan: bool) -> None:
    """Create or update the queue's tables, functions and views.

    All of it takes effect, or nothing does. Safe to run in every deploy: concurrent runs wait for
    each other, and if the schema is up to date, nothing changes. If the queue has cells, it
    migrates one after another; `queue cells create` makes new ones.
    """
    homes = find_connector(settings).homes
    addresses = [home.dsn for home in homes]  # report unusable ones before the slow import

    def run(cell: int, _: Mapping[str, Any]) -> None:
        home, address = homes[cell], addresses[cell]
        home.check_cell()
        if plan:
            from inturn.schema.plan import plan_migration

            print_plan(home.schema, plan_migration(address, home.schema))
            return
        from inturn.schema.migrate import migrate, prepare_history

        done = migrate(address, home.schema)
        prepare_history(address, home.schema)
        click.echo(f"schema {home.schema}: {done}")

    from inturn.cli.over_cells import run_over_cells

    run_over_cells("migrate", len(homes), {}, run)


def print_plan(schema: str, plan: MigrationPlan) -> None:
    """Print what would be done, one line per step."""
    if not plan.steps:
        click.echo(f"schema {schema}: revision {plan.after}, nothing to do")
        return
    click.echo(f"schema {schema}: revision {plan.before or 'none'} -> {plan.after}")
    for step in plan.steps:
        click.echo(f"  {step}")
    for view in plan.dropped:
        click.echo(f"  drop your view {view}, which reads one of these views or functions")
