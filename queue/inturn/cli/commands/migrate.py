"""Bring a database to what this version works on."""

import click

from inturn.cli.settings import (
    Settings,
    app_option,
    dsn_option,
    find_connector,
    pass_settings,
    schema_option,
    verbose_option,
)


@click.command(
    "migrate",
    epilog="""\b
Examples:
  queue migrate --dsn postgresql://user@host/database
  queue -a shop.tasks:app migrate      the database that the app names""",
)
@dsn_option
@schema_option
@app_option
@verbose_option
@pass_settings
def command(settings: Settings, dsn: str | None, schema: str | None) -> None:
    """Create or update the queue's tables.

    All of it takes effect or nothing, the functions and views included. Safe to run in every deploy: two at once wait for
    each other, and where nothing is missing nothing changes.
    """
    connector = find_connector(settings, dsn, schema)
    where = connector.dsn  # an unusable address is reported before the slow import
    from inturn.schema.migrate import migrate

    done = migrate(where, connector.schema)
    click.echo(f"schema {connector.schema}: {done}")
