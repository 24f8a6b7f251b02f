"""`queue migrate`: bring the schema of a database up to date."""

import click

from inturn.cli.settings import Settings, database_options, find_connector


@click.command(
    "migrate",
    epilog="""\b
Examples:
  queue migrate --dsn postgresql://user@host/database
  queue -a shop.tasks:app migrate      the database that the app names""",
)
@database_options
def command(settings: Settings, dsn: str | None, schema: str | None) -> None:
    """Create or update the queue's tables, functions and views.

    Either all of it takes effect or nothing does. You can run it in every deploy: if two run at
    once, one waits for the other, and if the schema is up to date, nothing changes.
    """
    connector = find_connector(settings, dsn, schema)
    dsn = connector.dsn  # report an unusable address before the slow import
    from inturn.schema.migrate import migrate, prepare_history

    done = migrate(dsn, connector.schema)
    prepare_history(dsn, connector.schema)
    click.echo(f"schema {connector.schema}: {done}")
