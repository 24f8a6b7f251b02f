"""Upkeep looks for delays of a clock that was set back at a bounded cost, however many jobs wait."""

from typing import Any, LiteralString

import psycopg
import pytest

from inturn.testing import Databases
from tests.sql.counted import Counter

pytestmark = pytest.mark.fresh_database

BOUND = 1000
ROWS_EACH = 10  # for a job that is recalled
FILL: LiteralString = (
    "INSERT INTO jobs (created_at, status, task, scheduled_at, delayed_at) "
    "SELECT now(), 'scheduled', 't', now() + interval '1 day', now() + %s::interval "
    "FROM generate_series(1, %s)"
)
AHEAD: LiteralString = "SELECT count(*) FROM jobs WHERE delayed_at > now() + interval '2 s'"
ANALYSE: LiteralString = "ANALYZE jobs"


def reconcile(connection: psycopg.Connection[Any]) -> int:
    """Return how many rows a round of upkeep has met."""
    counter = Counter(connection)
    with counter.count() as work:
        connection.execute("SELECT reconcile('', 100)")
    return work.rows


@pytest.mark.parametrize("moment", ["never", "empty", "full"])
def test_upkeep_reads_a_bounded_number_of_delays(databases: Databases, moment: str) -> None:
    with (
        databases.clone() as dsn,
        psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection,
    ):
        if moment == "empty":
            connection.execute(ANALYSE)
        none = reconcile(connection)
        connection.execute(FILL, ["-1 s", 100_000])
        if moment == "full":
            connection.execute(ANALYSE)
        assert reconcile(connection) == none
        connection.execute(FILL, ["1 hour", 3 * BOUND])
        assert reconcile(connection) < none + ROWS_EACH * BOUND
        assert connection.execute(AHEAD).fetchall() == [(2 * BOUND,)]
