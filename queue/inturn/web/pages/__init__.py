"""The pages: the map of the site, and a module for each subject."""

from functools import partial

from inturn.web.page import Page
from inturn.web.pages import (
    batches,
    bulk,
    bulk_run,
    errors,
    job,
    jobs,
    lane,
    lanes,
    limits,
    overview,
    queues,
    schedules,
    system,
    tasks,
    workers,
)

PAGES = (
    Page("/", "overview", "overview.html", overview.read, "Overview"),
    Page("/lanes", "lanes", "lanes.html", lanes.read, "Lanes"),
    Page("/lane", "lanes", "lane.html", lane.read, "Lane"),
    Page("/jobs", "jobs", "jobs.html", jobs.read, "Jobs"),
    Page("/jobs/{job_id}", "jobs", "job.html", job.read, "Job"),
    Page("/errors", "errors", "errors.html", errors.read, "Errors"),
    Page("/bulk", "jobs", "bulk.html", bulk.read_jobs, "Change jobs"),
    Page("/bulk/lanes", "lanes", "bulk.html", bulk.read_lanes, "Change lanes"),
    Page("/bulk/run", "jobs", "bulk_run.html", partial(bulk_run.read, "job"), "Change of jobs"),
    Page(
        "/bulk/lanes/run",
        "lanes",
        "bulk_run.html",
        partial(bulk_run.read, "lane"),
        "Change of lanes",
    ),
    Page("/queues", "queues", "queues.html", queues.read, "Queues"),
    Page("/queue", "queues", "queue.html", queues.read_one, "Queue"),
    Page("/tasks", "tasks", "tasks.html", tasks.read, "Tasks"),
    Page("/task", "tasks", "task.html", tasks.read_one, "Task"),
    Page("/workers", "workers", "workers.html", workers.read, "Workers"),
    Page("/schedules", "schedules", "schedules.html", schedules.read, "Schedules"),
    Page("/batches", "batches", "batches.html", batches.read, "Batches"),
    Page("/batch", "batches", "batch.html", batches.read_one, "Batch"),
    Page("/limits", "limits", "limits.html", limits.read, "Limits"),
    Page("/system", "system", "system.html", system.read, "System"),
    Page("/system/checks", "system", "checks.html", system.read_checks, "All checks"),
    Page("/system/changes", "system", "changes.html", system.read_changes, "Audit"),
)
