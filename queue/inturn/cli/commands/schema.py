"""`queue schema`: check, print, install or downgrade the schema, and grant rights."""

from contextlib import closing
from copy import copy

import click

from inturn.cli.arguments.confirm import confirm, yes_option
from inturn.cli.commands import migrate
from inturn.cli.settings import (
    Settings,
    database_options,
    find_connector,
    pass_settings,
    schema_option,
)
from inturn.errors import BadArgument

ROLE_BYTES = 63  # PostgreSQL cuts off longer names without an error
LONGEST = len("_producer")


@click.group(
    "schema",
    invoke_without_command=True,
    epilog="""\b
Examples:
  queue schema status --dsn postgresql://user@host/database
  queue schema grants > grants.sql""",
)
@click.option("--apply", "action", flag_value="apply", help="Same as `queue migrate`.")
@click.option("--read", "action", flag_value="read", help="Same as `queue schema sql`.")
@click.option(
    "--migrations-path", "action", flag_value="path", help="Print the folder of the migrations."
)
@click.pass_context
def command(context: click.Context, action: str | None) -> None:
    """Check, print or install the queue's tables and functions."""
    if context.invoked_subcommand is not None:
        if action is not None:
            raise click.UsageError(
                f"You cannot give both --{action} and {context.invoked_subcommand}."
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
Example, to start a worker only after a migration:
  queue schema status && queue worker""",
)
@database_options
def status(settings: Settings) -> None:
    """Check whether the schema matches this version.

    Exits with status 11 if it does not.
    """
    from importlib.metadata import version

    from inturn import sql
    from inturn.operations.engine.maintenance import check_schema

    fits = f"revision {sql.revision()}, fits inturn {version('inturn')}"
    for home in find_connector(settings).homes:
        with closing(home.connect()) as connection:
            home.run(check_schema(home.schema), connection)
        click.echo(f"schema {home.schema}: {fits}")


@command.command(
    epilog="""\b
Example, for a database that you may not migrate yourself:
  queue schema sql > schema.sql && psql -1 -f schema.sql""",
)
@schema_option
@pass_settings
def sql(settings: Settings) -> None:
    """Print SQL that creates the whole schema.

    For a database that does not have the schema yet. Needs no connection.
    """
    from inturn import sql

    click.echo(sql.script(settings.schema or sql.SCHEMA), nl=False)


@command.command(
    epilog="""\b
Examples:
  queue schema grants > grants.sql              to read, and for psql
  queue schema grants --apply --producer web --worker jobs --operator alice
  queue schema grants --apply --owner deploy    deploy may run queue migrate

The roles are NAME_owner, NAME_producer, NAME_worker, NAME_operator and NAME_monitor.
What each may do: https://github.com/inturn/inturn/blob/main/docs/security.md""",
)
@click.option(
    "--apply",
    is_flag=True,
    help="Run the SQL instead of printing it. Existing roles and members are kept.",
)
@click.option(
    "--prefix",
    metavar="NAME",
    help="Prefix for the names of the roles.  [default: as the last time; at first, the schema's "
    "name]",
)
@click.option(
    "--owner",
    metavar="LOGIN",
    multiple=True,
    help="A login that may migrate. This option and those below can be repeated.",
)
@click.option("--producer", metavar="LOGIN", multiple=True, help="A login that may defer jobs.")
@click.option("--worker", metavar="LOGIN", multiple=True, help="A login that may run jobs.")
@click.option(
    "--operator", metavar="LOGIN", multiple=True, help="A login that may see and change everything."
)
@click.option(
    "--monitor",
    metavar="LOGIN",
    multiple=True,
    help="A login that may see everything but arguments, errors and results.",
)
@database_options
def grants(
    settings: Settings, /, apply: bool, prefix: str | None, **logins: tuple[str, ...]
) -> None:
    """Create roles for the queue and grant their rights.

    One role each for owners, producers, workers, operators and monitors. Prints SQL to run as a
    superuser, or as the schema's owner if that role may create roles. Needs no connection unless
    you give --apply. From then on, `queue migrate` keeps the rights up to date.
    """
    from inturn import sql

    homes = find_connector(settings).homes
    for home in homes:
        size = len((prefix or home.schema).encode())
        if size > ROLE_BYTES - LONGEST:
            raise BadArgument(
                "prefix",
                f"it has {size} bytes, but the names of roles allow at most {ROLE_BYTES - LONGEST}",
            )
    if not apply:
        for home in homes:
            click.echo(sql.grants(home.schema, prefix, logins), nl=False)
        return

    addresses = [home.dsn for home in homes]  # report an unusable one before the slow import
    from inturn.schema.migrate import grant

    for home, address in zip(homes, addresses, strict=True):
        owner, warnings = grant(address, home.schema, prefix, logins)
        for warning in warnings:
            click.echo(f"warning: {warning}", err=True)
        roles = f"{owner.removesuffix('_owner')}_…"
        click.echo(f"schema {home.schema}: owned by {owner}, and open only to the {roles} roles")


@command.command(
    epilog="""\b
Examples:
  queue schema downgrade --plan
  queue schema downgrade        then: queue migrate, with the earlier version
  queue schema downgrade --to 0001"""
)
@click.option(
    "--to",
    metavar="REVISION",
    help="Go back to this revision. If it is the current one, only drop functions and views.  "
    "[default: one step back]",
)
@click.option("--plan", is_flag=True, help="Show what would be done, and exit.")
@yes_option
@database_options
def downgrade(settings: Settings, /, to: str | None, plan: bool, yes: bool) -> None:
    """Downgrade the schema for an earlier version of inturn.

    Run it with the later version, then immediately `queue migrate` with the earlier one. Until
    then the queue is unusable: workers end with status 11, and deferring raises an error. No job
    is lost, only data that just the later version stores. All of it takes effect, or nothing does.
    """
    connector = find_connector(settings)
    dsn, name = connector.dsn, connector.schema
    from inturn.schema.migrate import downgrade
    from inturn.schema.plan import plan_downgrade

    found = plan_downgrade(dsn, to, name)
    migrate.print_plan(name, found)
    if plan or not found.steps:
        return
    target = "" if to is None else f" --to {found.after}"
    confirm("Continue?", yes=yes, command=f"queue schema downgrade{target} --yes")
    downgrade(dsn, found.after, name)
    click.echo(f"schema {name}: revision {found.after}, without functions and views")
    click.echo("Install the earlier version now, and run: queue migrate", err=True)


upgrade = copy(migrate.command)
upgrade.help = "Create or update the queue's tables, functions and views, as queue migrate does."
upgrade.epilog = """\b
Examples:
  queue schema upgrade --dsn postgresql://user@host/database
  queue -a shop.tasks:app schema upgrade   the app's database"""
command.add_command(upgrade, "upgrade")
