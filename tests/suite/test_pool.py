"""The database that the tests of a process share: what the pool resets, and what it names."""

from collections.abc import Iterator
from contextlib import closing
from typing import LiteralString

import psycopg
import pytest

from inturn.testing import Databases
from tests.pool import LeftBehind, Pool

JOBS = "SELECT inturn.defer('t', lock => 'l')"


@pytest.fixture
def own_pool(databases: Databases) -> Iterator[Pool]:
    with closing(Pool(databases.clone)) as pool:
        yield pool


def run(dsn: str, statement: LiteralString) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def test_the_next_test_finds_no_rows_and_the_same_ids(own_pool: Pool) -> None:
    dsn = own_pool.lend()
    assert run(dsn, JOBS) == [(1,)]
    own_pool.take_back()
    assert own_pool.lend() == dsn
    assert run(dsn, "SELECT count(*) FROM inturn.jobs") == [(0,)]
    assert run(dsn, JOBS) == [(1,)]


def test_a_setting_of_the_database_ends_with_the_test(own_pool: Pool) -> None:
    dsn = own_pool.lend()
    run(
        dsn,
        "DO $$ BEGIN EXECUTE format("
        "'ALTER DATABASE %I SET inturn.clock = ''2030-01-01''', current_database()); END $$",
    )
    own_pool.take_back()
    assert run(own_pool.lend(), "SELECT inturn.clock() < '2029-01-01'") == [(True,)]


def test_a_partition_that_a_worker_has_created_goes_with_the_test(own_pool: Pool) -> None:
    run(own_pool.lend(), "SELECT inturn.prepare_history(1)")
    own_pool.take_back()
    assert run(own_pool.lend(), "SELECT inturn.prepare_history(0)") == [(1,)]


def test_a_session_that_a_test_leaves_open_is_ended(own_pool: Pool) -> None:
    with psycopg.connect(own_pool.lend()) as forgotten:
        forgotten.execute("LOCK TABLE inturn.jobs")
        own_pool.take_back()
        with pytest.raises(psycopg.OperationalError):
            forgotten.execute("SELECT 1")


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("CREATE TABLE public.things ()", "relation things"),
        ("ALTER TABLE inturn.jobs ADD COLUMN more int", "relation inturn.jobs"),
        ("CREATE INDEX more ON inturn.jobs (task)", "relation inturn.more"),
        ("DROP VIEW inturn.repaired_lanes", "relation inturn.repaired_lanes"),
        ("GRANT SELECT ON inturn.jobs TO PUBLIC", "relation inturn.jobs"),
        ("ALTER FUNCTION inturn.clock() COST 7", "function inturn.clock()"),
        ("DROP FUNCTION inturn.clock() CASCADE", "function inturn.clock()"),
        ("ALTER TABLE inturn.lanes DROP CONSTRAINT lanes_readers", "constraint lanes_readers"),
        ("CREATE SCHEMA other", "schema other"),
        ("CREATE PUBLICATION every FOR ALL TABLES", "publication every"),
        ("UPDATE inturn.applied_code SET checksum = 'x'", "rows of inturn.applied_code"),
    ],
)
def test_a_test_that_changes_objects_fails_and_hears_which(
    own_pool: Pool, change: LiteralString, name: str
) -> None:
    run(own_pool.lend(), change)
    with pytest.raises(LeftBehind, match="fresh_database") as error:
        own_pool.take_back()
    assert name in str(error.value)
    assert run(own_pool.lend(), "SELECT count(*) FROM inturn.repaired_lanes") == [(0,)]  # a new one


def test_what_is_put_back_is_not_left_behind(own_pool: Pool) -> None:
    run(own_pool.lend(), "CREATE TABLE public.things (); DROP TABLE public.things")
    own_pool.take_back()


def test_a_database_to_which_others_connect_again_is_lent_to_nobody(own_pool: Pool) -> None:
    dsn = own_pool.lend()
    own_pool.take_back()
    with psycopg.connect(dsn):
        assert own_pool.lend() != dsn
