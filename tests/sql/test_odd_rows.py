"""No row that you write by hand with SQL can stop the queue: a constraint refuses it.

Rules for one column of `jobs` are domains, the others are CHECKs of the tables.
"""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.errors import CheckViolation
from psycopg.sql import SQL, Identifier

from tests.conftest import Query

# A column, an odd value of it, and the constraint that refuses it.
ODD_VALUES: list[tuple[str, str, str]] = [
    ("queue", "", "jobs_queue_name"),
    ("queue", "x" * 64, "jobs_queue_name"),
    ("queue", "a,b", "jobs_queue_name"),
    ("queue", "!", "jobs_queue_name"),
    ("task", "", "jobs_task_length"),
    ("task", "é" * 257, "jobs_task_length"),
    ("lock", "", "jobs_lock_length"),
    ("lock", "é" * 513, "jobs_lock_length"),
    ("queueing_lock", "", "jobs_queueing_lock_length"),
    ("queueing_lock", "é" * 513, "jobs_queueing_lock_length"),
    ("args", "[1]", "jobs_args_object"),
    ("args", "null", "jobs_args_object"),
    ("headers", "[1]", "jobs_headers"),
    ("headers", "null", "jobs_headers"),
    ("headers", '{"x": "' + 16_384 * "y" + '"}', "jobs_headers"),
    ("timeout", "0.999 ms", "jobs_timeout"),
    ("timeout", "366 days", "jobs_timeout"),
    ("scheduled_at", "-infinity", "jobs_scheduled_within"),
    ("scheduled_at", "0001-12-31 23:59:59+00", "jobs_scheduled_within"),
    ("scheduled_at", "9999-01-01 00:00:00+00", "jobs_scheduled_within"),
    ("expires_at", "-infinity", "jobs_expires_within"),
    ("expires_at", "9999-01-01 00:00:00+00", "jobs_expires_within"),
    ("group_key", "", "jobs_group_key"),
    ("group_key", "a*", "jobs_group_key"),
    ("group_key", "é" * 513, "jobs_group_key"),
    ("limit_key", "", "jobs_limit_key"),
    ("limit_key", "a*", "jobs_limit_key"),
    ("limit_key", "é" * 513, "jobs_limit_key"),
]
# Changes of a job that waits in a lane, and of a lane that nothing keeps.
ODD_CHANGES: list[tuple[str, str, str]] = [
    ("jobs", "status = 'claimed'", "jobs_live"),
    ("jobs", "status = 'succeeded'", "jobs_live"),
    ("jobs", "status = 'doing'", "jobs_claimed"),
    (
        "jobs",
        "claim_id = gen_random_uuid(), worker_id = gen_random_uuid()",
        "jobs_claimed",
    ),
    ("jobs", "worker_id = gen_random_uuid()", "jobs_owned"),
    ("jobs", "status = 'doing', claim_id = gen_random_uuid()", "jobs_owned"),
    ("jobs", "status = 'blocked', lock = NULL", "jobs_blocked_in_a_lane"),
    ("jobs", "status = 'limited'", "jobs_limited_by"),
    ("jobs", "status = 'scheduled'", "jobs_scheduled_when"),
    ("lanes", "worker_id = gen_random_uuid(), job_id = 1", "lanes_held_or_reserved"),
    ("lanes", "worker_id = gen_random_uuid(), readers = 1", "lanes_held_or_reserved"),
    ("lanes", "readers = 0", "lanes_readers"),
    ("lanes", "stopped = 'held', stopped_at = now()", "lanes_stopped"),
    ("lanes", "stopped = 'paused'", "lanes_stopped_when"),
    ("lanes", "stopped_at = now()", "lanes_stopped_when"),
    ("lanes", "look_at = now(), worker_id = gen_random_uuid()", "lanes_looked_at"),
    ("lanes", "look_at = now(), stopped = 'halted', stopped_at = now()", "lanes_looked_at"),
]
RULES = """
SELECT conname, conrelid::regclass::text, contypid::regtype::text FROM pg_constraint
WHERE contype = 'c' AND connamespace = 'inturn'::regnamespace
  AND (contypid <> 0 OR conrelid = ANY ('{inturn.jobs,inturn.lanes}'::regclass[]))
"""
WAYS = ("UPDATE", "INSERT", "COPY")


@pytest.fixture
def session(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """A session whose transaction is rolled back, so that each dropped rule comes back."""
    with psycopg.connect(dsn) as connection, connection.transaction(force_rollback=True):
        connection.execute("SELECT inturn.defer('t', lock => 'l')")
        connection.execute("INSERT INTO inturn.lanes (lock, since) VALUES ('l', now())")
        yield connection


def write(session: psycopg.Connection[Any], way: str, column: str, value: str) -> None:
    named = Identifier(column)
    if way == "UPDATE":
        session.execute(SQL("UPDATE inturn.jobs SET {} = %s").format(named), [value])
        return
    row = {"task": "t", "created_at": "2020-01-01", "status": "todo", column: value}
    columns = SQL(", ").join(map(Identifier, row))
    if way == "INSERT":
        insert = SQL("INSERT INTO inturn.jobs ({}) VALUES ({})")
        places = SQL(", ").join(SQL("%s") for _ in row)
        session.execute(insert.format(columns, places), list(row.values()))
        return
    with session.cursor().copy(SQL("COPY inturn.jobs ({}) FROM STDIN").format(columns)) as copy:
        copy.write_row(list(row.values()))


def drop(session: psycopg.Connection[Any], name: str) -> None:
    for constraint, table, domain in session.execute(RULES).fetchall():
        if constraint == name:
            kind, owner = ("TABLE", table) if domain == "-" else ("DOMAIN", domain)
            session.execute(f"ALTER {kind} {owner} DROP CONSTRAINT {name}".encode())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("column", "value", "constraint"), ODD_VALUES)
def test_an_odd_value_is_refused_by_its_rule_and_by_nothing_else(
    session: psycopg.Connection[Any], column: str, value: str, constraint: str, way: str
) -> None:
    with pytest.raises(CheckViolation) as refusal, session.transaction():
        write(session, way, column, value)
    assert refusal.value.diag.constraint_name == constraint
    drop(session, constraint)
    write(session, way, column, value)


@pytest.mark.parametrize(("table", "change", "constraint"), ODD_CHANGES)
def test_a_row_that_contradicts_itself_is_refused_by_its_rule_and_by_nothing_else(
    session: psycopg.Connection[Any], table: str, change: str, constraint: str
) -> None:
    with pytest.raises(CheckViolation) as refusal, session.transaction():
        session.execute(f"UPDATE inturn.{table} SET {change}".encode())
    assert refusal.value.diag.constraint_name == constraint
    drop(session, constraint)
    session.execute(f"UPDATE inturn.{table} SET {change}".encode())


def test_every_rule_of_jobs_and_lanes_is_tried(session: psycopg.Connection[Any]) -> None:
    rules = {name for name, *_ in session.execute(RULES).fetchall()}
    assert rules == {name for *_, name in ODD_VALUES + ODD_CHANGES}


def test_no_check_of_jobs_could_be_a_domain(session: psycopg.Connection[Any]) -> None:
    """A CHECK costs each statement that writes a row. Domains over enums have no operators."""
    rows = session.execute(
        "SELECT conname FROM pg_constraint "
        "WHERE contype = 'c' AND conrelid = 'inturn.jobs'::regclass AND cardinality(conkey) < 2"
    ).fetchall()
    assert rows == [("jobs_live",)]


def test_views_and_functions_show_the_base_types_of_domains(
    session: psycopg.Connection[Any],
) -> None:
    """Drivers do not know the arrays of a domain, and would return them as text."""
    rows = session.execute("""
        WITH domain AS (
            SELECT unnest(ARRAY[oid, typarray]) AS oid FROM pg_type
            WHERE typnamespace = 'inturn'::regnamespace AND typtype = 'd'
        )
        SELECT attrelid::regclass::text, attname FROM pg_attribute
        JOIN pg_class ON pg_class.oid = attrelid
        WHERE relkind = 'v' AND atttypid IN (SELECT oid FROM domain)
        UNION ALL
        SELECT pg_proc.oid::regprocedure::text, type.oid::regtype::text FROM pg_proc
        CROSS JOIN LATERAL unnest(prorettype || proargtypes::oid[] || proallargtypes) AS type(oid)
        WHERE type.oid IN (SELECT oid FROM domain)
    """).fetchall()
    assert rows == []


def test_a_pause_until_a_time_that_python_does_not_know_ends_when_resumed(query: Query) -> None:
    query("SELECT pause_lane('a', p_until => 'infinity')")
    query("SELECT pause_queue('default', p_until => 'infinity')")
    query("SELECT pause_task('mail', p_until => '20000-01-01')")
    ends = "SELECT stopped_until FROM lanes UNION ALL SELECT until FROM pauses"
    assert query(ends) == [(None,)] * 3
