"""`queue healthchecks`: check the app, the connection and the schema."""

from contextlib import closing

import click

from inturn.cli.settings import Settings, database_options, find_app
from inturn.formatting import amount


@click.command(
    "healthchecks",
    epilog="""\b
Example, as the health check of a container:
  queue -a shop.tasks:app healthchecks""",
)
@database_options
def command(settings: Settings) -> None:
    """Check the app's import, connection and schema.

    Exits with status 2 if the app cannot be imported, 69 if the database cannot be reached, and
    11 if the schema does not fit this version. To check the queue itself, run
    `queue doctor`. To check that a worker is alive, run
    `queue workers list --name NAME --max-age 90s`.
    """
    app = find_app(settings)
    if settings.app_path() is None:
        click.echo("app: not checked, no app named (-a package.module:app)")
    else:
        click.echo(f"app: ok, {amount(len(app.tasks), 'task name')}")
    from inturn import sql
    from inturn.operations.engine.maintenance import check_schema

    for home in app.connector.homes:
        with closing(home.connect()) as connection:
            click.echo("connection: ok")
            home.run(check_schema(home.schema), connection)
        click.echo(f"schema {home.schema}: ok, revision {sql.revision()}")
