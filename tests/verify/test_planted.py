"""`verify` finds each violation that is planted in a history, and nothing in one without any."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from inturn import App
from inturn.errors import BadArgument
from tests.conftest import Query
from tests.verify.broken import break_a_lane
from tests.verify.histories import KEYS, SLOTS, Ended, History

SINCE = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=5)
SECOND = timedelta(seconds=1)
TIMES = 10
SEEDS = (1, 2, 3)


@pytest.fixture
def connection(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        yield connection


@pytest.fixture(params=SEEDS)
def history(request: pytest.FixtureRequest) -> History:
    return History(request.param, SINCE)


@pytest.fixture(params=SEEDS)
def long_history(request: pytest.FixtureRequest) -> History:
    return History(request.param, SINCE, count=2000)


def find(history: History, connection: psycopg.Connection[Any]) -> set[tuple[str, int]]:
    """Return the promises that were broken, and the jobs that broke them."""
    history.write(connection)
    rows = connection.execute("SELECT promise, job_id FROM verify() WHERE verdict = 'broken'")
    return set(rows.fetchall())


def test_a_history_without_violations(
    history: History, connection: psycopg.Connection[Any]
) -> None:
    assert find(history, connection) == set()
    rows = connection.execute("SELECT verdict, jobs FROM verify() WHERE verdict <> 'unknown'")
    assert rows.fetchall() == [("read", history.count)]


def test_overlaps(history: History, connection: psycopg.Connection[Any]) -> None:
    planted = history.choose(history.neighbours(), TIMES)
    for first, second in planted:
        first.finished_at = second.finished_at + SECOND / 1000
    found = find(history, connection)
    assert {("overlap", second.id) for _, second in planted} <= found
    assert {promise for promise, _ in found} == {"overlap"}


def test_a_reader_beside_a_job_that_has_the_lane_alone(
    history: History, connection: psycopg.Connection[Any]
) -> None:
    pairs = [
        (writer, reader)
        for reader in history.jobs
        if reader.shared
        for writer in history.jobs
        if set(writer.lanes) & set(reader.shared) and not writer.shared and writer.id < reader.id
    ]
    last = {reader.id: (writer, reader) for writer, reader in pairs}
    planted = history.choose(last.values(), TIMES)
    for writer, reader in planted:
        writer.finished_at = reader.finished_at + SECOND / 1000
    assert {("overlap", reader.id) for _, reader in planted} <= find(history, connection)


def test_inversions(history: History, connection: psycopg.Connection[Any]) -> None:
    planted = history.choose(
        (
            pair
            for pair in history.neighbours()
            if pair[1].created_at - pair[0].created_at > 60 * SECOND
        ),
        TIMES,
    )
    for pair in planted:
        history.overtake(*pair)
    assert {("order", second.id) for _, second in planted} <= find(history, connection)


def test_jobs_that_ran_twice(history: History, connection: psycopg.Connection[Any]) -> None:
    planted = history.random.sample(history.jobs, TIMES)
    for number, job in enumerate(planted):
        again = Ended(**{**vars(job), "fence": history.count + number + 1})
        again.started_at = again.finished_at = history.jobs[-1].finished_at + number * SECOND
        history.jobs.append(again)
    found = find(history, connection)
    assert {job for promise, job in found if promise == "once"} == {job.id for job in planted}


def test_jobs_that_ended_and_live(query: Query, dsn: str) -> None:
    history = History(4, SINCE, count=100)
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        history.write(connection)
    query(
        "WITH again AS (INSERT INTO jobs (id, created_at, status, task) OVERRIDING SYSTEM VALUE "
        "SELECT id, created_at, 'todo', task FROM finished_jobs WHERE id = 50 RETURNING 1) "
        "SELECT * FROM again"
    )
    assert query("SELECT promise, job_id FROM verify() WHERE verdict = 'broken'") == [("once", 50)]


def test_lost_fences(history: History, connection: psycopg.Connection[Any]) -> None:
    planted = history.choose(
        (pair for pair in history.neighbours() if pair[0].finished_at < pair[1].started_at), TIMES
    )
    for first, second in planted:
        swap(first, second, "fence")
    found = find(history, connection)
    assert {job for promise, job in found if promise == "fence"} >= {
        first.id for first, _ in planted
    }
    assert {promise for promise, _ in found} == {"fence"}


def test_a_fence_that_was_given_twice(
    history: History, connection: psycopg.Connection[Any]
) -> None:
    planted = history.choose(history.neighbours(), TIMES)
    near = [pair for pair in planted if pair[1].id - pair[0].id < 200]
    for first, second in near:
        second.fence = first.fence
    found = find(history, connection)
    assert {("fence", second.id) for _, second in near} <= found


def test_slots(history: History, connection: psycopg.Connection[Any]) -> None:
    connection.execute("SELECT set_limit('key *', %s)", [SLOTS])
    connection.execute("UPDATE lane_audit SET at = %s", [SINCE - 60 * SECOND])
    lines = [[job for job in history.jobs if job.limit_key == key] for key in KEYS]
    for line in lines:
        line.sort(key=lambda job: job.fence)
    groups = [tuple(line[n : n + 3]) for line in lines for n in range(0, len(line) - 6, 5)]
    planted = history.random.sample(groups, TIMES)
    for one, two, three in planted:
        one.finished_at = two.finished_at = three.finished_at + SECOND / 1000
    found = find(history, connection)
    assert {("limit", three.id) for _, _, three in planted} <= found
    assert {promise for promise, _ in found} == {"limit"}


def test_a_limit_that_was_changed_since_is_not_judged(
    history: History, connection: psycopg.Connection[Any]
) -> None:
    connection.execute("SELECT set_limit('key *', 1)")
    assert find(history, connection) == set()
    connection.execute("UPDATE lane_audit SET at = %s", [SINCE - 60 * SECOND])
    rows = connection.execute("SELECT promise FROM verify() WHERE verdict = 'broken'").fetchall()
    assert set(rows) == {("limit",)}


def test_rates(long_history: History, connection: psycopg.Connection[Any]) -> None:
    connection.execute("SELECT set_limit('key *', NULL, 30, '1 minute', 20)")
    connection.execute("UPDATE lane_audit SET at = %s", [SINCE - 60 * SECOND])
    lines = [[job for job in long_history.jobs if job.limit_key == key] for key in KEYS]
    places = [(line, n) for line in lines for n in range(0, len(line) - 25, 30)]
    planted = long_history.random.sample(places, TIMES)
    for line, place in planted:
        for job in line[place : place + 22]:  # one more than the burst and the rate of a second
            job.started_at = line[place].started_at + SECOND / 30 * (job.id % 2)
    long_history.give_fences()
    found = find(long_history, connection)
    for line, place in planted:
        assert {("limit", job.id) for job in line[place : place + 22]} & found
    assert {promise for promise, _ in found} == {"limit"}


def test_jobs_that_start_before_their_parents_end(
    history: History, connection: psycopg.Connection[Any]
) -> None:
    pairs = zip(history.jobs, history.jobs[1:], strict=False)
    planted = history.choose(
        (pair for pair in pairs if pair[0].finished_at > pair[1].finished_at), TIMES
    )
    for parent, child in planted:
        connection.execute(
            "INSERT INTO edges (parent, child, on_parent) VALUES (%s, %s, 'go')",
            [parent.id, child.id],
        )
    assert find(history, connection) == {("parent", child.id) for _, child in planted}


def test_batches_that_end_early(history: History, connection: psycopg.Connection[Any]) -> None:
    members = history.random.sample(history.jobs, 20 * TIMES)
    planted = []
    for number in range(TIMES):
        jobs = sorted(members[20 * number : 20 * number + 20], key=lambda job: job.finished_at)
        *_, late, callback = jobs
        early = late.finished_at - 6 * SECOND
        [(id,)] = connection.execute(
            "INSERT INTO batches (name, callback_id, opened_at, ended_at) "
            "VALUES ('b', %s, %s, %s) RETURNING id",
            [callback.id, SINCE, early if number % 2 else callback.started_at + 20 * SECOND],
        ).fetchall()
        for job in jobs:
            job.batch_id = id
        planted.append(late.id if number % 2 else callback.id)
    assert {("batch", id) for id in planted} <= find(history, connection)


def test_where_the_clock_was_set_back_nothing_is_certain(
    long_history: History, connection: psycopg.Connection[Any]
) -> None:
    """The clock was an hour ahead for ten minutes."""
    ahead = long_history.jobs[500].created_at, long_history.jobs[500].created_at + 600 * SECOND
    late = [pair for pair in long_history.neighbours() if pair[0].id > 1500]
    [(first, second)] = long_history.choose(late, 1)
    first.finished_at = second.finished_at + SECOND / 1000
    for job in long_history.jobs:
        for name in ("created_at", "started_at", "finished_at"):
            at = getattr(job, name)
            setattr(job, name, at + 3600 * SECOND if ahead[0] <= at < ahead[1] else at)
    assert find(long_history, connection) == {("overlap", second.id)}
    rows = connection.execute("SELECT sum(jobs) FROM verify() WHERE reason = 'clock set back'")
    assert rows.fetchall() > [(10,)]


def test_a_clock_that_is_wrong_while_jobs_are_deferred(
    history: History, connection: psycopg.Connection[Any]
) -> None:
    """A job that was committed late has an excuse, even if it seems to be an hour old."""
    pairs = (
        pair
        for pair in history.neighbours()
        if pair[1].created_at - pair[0].created_at < 50 * SECOND
    )
    for first, second in history.choose(pairs, TIMES):
        swap(first, second, "started_at", "finished_at", "fence")
        first.created_at -= 3600 * SECOND
    assert find(history, connection) == set()


def test_a_call_that_waited_does_not_look_like_a_clock_that_was_set_back(
    history: History, connection: psycopg.Connection[Any]
) -> None:
    [(first, second)] = history.choose(history.neighbours(), 1)
    first.finished_at = second.finished_at + SECOND / 1000
    begun = first.created_at - 30 * SECOND
    for job in history.jobs[first.id : first.id + 20]:
        job.created_at = begun  # by a call that was blocked for half a minute
    assert find(history, connection) == {("overlap", second.id)}


def swap(one: Ended, other: Ended, *names: str) -> None:
    for name in names:
        mine, its = getattr(one, name), getattr(other, name)
        setattr(one, name, its)
        setattr(other, name, mine)


def test_a_time_before_the_calendar_is_the_whole_history(app: App, query: Query) -> None:
    break_a_lane(query)
    assert app.verify(timedelta(days=10_000_000)).violations == app.verify().violations == 1


def test_a_moment_without_a_zone_is_refused(app: App) -> None:
    with pytest.raises(BadArgument, match="has no zone"):
        app.verify(datetime(2026, 1, 1))
