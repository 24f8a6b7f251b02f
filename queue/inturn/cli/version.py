"""`queue --version`: the versions of inturn and of a named database's server and schema."""

import os
from contextlib import closing

import click

NAMES = ("INTURN_DSN", "DATABASE_URL", "PGHOST", "PGDATABASE", "PGSERVICE", "PGUSER")
PATIENCE = 2.0  # seconds to wait for the server


def print_version(context: click.Context, _: click.Parameter, value: bool) -> None:
    """Print the versions and exit if the option is given."""
    if not value or context.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"inturn {version('inturn')}")
    if any(os.environ.get(name) for name in NAMES):
        click.echo("\n".join(_describe_database()))
    context.exit()


def _describe_database() -> list[str]:
    from inturn import sql
    from inturn.database.connectors import PsycopgConnector
    from inturn.errors import InturnError, SchemaMismatch
    from inturn.operations.engine.maintenance import check_schema

    try:
        connector = PsycopgConnector(timeout=PATIENCE)
        with closing(connector.connect()) as connection:
            server = connection.info.parameter_status("server_version")
            try:
                connector.run(check_schema(connector.schema), connection)
                schema = f"revision {sql.revision()}, matches this version"
            except SchemaMismatch as error:
                schema = f"does not fit: {error}"
    except InturnError as error:
        return [f"server: not reached ({error})"]
    return [f"server: PostgreSQL {server}", f"schema {connector.schema}: {schema}"]
