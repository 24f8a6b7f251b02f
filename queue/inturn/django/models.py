"""Models to read the queue's tables with Django's ORM. Only the queue itself changes them."""

from django.db import models

from inturn.django.configuration import configuration
from inturn.model import Status


def table(name: str) -> str:
    return f'"{configuration().schema}"."{name}"'  # Django leaves a quoted name as it is


def choices(*statuses: str) -> list[tuple[str, str]]:
    return [(status, status) for status in statuses]


LIVE = [status.value for status in (Status.TODO, Status.BLOCKED, Status.SCHEDULED, Status.DOING)]
ENDED = [
    status.value for status in (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.ABORTED)
]


class AnyJob(models.Model):
    id = models.BigIntegerField(primary_key=True)
    queue = models.TextField()
    task = models.TextField()
    lock = models.TextField(null=True)
    priority = models.IntegerField()
    attempts = models.IntegerField()
    args = models.JSONField()
    errors = models.JSONField()
    created_at = models.DateTimeField()
    scheduled_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.id} {self.task}"


class Job(AnyJob):
    """A job that has not ended."""

    status = models.TextField(choices=choices(*LIVE))

    class Meta:
        managed = False
        db_table = table("jobs")
        verbose_name = "live job"


class FinishedJob(AnyJob):
    status = models.TextField(choices=choices(*ENDED))
    finished_at = models.DateTimeField()

    class Meta:
        managed = False
        db_table = table("finished_jobs")
        verbose_name = "finished job"


class Lane(models.Model):
    """A lane that is held, retrying, delayed, paused or halted."""

    lock = models.TextField(primary_key=True)
    state = models.TextField(choices=choices("held", "retrying", "paused", "halted", "delayed"))
    since = models.DateTimeField()
    stopped_at = models.DateTimeField(null=True)
    stopped_until = models.DateTimeField(null=True)
    stopped_by = models.TextField(null=True)
    stop_reason = models.TextField(null=True)
    failed_job_id = models.BigIntegerField(null=True)

    class Meta:
        managed = False
        db_table = table("lanes")

    def __str__(self) -> str:
        return str(self.lock)
