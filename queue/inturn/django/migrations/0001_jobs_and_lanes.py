"""The queue's revision 0001, and the models that read it. Each revision has such a migration."""

from django.db import migrations, models

from inturn.django.models import table
from inturn.django.operations import Revision


class Migration(migrations.Migration):
    initial = True
    atomic = False  # the queue's migrations use their own transaction
    operations = [
        Revision("0001"),
        # Keys are enough: of unmanaged models, Django compares the options but not the fields.
        migrations.CreateModel(
            name="Job",
            fields=[("id", models.BigIntegerField(primary_key=True))],
            options={"db_table": table("live_jobs"), "managed": False, "verbose_name": "live job"},
        ),
        migrations.CreateModel(
            name="FinishedJob",
            fields=[("id", models.BigIntegerField(primary_key=True))],
            options={
                "db_table": table("finished_jobs"),
                "managed": False,
                "verbose_name": "finished job",
            },
        ),
        migrations.CreateModel(
            name="Lane",
            fields=[("lock", models.TextField(primary_key=True))],
            options={"db_table": table("lanes"), "managed": False},
        ),
        migrations.CreateModel(
            name="AnyJob",
            fields=[("id", models.BigIntegerField(primary_key=True))],
            options={"db_table": table("all_jobs"), "managed": False, "verbose_name": "job"},
        ),
        migrations.CreateModel(
            name="Batch",
            fields=[("id", models.BigIntegerField(primary_key=True))],
            options={
                "db_table": table("batch_status"),
                "managed": False,
                "verbose_name_plural": "batches",
            },
        ),
        migrations.CreateModel(
            name="Worker",
            fields=[("id", models.UUIDField(primary_key=True))],
            options={"db_table": table("worker_status"), "managed": False},
        ),
        migrations.CreateModel(
            name="Schedule",
            fields=[("task", models.TextField(primary_key=True))],
            options={"db_table": table("schedules"), "managed": False},
        ),
    ]
