"""Who may do what with the queue in the database: roles for it, and their rights."""

from __future__ import annotations

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
from inturn.errors import BadArgument

ROLE_BYTES = 63  # PostgreSQL cuts longer names off without an error
LONGEST = len("_producer")


@click.command(
    "grants",
    epilog="""\b
Examples:
  queue schema grants > grants.sql      to read, and for psql
  queue schema grants --apply --producer web --worker jobs --operator alice
  queue schema grants --apply --owner deploy      deploy may run queue migrate from now on

The roles are NAME_owner, NAME_producer, NAME_worker, NAME_operator and NAME_monitor. docs/security.md says what each may do.""",
)
@click.option(
    "--apply",
    is_flag=True,
    help="Do it, instead of printing the SQL. What is there already stays as it is.",
)
@click.option(
    "--prefix",
    metavar="NAME",
    help="What the names of the roles begin with.  [default: the schema's name]",
)
@click.option(
    "--owner",
    metavar="LOGIN",
    multiple=True,
    help="A login that may migrate. Can be repeated, as all of these.",
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
    help="A login that may see all but arguments, errors and results.",
)
@dsn_option
@schema_option
@app_option
@verbose_option
@pass_settings
def command(
    settings: Settings,
    /,
    dsn: str | None,
    schema: str | None,
    apply: bool,
    prefix: str | None,
    **members: tuple[str, ...],
) -> None:
    """Give producers, workers, operators and monitors a role each.

    Prints SQL for a superuser, or for the owner of the schema who may create roles. Needs no database, unless you say --apply.
    After that `queue migrate` keeps the rights up to date.
    """
    from inturn import sql

    name = find_connector(settings, dsn, schema).schema if settings.app else schema or sql.SCHEMA
    _check(prefix or name)
    if not apply:
        click.echo(sql.grants(name, prefix, members), nl=False)
        return

    where = find_connector(
        settings, dsn, schema
    ).dsn  # an unusable address is reported before the slow import
    from inturn.schema.migrate import grant

    grant(where, name, prefix, members)
    click.echo(
        f"schema {name}: owned by {prefix or name}_owner, and closed to all but the {prefix or name}_… roles"
    )


def _check(prefix: str) -> None:
    size = len(prefix.encode())
    if size > ROLE_BYTES - LONGEST:
        raise BadArgument(
            "prefix", f"{size} bytes, at most {ROLE_BYTES - LONGEST}: the names of roles end there"
        )
