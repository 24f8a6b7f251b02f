"""Does the database fit this version?"""

from contextlib import closing

import click

from inturn.cli import migrate
from inturn.cli.settings import (
    Settings,
    app_option,
    dsn_option,
    find_connector,
    pass_settings,
    schema_option,
    verbose_option,
)


@click.group("schema", epilog="Example: queue schema status --dsn postgresql://user@host/database")
def command() -> None:
    """The queue's tables and functions in the database."""


@command.command(
    epilog="""\b
Example, as a gate in a deploy:
  queue schema status && queue worker""",
)
@dsn_option
@schema_option
@app_option
@verbose_option
@pass_settings
def status(settings: Settings, dsn: str | None, schema: str | None) -> None:
    """Say whether the schema fits this version; exit with 11 if not."""
    from importlib.metadata import version

    from inturn import drive, sql
    from inturn.operations.upkeep import check_schema

    connector = find_connector(settings, dsn, schema)
    with closing(connector.connect()) as connection:
        drive.run(check_schema(connector.schema), connection, connector.schema)
    click.echo(f"schema {connector.schema}: revision {sql.revision()}, fits inturn {version('inturn')}")


command.add_command(migrate.command, "upgrade")
