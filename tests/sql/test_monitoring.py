"""The queries for psql (sql/monitoring) answer their questions."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import dict_row

from inturn import sql
from tests.roles import LOGINS, as_login, grant_roles

pytestmark = pytest.mark.fresh_database

FOLDER = sql.find_folder("sql") / "monitoring"
QUERIES = sorted(file.stem for file in FOLDER.glob("*.sql"))
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
TRACEBACK = "Traceback (most recent call last):\n  ...\nsmtplib.SMTPServerDisconnected: closed\n"


class Scene:
    """A session in which it is any minute before noon that a test wants."""

    def __init__(self, connection: psycopg.Connection[dict[str, Any]]) -> None:
        self.connection = connection

    def at(self, minutes_ago: float) -> "Scene":
        moment = NOON - timedelta(minutes=minutes_ago)
        self.connection.execute("SELECT set_config('inturn.clock', %s, false)", [str(moment)])
        return self

    def value(self, call: str, *parameters: object) -> Any:
        row = self.connection.execute(f"SELECT {call} AS value".encode(), parameters).fetchone()
        assert row is not None
        return row["value"]

    def defer(self, task: str, lock: str | None = None) -> int:
        return int(self.value("inturn.defer(%s, lock => %s)", task, lock))

    def work(self, name: str) -> UUID:
        worker = self.value("inturn.register_worker(%s, 'host', 7, NULL, 5)", name)
        assert isinstance(worker, UUID)
        return worker

    def claim(self, worker: UUID) -> list[tuple[int, UUID]]:
        rows = self.connection.execute("SELECT * FROM inturn.claim(%s, NULL, 5)", [worker])
        return [(row["id"], row["claim_id"]) for row in rows.fetchall()]

    def finish(self, worker: UUID, status: str, *jobs: tuple[int, UUID]) -> None:
        self.connection.execute(
            "SELECT inturn.finish(%s, NULL, 0, %s, %s, array_fill(%s::inturn.job_status, %s), "
            "array_fill(jsonb_build_object('error', %s::text), %s))",
            [
                worker,
                [id for id, _ in jobs],
                [claim for _, claim in jobs],
                status,
                [len(jobs)],
                TRACEBACK,
                [len(jobs)],
            ],
        )

    def ask(self, name: str) -> list[dict[str, Any]]:
        self.at(0)
        text = (FOLDER / f"{name}.sql").read_text(encoding="utf-8")
        return self.connection.execute(text.encode()).fetchall()


@pytest.fixture
def scene(dsn: str) -> Iterator[Scene]:
    options = "-c timezone=UTC"
    with psycopg.connect(dsn, autocommit=True, row_factory=dict_row, options=options) as connection:
        yield Scene(connection)


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


def pick(rows: list[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in rows]


def test_there_are_queries() -> None:
    assert len(QUERIES) >= 8


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_begins_with_its_question(name: str) -> None:
    first = (FOLDER / f"{name}.sql").read_text(encoding="utf-8").split("\n")[0]
    assert re.fullmatch(r"-- [A-Z].*\?", first)


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_runs_on_the_oldest_server_that_the_engine_runs_on(name: str) -> None:
    newer_than_13 = re.compile(r"date_bin|split_part\(.*, -|json_table|any_value|\bMERGE\b")
    assert not newer_than_13.search((FOLDER / f"{name}.sql").read_text(encoding="utf-8"))


def test_the_page_lists_each_query() -> None:
    page = (FOLDER.parent.parent / "docs" / "sql.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\]\(\.\./sql/monitoring/(\w+)\.sql\)", page)) == QUERIES


@pytest.mark.parametrize("name", QUERIES)
def test_an_operator_may_ask_it(dsn: str, name: str) -> None:
    grant_roles(dsn)
    with psycopg.connect(as_login(dsn, LOGINS["operator"])) as connection:
        answer = connection.execute((FOLDER / f"{name}.sql").read_bytes())
        assert answer.description, "a query answers with columns"


def test_the_job_that_could_run_and_waits_the_longest_comes_first(scene: Scene) -> None:
    scene.at(90).value("inturn.pause_lane('stopped')")
    scene.defer("stands", "stopped")
    first = scene.at(60).defer("first", "lane")
    scene.at(50).defer("goes second in its lane", "lane")
    free = scene.at(40).defer("free")
    due = scene.at(55).value("inturn.defer('due', scheduled_at => inturn.clock() + '10 min')")
    scene.at(59).value("inturn.defer('later', scheduled_at => inturn.clock() + '1 day')")
    assert pick(scene.ask("oldest_runnable_jobs"), "id", "waiting") == [
        (first, minutes(60)),
        (due, minutes(45)),
        (free, minutes(40)),
    ]


def test_running_jobs_come_with_their_worker_the_longest_first(scene: Scene) -> None:
    worker, gone = scene.at(30).work("w"), scene.work("gone")
    old, new = scene.defer("old"), scene.defer("new")
    scene.at(20).connection.execute("SELECT inturn.claim(%s, NULL, 1)", [gone])
    scene.at(5).claim(worker)
    scene.connection.execute("DELETE FROM inturn.workers WHERE id = %s", [gone])
    scene.at(0).value("inturn.heartbeat(%s)", worker)
    assert pick(scene.ask("running_jobs"), "id", "running", "worker", "worker_state") == [
        (old, minutes(20), None, "gone"),
        (new, minutes(5), "w", "live"),
    ]


def test_waiting_lanes_say_what_they_wait_for(scene: Scene) -> None:
    worker = scene.at(40).work("w")
    held, retried = scene.defer("t", "held"), scene.defer("t", "retrying")
    claims = dict(scene.at(30).claim(worker))
    scene.at(20).connection.execute(
        "SELECT inturn.retry(%s, %s, '{1 hour}', '{NULL}')", [[retried], [claims[retried]]]
    )
    scene.at(10).value("inturn.pause_lane('paused', 'no paper', p_by => 'ann')")
    for lock in ("held", "retrying", "paused"):
        scene.defer("behind", lock)
    found = scene.ask("waiting_lanes")
    assert pick(found, "lock", "jobs", "waiting", "waits_for") == [
        ("held", 1, minutes(30), f"running job {held} on w"),
        ("retrying", 1, minutes(20), f"next attempt of job {retried}"),
        ("paused", 1, minutes(10), "paused until it is resumed"),
    ]
    assert pick(found, "stopped_by", "stop_reason")[2] == ("ann", "no paper")


def test_failures_of_the_last_hour_are_counted_by_task_and_error(scene: Scene) -> None:
    worker = scene.at(90).work("w")
    scene.defer("too long ago")
    scene.finish(worker, "failed", *scene.claim(worker))
    last = [scene.at(30).defer("mail") for _ in range(3)][-1]
    scene.finish(worker, "failed", *scene.claim(worker))
    scene.defer("well")
    scene.finish(worker, "succeeded", *scene.claim(worker))
    assert pick(scene.ask("failed_last_hour"), "task", "failed", "last_at", "job_id", "error") == [
        ("mail", 3, NOON - minutes(30), last, "smtplib.SMTPServerDisconnected: closed")
    ]


def test_silent_and_blocked_workers_are_told_from_the_others(scene: Scene) -> None:
    silent, blocked, well = (scene.at(20).work(name) for name in ("silent", "blocked", "well"))
    scene.defer("t")
    scene.claim(silent)
    scene.at(0).value("inturn.heartbeat(%s, '5 min')", blocked)
    scene.value("inturn.heartbeat(%s)", well)
    assert pick(scene.ask("unwell_workers"), "name", "state", "doing", "since") == [
        ("silent", "late", 1, minutes(20)),
        ("blocked", "blocked", 0, minutes(5)),
    ]


def test_the_depth_of_a_queue_tells_what_could_run_from_what_waits_behind(scene: Scene) -> None:
    scene.at(15).defer("t", "lane")
    scene.at(10).defer("t", "lane")
    scene.at(5).defer("t")
    columns = ("queue", "runnable", "waiting", "blocked", "workers")
    assert pick(scene.ask("queue_depth"), *columns) == [("default", 2, minutes(15), 1, 0)]


def test_an_open_transaction_names_the_sessions_that_wait_for_it(scene: Scene, dsn: str) -> None:
    scene.value("inturn.pause_lane('lane')")
    with (
        psycopg.connect(dsn, application_name="report") as holder,
        psycopg.connect(dsn, application_name="waiter") as waiter,
    ):
        pids = [holder.info.backend_pid, waiter.info.backend_pid]
        holder.execute("SELECT FROM inturn.lanes FOR UPDATE")
        waiter.pgconn.send_query(b"BEGIN; SELECT FROM inturn.lanes FOR UPDATE")
        while not scene.value("cardinality(pg_blocking_pids(%s)) > 0", pids[1]):
            pass
        found = scene.ask("who_blocks")
        waiter.close()
    assert pick(found, "pid", "application", "blocks") == [
        (pids[0], "report", [pids[1]]),
        (pids[1], "waiter", []),
    ]


def test_dead_rows_and_sizes_are_shown_for_each_table(scene: Scene) -> None:
    for _ in range(3):
        scene.defer("t")
    scene.connection.execute("DELETE FROM inturn.jobs WHERE id = 1")
    scene.value("pg_stat_force_next_flush()")
    rows = {row["name"]: row for row in scene.ask("table_sizes")}
    assert {"jobs", "lanes", "workers"} <= rows.keys()
    assert (rows["jobs"]["live_rows"], rows["jobs"]["dead_rows"]) == (2, 1)
    assert rows["jobs"]["rows_size"] == "8192 bytes"


def test_each_day_of_the_history_is_shown(scene: Scene) -> None:
    worker = scene.at(0).work("w")
    scene.value("inturn.prepare_history(1)")
    scene.defer("t")
    scene.finish(worker, "succeeded", *scene.claim(worker))
    scene.value("pg_stat_force_next_flush()")
    assert pick(scene.ask("history_days"), "name", "jobs") == [
        ("finished_jobs_default", 0),
        ("finished_jobs_20300102", 0),
        ("finished_jobs_20300101", 1),
    ]


def end(scene: Scene, *jobs: tuple[float, float, float, str, str]) -> None:
    """Run jobs of a task: minutes ago deferred, started and ended, how, and which task."""
    worker = scene.at(100).work("w")
    scene.at(0).value("inturn.prepare_history(1)")
    for deferred, started, ended, status, task in jobs:
        scene.at(deferred).defer(task)
        claims = scene.at(started).claim(worker)
        scene.at(ended).finish(worker, status, *claims)
    scene.at(0)
    while scene.value("inturn.roll_up(1000)"):
        pass


def near(length: float) -> object:
    """Equal to so many minutes, up to what a bin of the rollup leaves open."""
    return pytest.approx(length * 60, rel=0.42)


def seconds(row: dict[str, Any], *columns: str) -> list[float]:
    return [row[column].total_seconds() for column in columns]


def test_the_throughput_is_counted_in_five_minutes_with_times(scene: Scene) -> None:
    end(
        scene,
        (90, 80, 70, "succeeded", "t"),  # before the hour
        (40, 30, 28, "succeeded", "t"),
        (40, 26, 26, "failed", "t"),
        (20, 18, 13, "aborted", "t"),
    )
    found = scene.ask("throughput_last_hour")
    assert pick(found, "at", "succeeded", "failed", "cancelled") == [
        (NOON - minutes(15), 0, 0, 1),
        (NOON - minutes(30), 1, 1, 0),
    ]
    assert seconds(found[0], "wait_p50", "run_p50") == [near(2), near(5)]
    assert seconds(found[1], "wait_p95", "run_p95") == [near(14), near(2)]


def test_tasks_that_fail_more_often_than_in_the_week_are_found(scene: Scene) -> None:
    end(
        scene,
        (300, 300, 300, "succeeded", "worse"),
        (300, 300, 300, "failed", "as ever"),
        (300, 300, 300, "failed", "better"),
        (30, 30, 30, "failed", "worse"),
        (30, 30, 30, "failed", "as ever"),
        (30, 30, 30, "succeeded", "better"),
        (30, 30, 30, "failed", "better"),
    )
    columns = ("task", "failed", "succeeded", "percent", "percent_of_week")
    assert pick(scene.ask("failure_rates"), *columns) == [("worse", 1, 0, 100, 50)]


def test_the_slowest_tasks_come_first(scene: Scene) -> None:
    end(scene, (40, 30, 29, "succeeded", "quick"), (40, 39, 19, "failed", "slow"))
    found = scene.ask("slow_tasks")
    assert pick(found, "task") == [("slow",), ("quick",)]
    assert seconds(found[0], "run_p50", "run_p95", "wait_p95") == [near(20), near(20), near(1)]
