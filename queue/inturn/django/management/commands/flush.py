"""`manage.py flush`, which empties the job queue too.

Django flushes managed models only. Its TransactionTestCase calls this command after each test, and
without it the jobs of one test would wait in the next.
"""

from typing import Any

from django.apps import apps
from django.core.management.commands import flush
from django.db import connections
from django.db.models.signals import post_migrate

from inturn.django.operations import is_migrated, is_ours
from inturn.operations import Operation, Statement

# Workers stay: a live one would stop if its row vanished.
EMPTY = """
WITH jobs AS (DELETE FROM {schema}.jobs), lanes AS (DELETE FROM {schema}.lanes),
    finished AS (DELETE FROM {schema}.finished_jobs), audit AS (DELETE FROM {schema}.lane_audit),
    schedules AS (DELETE FROM {schema}.schedules), fences AS (DELETE FROM {schema}.fences_seen),
    progress AS (DELETE FROM {schema}.progress), rollups AS (DELETE FROM {schema}.rollups),
    uncounted AS (DELETE FROM {schema}.uncounted_ends)
SELECT
"""


class Command(flush.Command):
    def handle(self, **options: Any) -> None:
        connection = connections[options["database"]]
        confirmed = not options["interactive"]

        def note(using: str, **_: Any) -> None:
            nonlocal confirmed
            confirmed = True

        # Django does not tell us what the person answered, but it sends this signal after a yes.
        post_migrate.connect(note, sender=apps.get_app_config("inturn"))
        try:
            super().handle(**options)
        finally:
            post_migrate.disconnect(note, sender=apps.get_app_config("inturn"))
        if confirmed and is_ours(connection) and is_migrated(connection):
            from inturn.django import app

            app.connector.run(_empty_queue())


def _empty_queue() -> Operation[None]:
    yield Statement(EMPTY)
