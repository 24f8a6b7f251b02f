"""A claim does hardly more if jobs of another queue expire, become due or open all at once.

If it has jobs to start, it leaves what is due to `settle`, which workers call beside their claims.
"""

from collections.abc import Callable
from statistics import mean, median
from typing import Any, LiteralString

import psycopg
import pytest

from inturn.testing import Databases
from tests.sql.counted import Counter

pytestmark = [pytest.mark.fresh_database, pytest.mark.landing]

MANY, PROOF = 3_000, 100_000
CLAIMS = 24
LIMITS = 1, 10  # of a claim
TIMES = 2.2  # for a claim that leaves what is due to `settle`
ON_AVERAGE = 3.0  # since a few claims settle some

Query = Callable[..., list[tuple[Any, ...]]]
FILL: LiteralString = (
    "INSERT INTO jobs (task, queue, created_at, status, scheduled_at, expires_at, limit_key, "
    "has_parents, has_children) SELECT 't', 'theirs', now(), %s::job_status, %s::timestamptz, "
    "%s::timestamptz, %s, %s, %s FROM generate_series(1, %s)"
)
PAST, LATER = "2020-01-01", "2100-01-01"


def expire(query: Query, count: int) -> None:
    query(FILL, "todo", None, PAST, None, None, None, count)


def become_due(query: Query, count: int) -> None:
    query(FILL, "scheduled", PAST, None, None, None, None, count)


def lose_their_parent(query: Query, count: int) -> None:
    query(FILL, "pending", PAST, None, None, True, None, count)
    query(
        "INSERT INTO edges (parent, child, on_parent) "
        "SELECT 1000000000, id, 'cancel' FROM jobs WHERE status = 'pending'"
    )
    query(
        "INSERT INTO ends (job_id, status, look_at, told_at) "
        "VALUES (1000000000, 'failed', now(), now())"
    )


def end_their_batch(query: Query, count: int) -> None:
    query(FILL, "pending", LATER, None, None, True, None, count)
    query(
        "INSERT INTO batches (name, callback_id, opened_at, closed_at, total) "
        "SELECT 'b', id, now(), now(), 1 FROM jobs WHERE status = 'pending'"
    )
    query("INSERT INTO batch_gates SELECT id FROM batches")
    query(
        "INSERT INTO batch_events (batch_id, xact, event, jobs, at, due_at) "
        "SELECT id, 1, 'succeeded', 1, now(), now() FROM batches"
    )


def open_with_their_limit(query: Query, count: int) -> None:
    query(FILL, "limited", None, None, "k", None, None, count)
    query("INSERT INTO gates (key) VALUES ('limit:k')")
    query("INSERT INTO gate_looks (key, left_at) VALUES ('limit:k', now())")


def open_with_their_limits(query: Query, count: int) -> None:
    """Each has a limit of its own."""
    query(FILL, "limited", None, None, "k", None, None, count)
    query("UPDATE jobs SET limit_key = 'k' || id WHERE status = 'limited'")
    query(
        "INSERT INTO gates (key, look_at) "
        "SELECT 'limit:' || limit_key, now() FROM jobs WHERE status = 'limited'"
    )


KINDS = (
    expire,
    become_due,
    lose_their_parent,
    end_their_batch,
    open_with_their_limit,
    open_with_their_limits,
)


class Desk:
    """A worker that serves the queue `ours`, and what its claims cost."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        self.counter = Counter(connection)
        [(self.worker,)] = self.query("SELECT register_worker('w', 'h', 1, NULL, 1)")
        self.pages(1)  # a session reads the catalogs first
        self.alone = {limit: mean(self.pages(limit)) for limit in LIMITS}

    def query(self, statement: LiteralString, *parameters: object) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(statement, parameters or None)
        return cursor.fetchall() if cursor.description else []

    def pages(self, limit: int) -> list[int]:
        """Return the pages that each of some claims has touched."""
        self.query("SELECT defer('t', queue => 'ours') FROM generate_series(1, %s)", CLAIMS * limit)
        found = []
        for _ in range(CLAIMS):
            with self.counter.count() as work:
                rows = self.query("SELECT id FROM claim(%s, '{ours}', %s)", self.worker, limit)
            assert len(rows) == limit
            found.append(work.pages)
        return found

    def check(self) -> None:
        for limit in LIMITS:
            beside = self.pages(limit)
            assert median(beside) <= TIMES * self.alone[limit]
            assert mean(beside) <= ON_AVERAGE * self.alone[limit]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("count", [MANY, pytest.param(PROOF, marks=pytest.mark.proof)])
def test_what_is_due_in_another_queue_hardly_slows_a_claim(
    databases: Databases, kind: Callable[[Query, int], None], count: int
) -> None:
    path = "-c search_path=inturn"
    with (
        databases.clone() as dsn,
        psycopg.connect(dsn, autocommit=True, options=path) as connection,
        psycopg.connect(dsn, options=path) as other,
    ):
        desk = Desk(connection)
        kind(desk.query, count)
        desk.query("VACUUM ANALYZE jobs")
        desk.query("SELECT setseed(0)")
        desk.pages(1)  # the functions that settle are compiled
        desk.check()
        assert other.execute("SELECT settle(500)").fetchone() != (0,)
        desk.check()
        other.commit()
        while desk.query("SELECT settle(500)") != [(0,)]:
            pass
        # As autovacuum does. Until then, claims read the dead pages of indexes.
        desk.query("VACUUM jobs, ends, edges, gates, gate_looks, batches, batch_events")
        desk.check()
