"""Does the database fit this version, and how would it come to?"""

from contextlib import closing

import click

from inturn.cli.commands import grants, migrate
from inturn.cli.settings import (
    Settings,
    app_option,
    dsn_option,
    find_connector,
    pass_settings,
    schema_option,
    verbose_option,
)


@click.group(
    "schema",
    invoke_without_command=True,
    epilog="""\b
Examples:
  queue schema status --dsn postgresql://user@host/database
  queue schema --apply""",
)
@click.option("--apply", "action", flag_value="apply", help="The same as `queue migrate`.")
@click.option("--read", "action", flag_value="read", help="The same as `queue schema sql`.")
@click.option(
    "--migrations-path", "action", flag_value="path", help="Print the folder of the revisions."
)
@click.pass_context
def command(context: click.Context, action: str | None) -> None:
    """The queue's tables and functions in the database."""
    if context.invoked_subcommand is not None:
        if action is not None:
            raise click.UsageError(
                f"--{action} and {context.invoked_subcommand} exclude each other. Give one of them."
            )
    elif action == "apply":
        context.invoke(migrate.command)
    elif action == "read":
        context.invoke(sql)
    elif action == "path":
        from inturn.control.schema import SchemaManager

        click.echo(SchemaManager.get_migrations_path())
    else:
        click.echo(context.get_help())


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

    from inturn import sql
    from inturn.database import drive
    from inturn.operations.maintenance import check_schema

    connector = find_connector(settings, dsn, schema)
    with closing(connector.connect()) as connection:
        drive.run(check_schema(connector.schema), connection, connector.schema)
    click.echo(
        f"schema {connector.schema}: revision {sql.revision()}, fits inturn {version('inturn')}"
    )


@command.command(
    epilog="""\b
Example, for a database that you may not migrate yourself:
  queue schema sql > schema.sql && psql -1 -f schema.sql""",
)
@schema_option
def sql(schema: str | None) -> None:
    """Print what creates everything in a database that has none of it. Needs no database."""
    from inturn import sql

    click.echo(sql.script(schema or sql.SCHEMA), nl=False)


command.add_command(migrate.command, "upgrade")
command.add_command(grants.command)
