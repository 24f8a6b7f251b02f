"""`queue bench`: a short measurement on the user's server, which leaves nothing behind."""

import json

import psycopg

from tests.cli.conftest import Run


def test_it_measures_and_leaves_nothing_behind(run: Run, dsn: str) -> None:
    ended = run("bench", "--quick", "--json", "--dsn", dsn)
    assert ended.returncode == 0, ended.stderr
    found = {row["what"]: row for row in json.loads(ended.stdout)}
    assert len(found) == 8
    assert all(row["value"] > 0 for row in found.values())
    assert found["run jobs of one lock"]["unit"] == "jobs/s"
    with psycopg.connect(dsn) as connection:
        schemas = connection.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'inturn%'"
        ).fetchall()
        jobs = connection.execute("SELECT count(*) FROM inturn.all_jobs").fetchone()
    assert (schemas, jobs) == ([("inturn",)], (0,))


def test_a_database_that_is_away_is_one_line(run: Run) -> None:
    ended = run("bench", "--dsn", "postgresql://127.0.0.1:1/x")
    assert ended.returncode == 69
    assert ended.stderr.startswith("error: The database cannot be reached")


def test_a_server_that_accepts_no_writes_is_exit_69(queue: Run) -> None:
    ended = queue("bench", "--quick", PGOPTIONS="-c default_transaction_read_only=on")
    assert ended.returncode == 69
    assert "read-only transaction" in ended.stderr
