"""A lane stands still because its next job waits for another lane: `lane_status` says so."""

from collections.abc import Iterator
from contextlib import closing
from uuid import UUID

import psycopg
import pytest

from tests.cli.engine import Engine
from tests.sql.counted import Counter

pytestmark = pytest.mark.fresh_database


@pytest.fixture
def engine(dsn: str) -> Iterator[Engine]:
    with closing(Engine(dsn)) as engine:
        yield engine


def defer(engine: Engine, *locks: str, shared: str | None = None, limit: str | None = None) -> int:
    ((id,),) = engine.query(
        "SELECT defer('t', locks => %s::text[], shared => %s::text[], limit_key => %s)",
        *(list(locks), shared and [shared], limit),
    )
    assert isinstance(id, int)
    return id


def end(engine: Engine, claimed: tuple[int, UUID]) -> None:
    engine.query(
        "SELECT finish((SELECT id FROM workers), '{default}', 0, ARRAY[%s::bigint], ARRAY[%s],"
        " '{succeeded}', '{NULL}')",
        *claimed,
    )


Row = tuple[str, str | None, int | None, int]


def lanes(engine: Engine) -> dict[str, Row]:
    """Return the lanes that people see, and make sure that all who tell of them agree."""
    shown = {
        lock: row
        for lock, *row in engine.query(
            "SELECT lock, state::text, waits_for, job_id, waiting FROM lane_status"
        )
    }
    listed = engine.query("SELECT lock FROM list_lanes(100)")
    assert {lock for (lock,) in listed} == set(shown)
    assert engine.query("SELECT count_lanes(100)") == [(len(shown),)]
    idle = {lock for lock, (state, *_) in shown.items() if state == "idle"}
    assert {lock for (lock,) in engine.query("SELECT lock FROM list_lanes(9, '{idle}')")} == idle
    assert engine.query("SELECT count_lanes(100, '{idle}')") == [(len(idle),)]
    for lock in idle:
        told = engine.query("SELECT state, waits_for, head_id FROM lane_report(%s)", lock)
        assert told == [tuple(shown[lock][:3])]
    return {lock: (row[0], row[1], row[2], row[3]) for lock, row in shown.items()}


def test_a_lane_is_idle_while_its_next_job_waits_for_another_lane(engine: Engine) -> None:
    first = engine.defer(lock="b")
    claimed = engine.claim()
    both = defer(engine, "a", "b", "c")
    engine.defer(lock="c")
    assert lanes(engine) == {
        "a": ("idle", "b", both, 1),
        "b": ("held", None, first, 1),
        "c": ("idle", "b", both, 2),
    }
    end(engine, claimed)
    assert lanes(engine) == {}, "it can start, as jobs in other lanes without a row"
    engine.claim()
    assert {lock: row[0] for lock, row in lanes(engine).items()} == dict.fromkeys("abc", "held")


def test_it_waits_for_a_job_that_goes_first_in_the_other_lane(engine: Engine) -> None:
    engine.defer(lock="b")
    both = defer(engine, "a", "b")
    assert lanes(engine) == {"a": ("idle", "b", both, 1)}
    third = defer(engine, "0", "b")
    assert lanes(engine) == {"a": ("idle", "b", both, 1), "0": ("idle", "b", third, 1)}


def test_it_waits_for_a_job_that_goes_first_as_in_its_second_lane(engine: Engine) -> None:
    engine.query("SELECT pause_lane('a')")
    first = defer(engine, "a", "c")
    second = defer(engine, "b", "c")
    told = {lock: row[:3] for lock, row in lanes(engine).items() if lock != "a"}
    assert told == {"b": ("idle", "c", second), "c": ("idle", "a", first)}


def test_a_chain_of_lanes_is_told_from_link_to_link(engine: Engine) -> None:
    engine.query("SELECT pause_lane('d')")
    jobs = [defer(engine, *pair) for pair in ("cd", "bc", "ab")]
    told = lanes(engine)
    assert {lock: row[:3] for lock, row in told.items()} == {
        "a": ("idle", "b", jobs[2]),
        "b": ("idle", "c", jobs[1]),
        "c": ("idle", "d", jobs[0]),
        "d": ("paused", None, jobs[0]),
    }


def test_the_other_lane_of_a_reader_is_idle_while_a_writer_runs_and_not_beside_readers(
    engine: Engine,
) -> None:
    writer = engine.defer(lock="catalogue")
    claimed = engine.claim()
    reader = defer(engine, "catalogue", "user", shared="catalogue")
    assert lanes(engine)["user"] == ("idle", "catalogue", reader, 1), writer
    end(engine, claimed)
    assert engine.claim()[0] == reader
    defer(engine, "catalogue", "other", shared="catalogue")
    assert "other" not in lanes(engine)


def test_a_lane_whose_next_job_waits_for_its_limit_is_not_idle(engine: Engine) -> None:
    engine.query("SELECT set_limit('stripe', 1)")
    engine.query("SELECT defer('t', limit_key => 'stripe')")
    engine.claim()
    defer(engine, "a", "b", limit="stripe")
    engine.query("SELECT FROM claim((SELECT id FROM workers), '{default}', 1)")
    assert lanes(engine) == {}


LINE = """
WITH new AS (
    INSERT INTO jobs (created_at, status, task, lock, locks)
    SELECT now(), 'blocked', 't', 'a' || n %% 7, ARRAY['a' || n %% 7, 'b' || n %% 5]
    FROM generate_series(1, %s::int) AS n RETURNING id, locks
)
INSERT INTO waits (lock, priority, id) SELECT locks[2], 0, id FROM new
"""
PLAIN = """
INSERT INTO jobs (created_at, status, task, lock)
SELECT now(), 'todo', 't', 'lane ' || n FROM generate_series(1, %s::int) AS n
"""


def pages(engine: Engine) -> int:
    with psycopg.connect(engine.dsn, autocommit=True) as connection:
        connection.execute("SET search_path = inturn")
        connection.execute("VACUUM ANALYZE jobs, waits, lanes")
        counter = Counter(connection)
        connection.execute("SELECT * FROM list_lanes(100)")  # reads the catalogue
        with counter.count() as work:
            connection.execute("SELECT * FROM list_lanes(100)")
    return work.pages


def test_idle_lanes_are_found_without_reading_the_jobs_that_wait(engine: Engine) -> None:
    engine.query(PLAIN, 1_000)
    nobody = pages(engine)
    engine.query(PLAIN, 10_000)
    assert pages(engine) <= nobody + 3, "with plain lanes it is a probe of an empty table"
    engine.query(LINE, 1_000)
    engine.query("INSERT INTO lanes (lock, since, job_id) VALUES ('b0', now(), 0)")
    few = pages(engine)
    engine.query(LINE, 20_000)
    assert pages(engine) < 1.5 * few + 20
    assert {lock for lock, row in lanes(engine).items() if row[0] == "idle"} >= {"a0", "a5"}
