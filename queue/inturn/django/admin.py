"""Jobs and lanes in Django's admin, read-only.

A page costs the same however many rows there are.
It shows the newest rows by an index, counts only up to a limit, and never lists all locks or tasks.
"""

from functools import cached_property
from typing import Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import QuerySet

from inturn.django.models import ENDED, FinishedJob, Job, Lane

MOST = 1000  # rows that you can page through; search for older ones by their id
NEWEST = 10_000  # finished jobs that a filter looks at


class BoundedPaginator(Paginator):
    @cached_property
    def count(self) -> int:
        rows: int = self.object_list.order_by()[:MOST].count()
        return rows


class ReadOnly(admin.ModelAdmin):
    paginator = BoundedPaginator
    show_full_result_count = False
    actions = None
    list_per_page = 50
    list_max_show_all = 0

    def has_add_permission(self, *_: Any) -> bool:
        return False

    def has_change_permission(self, *_: Any) -> bool:
        return False

    def has_delete_permission(self, *_: Any) -> bool:
        return False


class StatusFilter(admin.SimpleListFilter):
    """Filters only the newest jobs, because the history has no index by status."""

    title = f"status (of the newest {NEWEST:,})"
    parameter_name = "status"

    def lookups(self, *_: Any) -> list[tuple[str, str]]:
        return [(status, status) for status in ENDED]

    def queryset(self, request: Any, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        if self.value() is None:
            return queryset
        newest = FinishedJob.objects.order_by("-id").values("id")[:NEWEST]
        return queryset.filter(id__in=newest, status=self.value())


@admin.register(Job)
class JobAdmin(ReadOnly):
    list_display = (
        "id",
        "status",
        "task",
        "lock",
        "queue",
        "priority",
        "attempts",
        "scheduled_at",
        "started_at",
    )
    list_filter = ("status",)
    ordering = ("-id",)
    search_fields = ("=id", "=lock")
    search_help_text = "The id of a job, or a lock"


@admin.register(FinishedJob)
class FinishedJobAdmin(ReadOnly):
    list_display = (
        "id",
        "status",
        "task",
        "lock",
        "queue",
        "attempts",
        "started_at",
        "finished_at",
    )
    list_filter = (StatusFilter,)
    ordering = ("-id",)
    search_fields = ("=id",)
    search_help_text = "The id of a job"


@admin.register(Lane)
class LaneAdmin(ReadOnly):
    list_display = ("lock", "state", "since", "stopped_until", "stopped_by", "stop_reason")
    list_filter = ("state",)
    ordering = ("lock",)
    search_fields = ("=lock",)
    search_help_text = "A lock"
