"""Metrics of the whole queue. Only one process exports them, or sums would count twice."""

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from datetime import datetime
from operator import add
from threading import Lock
from typing import TypeVar

import psycopg
from prometheus_client.core import Metric

from inturn import sql
from inturn.database import drive
from inturn.database.connector import Connector
from inturn.database.kept_connection import KeptConnection
from inturn.database.session import Session
from inturn.errors import BadArgument, InturnError
from inturn.metrics.catalogue import ALL_QUEUES, MOST_QUEUES, OTHER
from inturn.metrics.exposition import family
from inturn.operations import Operation
from inturn.operations.engine import maintenance, schedules
from inturn.operations.engine.schedules import StoredSchedule, name_schedule
from inturn.operations.reading import measures, verify
from inturn.operations.reading.measures import Measures, WaitingMeasure
from inturn.operations.reading.parts import read_parts
from inturn.operations.reading.situation import Load
from inturn.schedules.cron import Cron

T = TypeVar("T")
FRESH_SECONDS = 5.0  # scrapes within this time share one reading
# Columns of queue_status that are states of jobs.
STATES = ("runnable", "limited", "blocked", "scheduled", "pending", "claimed", "doing")


class DatabaseMetrics:
    """A collector for a registry. It keeps a connection and never raises."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._connection = KeptConnection(connector, "metrics")
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
        with self._guard:
            self._connection.close()

    def _look(self) -> list[Metric]:
        found: list[Metric] = []
        is_up = False
        try:
            for metric in self._read():
                is_up = True
                found.append(metric)
        except (InturnError, psycopg.Error, ValueError):  # Python cannot read some times
            self._errors += 1
            self._connection.close()
        up = family("inturn_database_up", is_up)
        return [up, *found, family("inturn_exporter_errors_total", self._errors)]

    def _read(self) -> Iterator[Metric]:
        with self._connection.look() as connection:
            reader = MetricsReader(connection, self._connector.schema)
            fits = yield from reader.read_schema()
            if fits:
                yield from reader.read_queue()
            yield from reader.read_server()


class MetricsReader:
    """Reads metrics within one transaction."""

    def __init__(self, connection: Session, schema: str) -> None:
        self._connection = connection
        self._schema = schema

    def _run(self, operation: Operation[T]) -> T:
        return drive.run(operation, self._connection, self._schema)

    def read_schema(self) -> Generator[Metric, None, bool]:
        """Yield the versions. Return True if they match, so the rest can be read."""
        fits = self._run(maintenance.find_mismatch(self._schema)) is None
        yield family("inturn_schema_version", self._run(measures.get_revision(self._schema)))
        yield family("inturn_schema_expected_version", float(sql.revision()))
        yield family("inturn_schema_fits", fits)
        return fits

    def read_queue(self) -> Iterator[Metric]:
        """Yield the load, then the measures: if these take too long, the load is still shown."""
        seen = self._run(read_parts(Load, self._schema))
        yield from show_queues(seen)
        yield from show_pauses(seen)
        yield from show_lanes(seen)
        yield family("inturn_repairs", self._run(measures.count_repairs()))
        found = self._run(read_parts(Measures, self._schema))
        yield from show_waiting(seen, found.waiting)
        yield from show_troubles(found)
        yield from show_workers(seen, found)
        yield from show_verified(self._run(verify.get_last()))

    def read_server(self) -> Iterator[Metric]:
        """Yield the server's own statistics."""
        dead = self._run(measures.count_dead_rows(self._schema))
        yield family("inturn_table_dead_rows", {(table,): rows for table, rows in dead.items()})
        server = self._run(measures.measure_server())
        yield family("inturn_oldest_transaction_age_seconds", server.oldest_transaction)
        yield family("inturn_standby_query_transactions", server.standby_transactions)
        yield family("inturn_notify_queue_usage_ratio", server.notify_usage)


def show_queues(seen: Load) -> Iterator[Metric]:
    found = {
        state: _fold({each.queue: getattr(each, state) for each in seen.queues}, add)
        for state in STATES
    }
    jobs = {(*queue, state): count for state in STATES for queue, count in found[state].items()}
    yield family("inturn_jobs", jobs)
    yield family("inturn_lanes_runnable", sum(each.runnable for each in seen.queues))
    yield family("inturn_jobs_capped", _fold({each.queue: each.more for each in seen.queues}))
    served = {each.queue: each.workers > 0 for each in seen.queues}
    yield family("inturn_queue_served", _fold(served))
    yield family("inturn_oldest_runnable_age_seconds", _fold(_find_ages(seen)))
    unknown = Counter(queue for queue, _ in seen.unknown_tasks)
    yield family("inturn_unknown_tasks", _fold(unknown, add))


def show_waiting(seen: Load, waiting: Sequence[WaitingMeasure]) -> Iterator[Metric]:
    """Yield how long jobs of each queue have waited."""
    runnable = _find_ages(seen)
    # A free job that could start also waits, and measure_waiting may have missed it.
    ages = {each.queue: _find_age(each.since, seen.now) for each in waiting}
    oldest = {queue: max(age, ages.get(queue, 0.0)) for queue, age in runnable.items()}
    yield family("inturn_oldest_waiting_age_seconds", _fold(oldest))
    depths = {each.queue: each.longest for each in waiting}
    yield family("inturn_lane_max_depth", _fold({each: depths.get(each, 0) for each in runnable}))
    heads = {each.queue: _find_age(each.lane_since, seen.now) for each in waiting}
    in_lanes = {queue: heads.get(queue, 0.0) for queue in runnable}
    yield family("inturn_lane_max_head_wait_seconds", _fold(in_lanes))


def show_pauses(seen: Load) -> Iterator[Metric]:
    # The pause of all queues comes first, so that `_other` never includes it.
    paused = sorted(seen.paused_queues, key=lambda each: each.queue or "")
    ages = {each.queue or ALL_QUEUES: _find_age(each.since, seen.now) for each in paused}
    yield family("inturn_queue_paused_seconds", _fold(ages))
    of_tasks = {each.task: _find_age(each.since, seen.now) for each in seen.paused_tasks}
    yield family("inturn_task_paused_seconds", _fold(of_tasks))


def show_lanes(seen: Load) -> Iterator[Metric]:
    yield family("inturn_lanes", {(state,): count for state, (count, _) in seen.lanes.items()})
    capped = {(state,): more for state, (_, more) in seen.lanes.items()}
    yield family("inturn_lanes_capped", capped)


def show_troubles(found: Measures) -> Iterator[Metric]:
    """Yield the problems that only a person can end."""
    behind = Counter(each.queue for each in found.parents)
    yield family("inturn_jobs_behind_failed", _fold(behind, add))
    yield family("inturn_forgotten_batches", len(found.batches))


def show_verified(last: verify.LastVerification | None) -> Iterator[Metric]:
    """Yield what the scheduled job of `verify` found."""
    found = {} if last is None else {(): last.violations}
    yield family("inturn_verify_violations", found)
    ended = {} if last is None else {(): last.at.timestamp()}
    yield family("inturn_verify_timestamp_seconds", ended)


def show_workers(seen: Load, found: Measures) -> Iterator[Metric]:
    """Yield how many workers are in each state, and how late their schedules are."""
    states = {(state,): count for state, count in found.worker_states.items()}
    yield family("inturn_workers", states)
    live = found.live_schedules
    known = {name_schedule(each.task, each.periodic_id): each for each in found.schedules}
    used = {(name,): each for name, each in known.items() if name in live}
    lags = {name: _find_lag(each, seen.now) for name, each in used.items()}
    read = {name: lag for name, lag in lags.items() if lag is not None}
    yield family("inturn_schedule_lag_seconds", read)
    ahead = {name: _find_wait(each, seen.now) for name, each in used.items()}
    yield family("inturn_schedule_ahead_seconds", ahead)


def _fold(
    values: Mapping[str, float], merge: Callable[[float, float], float] = max
) -> dict[tuple[str], float]:
    """Return the values of the first names, and one for all others."""
    found: dict[tuple[str], float] = {}
    for name, value in values.items():
        label = (name if len(found) < MOST_QUEUES else OTHER,)
        found[label] = merge(found.get(label, 0), value)
    return found


def _find_ages(seen: Load) -> dict[str, float]:
    """Return for how many seconds each queue has had a job that could start."""
    return {each.queue: _find_age(each.runnable_since, seen.now) for each in seen.queues}


def _find_age(since: datetime | None, now: datetime) -> float:
    """Return for how many seconds something has waited."""
    return 0.0 if since is None else max(0.0, (now - since).total_seconds())


def _find_wait(schedule: StoredSchedule, now: datetime) -> float:
    """Return how many seconds a schedule is ahead of its time."""
    ahead = schedules.find_ahead(schedule, now)
    return ahead.total_seconds() if ahead <= schedules.IGNORED else 0.0


def _find_lag(schedule: StoredSchedule, now: datetime) -> float | None:
    """Return how many seconds the next job of a schedule has been due, or None if unreadable."""
    try:
        cron = Cron(schedule.cron, schedule.tz)
    except BadArgument:  # a later version or another machine may know more
        return None
    due = cron.next(max(schedule.since, schedule.last_instant or schedule.since))
    return 0.0 if due is None else max(0.0, (now - due).total_seconds())
