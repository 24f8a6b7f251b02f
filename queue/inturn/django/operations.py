"""Django's migrations as a way to ours: each brings the queue's schema to what the installed version works on."""

from typing import Any

from django.db import migrations

from inturn.django.configuration import configuration
from inturn.errors import SchemaMismatch
from inturn.operations.maintenance import check_schema
from inturn.schema import migrate


class Revision(migrations.RunPython):
    """Stands for the revision of this number; there is a Django migration for each, so that `migrate --check` sees it.

    On a connection of its own, outside of Django's transaction: in one with the queue's lock against concurrent deploys.
    """

    def __init__(self, number: str) -> None:
        super().__init__(_forwards, lambda apps, editor: _backwards(editor, number), elidable=False)
        self._number = number

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        return (type(self).__qualname__, [self._number], {})

    def describe(self) -> str:
        return f"The job queue's tables, revision {self._number}, and its functions"


def is_ours(connection: Any) -> bool:
    return bool(connection.alias == configuration().database)


def migrate_queue() -> None:
    from inturn.django import app

    try:
        app.connector.run(
            check_schema(app.connector.schema)
        )  # cheap: Django's tests come by here after each flush
    except SchemaMismatch:
        migrate.migrate(app.connector.dsn, app.connector.schema)


def _forwards(apps: Any, editor: Any) -> None:
    if is_ours(editor.connection):
        migrate_queue()


def _backwards(editor: Any, number: str) -> None:
    if is_ours(editor.connection):
        from inturn.django import app

        before = f"{int(number) - 1:04}" if int(number) > 1 else "base"
        migrate.downgrade(app.connector.dsn, before, app.connector.schema)
