"""`queue workers`, `queue queues`, and the views behind them."""

import json
import re

import psycopg
import pytest

from tests.cli.conftest import Run
from tests.cli.engine import Engine

VIEWS = ["all_jobs", "live_jobs", "lane_status", "paused_lanes", "queue_status", "worker_status"]
OTHERS = ["halted_lanes", "recent_failures", "shared_errors", "suspect_jobs", "unknown_tasks"]


def test_workers_are_listed_late_ones_first(engine: Engine, queue: Run) -> None:
    engine.at("2026-01-31 14:00:00+00")
    late = engine.sign_on(["t"])
    engine.at("2026-01-31 14:00:31+00")
    live = engine.sign_on()
    engine.defer("t")
    engine.claim()
    lines = queue("workers", "list").stdout.splitlines()
    assert [line.split()[:6] for line in lines[1:]] == [
        ["w", "late", "0/1", "0", "default", "31s"],
        ["w", "live", "1/1", "0", "default", "0s"],
    ]
    rows = json.loads(queue("workers", "list", "--json").stdout)
    assert [(row["id"], row["state"], row["tasks"]) for row in rows] == [
        (str(late), "late", ["t"]),
        (str(live), "live", None),
    ]


def test_a_worker_is_alive_if_it_was_heard_of_and_its_loop_turned_lately(
    engine: Engine, queue: Run
) -> None:
    engine.at("2026-01-31 14:00:00+00")
    engine.sign_on()
    engine.at("2026-01-31 14:01:00+00")

    def is_alive(*asked: str) -> int:
        return queue("workers", "list", *asked).returncode

    assert is_alive("--name", "w", "--max-age", "60s") == is_alive("--max-age", "2m") == 0
    assert is_alive("--name", "w", "--max-age", "59s") == is_alive("--name", "other") == 3
    engine.query("SELECT heartbeat(id, '2 minutes') FROM workers")  # and its loop is blocked
    assert is_alive("--max-age", "110s") == 3
    engine.heartbeat()
    assert is_alive("--name", "w", "--max-age", "1s") == 0
    missing = queue("workers", "list", "--name", "x\x1b", "--max-age", "90s")
    assert (missing.stdout, missing.stderr) == (
        "",
        "error: No worker named x\\x1b that was alive in the last 1m30s was found. "
        "To see all workers: queue workers list\n",
    )


def test_a_stopping_worker_is_named_as_one_and_serves_no_queue(engine: Engine, queue: Run) -> None:
    engine.sign_on()
    engine.defer("t")
    engine.claim()
    engine.query("SELECT heartbeat(id, p_stopping => true) FROM workers")
    [line] = queue("workers").stdout.splitlines()[1:]
    assert line.split()[:3] == ["w", "stopping", "1/1"]
    detail = "no worker takes jobs: stopping: w"
    assert f"warn  workers  {detail}" in re.sub("  +", "  ", queue("doctor").stdout)
    engine.defer("t")
    pages = [queue(*each).stdout for each in (("doctor",), ("jobs", "explain", "2"), ("top",))]
    for page in pages:
        assert "no live worker serves" in page, page
        assert "worker --queues default" in page, page
    assert "workers: 1 stopping" in pages[-1]
    assert json.loads(queue("queues", "list", "--json").stdout)[0]["workers"] == 0
    detail = "no live worker, but jobs are waiting: stopping: w"
    assert f"fail  workers  {detail}" in re.sub("  +", "  ", queue("doctor").stdout)
    engine.sign_on()
    assert "1 live, 1 stopping" in queue("doctor", "-v").stdout
    engine.query("SELECT heartbeat(id, '1 minute', p_stopping => true) FROM workers")
    assert "no live worker serves" in queue("doctor").stdout, "blocked workers may stop too"


def test_queues_are_listed_with_runnable_jobs_apart_from_blocked_ones(
    engine: Engine, queue: Run
) -> None:
    engine.at("2026-01-31 14:00:00+00")
    engine.sign_on()
    for lock in ("held", None, "held", "held", "free", "free", "stopped"):
        engine.defer("t", lock)
    engine.query("SELECT pause_lane('stopped')")
    engine.claim()
    engine.defer("t", delay="1 minute")
    engine.defer("t", delay="1 hour")
    engine.defer("t", queue="mail")
    engine.at("2026-01-31 14:02:00+00")
    engine.heartbeat()
    default, mail = json.loads(queue("queues", "list", "--json").stdout)
    # Runnable: the job without a lock, one of the two in the free lane, and the one that has
    # become due.
    assert default == {
        "queue": "default",
        "runnable": 3,
        "runnable_since": "2026-01-31T14:00:00Z",
        "blocked": 4,
        "limited": 0,
        "scheduled": 1,
        "pending": 0,
        "claimed": 0,
        "doing": 1,
        "workers": 1,
        "more": False,
        "oldest_id": "2",
    }
    assert (mail["runnable"], mail["workers"]) == (1, 0)
    assert queue("queues", "list").stdout.splitlines()[2].split() == [
        "mail",
        "1",
        "2m00s",
        "ago",
        *["0"] * 7,
    ]


def test_tasks_are_listed_with_their_rates_and_times(engine: Engine, queue: Run) -> None:
    engine.at("2026-01-31 14:00:00+00")
    engine.query("SELECT prepare_history(1)")
    worker = engine.sign_on()
    for task, status in (("mail", "succeeded"), ("mail", "failed"), ("pay", "succeeded")):
        engine.defer(task)
        engine.query(
            "SELECT count(*) FROM claim(%s, NULL, 1) AS job, LATERAL finish(%s, NULL, 0,"
            " ARRAY[job.id], ARRAY[job.claim_id], ARRAY[%s::job_status], '{NULL}')",
            worker, worker, status,
        )  # fmt: skip
    assert "No figures yet" in queue("tasks", "list").stderr
    engine.query("SELECT roll_up(100)")
    engine.at("2026-01-31 14:30:00+00")
    mail, pay = json.loads(queue("tasks", "list", "--json").stdout)
    assert (mail["task"], mail["succeeded"], mail["failed"]) == ("mail", 1, 1)
    assert (pay["task"], pay["failed_share"]) == ("pay", 0)
    assert 0 <= mail["run_p95"] <= 0.001
    lines = [line.split() for line in queue("tasks", "list").stdout.splitlines()]
    percentiles = "WAIT P50 WAIT P95 RUN P50 RUN P95"
    assert " ".join(lines[0]) == f"TASK PER MINUTE SUCCEEDED FAILED {percentiles}"
    assert lines[1][:5] == ["mail", "0.0", "1", "1", "(50.0%)"]


@pytest.mark.parametrize("group", ["queues", "workers"])
def test_a_group_that_can_only_list_lists(engine: Engine, queue: Run, group: str) -> None:
    engine.at("2026-01-31 14:00:00+00")
    engine.sign_on()
    engine.defer("t")
    assert queue(group).stdout.split() == queue(group, "list").stdout.split() != []
    assert "Usage" in queue(group, "--help").stdout
    assert queue(group, "lst").returncode == 2


def test_claims_take_exactly_the_jobs_that_count_as_runnable(engine: Engine, queue: Run) -> None:
    engine.sign_on()
    for number in range(12):
        engine.defer("t", f"lane {number % 5}" if number % 3 else None)
    (row,) = json.loads(queue("queues", "list", "--json").stdout)
    claimed = engine.query("SELECT id FROM claim((SELECT id FROM workers), '{default}', 100)")
    assert row["runnable"] == len(claimed)
    (row,) = json.loads(queue("queues", "list", "--json").stdout)
    assert (row["runnable"], row["blocked"]) == (0, 12 - len(claimed))
    assert (row["claimed"], row["doing"]) == (len(claimed) - 1, 1)  # it has one slot


def test_counts_of_queues_are_bounded(engine: Engine, queue: Run) -> None:
    engine.query(
        "INSERT INTO jobs (created_at, status, task) "
        "SELECT clock(), 'todo', 't' FROM generate_series(1, 2000)"
    )
    assert queue("queues", "list").stdout.splitlines()[1].split()[:2] == ["default", "1,000+"]


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_needs_no_search_path(engine: Engine, view: str) -> None:
    engine.sign_on()
    engine.defer("t", "a")
    engine.query("SELECT pause_lane('a')")
    with psycopg.connect(engine.dsn) as connection:
        assert connection.execute(f"SELECT * FROM inturn.{view}".encode()).fetchall()


@pytest.mark.parametrize("view", VIEWS[1:] + OTHERS)
def test_every_column_of_a_view_says_what_it_means(engine: Engine, view: str) -> None:
    assert (
        engine.query(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 "
            "AND col_description(attrelid, attnum) IS NULL",
            view,
        )
        == []
    )


def test_each_column_of_the_list_of_queues_has_its_own_number(engine: Engine, queue: Run) -> None:
    worker = engine.sign_on()
    for _ in range(3):
        engine.defer()
    engine.query("SELECT FROM claim(%s, '{default}', 3)", worker)  # it runs one at once
    for status, count, lock, limit in (
        ("todo", 4, None, None),
        ("blocked", 5, "lane", None),
        ("limited", 6, None, "bank"),
        ("scheduled", 7, None, None),
        ("pending", 8, None, None),
    ):
        engine.query(
            "INSERT INTO jobs (created_at, status, task, lock, limit_key, scheduled_at) "
            "SELECT clock(), %s, 't', %s, %s, CASE %s WHEN 'scheduled' THEN clock() + '1 day' END "
            "FROM generate_series(1, %s)",
            *(status, lock, limit, status, count),
        )
    head, row = queue("queues", "list").stdout.splitlines()
    names = [name for name in head.split() if name not in ("QUEUE", "OLDEST")]
    numbers = [int(word) for word in row.split() if word.isdigit()]
    assert dict(zip(names, numbers, strict=True)) == {
        "RUNNABLE": 4, "BLOCKED": 5, "LIMITED": 6, "SCHEDULED": 7, "PENDING": 8, "CLAIMED": 2,
        "DOING": 1, "WORKERS": 1,
    }  # fmt: skip
