"""Run the queue's migrations from Django's. Each brings the schema to the installed version."""

from typing import Any

from django.db import migrations
from django.db.migrations.recorder import MigrationRecorder

from inturn.django.configuration import configuration
from inturn.errors import SchemaMismatch
from inturn.operations.engine.maintenance import check_schema
from inturn.schema import migrate


class Revision(migrations.RunPython):
    """The operation of a Django migration that stands for one revision of the queue.

    Each revision has a Django migration, so that `migrate --check` sees it.
    The operation uses its own connection and transaction, which hold the queue's lock against
    concurrent deploys.
    """

    def __init__(self, number: str) -> None:
        super().__init__(_upgrade, lambda apps, editor: _downgrade(editor, number), elidable=False)
        self._number = number

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        return (type(self).__qualname__, [self._number], {})

    def describe(self) -> str:
        return f"The job queue's tables, revision {self._number}, and its functions"


def is_ours(connection: Any) -> bool:
    return bool(connection.alias == configuration().database)


def is_migrated(connection: Any) -> bool:
    """Return True if this database has the queue's tables."""
    applied = MigrationRecorder(connection).applied_migrations()
    return any(app == "inturn" for app, _ in applied)


def migrate_queue() -> None:
    from inturn.django import app

    try:
        # This is cheap, because Django's tests call it after each flush.
        app.connector.run(check_schema(app.connector.schema))
    except SchemaMismatch:
        migrate.migrate(app.connector.dsn, app.connector.schema)
        migrate.prepare_history(app.connector.dsn, app.connector.schema)


def _upgrade(apps: Any, editor: Any) -> None:
    if is_ours(editor.connection):
        migrate_queue()


def _downgrade(editor: Any, number: str) -> None:
    if is_ours(editor.connection):
        from inturn.django import app

        before = f"{int(number) - 1:04}" if int(number) > 1 else "base"
        migrate.downgrade(app.connector.dsn, before, app.connector.schema)
