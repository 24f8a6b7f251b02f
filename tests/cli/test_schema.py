"""`queue migrate` and `queue schema`."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.cli.calling import SCRIPT, clean
from tests.cli.conftest import Run, Until

UPDATE = "UPDATE inturn.schema_version SET version_num = '9999'"


def test_migrating_creates_and_a_second_time_changes_nothing(run: Run, empty_dsn: str) -> None:
    first = run("migrate", "--dsn", empty_dsn)
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("schema inturn: revision none -> ")
    assert "functions and views applied" in first.stdout
    second = run("migrate", INTURN_DSN=empty_dsn)
    assert second.returncode == 0, second.stderr
    assert second.stdout.endswith("up to date\n")
    assert first.stderr == second.stderr == ""


@pytest.mark.fresh_database
def test_the_queue_can_be_removed_and_made_again(run: Run, dsn: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    (statement,) = re.findall("`(DROP SCHEMA .*?)`", page)
    with psycopg.connect(dsn) as connection:
        connection.execute(statement.encode())
    assert run("schema", "status", "--dsn", dsn).returncode == 11
    assert run("migrate", "--dsn", dsn).stdout.startswith("schema inturn: revision none -> ")


@pytest.mark.fresh_database
def test_another_schema_can_be_named(run: Run, dsn: str) -> None:
    assert run("schema", "upgrade", "--schema", "Mine!", "--dsn", dsn).stdout.startswith(
        "schema Mine!: revision none -> "
    )
    assert run("schema", "status", "--schema", "Mine!", "--dsn", dsn).returncode == 0


@pytest.mark.landing
def test_two_migrations_at_once_wait_for_each_other(empty_dsn: str, until: Until) -> None:
    with psycopg.connect(empty_dsn) as gate, psycopg.connect(empty_dsn, autocommit=True) as watcher:
        gate.execute("SELECT pg_advisory_xact_lock(hashtextextended('inturn migrate inturn', 0))")
        both = [
            subprocess.Popen(
                [SCRIPT, "migrate", "--dsn", empty_dsn],
                env=clean({}),
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        until(waiting(watcher, 2))
        gate.rollback()
        outputs = sorted(process.communicate(timeout=120)[0] for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert "up to date" in outputs[0]
    assert "none -> " in outputs[1]


def test_the_status_is_0_where_the_schema_fits(run: Run, dsn: str) -> None:
    ended = run("schema", "status", "--dsn", dsn)
    assert ended.returncode == 0, ended.stderr
    assert "fits inturn" in ended.stdout


@pytest.mark.fresh_database
def test_the_status_is_11_where_it_does_not(run: Run, dsn: str, empty_dsn: str) -> None:
    ended = run("schema", "status", INTURN_DSN=empty_dsn)
    assert ended.returncode == 11
    assert (
        ended.stderr == "error: The database has no tables of inturn in the schema 'inturn'. "
        "Create them: queue migrate\n"
    )
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE inturn.applied_code SET checksum = 'other'")
    assert run("schema", "status", "--dsn", dsn).returncode == 11
    assert "functions and views applied" in run("migrate", "--dsn", dsn).stdout
    assert run("schema", "status", "--dsn", dsn).returncode == 0


@pytest.mark.fresh_database
def test_an_old_version_does_not_migrate_a_newer_schema(run: Run, dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute(UPDATE)
        connection.execute("UPDATE inturn.applied_code SET checksum = 'newer'")
    ended = run("migrate", "--dsn", dsn)
    assert ended.returncode == 11
    assert "pip install --upgrade inturn" in ended.stderr
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT checksum FROM inturn.applied_code").fetchall() == [
            ("newer",)
        ]


def test_a_password_is_not_repeated_in_an_error(run: Run) -> None:
    ended = run("migrate", "--dsn", "postgresql://user:geheim@[host/x")
    assert ended.returncode == 2
    assert "geheim" not in ended.stderr


def waiting(watcher: psycopg.Connection, count: int) -> Callable[[], bool]:
    question = (
        "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database "
        "WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted"
    )
    return lambda: watcher.execute(question).fetchone() == (count,)
