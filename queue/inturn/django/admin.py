"""Jobs, batches, lanes, workers and schedules in Django's admin.

A page costs the same however many rows there are.
It shows the newest rows by an index, counts only up to a limit, and never lists all locks or tasks.
Rows cannot be edited. The actions call the queue's functions, and need the permission to change.
"""

from datetime import timedelta
from functools import cached_property
from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode

from inturn.django import actions
from inturn.django.models import Batch, FinishedJob, Job, Lane, Schedule, Worker
from inturn.formatting import last_line, name_locks
from inturn.whole_numbers import read_id

MOST = 1000  # rows on all pages; search for older ones by id
NEWEST = 10_000  # jobs that a filter by status searches, and finished ones that a search covers
DAY = timedelta(days=1)
JOB_COLUMNS = ("id", "status", "task", "all_locks", "queue", "batch", "limit_key", "attempts")


class BoundedPaginator(Paginator):
    @cached_property
    def count(self) -> int:
        return int(self.object_list.order_by()[:MOST].count())


class ReadOnly(admin.ModelAdmin):
    paginator = BoundedPaginator
    show_full_result_count = False
    actions: Any = None
    list_per_page = 50
    list_max_show_all = 0

    def has_add_permission(self, *_: Any) -> bool:
        return False

    has_change_permission = has_delete_permission = has_add_permission

    def has_operate_permission(self, request: Any) -> bool:
        """Return True if the user may use the actions."""
        return bool(request.user.has_perm(f"inturn.change_{self.opts.model_name}"))

    def get_search_results(
        self, request: Any, queryset: "QuerySet[Any]", search_term: str
    ) -> tuple["QuerySet[Any]", bool]:
        """Search for exactly this text. Django's own search would compare each word of it."""
        term = search_term.strip()
        return (self.search(queryset, term) if term else queryset), False

    def search(self, queryset: "QuerySet[Any]", term: str) -> "QuerySet[Any]":
        return queryset.filter(**dict.fromkeys(self.search_fields, term))


class StatusFilter(admin.SimpleListFilter):
    """Filters only the newest jobs, because no index has the status that people see."""

    title = f"status (of the newest {NEWEST:,})"
    parameter_name = "status"

    def lookups(self, request: Any, page: Any) -> list[tuple[str, str]]:
        return list(page.model._meta.get_field("status").choices)

    def queryset(self, request: Any, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        if self.value() is None:
            return queryset
        if self.value() not in dict(self.lookup_choices):
            raise IncorrectLookupParameters  # which shows the page without filters
        return queryset.filter(id__in=newest(queryset.model), status=self.value())


def newest(model: Any) -> Any:
    return model.objects.order_by("-id").values("id")[:NEWEST]


class SearchPage(ReadOnly):
    """A page of rows with ids, newest first. You search for an id or a text."""

    ordering = ("-id",)
    search_fields = ("id",)  # Django shows the field if there are any

    def search(self, queryset: "QuerySet[Any]", term: str) -> "QuerySet[Any]":
        found = super().search(queryset, term) if read_id(term) is not None else queryset.none()
        return found if found.exists() else self.search_text(queryset, term)

    def search_text(self, queryset: "QuerySet[Any]", term: str) -> "QuerySet[Any]":
        """Return the rows with this text."""
        raise NotImplementedError


class JobPage(SearchPage):
    """The common part of the pages of live and of finished jobs."""

    search_help_text = "The id of a job, a lock, a queueing lock, a task, or a group"
    exclude = ("errors",)
    readonly_fields = ("failed_attempts",)

    def search_text(self, queryset: "QuerySet[Any]", term: str) -> "QuerySet[Any]":
        return queryset.filter(
            Q(lock=term)
            | Q(locks__contains=[term])
            | Q(task=term)
            | Q(queueing_lock=term)
            | Q(group_key=term)
        )

    @admin.display(description="locks")
    def all_locks(self, job: Any) -> str:
        return name_locks(job.lock, job.locks, job.shared)

    @admin.display(description="errors")
    def failed_attempts(self, job: Any) -> str:
        """Return the error of each failed attempt, with its lines."""
        told = [
            (each.get("attempt"), each.get("at"), each.get("worker"), each.get("error"))
            for each in job.errors or ()
        ]
        text: str = format_html_join("", "<p>attempt {}, {}, {}</p><pre>{}</pre>", told)
        return text

    @admin.display(description="batch")
    def batch(self, job: Any) -> str:
        return link_to("batch_id", job.batch_id)


@admin.register(Job)
class JobAdmin(JobPage):
    list_display = (
        *JOB_COLUMNS,
        *("group", "priority", "told", "scheduled_at", "expires_at", "started_at"),
    )
    list_filter = (StatusFilter,)
    actions = actions.make_actions(actions.RUN_NOW, actions.CANCEL, actions.ABORT)

    @admin.display(description="group")
    def group(self, job: Job) -> str:
        return link_to("group_key", job.group_key)

    @admin.display(description="progress")
    def told(self, job: Job) -> str:
        """Return its progress, as its task reported it."""
        if job.progress is None:
            return ""
        done, total, text = (job.progress[name] for name in ("done", "total", "text"))
        amount = f"{done}" if total is None else f"{done} of {total}"
        return f"{amount}: {text}" if text else amount


@admin.register(FinishedJob)
class FinishedJobAdmin(JobPage):
    # Without a link to the group's jobs, which no index finds in the history.
    list_display = (*JOB_COLUMNS, "group_key", "started_at", "finished_at", "outcome")
    list_filter = (StatusFilter,)
    search_help_text = (
        "The id of a job, or a lock, a queueing lock, a task or a group of the newest "
        f"{NEWEST:,} jobs"
    )
    actions = actions.make_actions(actions.RETRY)

    def search_text(self, queryset: "QuerySet[Any]", term: str) -> "QuerySet[Any]":
        return super().search_text(queryset.filter(id__in=newest(FinishedJob)), term)

    @admin.display(description="result or error")
    def outcome(self, job: FinishedJob) -> str:
        """Return the last line of the error, or the result, if they are short."""
        if job.status == "succeeded":
            text = "" if job.result is None else str(job.result)
        else:
            text = last_error(job)
        return shorten(text)


def link_to(column: str, value: object) -> str:
    """Return a link to the rows of the same page with this value, or "" for None."""
    if value is None:
        return ""
    link: str = format_html('<a href="?{}">{}</a>', urlencode({column: value}), value)
    return link


def last_error(job: FinishedJob) -> str:
    return last_line(job.errors[-1].get("error")) if job.errors else ""


def shorten(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:79]}…"


@admin.register(Batch)
class BatchAdmin(SearchPage):
    list_display = (
        "id",
        "name",
        "state",
        "total",
        "remaining",
        "succeeded",
        "failed",
        "cancelled",
        "aborted",
        "opened_at",
        "closed_at",
        "callback_id",
        "jobs",
    )
    search_help_text = f"The id of a batch, or the name of one of the newest {NEWEST:,}"
    actions = actions.make_actions(actions.CLOSE_BATCH, actions.CANCEL_BATCH)

    def search_text(self, queryset: "QuerySet[Any]", term: str) -> "QuerySet[Any]":
        return queryset.filter(id__in=newest(Batch), name=term)

    @admin.display(description="jobs")
    def jobs(self, batch: Batch) -> str:
        """Return links to its live and its ended jobs."""
        link = '<a href="../{}/?batch_id={}">{}</a>'
        pages = (("job", "live"), ("finishedjob", "ended"))
        links: str = format_html_join(", ", link, [(page, batch.pk, name) for page, name in pages])
        return links


@admin.register(Lane)
class LaneAdmin(ReadOnly):
    list_display = (
        "lock",
        "state",
        "readers",
        "since",
        "stopped_until",
        "stopped_by",
        "stop_reason",
        "failed",
        "error",
    )
    list_filter = ("state",)
    ordering = ("lock",)
    search_fields = ("lock",)
    search_help_text = "A lock"
    actions = actions.make_actions(actions.PAUSE, actions.RESUME, actions.RETRY_HEAD)

    @admin.display(description="failed job", ordering="failed_job_id")
    def failed(self, lane: Lane) -> str:
        """Return the job that has halted the lane, with a link to it."""
        if lane.failed_job_id is None:
            return ""
        link = '<a href="../finishedjob/{0}/change/">{0}</a>'
        text: str = format_html(link, lane.failed_job_id)
        return text

    @admin.display(description="error")
    def error(self, lane: Lane) -> str:
        """Return the last line of the error that halted the lane. One query for a halted lane."""
        if lane.failed_job_id is None or lane.stopped_at is None:
            return ""
        # The time keeps this from reading every day of the history.
        around = (lane.stopped_at - DAY, lane.stopped_at + DAY)
        found = FinishedJob.objects.filter(id=lane.failed_job_id, finished_at__range=around)
        failed = found.order_by("-finished_at").first()
        return "" if failed is None else shorten(last_error(failed))


@admin.register(Worker)
class WorkerAdmin(ReadOnly):
    list_display = (
        "name",
        "state",
        "hostname",
        "pid",
        "claimed",
        "doing",
        "concurrency",
        "served",
        "started_at",
        "heartbeat_at",
    )
    ordering = ("name", "started_at")

    @admin.display(description="queues")
    def served(self, worker: Worker) -> str:
        return "all" if worker.queues is None else ", ".join(worker.queues)


@admin.register(Schedule)
class ScheduleAdmin(ReadOnly):
    list_display = ("task", "periodic_id", "cron", "tz", "since", "last_instant", "last_job_id")
    list_display_links = None  # several schedules may have the same task, which is the key here
    ordering = ("task", "periodic_id")
    search_fields = ("task",)
    search_help_text = "A task"

    def get_object(self, *_: Any, **__: Any) -> None:
        """Return None: a single schedule has no page."""
