"""The configuration of this Django app."""

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules


class InturnConfig(AppConfig):
    name = "inturn.django"
    label = "inturn"
    verbose_name = "Job queue"

    def ready(self) -> None:
        from inturn.django.configuration import configuration

        autodiscover_modules(configuration().tasks)
        post_migrate.connect(bring_up_to_date, sender=self)


def bring_up_to_date(using: str, **_: Any) -> None:
    """Replace the functions and views, which can change in a release without a migration."""
    from django.db import connections
    from django.db.migrations.recorder import MigrationRecorder

    from inturn.django.operations import is_ours, migrate_queue

    connection = connections[using]
    if is_ours(connection) and any(
        app == "inturn" for app, _ in MigrationRecorder(connection).applied_migrations()
    ):
        migrate_queue()
