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
WITH audit AS (DELETE FROM {schema}.lane_audit), batches AS (DELETE FROM {schema}.batches),
    batch_events AS (DELETE FROM {schema}.batch_events),
    batch_gates AS (DELETE FROM {schema}.batch_gates), edges AS (DELETE FROM {schema}.edges),
    ends AS (DELETE FROM {schema}.ends), fences AS (DELETE FROM {schema}.fences_seen),
    finished AS (DELETE FROM {schema}.finished_jobs), gates AS (DELETE FROM {schema}.gates),
    gate_looks AS (DELETE FROM {schema}.gate_looks), groups AS (DELETE FROM {schema}.groups),
    jobs AS (DELETE FROM {schema}.jobs), lanes AS (DELETE FROM {schema}.lanes),
    limits AS (DELETE FROM {schema}.limits), pauses AS (DELETE FROM {schema}.pauses),
    progress AS (DELETE FROM {schema}.progress), rollups AS (DELETE FROM {schema}.rollups),
    rollup_days AS (DELETE FROM {schema}.rollup_days),
    schedules AS (DELETE FROM {schema}.schedules),
    uncounted AS (DELETE FROM {schema}.uncounted_ends), waits AS (DELETE FROM {schema}.waits)
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
