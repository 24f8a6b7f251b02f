"""`verify` counts what is allowed by its reason, and does not report it."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from tests.verify.histories import Ended, History

SINCE = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=5)
SECOND = timedelta(seconds=1)
Connection = psycopg.Connection[Any]
Pair = tuple[Ended, Ended]


@pytest.fixture
def connection(dsn: str) -> Iterator[Connection]:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        yield connection


@pytest.fixture
def history() -> History:
    return History(6, SINCE, count=400)


def overtake(history: History) -> Pair:
    """Let a job start before one that was deferred a minute earlier, and return both."""
    pairs = (
        (first, second)
        for first, second in history.neighbours()
        if second.created_at - first.created_at > 60 * SECOND
    )
    [(first, second)] = history.choose(pairs, 1)
    history.overtake(first, second)
    return first, second


def find(history: History, connection: Connection) -> list[Any]:
    history.write(connection)
    return look(connection)


def look(connection: Connection) -> list[Any]:
    rows = connection.execute(
        "SELECT verdict, reason, job_id, other_id FROM verify() "
        "WHERE verdict NOT IN ('read', 'unknown')"
    )
    return rows.fetchall()


def priority(first: Ended, second: Ended) -> None:
    second.priority = 5


def schedule(first: Ended, second: Ended) -> None:
    first.scheduled_at = second.created_at


def ran_before(first: Ended, second: Ended) -> None:
    first.attempts = 2


@pytest.mark.parametrize(
    ("excuse", "expected"),
    [
        (priority, ("allowed", "priority")),
        (schedule, ("allowed", "schedule")),
        (ran_before, ("unsure", "retry")),
    ],
)
def test_a_reason(
    history: History,
    connection: Connection,
    excuse: Callable[[Ended, Ended], None],
    expected: tuple[str, str],
) -> None:
    first, second = overtake(history)
    excuse(first, second)
    assert find(history, connection) == [(*expected, second.id, first.id)]


def test_a_job_that_was_deferred_while_the_clock_was_ahead(
    history: History, connection: Connection
) -> None:
    """Its start tells that it was deferred before the other was due, whatever created_at says."""
    first, second = overtake(history)
    first.scheduled_at = second.created_at
    for job in history.jobs[second.id - 1 :]:
        job.created_at += 3600 * SECOND
    assert find(history, connection) == [("allowed", "schedule", second.id, first.id)]


def test_without_a_reason(history: History, connection: Connection) -> None:
    first, second = overtake(history)
    assert find(history, connection) == [("broken", None, second.id, first.id)]


def test_a_retry_that_releases_its_lane(history: History, connection: Connection) -> None:
    first, second = overtake(history)
    first.attempts = 2
    history.write(connection)
    history.jobs.clear()
    connection.execute("UPDATE finished_jobs SET on_retry = 'release' WHERE id = %s", [first.id])
    assert find(history, connection) == [("allowed", "release", second.id, first.id)]


def test_a_person(history: History, connection: Connection) -> None:
    first, second = overtake(history)
    connection.execute("SELECT audit('change-job', NULL, 1, 'eve', NULL, %s)", [first.id])
    assert find(history, connection) == [("allowed", "operator", second.id, first.id)]


@pytest.mark.parametrize(
    ("after", "expected"), [(0, ("unsure", "bulk change")), (9, ("broken", None))]
)
def test_a_person_who_moved_many_jobs_in_between(
    history: History, connection: Connection, after: int, expected: tuple[str, str | None]
) -> None:
    first, second = overtake(history)
    connection.execute("SELECT audit('move-jobs', NULL, 9, 'eve', NULL)")
    moved_at = second.started_at + timedelta(hours=after)
    connection.execute("UPDATE lane_audit SET at = %s", [moved_at])
    assert find(history, connection) == [(*expected, second.id, first.id)]


def test_a_job_that_was_put_back_and_cancelled_never_ran(
    history: History, connection: Connection
) -> None:
    """It keeps the start and the fence of its claim."""
    [(first, second)] = history.choose(history.neighbours(), 1)
    first.finished_at = second.finished_at + SECOND
    history.write(connection)
    history.jobs.clear()
    connection.execute("UPDATE finished_jobs SET status = 'cancelled' WHERE id = %s", [first.id])
    assert find(history, connection) == []


def test_a_start_within_a_call_of_the_end(history: History, connection: Connection) -> None:
    pairs = (
        pair for pair in history.neighbours() if pair[1].finished_at - pair[1].started_at > SECOND
    )
    [(first, second)] = history.choose(pairs, 1)
    first.finished_at = second.started_at + SECOND / 100
    assert find(history, connection) == [("unsure", "waiting call", second.id, first.id)]


def test_runs_of_a_job_that_overlap(history: History, connection: Connection) -> None:
    """Its errors remember the earlier run, which ended after the last one began."""
    one, two = history.random.sample(history.jobs, 2)
    for job, late in ((one, 6 * SECOND), (two, SECOND)):
        job.attempts = 2
        began, at = job.started_at - SECOND, job.started_at + late
        job.errors = f'[{{"attempt": 1, "started_at": "{began}", "at": "{at}"}}]'
    found = [row for row in find(history, connection) if row[2] in (one.id, two.id)]
    assert [row for row in found if row[0] == "broken"] == [("broken", None, one.id, None)]
    assert ("unsure", "waiting call", two.id, None) in found


@pytest.mark.parametrize(("closed", "verdict"), [(-SECOND, "broken"), (SECOND, "unsure")])
def test_a_batch_that_ended_before_it_was_closed_shows_that_the_clock_was_set_back(
    history: History, connection: Connection, closed: timedelta, verdict: str
) -> None:
    job = history.jobs[200]
    end = job.finished_at - 60 * SECOND
    [(job.batch_id,)] = connection.execute(
        "INSERT INTO batches (name, opened_at, closed_at, ended_at) VALUES ('b', %s, %s, %s) "
        "RETURNING id",
        [SINCE, end + closed, end],
    ).fetchall()
    reason = "clock set back" if verdict == "unsure" else None
    assert find(history, connection) == [(verdict, reason, job.id, None)]


def test_a_pending_job_that_a_person_frees_is_due_only_then(connection: Connection) -> None:
    """Otherwise it would seem to have been overtaken by all that started while it waited."""
    [(child,)] = connection.execute(
        "SELECT defer('child', lock => 'a', after => ARRAY[defer('parent')])"
    ).fetchall()
    connection.execute("SELECT claim(%s, '{other}', 1)", [register(connection)])
    assert status(connection, child)[0] == "pending"
    [(now,)] = connection.execute("SELECT clock()").fetchall()
    connection.execute("SELECT retry_job(%s)", [child])
    freed, due = status(connection, child)
    assert freed == "todo"
    assert due > now


def test_a_job_that_was_put_back_while_others_shared_its_lane(connection: Connection) -> None:
    """The worker had never begun it, and another has run what shares its lane meanwhile."""
    for _ in range(2):
        connection.execute("SELECT defer('reader', locks => '{a}', shared => '{a}')")
    connection.execute("UPDATE jobs SET created_at = %s", [SINCE])  # none was committed late
    (lost, claim_id), (other, other_claim) = [claim_one(connection) for _ in range(2)]
    end(connection, other, other_claim)
    connection.execute("SELECT put_back(%s, %s)", [[lost], [claim_id]])
    assert look(connection) == [("allowed", "schedule", other, lost)]
    end(connection, *claim_one(connection))
    assert look(connection) == [("allowed", "schedule", other, lost)]


@pytest.mark.parametrize("ended", [True, False])
def test_a_callback_that_a_person_freed(
    history: History, connection: Connection, ended: bool
) -> None:
    job = history.jobs[200]
    end = job.started_at + 60 * SECOND if ended else None
    [(job.batch_id,)] = connection.execute(
        "INSERT INTO batches (name, callback_id, opened_at, closed_at, ended_at) "
        "VALUES ('b', %s, %s, %s, %s) RETURNING id",
        [job.id, SINCE, SINCE, end],
    ).fetchall()
    assert find(history, connection) == [("broken", None, job.id, None)]
    connection.execute("UPDATE finished_jobs SET scheduled_at = started_at WHERE id = %s", [job.id])
    history.jobs.clear()
    assert find(history, connection) == [("unsure", "retry", job.id, None)]


def status(connection: Connection, id: int) -> Any:
    rows = connection.execute("SELECT status, scheduled_at FROM jobs WHERE id = %s", [id])
    return rows.fetchall()[0]


def register(connection: Connection) -> Any:
    rows = connection.execute("SELECT register_worker('w', 'here', 1, '{other}', 1)")
    return rows.fetchall()[0][0]


def claim_one(connection: Connection) -> Any:
    claimed = "SELECT id, claim_id FROM claim(%s, NULL, 1)"
    [job] = connection.execute(claimed, [register(connection)]).fetchall()
    return job


def end(connection: Connection, id: int, claim_id: Any) -> None:
    finish = "SELECT finish(NULL, NULL, 0, %s, %s, '{succeeded}', '{NULL}')"
    connection.execute(finish, [[id], [claim_id]])
