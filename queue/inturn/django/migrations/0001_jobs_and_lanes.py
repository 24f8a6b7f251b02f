"""The queue's own revision 0001, and the models that read it. A revision to come gets a migration of its number."""

from django.db import migrations, models

from inturn.django.models import ENDED, LIVE, choices, table
from inturn.django.operations import Revision


def any_job() -> list[tuple[str, models.Field]]:
    return [
        ("id", models.BigIntegerField(primary_key=True, serialize=False)),
        ("queue", models.TextField()),
        ("task", models.TextField()),
        ("lock", models.TextField(null=True)),
        ("priority", models.IntegerField()),
        ("attempts", models.IntegerField()),
        ("args", models.JSONField()),
        ("errors", models.JSONField()),
        ("created_at", models.DateTimeField()),
        ("scheduled_at", models.DateTimeField(null=True)),
        ("started_at", models.DateTimeField(null=True)),
    ]


class Migration(migrations.Migration):
    initial = True
    atomic = False  # the queue's migrations have a transaction of their own
    operations = [
        Revision("0001"),
        migrations.CreateModel(
            name="Job",
            fields=[*any_job(), ("status", models.TextField(choices=choices(*LIVE)))],
            options={"db_table": table("jobs"), "managed": False, "verbose_name": "live job"},
        ),
        migrations.CreateModel(
            name="FinishedJob",
            fields=[
                *any_job(),
                ("status", models.TextField(choices=choices(*ENDED))),
                ("finished_at", models.DateTimeField()),
            ],
            options={"db_table": table("finished_jobs"), "managed": False, "verbose_name": "finished job"},
        ),
        migrations.CreateModel(
            name="Lane",
            fields=[
                ("lock", models.TextField(primary_key=True, serialize=False)),
                ("state", models.TextField(choices=choices("held", "retrying", "paused", "halted"))),
                ("since", models.DateTimeField()),
                ("stopped_at", models.DateTimeField(null=True)),
                ("stopped_until", models.DateTimeField(null=True)),
                ("stopped_by", models.TextField(null=True)),
                ("stop_reason", models.TextField(null=True)),
                ("failed_job_id", models.BigIntegerField(null=True)),
            ],
            options={"db_table": table("lanes"), "managed": False},
        ),
    ]
