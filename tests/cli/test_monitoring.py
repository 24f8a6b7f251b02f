"""`queue workers`, `queue queues`, `queue doctor`, and the views behind them."""

import json
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from inturn.cli import doctor_checks
from inturn.cli.database import Database
from tests.cli.conftest import Run
from tests.cli.engine import Engine

VIEWS = ["all_jobs", "live_jobs", "lane_status", "queue_status", "worker_status"]


def findings(queue: Run) -> tuple[int, dict[str, Any]]:
    ended = queue("doctor", "--json")
    return ended.returncode, {found["check"]: found for found in json.loads(ended.stdout)}


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
        "scheduled": 1,
        "claimed": 0,
        "doing": 1,
        "workers": 1,
        "more": False,
    }
    assert (mail["runnable"], mail["workers"]) == (1, 0)
    assert queue("queues", "list").stdout.splitlines()[2].split() == [
        "mail",
        "1",
        "2m00s",
        "ago",
        "0",
        "0",
        "0",
        "0",
        "0",
    ]


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


@pytest.mark.parametrize("view", VIEWS[1:])
def test_every_column_of_a_view_says_what_it_means(engine: Engine, view: str) -> None:
    assert (
        engine.query(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 "
            "AND col_description(attrelid, attnum) IS NULL",
            view,
        )
        == []
    )


def test_the_doctor_finds_nothing(engine: Engine, queue: Run) -> None:
    engine.sign_on()
    engine.defer("t", "a")
    status, found = findings(queue)
    assert {found[check]["state"] for check in found} == {"ok"}
    assert (status, len(found)) == (0, 10)
    assert queue("doctor").stdout.splitlines()[0] == "ok    schema        inturn fits this version"


def test_the_doctor_finds_a_schema_that_does_not_fit(engine: Engine, queue: Run) -> None:
    engine.query("UPDATE applied_code SET checksum = 'other'")
    status, found = findings(queue)
    assert (status, list(found)) == (10, ["schema"])
    assert found["schema"]["state"] == "fail"
    assert "queue migrate" in found["schema"]["advice"]


def test_the_doctor_finds_jobs_and_lanes_that_are_stuck(engine: Engine, queue: Run) -> None:
    engine.sign_on(["other"])
    engine.defer("t", "a", on_failure="halt")
    engine.fail(engine.claim(), None, "no")
    engine.defer("t", queue="mail")
    engine.defer("t")
    status, found = findings(queue)
    assert status == 10
    assert {
        check: found[check]["state"] for check in ("queues", "tasks", "lanes")
    } == dict.fromkeys(("queues", "tasks", "lanes"), "fail")
    assert found["queues"]["advice"] == "queue -a package.module:app worker --queues mail"
    assert "t (queue default)" in found["tasks"]["detail"]
    assert found["lanes"]["advice"] == "queue lanes explain a"


def lose(engine: Engine, error: str | None = None) -> None:
    """Lose the worker with the job that it claimed, and with its error if it could report one."""
    engine.query("DELETE FROM workers")
    engine.query("SELECT * FROM rescue(5, NULL, true, %s)", error)
    engine.query("UPDATE jobs SET status = 'todo', scheduled_at = NULL WHERE status = 'scheduled'")


def test_the_doctor_names_the_job_over_which_workers_die(engine: Engine, queue: Run) -> None:
    engine.at("2026-01-31 14:00:00+00")
    engine.defer("shop.odd", "a\x1b")
    engine.sign_on()
    engine.claim()
    lose(engine)
    engine.sign_on()
    assert findings(queue)[1]["crashes"]["state"] == "ok"  # this happens: a machine goes down
    engine.claim()
    lose(engine)
    engine.sign_on()
    status, found = findings(queue)
    assert (status, found["crashes"]["state"]) == (10, "fail")
    assert "job 1 (shop.odd, lock a\\x1b), 2 times" in found["crashes"]["detail"]
    assert found["crashes"]["advice"] == "queue jobs explain 1, or queue jobs cancel 1"
    engine.query("SELECT cancel_job(1)")
    assert findings(queue)[1]["crashes"]["state"] == "ok"


def test_the_doctor_finds_sequences_that_are_behind(engine: Engine, queue: Run) -> None:
    """This happens after an upgrade by logical replication."""
    engine.sign_on()
    for _ in range(3):
        engine.defer("t")
    engine.query("SELECT setval('jobs_id_seq', 1, false)")
    status, found = findings(queue)
    assert (status, found["sequences"]["state"]) == (10, "fail")
    assert found["sequences"]["detail"].endswith("jobs_id_seq is at 0, but must be at 3")
    engine.query(found["sequences"]["advice"])
    assert findings(queue)[1]["sequences"]["state"] == "ok"


def test_the_doctor_warns_of_a_job_that_a_worker_named_as_its_cause_of_death(
    engine: Engine, queue: Run
) -> None:
    engine.defer("shop.odd")
    engine.sign_on()
    engine.claim()
    lose(engine, "Traceback\nRecursionError: too deep")
    engine.sign_on()
    status, found = findings(queue)
    assert (status, found["crashes"]["state"]) == (0, "warn")
    assert found["crashes"]["detail"].endswith("job 1 (shop.odd), 1 time")


@pytest.mark.parametrize("where", ["doing", "scheduled"])
def test_the_doctor_finds_such_a_job_wherever_it_is(engine: Engine, queue: Run, where: str) -> None:
    engine.defer("shop.odd", delay="1 hour" if where == "scheduled" else None)
    engine.sign_on()
    engine.query(
        "UPDATE jobs SET errors = %s::jsonb",
        '[{"lost": true, "error": "x"}, {"lost": true, "error": "y"}]',
    )
    if where == "doing":
        engine.claim()
    assert engine.statuses() == {1: where}
    assert findings(queue)[1]["crashes"]["state"] == "fail"


def test_the_doctor_finds_lanes_reconciled_in_the_last_day(engine: Engine, queue: Run) -> None:
    engine.sign_on()
    engine.at("2026-01-30 13:00:00+00")
    engine.query("SELECT audit('reconcile', 'before', 1, 'inturn', 'no token')")
    engine.at("2026-01-31 14:00:00+00")
    engine.heartbeat()
    assert findings(queue)[1]["reconciler"]["state"] == "ok"
    engine.query("SELECT audit('reconcile', 'slept', 1, 'inturn', 'no token')")
    status, found = findings(queue)
    assert (status, found["reconciler"]["state"]) == (10, "fail")
    assert found["reconciler"]["detail"].endswith("had to be woken: slept")


def test_a_late_worker_alone_is_a_warning(engine: Engine, queue: Run) -> None:
    engine.at("2026-01-31 14:00:00+00")
    engine.sign_on()
    engine.at("2026-01-31 14:01:00+00")
    status, found = findings(queue)
    assert (status, found["workers"]["state"]) == (0, "warn")


def test_the_doctor_finds_a_long_transaction_and_a_clock_that_is_wrong(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(engine.dsn) as other, psycopg.connect(engine.dsn, autocommit=True) as own:
        other.execute("SELECT 1")  # and its transaction stays open
        pid = other.info.backend_pid

        def state_of(check: str) -> tuple[str, str]:
            (found,) = [
                found
                for found in doctor_checks.examine(Database(own, "inturn"))
                if found.check == check
            ]
            return found.state, found.advice or ""

        monkeypatch.setattr(doctor_checks, "LONG", timedelta(0))
        assert state_of("transactions") == (
            "warn",
            f"if nobody needs it: SELECT pg_terminate_backend({pid})",
        )
        monkeypatch.setattr(doctor_checks, "LONGER", timedelta(0))
        assert state_of("transactions")[0] == "fail"
        monkeypatch.setattr(doctor_checks, "SKEW", timedelta(hours=-1))
        assert state_of("clock")[0] == "warn"


def test_the_doctor_of_a_database_without_the_schema(run: Run, empty_dsn: str) -> None:
    ended = run("doctor", INTURN_DSN=empty_dsn)
    assert (ended.returncode, ended.stdout.splitlines()[1]) == (10, f"{'':<20}do: queue migrate")
