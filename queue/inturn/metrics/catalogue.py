"""Every metric, with its labels and what it means. docs/metrics.md is generated from this.

No label is an id, a lock, a worker or a host: there would be no end of series.
"""

from typing import NamedTuple


class Metric(NamedTuple):
    """A metric. A counter's name ends with `_total`, and only a histogram has buckets."""

    name: str
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def kind(self) -> str:
        """Its kind, as Prometheus names it."""
        if self.buckets:
            return "histogram"
        return "counter" if self.name.endswith("_total") else "gauge"

    @property
    def help(self) -> str:
        """The meaning as plain text."""
        return self.meaning.replace("`", "")


SHORT_TO_HOUR = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0,
)  # fmt: skip
WAIT = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 21600.0)
CALL = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)
MOST_QUEUES = 100  # queues with a separate series
OTHER, ALL = "_other", "_all"
ALL_QUEUES = "*"  # stands for all queues together; no queue can have this name

PROCESS = (
    Metric(
        "inturn_jobs_enqueued_total",
        "Jobs that this process has deferred, even if your transaction was rolled back later. "
        "`result` is `new`, or `waiting` if a job with its queueing lock was already waiting",
        ("queue", "task", "result"),
    ),
    Metric("inturn_jobs_started_total", "Started attempts", ("queue", "task")),
    Metric(
        "inturn_jobs_finished_total",
        "Ended attempts. `outcome` is `succeeded`, `failed` (for good), `retried`, "
        "`snoozed`, `cancelled` (its resource was busy), `aborted`, `lost` (another worker had "
        "taken over the job) or `unclear` (the database went away before confirming)",
        ("queue", "task", "outcome"),
    ),
    Metric(
        "inturn_job_run_seconds",
        "How long attempts ran, however they ended",
        ("queue", "task"),
        SHORT_TO_HOUR,
    ),
    Metric(
        "inturn_job_lateness_seconds", "How long after its due time a job started", ("queue",), WAIT
    ),
    Metric(
        "inturn_job_wait_seconds",
        "The same in parts, which add up. Each start counts once as `lane` or `claim`, and once as "
        "`slot`",
        ("queue", "cause"),
        WAIT,
    ),
    Metric("inturn_worker_slots", "How many jobs the worker can run at once"),
    Metric("inturn_worker_slots_busy", "How many jobs it is running"),
    Metric(
        "inturn_fetch_seconds",
        "How long claims took. `outcome` is `jobs`, `empty` or `error`",
        ("outcome",),
        CALL,
    ),
    Metric(
        "inturn_last_fetch_timestamp_seconds",
        "Unix time of the last claim's reply; 0 before the first",
    ),
    Metric(
        "inturn_listen_connected",
        "1 if notifications wake the worker, 0 if it cannot listen and only polls. "
        "No series: listening is off",
    ),
    Metric(
        "inturn_wakeups_total",
        "What made the worker look for jobs. `source` is `notify`, `poll` (its own timer: "
        "a scheduled job is due, or the poll interval has passed) or `local`",
        ("source",),
    ),
    Metric("inturn_heartbeat_failures_total", "Heartbeats that could not be stored"),
    Metric(
        "inturn_fencing_rejections_total",
        "Refused ends of attempts, because another worker had taken over the job",
    ),
    Metric("inturn_db_pool_size", "Connections in the pool for tasks"),
    Metric("inturn_db_pool_available", "How many of them are free"),
    Metric("inturn_db_pool_waiting", "How many calls are waiting for one"),
    Metric(
        "inturn_event_loop_lag_seconds",
        "The longest time the event loop was blocked in the last minute",
    ),
    Metric(
        "inturn_build_info",
        "Always 1. `version` is the version of inturn, `schema` the revision it needs",
        ("version", "schema"),
    ),
)

DATABASE = (
    Metric("inturn_database_up", "1 if the database responds, 0 if not"),
    Metric(
        "inturn_jobs",
        "Live jobs. `state` is a column of the view `queue_status`: `runnable`, `blocked`, "
        "`limited`, `scheduled`, `pending`, `claimed` or `doing`. They add up",
        ("queue", "state"),
    ),
    Metric(
        "inturn_jobs_capped",
        "1 if counting stopped early and the queue's numbers are lower bounds",
        ("queue",),
    ),
    Metric(
        "inturn_oldest_runnable_age_seconds",
        "How long the oldest job that could start has been due; 0 if none",
        ("queue",),
    ),
    Metric(
        "inturn_oldest_waiting_age_seconds",
        "How long the oldest waiting job has been due, even if it is blocked",
        ("queue",),
    ),
    Metric("inturn_queue_served", "1 if a live worker serves the queue, 0 if none", ("queue",)),
    Metric(
        "inturn_queue_paused_seconds",
        f"How long the queue has been paused. `{ALL_QUEUES}`: a pause of all queues. No "
        "series: not paused",
        ("queue",),
    ),
    Metric(
        "inturn_task_paused_seconds",
        "How long the task has been paused. No series: not paused",
        ("task",),
    ),
    Metric(
        "inturn_unknown_tasks",
        "Tasks of waiting jobs that no live worker of the queue knows. No series: none",
        ("queue",),
    ),
    Metric(
        "inturn_jobs_behind_failed",
        "Jobs that stay pending because a parent has failed. No series: none",
        ("queue",),
    ),
    Metric("inturn_forgotten_batches", "Open batches that no job has joined for an hour"),
    Metric(
        "inturn_repairs",
        "Stuck lanes and wrong counts of limits that workers have repaired in the last day",
    ),
    Metric(
        "inturn_verify_violations",
        "Violations found by the last scheduled `verify` job. No series: there is no "
        "schedule, or its job is running",
    ),
    Metric("inturn_verify_timestamp_seconds", "Unix time at which that job ended"),
    Metric(
        "inturn_lanes",
        "Lanes in use or stopped. `state` is `held`, `stalled` (held by a worker that is late "
        "or gone), `retrying`, `paused`, `halted` or `delayed`",
        ("state",),
    ),
    Metric(
        "inturn_lanes_capped",
        "1 if counting stopped early and the number of lanes is a lower bound",
        ("state",),
    ),
    Metric(
        "inturn_lanes_runnable",
        "Jobs that could start now with enough workers: one per free lane, and all "
        "jobs without a lock",
    ),
    Metric("inturn_lane_max_depth", "Waiting jobs of the longest lane", ("queue",)),
    Metric(
        "inturn_lane_max_head_wait_seconds",
        "How long the oldest job waiting in a lane has been due",
        ("queue",),
    ),
    Metric(
        "inturn_workers",
        "Workers. `state` is `live`, `stopping` (it takes no more jobs), `blocked` (its event loop "
        "is blocked) or `late` (no heartbeat)",
        ("state",),
    ),
    Metric(
        "inturn_schedule_lag_seconds",
        "How late the next job of a periodic task is; 0 if it is not due yet. Only for schedules "
        "in the code of a live worker",
        ("schedule",),
    ),
    Metric(
        "inturn_schedule_ahead_seconds",
        "How long a periodic task will not fire because a wrong clock made it fire for a later "
        "time; usually 0",
        ("schedule",),
    ),
    Metric("inturn_schema_version", "The revision of the schema"),
    Metric("inturn_schema_expected_version", "The revision that the exporter needs"),
    Metric(
        "inturn_schema_fits", "1 if the tables and functions match the exporter's version, 0 if not"
    ),
    Metric(
        "inturn_table_dead_rows",
        "The server's estimate of deleted rows not yet vacuumed",
        ("table",),
    ),
    Metric(
        "inturn_oldest_transaction_age_seconds",
        "How long the oldest transaction of a client has been open",
    ),
    Metric(
        "inturn_standby_query_transactions",
        "How many transactions have begun since the oldest query of a standby that sends feedback",
    ),
    Metric(
        "inturn_notify_queue_usage_ratio",
        "How full the server's notification queue is, from 0 to 1",
    ),
    Metric("inturn_exporter_scrape_seconds", "How long the last reading took"),
    Metric("inturn_exporter_errors_total", "Failed readings"),
)

METRICS = {metric.name: metric for metric in (*PROCESS, *DATABASE)}
