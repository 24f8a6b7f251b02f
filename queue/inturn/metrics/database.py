"""Metrics of the whole queue. Only one process exports them, or sums would count twice."""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from datetime import datetime
from threading import Lock
from typing import TypeVar

import psycopg
from prometheus_client.core import Metric

from inturn import sql
from inturn.database import drive
from inturn.database.connector import Connector
from inturn.database.session import Session
from inturn.errors import InturnError, SchemaMismatch
from inturn.metrics.catalogue import ALL_QUEUES, MOST_QUEUES, OTHER
from inturn.metrics.exposition import family
from inturn.operations import Operation
from inturn.operations.changes import queues, tasks
from inturn.operations.engine import maintenance, schedules
from inturn.operations.engine.schedules import StoredSchedule, name_schedule
from inturn.operations.reading import measures
from inturn.operations.reading.measures import QueueMeasure, WaitingMeasure
from inturn.schedules.cron import Cron

T = TypeVar("T")
FRESH_SECONDS = 5.0  # scrapes within this time share one reading
# A longer reading is cancelled, so that metrics never burden a struggling server.
LIMITS = "SET LOCAL statement_timeout = '5s'; SET TRANSACTION READ ONLY"
MOST_SCHEDULES = 1000
TROUBLES = (
    "inturn_unknown_tasks",
    "inturn_jobs_behind_failed",
    "inturn_forgotten_batches",
    "inturn_repairs",
)
# Columns of queue_status that are states of jobs.
STATES = ("runnable", "limited", "blocked", "scheduled", "pending", "claimed", "doing")


class DatabaseMetrics:
    """A collector for a registry. It keeps a connection and never raises."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._connection: Session | None = None
        self._guard = Lock()
        self._found: list[Metric] = []
        self._found_at = -FRESH_SECONDS
        self._errors = 0

    def collect(self) -> Iterator[Metric]:
        """Yield the database's metrics, at most five seconds old."""
        with self._guard:
            began = time.monotonic()
            if began - self._found_at >= FRESH_SECONDS:
                self._found = self._look()
                self._found_at = time.monotonic()
                self._found.append(family("inturn_exporter_scrape_seconds", self._found_at - began))
            yield from self._found

    def close(self) -> None:
        """Close the connection."""
        with self._guard:
            self._drop()

    def _look(self) -> list[Metric]:
        found: list[Metric] = []
        is_up = False
        try:
            for metric in self._read():
                is_up = True
                found.append(metric)
        except (InturnError, psycopg.Error):
            self._errors += 1
            self._drop()
        up = family("inturn_database_up", is_up)
        return [up, *found, family("inturn_exporter_errors_total", self._errors)]

    def _read(self) -> Iterator[Metric]:
        connection = self._connect()
        with drive.translate_errors(), connection.transaction():
            connection.execute(LIMITS)
            reader = MetricsReader(connection, self._connector.schema)
            fits = yield from reader.read_schema()
            if fits:
                yield from reader.read_queues()
                yield from reader.read_pauses()
                yield from reader.read_lanes()
                yield from reader.read_troubles()
                yield from reader.read_workers()
            yield from reader.read_server()

    def _connect(self) -> Session:
        if self._connection is None or self._connection.closed:
            self._connection = self._connector.connect("metrics")
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()


class MetricsReader:
    """Reads metrics within one transaction."""

    def __init__(self, connection: Session, schema: str) -> None:
        self._connection = connection
        self._schema = schema

    def _run(self, operation: Operation[T]) -> T:
        return drive.run(operation, self._connection, self._schema)

    def read_schema(self) -> Generator[Metric, None, bool]:
        """Yield the versions. Return True if they match, so the rest can be read."""
        revision = self._run(measures.get_revision(self._schema))
        fits = True
        try:
            self._run(maintenance.check_schema(self._schema))
        except SchemaMismatch:
            fits = False
        yield family("inturn_schema_version", revision)
        yield family("inturn_schema_expected_version", float(sql.revision()))
        yield family("inturn_schema_fits", fits)
        return fits

    def read_queues(self) -> Iterator[Metric]:
        """Yield the waiting and running jobs of each queue."""
        found = self._run(measures.measure_queues())
        waiting = {each.queue: each for each in self._run(measures.measure_waiting())}
        queues = _fold([QueueMeasures(each, waiting.get(each.columns["queue"])) for each in found])
        jobs = {
            (queue.name, state): queue.columns[state]
            for queue in queues
            for state in STATES
            if state in queue.columns
        }
        yield family("inturn_jobs", jobs)
        for name, number in NUMBERS.items():
            yield family(name, {(queue.name,): number(queue) for queue in queues})
        runnable = sum(queue.columns["runnable"] for queue in queues)
        yield family("inturn_lanes_runnable", runnable)

    def read_pauses(self) -> Iterator[Metric]:
        """Yield how long queues and tasks have been paused."""
        now = self._run(maintenance.get_now())
        ages: dict[tuple[str, ...], float] = {}
        # The pause of all queues comes first, so that `_other` never includes it.
        for pause in sorted(
            self._run(queues.list_paused_queues()), key=lambda each: each.queue or ""
        ):
            name = pause.queue or ALL_QUEUES
            label = (name if len(ages) < MOST_QUEUES else OTHER,)
            ages[label] = max(ages.get(label, 0.0), (now - pause.since).total_seconds())
        yield family("inturn_queue_paused_seconds", ages)
        of_tasks: dict[tuple[str, ...], float] = {}
        for each in self._run(tasks.list_paused_tasks()):  # the longest first
            label = (each.task if len(of_tasks) < MOST_QUEUES else OTHER,)
            of_tasks.setdefault(label, (now - each.since).total_seconds())
        yield family("inturn_task_paused_seconds", of_tasks)

    def read_lanes(self) -> Iterator[Metric]:
        """Yield how many lanes are in each state."""
        found = self._run(measures.measure_lanes())
        yield family("inturn_lanes", {(each.state,): each.lanes for each in found})
        yield family("inturn_lanes_capped", {(each.state,): each.more for each in found})

    def read_troubles(self) -> Iterator[Metric]:
        """Yield the problems that only a person can end."""
        found: dict[str, Counter[tuple[str, ...]]] = {name: Counter() for name in TROUBLES}
        for each in self._run(measures.measure_troubles()):
            known = found[each.metric]
            labels = () if each.queue is None else (each.queue,)
            known[labels if len(known) < MOST_QUEUES else (OTHER,)] += each.found
        for name, values in found.items():
            yield family(name, values)

    def read_workers(self) -> Iterator[Metric]:
        """Yield how many workers are in each state, and how late their schedules are."""
        found = self._run(measures.measure_workers())
        yield family("inturn_workers", {(state,): count for state, count in found.states.items()})
        now = self._run(maintenance.get_now())
        known = self._run(schedules.list_schedules(MOST_SCHEDULES))
        live = {
            (name,): each
            for each in known
            if (name := name_schedule(each.task, each.periodic_id)) in found.live_schedules
        }
        lags = {name: _find_lag(each, now) for name, each in live.items()}
        yield family("inturn_schedule_lag_seconds", lags)
        ahead = {name: _find_wait(each, now) for name, each in live.items()}
        yield family("inturn_schedule_ahead_seconds", ahead)

    def read_server(self) -> Iterator[Metric]:
        """Yield the server's own statistics."""
        dead = self._run(measures.count_dead_rows(self._schema))
        yield family("inturn_table_dead_rows", {(table,): rows for table, rows in dead.items()})
        server = self._run(measures.measure_server())
        yield family("inturn_oldest_transaction_age_seconds", server.oldest_transaction)
        yield family("inturn_notify_queue_usage_ratio", server.notify_usage)


class QueueMeasures:
    """The measures of one queue, or of all that share a name."""

    def __init__(self, found: QueueMeasure, waiting: WaitingMeasure | None) -> None:
        self.columns = found.columns
        self.name: str = found.columns["queue"]
        self.runnable_age = max(0.0, found.runnable_age)
        # A free job that could start also waits, and measure_waiting may have missed it.
        self.age = max(self.runnable_age, waiting.age if waiting else 0.0)
        self.lane_age = max(0.0, waiting.lane_age) if waiting else 0.0
        self.longest = waiting.longest if waiting else 0

    def add(self, other: "QueueMeasures") -> None:
        """Add the numbers of another queue to these."""
        for column in {*STATES, "more", "workers"} & self.columns.keys():
            self.columns[column] += other.columns[column]
        for name in ("runnable_age", "age", "lane_age", "longest"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))


NUMBERS: dict[str, Callable[[QueueMeasures], float]] = {
    "inturn_jobs_capped": lambda queue: bool(queue.columns["more"]),
    "inturn_queue_served": lambda queue: queue.columns["workers"] > 0,
    "inturn_oldest_runnable_age_seconds": lambda queue: queue.runnable_age,
    "inturn_oldest_waiting_age_seconds": lambda queue: queue.age,
    "inturn_lane_max_depth": lambda queue: queue.longest,
    "inturn_lane_max_head_wait_seconds": lambda queue: queue.lane_age,
}


def _fold(queues: list[QueueMeasures]) -> list[QueueMeasures]:
    """Return the first queues by name, and one for all others."""
    kept, others = queues[:MOST_QUEUES], queues[MOST_QUEUES:]
    if others:
        rest = others[0]
        for each in others[1:]:
            rest.add(each)
        rest.name = OTHER
        kept.append(rest)
    return kept


def _find_wait(schedule: StoredSchedule, now: datetime) -> float:
    """Return how many seconds a schedule is ahead of its time."""
    ahead = schedules.find_ahead(schedule, now)
    return ahead.total_seconds() if ahead <= schedules.IGNORED else 0.0


def _find_lag(schedule: StoredSchedule, now: datetime) -> float:
    """Return how many seconds the next job of a schedule has been due."""
    after = max(schedule.since, schedule.last_instant or schedule.since)
    due = Cron(schedule.cron, schedule.tz).next(after)
    return 0.0 if due is None else max(0.0, (now - due).total_seconds())
