"""The configuration of this Django app."""

from typing import TYPE_CHECKING, Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate, pre_save
from django.utils.module_loading import autodiscover_modules, import_string

if TYPE_CHECKING:
    from inturn.app import App


class InturnConfig(AppConfig):
    name = "inturn.django"
    label = "inturn"
    verbose_name = "Job queue"

    def ready(self) -> None:
        from inturn.django.configuration import configuration
        from inturn.django.reading import refuse_save

        for model in self.get_models():
            pre_save.connect(refuse_save, sender=model)
        settings = configuration()
        if settings.tasks:
            autodiscover_modules(settings.tasks)
        if settings.on_app_ready:
            import_string(settings.on_app_ready)(self.app)
        post_migrate.connect(bring_up_to_date, sender=self)

    @property
    def app(self) -> "App":
        """The project's app, the same as `inturn.django.app`."""
        from inturn.django import app

        return app


def bring_up_to_date(using: str, **_: Any) -> None:
    """Replace the functions and views, which can change in a release without a migration."""
    from django.db import connections

    from inturn.django.operations import is_migrated, is_ours, migrate_queue

    connection = connections[using]
    if is_ours(connection) and is_migrated(connection):
        migrate_queue()
