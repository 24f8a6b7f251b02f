"""Can the app be imported, the database be reached, and do they fit each other?"""

from contextlib import closing

import click

from inturn.cli.settings import (
    Settings,
    app_option,
    dsn_option,
    find_connector,
    load_app,
    pass_settings,
    schema_option,
    verbose_option,
)


@click.command(
    "healthchecks",
    epilog="""\b
Example, as the health check of a container:
  queue -a shop.tasks:app healthchecks""",
)
@app_option
@dsn_option
@schema_option
@verbose_option
@pass_settings
def command(settings: Settings, dsn: str | None, schema: str | None) -> None:
    """Say whether the app can work: its import, its connection, its schema.

    Exits with 2 if the app cannot be imported, with 69 if the database cannot be reached, with 11 if its schema is not of this
    version. How the queue is doing says `queue doctor`.
    """
    path = settings.app_path()
    if path is None:
        connector = find_connector(settings, dsn, schema)
        click.echo("app: none is named, so it is not checked (-a package.module:app)")
    else:
        app = load_app(path, dsn, schema)
        connector = app.connector
        click.echo(f"app: ok, {len(app.tasks)} names of tasks")
    from inturn import sql
    from inturn.database import drive
    from inturn.operations.maintenance import check_schema

    with closing(connector.connect()) as connection:
        click.echo("connection: ok")
        drive.run(check_schema(connector.schema), connection, connector.schema)
    click.echo(f"schema {connector.schema}: ok, revision {sql.revision()}")
