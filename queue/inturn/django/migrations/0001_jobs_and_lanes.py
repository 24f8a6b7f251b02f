"""The queue's revision 0001, and the models that read it. Each revision has such a migration."""

from typing import Any

from django.db import migrations, models

from inturn.django.models import table
from inturn.django.operations import Revision

KEY = ("id", models.BigIntegerField(primary_key=True))


def read(name: str, view: str, key: tuple[str, models.Field] = KEY, **options: str) -> Any:
    """Return the operation for a model that reads a table or view of the queue.

    Its key is enough: of unmanaged models, Django compares the options but not the fields.
    """
    stored: dict[str, Any] = {"db_table": table(view), "managed": False, **options}
    return migrations.CreateModel(name=name, fields=[key], options=stored)


class Migration(migrations.Migration):
    initial = True
    atomic = False  # the queue's migrations use their own transaction
    operations = [
        Revision("0001"),
        read("Job", "live_jobs", verbose_name="live job"),
        read("FinishedJob", "finished_jobs", verbose_name="finished job"),
        read("Lane", "lanes", ("lock", models.TextField(primary_key=True))),
        read("AnyJob", "all_jobs", verbose_name="job"),
        read("Batch", "batch_status", verbose_name_plural="batches"),
        read("Worker", "worker_status", ("id", models.UUIDField(primary_key=True))),
        read("Schedule", "schedules", ("task", models.TextField(primary_key=True))),
    ]
