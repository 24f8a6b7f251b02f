"""Where the server tracks when transactions were committed, `verify` judges by that."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from inturn.embedded import Server
from inturn.schema.migrate import migrate, prepare_history
from tests.verify.histories import Ended, History

Connection = psycopg.Connection[Any]
OPTIONS = "-c search_path=inturn"


@pytest.fixture(scope="module", params=["on", "off"])
def server(request: pytest.FixtureRequest, bin_dir: Path | None) -> Iterator[tuple[str, bool]]:
    with Server(bin_dir=bin_dir, settings={"track_commit_timestamp": request.param}) as server:
        migrate(server.dsn())
        prepare_history(server.dsn())
        yield server.dsn(), request.param == "on"


@pytest.fixture
def connection(server: tuple[str, bool]) -> Iterator[Connection]:
    with psycopg.connect(server[0], autocommit=True, options=OPTIONS) as connection:
        yield connection
        connection.execute("TRUNCATE finished_jobs, jobs, workers, lanes CASCADE")


@pytest.fixture
def tracks(server: tuple[str, bool]) -> bool:
    return server[1]


def find(connection: Connection) -> list[Any]:
    rows = connection.execute(
        "SELECT verdict, promise, reason, job_id FROM verify() "
        "WHERE verdict NOT IN ('read', 'unknown')"
    )
    return rows.fetchall()


def now(connection: Connection) -> Any:
    return connection.execute("SELECT clock_timestamp()").fetchall()[0][0]


def add(connection: Connection, *jobs: Ended) -> None:
    history = History(1, jobs[0].created_at, count=0)
    history.jobs += jobs
    history.write(connection)


def test_a_job_that_starts_before_the_end_of_another_is_committed(
    connection: Connection, server: tuple[str, bool], tracks: bool
) -> None:
    """The end of the first is told, and then the second runs, and only then it is committed."""
    begin = now(connection)
    with psycopg.connect(server[0], options=OPTIONS) as first:
        add(first, Ended(1, begin, begin, now(connection), fence=1, lock="a"))
        start = now(connection)
        add(connection, Ended(2, begin, start, now(connection), fence=2, lock="a"))
    assert find(connection) == ([("broken", "overlap", None, 2)] if tracks else [])


def test_ends_that_are_committed_in_turn(connection: Connection) -> None:
    for id in range(1, 20):
        begin = now(connection)
        add(connection, Ended(id, begin, begin, now(connection), fence=id, lock="a"))
    assert find(connection) == []


def test_rows_that_were_written_again(connection: Connection) -> None:
    """As after a restore: every row was committed after everything had ended."""
    test_ends_that_are_committed_in_turn(connection)
    connection.execute("UPDATE finished_jobs SET task = 'other'")
    assert find(connection) == []


def test_a_row_that_was_written_again_much_later(connection: Connection) -> None:
    ago = now(connection) - timedelta(hours=1)
    for id in (1, 2):
        at = ago + timedelta(minutes=id)
        add(connection, Ended(id, at, at, at, fence=id, lock="a"))
    connection.execute("UPDATE finished_jobs SET task = 'other' WHERE id = 1")
    assert find(connection) == []


def test_a_job_that_waits_was_committed_in_time(connection: Connection, tracks: bool) -> None:
    """Within a minute, another that was deferred later has started. By hand: the engine would not."""
    run_past_a_waiting_job(connection, connection)
    verdict = ("broken", "order", None, 2) if tracks else ("allowed", "order", "late commit", 2)
    assert find(connection) == [verdict]


def test_a_job_that_waits_was_committed_late(
    connection: Connection, server: tuple[str, bool]
) -> None:
    with psycopg.connect(server[0], options=OPTIONS) as late:
        run_past_a_waiting_job(late, connection)
    assert find(connection) == [("allowed", "order", "late commit", 2)]


def run_past_a_waiting_job(first: Connection, second: Connection) -> None:
    insert = (
        "INSERT INTO jobs (id, created_at, status, task, lock) OVERRIDING SYSTEM VALUE "
        "VALUES (1, clock_timestamp(), 'todo', 't', 'a')"
    )
    first.execute(insert)
    begin = now(second)
    add(second, Ended(2, begin, begin, now(second), fence=1, lock="a"))
