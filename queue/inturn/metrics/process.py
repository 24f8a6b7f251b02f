"""The work and state of one worker process."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
from prometheus_client.core import Metric

from inturn import sql
from inturn.database.connector import Connector
from inturn.endpoint import Route
from inturn.metrics.catalogue import ALL, METRICS, OTHER
from inturn.metrics.exposition import family, make_route
from inturn.metrics.producer import QueueLabels, count_deferred_jobs
from inturn.model import Job, Outcome, name_outcome
from inturn.vitals import Vitals


class ProcessMetrics:
    """Counts for one worker, and serves the counts with the rest of the default registry.

    So metrics of your own need no second port.
    """

    def __init__(
        self, tasks: Mapping[str, object], connector: Connector, lag: Callable[[], float]
    ) -> None:
        self._tasks = tasks
        self._queues = QueueLabels()
        self._registry = CollectorRegistry()
        self._connector = connector
        self._lag = lag
        self._look: Callable[[], Vitals] | None = None
        self._last_claim_at = 0.0
        self._started = self._make_counter("inturn_jobs_started_total")
        self._finished = self._make_counter("inturn_jobs_finished_total")
        self._rejections = self._make_counter("inturn_fencing_rejections_total")
        self._runs = self._make_histogram("inturn_job_run_seconds")
        self._waits = self._make_histogram("inturn_job_wait_seconds")
        self._lateness = self._make_histogram("inturn_job_lateness_seconds")
        self._claims = self._make_histogram("inturn_fetch_seconds")
        count_deferred_jobs()

    def _make_counter(self, name: str) -> Counter:
        about = METRICS[name]
        return Counter(name, about.help, about.labels, registry=self._registry)

    def _make_histogram(self, name: str) -> Histogram:
        about = METRICS[name]
        return Histogram(
            name, about.help, about.labels, buckets=about.buckets, registry=self._registry
        )

    def attach(self, look: Callable[[], Vitals]) -> None:
        """Export the state of this worker from now on."""
        self._look = look

    def routes(self) -> dict[str, Route]:
        return make_route(self)

    def collect(self) -> Iterator[Metric]:
        """Yield the worker's metrics and those of the default registry."""
        for metric in self._registry.collect():
            # The series `_created` would double the number of series.
            metric.samples = [each for each in metric.samples if not each.name.endswith("_created")]
            yield metric
        yield from self._describe_state()
        yield from REGISTRY.collect()

    def _describe_state(self) -> Iterator[Metric]:
        yield family("inturn_build_info", {(version("inturn"), str(sql.revision())): 1})
        yield family("inturn_event_loop_lag_seconds", self._lag())
        yield family("inturn_last_fetch_timestamp_seconds", self._last_claim_at)
        pool = self._connector.count_pooled()
        yield family("inturn_db_pool_size", pool.size)
        yield family("inturn_db_pool_available", pool.available)
        yield family("inturn_db_pool_waiting", pool.waiting)
        if self._look is None:
            return
        worker = self._look()
        yield family("inturn_worker_slots", worker.slots)
        yield family("inturn_worker_slots_busy", worker.busy_slots)
        if worker.is_listening is not None:
            yield family("inturn_listen_connected", worker.is_listening)
        yield family("inturn_heartbeat_failures_total", worker.heartbeat_failures)
        counted = {(source,): count for source, count in worker.counted_wakeups.items()}
        yield family("inturn_wakeups_total", counted)

    # ------------------------------------------------------------------ what the worker reports

    def note_start(self, job: Job, slot_wait: float) -> None:
        """Record the start of an attempt, and its wait for a slot here."""
        queue, task = self._label(job)
        self._started.labels(queue, task).inc()
        if job.waited is None:
            return
        # The server's clock may have been set back.
        waited = max(0.0, job.waited)
        self._waits.labels(queue, "lane" if job.handed_over else "claim").observe(waited)
        self._waits.labels(queue, "slot").observe(slot_wait)
        self._lateness.labels(queue).observe(waited + slot_wait)

    def note_ends(self, outcomes: Iterable[Outcome]) -> None:
        """Record the outcomes of attempts, now that they are stored."""
        for outcome in outcomes:
            labels = self._label(outcome.job)
            self._finished.labels(*labels, name_outcome(outcome)).inc()
            if outcome.details.seconds is not None:
                self._runs.labels(*labels).observe(outcome.details.seconds)

    def note_refused(self, job: Job, *, unclear: bool) -> None:
        """Record that the end of an attempt was refused, because the job is no longer ours."""
        self._finished.labels(*self._label(job), "unclear" if unclear else "lost").inc()
        if not unclear:
            self._rejections.inc()

    def note_claim(self, seconds: float, count: int | None) -> None:
        """Record how long a claim took and how many jobs it returned. None: it failed."""
        outcome = "error" if count is None else "jobs" if count else "empty"
        self._claims.labels(outcome).observe(seconds)
        if count is not None:
            self._last_claim_at = time.time()

    # ------------------------------------------------------------------ labels

    def _label(self, job: Job) -> tuple[str, str]:
        """Return the queue and the task, or the labels that stand for the rest."""
        task = job.task_name if job.task_name in self._tasks else OTHER if self._tasks else ALL
        return self._queues.label(job.queue), task
