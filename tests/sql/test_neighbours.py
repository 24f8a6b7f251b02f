"""A claim does hardly more if jobs of another queue expire, become due or open all at once.

It settles a share of what is due. `settle`, which workers call beside their claims, does the rest.
"""

from collections.abc import Callable
from statistics import mean
from typing import Any, LiteralString

import psycopg
import pytest

from inturn.testing import Databases
from tests.sql.counted import Counter

pytestmark = [pytest.mark.fresh_database, pytest.mark.landing]

MANY, PROOF = 3_000, 100_000
CLAIMS = 24
LIMITS = 1, 10  # of a claim
TIMES = 2.0  # on average: a claim settles one thing, and small claims only now and then
BESIDE = 1.5  # while a worker settles the rest

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


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("count", [MANY, pytest.param(PROOF, marks=pytest.mark.proof)])
def test_what_is_due_in_another_queue_costs_a_claim_no_more_than_its_own_jobs(
    databases: Databases, kind: Callable[[Query, int], None], count: int
) -> None:
    with (
        databases.clone() as dsn,
        psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection,
    ):
        counter = Counter(connection)

        def query(statement: LiteralString, *parameters: object) -> list[tuple[Any, ...]]:
            cursor = connection.execute(statement, parameters or None)
            return cursor.fetchall() if cursor.description else []

        [(worker,)] = query("SELECT register_worker('w', 'h', 1, NULL, 1)")

        def pages(limit: int) -> list[int]:
            query("SELECT defer('t', queue => 'ours') FROM generate_series(1, %s)", CLAIMS * limit)
            found = []
            for _ in range(CLAIMS):
                with counter.count() as work:
                    rows = query("SELECT id FROM claim(%s, '{ours}', %s)", worker, limit)
                assert len(rows) == limit
                found.append(work.pages)
            return found

        pages(1)
        alone = {limit: mean(pages(limit)) for limit in LIMITS}
        kind(query, count)
        query("VACUUM ANALYZE jobs")
        query("SELECT setseed(0)")
        pages(1)  # a session reads the catalogs when it settles for the first time
        beside = {limit: mean(pages(limit)) for limit in LIMITS}
        for limit in LIMITS:
            assert beside[limit] <= TIMES * alone[limit], (alone, beside)
        path = "-c search_path=inturn"
        with psycopg.connect(dsn, options=path) as other:
            assert other.execute("SELECT settle(500)").fetchone() != (0,)
            for limit in LIMITS:
                assert mean(pages(limit)) <= BESIDE * alone[limit]
        while query("SELECT settle(500)") != [(0,)]:
            pass
        # As autovacuum does. Until then, claims read the dead pages of indexes.
        query("VACUUM jobs, ends, edges, gates, gate_looks, batches, batch_events")
        for limit in LIMITS:
            assert mean(pages(limit)) <= BESIDE * alone[limit]
