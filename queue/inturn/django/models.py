"""Models to read the queue's tables and views with Django's ORM.

Only the queue itself changes them. The models refuse to write.
"""

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models

from inturn.django.configuration import configuration
from inturn.django.reading import ReadOnlyModelBase, ReadOnlyQuerySet
from inturn.states import ENDED, LIVE


def table(name: str) -> str:
    return f'"{configuration().schema}"."{name}"'  # Django leaves a quoted name as it is


def choices(*statuses: str) -> list[tuple[str, str]]:
    return [(status, status) for status in statuses]


RETRY = "app.job_manager.retry_job_by_id(job_id)"


class Names(ArrayField):
    """Names in an array, which can be read without `django.contrib.postgres` being installed."""

    def check(self, **kwargs: Any) -> list[Any]:
        return [found for found in super().check(**kwargs) if found.id != "postgres.E005"]


class JobFields(ReadOnlyModelBase):
    id = models.BigIntegerField(primary_key=True)
    queue = models.TextField()
    task = models.TextField()
    lock = models.TextField(null=True)
    queueing_lock = models.TextField(null=True)
    priority = models.IntegerField()
    attempts = models.IntegerField()
    args = models.JSONField()
    errors = models.JSONField()
    timeout = models.DurationField(null=True)
    expires_at = models.DateTimeField(null=True)
    fence = models.BigIntegerField(null=True)
    worker_id = models.UUIDField(null=True)
    created_at = models.DateTimeField()
    scheduled_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    limit_key = models.TextField(null=True)
    group_key = models.TextField(null=True)
    batch_id = models.BigIntegerField(null=True)
    # All locks of a job that has several, or shares one. None for all other jobs.
    locks: "models.Field[Any, list[str] | None]" = Names(models.TextField(), null=True)
    shared: "models.Field[Any, list[str] | None]" = Names(models.TextField(), null=True)
    headers = models.JSONField(null=True)

    instead = {
        "create": "task.defer(…)",
        "update": f"{RETRY} or app.job_manager.cancel_job_by_id(job_id)",
        "delete": "app.job_manager.cancel_job_by_id(job_id, delete_job=True)",
    }

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.id} {self.task}"


class Job(JobFields):
    """A job that has not ended. Its row disappears when it ends."""

    status = models.TextField(choices=choices(*LIVE))
    abort_requested = models.BooleanField(db_column="abort")
    progress = models.JSONField(null=True)

    class Meta:
        managed = False
        db_table = table("live_jobs")
        verbose_name = "live job"


class FinishedJob(JobFields):
    """A job that has ended, as long as the history keeps it."""

    status = models.TextField(choices=choices(*ENDED))
    finished_at = models.DateTimeField()
    result = models.JSONField(null=True)

    instead = {
        "update": RETRY,
        "delete": "app.job_manager.delete_old_jobs(nb_hours)",
    }

    class Meta:
        managed = False
        db_table = table("finished_jobs")
        verbose_name = "finished job"


class AnyJob(JobFields):
    """A job, live or finished. A foreign key to a job belongs here.

        job = models.ForeignKey(
            "inturn.AnyJob", null=True, on_delete=models.DO_NOTHING, db_constraint=False
        )

    The history does not keep a job for ever, so the job of a key may be gone.
    """

    status = models.TextField(choices=choices(*LIVE, *ENDED))
    finished_at = models.DateTimeField(null=True)
    result = models.JSONField(null=True)
    progress = models.JSONField(null=True)

    class Meta:
        managed = False
        db_table = table("all_jobs")
        verbose_name = "job"


class Batch(ReadOnlyModelBase):
    """Jobs that are counted together, and how many of them have ended."""

    id = models.BigIntegerField(primary_key=True)
    name = models.TextField()
    state = models.TextField(choices=choices("open", "closed", "ended"))
    total = models.BigIntegerField()
    remaining = models.BigIntegerField()
    succeeded = models.BigIntegerField()
    failed = models.BigIntegerField()
    cancelled = models.BigIntegerField()
    aborted = models.BigIntegerField()
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    callback_id = models.BigIntegerField(null=True)

    instead = {
        "create": "app.batch(name)",
        "update": "app.batches.close(batch)",
        "delete": "app.batches.cancel(batch)",
    }

    class Meta:
        managed = False
        db_table = table("batch_status")
        verbose_name_plural = "batches"

    def __str__(self) -> str:
        return f"{self.id} {self.name}"


class LanesInUse(models.Manager.from_queryset(ReadOnlyQuerySet)):  # type: ignore[misc]
    """Lanes whose row says something: that of a free lane may stay for a while."""

    def get_queryset(self) -> Any:
        return super().get_queryset().filter(state__isnull=False)


class Lane(ReadOnlyModelBase):
    """A lane that is held, retrying, delayed, paused or halted."""

    lock = models.TextField(primary_key=True)
    state = models.TextField(choices=choices("held", "retrying", "paused", "halted", "delayed"))
    since = models.DateTimeField()
    stopped_at = models.DateTimeField(null=True)
    stopped_until = models.DateTimeField(null=True)
    stopped_by = models.TextField(null=True)
    stop_reason = models.TextField(null=True)
    failed_job_id = models.BigIntegerField(null=True)
    readers = models.IntegerField(null=True)  # how many jobs share it

    instead = {
        "create": "app.lanes.pause(lock)",
        "update": "app.lanes.pause(lock) or app.lanes.resume(lock)",
        "delete": "app.lanes.resume(lock)",
    }

    objects = LanesInUse()

    class Meta:
        managed = False
        db_table = table("lanes")

    def __str__(self) -> str:
        return str(self.lock)


class Worker(ReadOnlyModelBase):
    """A worker process that has registered."""

    id = models.UUIDField(primary_key=True)
    name = models.TextField()
    hostname = models.TextField()
    pid = models.IntegerField()
    state = models.TextField(choices=choices("live", "stopping", "blocked", "late"))
    claimed = models.IntegerField()  # jobs that wait for a slot of it
    doing = models.IntegerField()
    concurrency = models.IntegerField()
    # queues: None means all
    queues: "models.Field[Any, list[str] | None]" = Names(models.TextField(), null=True)
    tasks: "models.Field[Any, list[str] | None]" = Names(models.TextField(), null=True)
    started_at = models.DateTimeField()
    heartbeat_at = models.DateTimeField()
    clock_ahead = models.DurationField(null=True)  # of the server's, at its start

    class Meta:
        managed = False
        db_table = table("worker_status")

    def __str__(self) -> str:
        return str(self.name)


class Schedule(ReadOnlyModelBase):
    """A schedule of a periodic task, as workers have registered it.

    Its key is the task together with the `periodic_id`, which Django before 5.2 cannot express.
    """

    task = models.TextField(primary_key=True)
    periodic_id = models.TextField()
    cron = models.TextField()
    tz = models.TextField()
    since = models.DateTimeField()
    last_instant = models.DateTimeField(null=True)
    last_job_id = models.BigIntegerField(null=True)

    instead = {"create": "@app.periodic(cron=…)", "update": "@app.periodic(cron=…)"}

    class Meta:
        managed = False
        db_table = table("schedules")

    def __str__(self) -> str:
        return f"{self.task} {self.periodic_id}".strip()
