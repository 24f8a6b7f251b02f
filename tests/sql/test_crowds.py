"""A claim does bounded work for what other queues have due at one instant, however much that is.

Rows are counted, also with statistics from a moment when the tables of what is due were empty.
"""

from collections.abc import Callable
from typing import Any, LiteralString

import psycopg
import pytest

from inturn.testing import Databases
from tests.sql.counted import Counter, open_clone

pytestmark = [pytest.mark.fresh_database, pytest.mark.landing]

SMALL, LARGE = 2_000, 6_000
CLAIMS = 3
SAME = 1.15
MOST_ROWS = 40_000  # in one claim
DEFER: LiteralString = (
    "SELECT count(*) FROM defer_jobs(array_fill('t'::text, ARRAY[{0}]), "
    "array_fill('{{}}'::jsonb, ARRAY[{0}]), array_fill('other'::text, ARRAY[{0}]), "
    "NULL, NULL, {1}, NULL, {2})"
)
IN_AN_HOUR: LiteralString = "array_fill(now() + interval '1 hour', ARRAY[{}])"


class Queue:
    """The other queue, and a worker of this one, which claims."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.counter = Counter(connection)
        self.worker = self.register("this")

    def query(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(statement.encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []

    def register(self, queue: str) -> object:
        statement = "SELECT register_worker('w', 'h', 1, ARRAY[%s], 1)"
        return self.query(statement, queue)[0][0]

    def defer(self, count: int, options: str = "p_headers => NULL", at: str = "NULL") -> None:
        self.query(DEFER.format(count, at, options))

    def claim_all(self) -> object:
        """Claim for a worker of the other queue until nothing there is ready. Return the worker."""
        worker = self.register("other")
        while self.query("SELECT id FROM claim(%s, '{other}', 1000)", worker):
            pass
        return worker

    def claim(self, limit: int = 1) -> list[tuple[Any, ...]]:
        return self.query("SELECT id FROM claim(%s, '{this}', %s)", self.worker, limit)


def due(queue: Queue, count: int) -> str:
    queue.defer(count, at=IN_AN_HOUR.format(count))
    return "UPDATE jobs SET scheduled_at = now()"


def expired(queue: Queue, count: int) -> str:
    queue.defer(count, "p_expires_at => " + IN_AN_HOUR.format(count))
    return "UPDATE jobs SET expires_at = now()"


def new_children(queue: Queue, count: int) -> str:
    [(parent,)] = queue.query("SELECT defer('t', queue => 'other')")
    numbers = f"ARRAY(SELECT generate_series(1, {count}))"
    queue.defer(
        count, f"p_after => array_fill({parent}::bigint, ARRAY[{count}]), p_after_of => {numbers}"
    )
    return "SELECT true"


def children_whose_parent_ends(queue: Queue, count: int) -> str:
    new_children(queue, count)
    while queue.query("SELECT true FROM jobs WHERE status = 'scheduled' LIMIT 1"):
        queue.claim()
    return "SELECT cancel_job(min(id)) FROM jobs"


def batches(queue: Queue, count: int) -> str:
    queue.query(
        "SELECT close_batch(id) FROM (SELECT open_batch('b') AS id FROM generate_series(1, %s)) "
        "AS opened WHERE defer('t', queue => 'other', batch_id => id) > 0",
        count,
    )
    worker = queue.claim_all()
    while queue.query("SELECT true FROM batch_events LIMIT 1"):  # so that it is analysed empty
        queue.claim()
    return (
        f"SELECT finish('{worker}', '{{other}}', 0, array_agg(id), array_agg(claim_id), "
        "array_agg('succeeded'::job_status), array_agg(NULL::jsonb)) FROM jobs"
    )


def limits_that_are_removed(queue: Queue, count: int) -> str:
    queue.query("SELECT set_limit('k*', 1)")
    keys = f"ARRAY(SELECT 'k' || n % 10 FROM generate_series(1, {count}) AS n)"
    queue.defer(count, f"p_limit_keys => {keys}")
    queue.claim_all()
    return "SELECT remove_limit('k*')"


def a_task_that_is_resumed(queue: Queue, count: int) -> str:
    queue.query("SELECT pause_task('t')")
    queue.defer(count)
    queue.claim_all()
    return "SELECT resume_task('t')"


Crowd = Callable[[Queue, int], str]
CROWDS: list[Crowd] = [
    due, expired, new_children, children_whose_parent_ends, batches, limits_that_are_removed,
    a_task_that_is_resumed,
]  # fmt: skip


def open_other(connection: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    """Open another session of the same database, in a transaction."""
    return psycopg.connect(connection.info.dsn, options="-c search_path=inturn")


def most_rows(databases: Databases, crowd: Crowd, count: int, *, analysed: bool) -> int:
    """Return the rows that the most expensive of some claims meets."""
    with open_clone(databases) as connection:
        here = Queue(connection)
        instant = crowd(here, count)
        if analysed:
            here.query("VACUUM ANALYZE")
        here.query(instant)
        rows = []
        for _ in range(CLAIMS):
            with here.counter.count() as work:
                here.claim()
            rows.append(work.rows)
        return max(rows)


@pytest.mark.parametrize("analysed", [False, True], ids=["never", "before"])
@pytest.mark.parametrize("crowd", CROWDS, ids=lambda crowd: crowd.__name__)
def test_a_claim_does_bounded_work_for_what_is_due_in_another_queue(
    databases: Databases, crowd: Crowd, analysed: bool
) -> None:
    small, large = (
        most_rows(databases, crowd, count, analysed=analysed) for count in (SMALL, LARGE)
    )
    assert 500 < small <= MOST_ROWS
    assert large <= SAME * small


@pytest.mark.parametrize(("limit", "settled"), [(1, 250), (1_000, 1_000)])
def test_a_claim_settles_as_many_children_as_it_asks_for_jobs(
    databases: Databases, limit: int, settled: int
) -> None:
    with open_clone(databases) as connection:
        here = Queue(connection)
        here.query(children_whose_parent_ends(here, SMALL))
        here.claim(limit)
        assert here.query("SELECT count(*) FROM jobs") == [(SMALL - settled,)]


def test_a_claim_reads_no_events_of_batches_that_another_one_counts(databases: Databases) -> None:
    rows = []
    for count in (SMALL, LARGE):
        with open_clone(databases) as connection, open_other(connection) as other:
            here = Queue(connection)
            here.query("SELECT open_batch('b')")
            here.query(
                "INSERT INTO batch_events (batch_id, xact, event, jobs, at) "
                "SELECT 1, n, 'joined', 1, now() FROM generate_series(1, %s) AS n", count,
            )  # fmt: skip
            other.execute("SELECT FROM batches FOR NO KEY UPDATE")
            with here.counter.count() as work:
                here.claim()
            rows.append(work.rows)
    assert rows[1] <= SAME * rows[0]


@pytest.mark.parametrize(("slots", "pause"), [(100, "00:00:05"), (1_000, "00:00:00.1")])
def test_a_limit_is_looked_at_soon_only_if_it_has_more_slots_than_a_claim_opens(
    databases: Databases, slots: int, pause: str
) -> None:
    with open_clone(databases) as connection:
        here = Queue(connection)
        connection.execute(
            "CREATE OR REPLACE FUNCTION clock() RETURNS timestamptz LANGUAGE sql STABLE "
            "AS $$ SELECT timestamptz '2026-01-01 00:00:00+00' $$"
        )
        here.query("SELECT set_limit('k*', %s)", slots)
        keys = "ARRAY(SELECT 'k' || n % 10 FROM generate_series(1, 2000) AS n)"
        here.defer(2_000, f"p_limit_keys => {keys}")
        here.query("UPDATE jobs SET status = 'limited'")
        here.query("INSERT INTO gates (key, look_at) SELECT 'limit:k' || n, clock() "
                   "FROM generate_series(0, 9) AS n")  # fmt: skip
        here.claim()
        assert here.query("SELECT count(*) FROM jobs WHERE status = 'todo'") == [(1_000,)]
        looks = here.query("SELECT DISTINCT look_at - clock() = %s::interval FROM gates", pause)
        assert looks == [(True,)]
