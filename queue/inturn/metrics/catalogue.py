"""Every metric, with its labels and what it means. docs/metrics.md is generated from this.

No label is an id, a lock, a worker or a host: there would be no end of series.
"""

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """The kind of a metric, as Prometheus names it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """A metric. A counter's name ends with `_total`."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str


COUNTER, GAUGE, HISTOGRAM = Kind
SHORT_TO_HOUR = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0,
)  # fmt: skip
WAIT = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 21600.0)
CALL = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)
BUCKETS = {
    "inturn_job_run_seconds": SHORT_TO_HOUR,
    "inturn_job_wait_seconds": WAIT,
    "inturn_job_lateness_seconds": WAIT,
    "inturn_fetch_seconds": CALL,
}
MOST_QUEUES = 100  # queues with a separate series
OTHER, ALL = "_other", "_all"
ALL_QUEUES = "*"  # stands for all queues together; no queue can have this name

PROCESS = (
    Metric(
        "inturn_jobs_enqueued_total",
        COUNTER,
        ("queue", "task", "result"),
        "Jobs that this process has deferred, even if your transaction was rolled back later. "
        "`result` is `new`, or `waiting` if a job with its queueing lock was already waiting",
    ),
    Metric(
        "inturn_jobs_started_total",
        COUNTER,
        ("queue", "task"),
        "Started attempts",
    ),
    Metric(
        "inturn_jobs_finished_total",
        COUNTER,
        ("queue", "task", "outcome"),
        "Ended attempts. `outcome` is `succeeded`, `failed` (for good), `retried`, "
        "`snoozed`, `cancelled` (its resource was busy), `aborted`, `lost` (another worker had "
        "taken over the job) or `unclear` (the database went away before confirming)",
    ),
    Metric(
        "inturn_job_run_seconds",
        HISTOGRAM,
        ("queue", "task"),
        "How long attempts ran, however they ended",
    ),
    Metric(
        "inturn_job_lateness_seconds",
        HISTOGRAM,
        ("queue",),
        "How long after its due time a job started",
    ),
    Metric(
        "inturn_job_wait_seconds",
        HISTOGRAM,
        ("queue", "cause"),
        "The same in parts, which add up. Each start counts once as `lane` or `claim`, and once as "
        "`slot`",
    ),
    Metric("inturn_worker_slots", GAUGE, (), "How many jobs the worker can run at once"),
    Metric("inturn_worker_slots_busy", GAUGE, (), "How many jobs it is running"),
    Metric(
        "inturn_fetch_seconds",
        HISTOGRAM,
        ("outcome",),
        "How long claims took. `outcome` is `jobs`, `empty` or `error`",
    ),
    Metric(
        "inturn_last_fetch_timestamp_seconds",
        GAUGE,
        (),
        "Unix time of the last claim's reply; 0 before the first",
    ),
    Metric(
        "inturn_listen_connected",
        GAUGE,
        (),
        "1 if notifications wake the worker, 0 if it cannot listen and only polls. "
        "No series: listening is off",
    ),
    Metric(
        "inturn_wakeups_total",
        COUNTER,
        ("source",),
        "What made the worker look for jobs. `source` is `notify`, `poll` (its own timer: "
        "a scheduled job is due, or the poll interval has passed) or `local`",
    ),
    Metric(
        "inturn_heartbeat_failures_total",
        COUNTER,
        (),
        "Heartbeats that could not be stored",
    ),
    Metric(
        "inturn_fencing_rejections_total",
        COUNTER,
        (),
        "Refused ends of attempts, because another worker had taken over the job",
    ),
    Metric("inturn_db_pool_size", GAUGE, (), "Connections in the pool for tasks"),
    Metric("inturn_db_pool_available", GAUGE, (), "How many of them are free"),
    Metric("inturn_db_pool_waiting", GAUGE, (), "How many calls are waiting for one"),
    Metric(
        "inturn_event_loop_lag_seconds",
        GAUGE,
        (),
        "The longest time the event loop was blocked in the last minute",
    ),
    Metric(
        "inturn_build_info",
        GAUGE,
        ("version", "schema"),
        "Always 1. `version` is the version of inturn, `schema` the revision it needs",
    ),
)

DATABASE = (
    Metric("inturn_database_up", GAUGE, (), "1 if the database responds, 0 if not"),
    Metric(
        "inturn_jobs",
        GAUGE,
        ("queue", "state"),
        "Live jobs. `state` is a column of the view `queue_status`: `runnable`, `blocked`, "
        "`limited`, `scheduled`, `pending`, `claimed` or `doing`. They add up",
    ),
    Metric(
        "inturn_jobs_capped",
        GAUGE,
        ("queue",),
        "1 if counting stopped early and the queue's numbers are lower bounds",
    ),
    Metric(
        "inturn_oldest_runnable_age_seconds",
        GAUGE,
        ("queue",),
        "How long the oldest job that could start has been due; 0 if none",
    ),
    Metric(
        "inturn_oldest_waiting_age_seconds",
        GAUGE,
        ("queue",),
        "How long the oldest waiting job has been due, even if it is blocked",
    ),
    Metric(
        "inturn_queue_served", GAUGE, ("queue",), "1 if a live worker serves the queue, 0 if none"
    ),
    Metric(
        "inturn_queue_paused_seconds",
        GAUGE,
        ("queue",),
        f"How long the queue has been paused. `{ALL_QUEUES}`: a pause of all queues. No "
        "series: not paused",
    ),
    Metric(
        "inturn_task_paused_seconds",
        GAUGE,
        ("task",),
        "How long the task has been paused. No series: not paused",
    ),
    Metric(
        "inturn_unknown_tasks",
        GAUGE,
        ("queue",),
        "Tasks of waiting jobs that no live worker of the queue knows. No series: none",
    ),
    Metric(
        "inturn_jobs_behind_failed",
        GAUGE,
        ("queue",),
        "Jobs that stay pending because a parent has failed. No series: none",
    ),
    Metric(
        "inturn_forgotten_batches",
        GAUGE,
        (),
        "Open batches that no job has joined for an hour",
    ),
    Metric(
        "inturn_repairs",
        GAUGE,
        (),
        "Stuck lanes and wrong counts of limits that workers have repaired in the last day",
    ),
    Metric(
        "inturn_verify_violations",
        GAUGE,
        (),
        "Violations found by the last scheduled `verify` job. No series: there is no "
        "schedule, or its job is running",
    ),
    Metric(
        "inturn_verify_timestamp_seconds",
        GAUGE,
        (),
        "Unix time at which that job ended",
    ),
    Metric(
        "inturn_lanes",
        GAUGE,
        ("state",),
        "Lanes in use or stopped. `state` is `held`, `stalled` (held by a worker that is late "
        "or gone), `retrying`, `paused`, `halted` or `delayed`",
    ),
    Metric(
        "inturn_lanes_capped",
        GAUGE,
        ("state",),
        "1 if counting stopped early and the number of lanes is a lower bound",
    ),
    Metric(
        "inturn_lanes_runnable",
        GAUGE,
        (),
        "Jobs that could start now with enough workers: one per free lane, and all "
        "jobs without a lock",
    ),
    Metric(
        "inturn_lane_max_depth",
        GAUGE,
        ("queue",),
        "Waiting jobs of the longest lane",
    ),
    Metric(
        "inturn_lane_max_head_wait_seconds",
        GAUGE,
        ("queue",),
        "How long the oldest job waiting in a lane has been due",
    ),
    Metric(
        "inturn_workers",
        GAUGE,
        ("state",),
        "Workers. `state` is `live`, `blocked` (its event loop is blocked) or `late` (no "
        "heartbeat)",
    ),
    Metric(
        "inturn_schedule_lag_seconds",
        GAUGE,
        ("schedule",),
        "How late the next job of a periodic task is; 0 if it is not due yet. Only for schedules "
        "in the code of a live worker",
    ),
    Metric(
        "inturn_schedule_ahead_seconds",
        GAUGE,
        ("schedule",),
        "How long a periodic task will not fire because a wrong clock made it fire for a later "
        "time; usually 0",
    ),
    Metric("inturn_schema_version", GAUGE, (), "The revision of the schema"),
    Metric(
        "inturn_schema_expected_version",
        GAUGE,
        (),
        "The revision that the exporter needs",
    ),
    Metric(
        "inturn_schema_fits",
        GAUGE,
        (),
        "1 if the tables and functions match the exporter's version, 0 if not",
    ),
    Metric(
        "inturn_table_dead_rows",
        GAUGE,
        ("table",),
        "The server's estimate of deleted rows not yet vacuumed",
    ),
    Metric(
        "inturn_oldest_transaction_age_seconds",
        GAUGE,
        (),
        "How long the oldest transaction of a client has been open",
    ),
    Metric(
        "inturn_standby_query_transactions",
        GAUGE,
        (),
        "How many transactions have begun since the oldest query of a standby that sends feedback",
    ),
    Metric(
        "inturn_notify_queue_usage_ratio",
        GAUGE,
        (),
        "How full the server's notification queue is, from 0 to 1",
    ),
    Metric("inturn_exporter_scrape_seconds", GAUGE, (), "How long the last reading took"),
    Metric("inturn_exporter_errors_total", COUNTER, (), "Failed readings"),
)

METRICS = {metric.name: metric for metric in (*PROCESS, *DATABASE)}
