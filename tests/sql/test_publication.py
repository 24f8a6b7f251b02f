"""A publication for all tables, as for a data warehouse or an upgrade, refuses no change."""

from typing import Any

import psycopg
import pytest

pytestmark = pytest.mark.fresh_database

WITHOUT_IDENTITY = """
SELECT relname FROM pg_class
WHERE relnamespace = 'inturn'::regnamespace AND relkind IN ('r', 'p') AND NOT CASE relreplident
    WHEN 'f' THEN true
    WHEN 'd' THEN EXISTS (SELECT FROM pg_index WHERE indrelid = pg_class.oid AND indisprimary)
    ELSE EXISTS (SELECT FROM pg_index WHERE indrelid = pg_class.oid AND indisreplident) END
"""


def test_each_table_has_a_replica_identity(dsn: str) -> None:
    with psycopg.connect(dsn, options="-c search_path=inturn") as connection:
        connection.execute("SELECT prepare_history(2)")
        assert connection.execute(WITHOUT_IDENTITY).fetchall() == []
        connection.execute("CREATE TABLE another (n int)")
        assert connection.execute(WITHOUT_IDENTITY).fetchall() == [("another",)]


def test_jobs_with_several_lanes_start_end_and_are_retried_and_deleted(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:

        def value(statement: str, *parameters: object) -> Any:
            row = connection.execute(statement.encode(), parameters or None).fetchone()
            return row and row[0]

        connection.execute("CREATE PUBLICATION everything FOR ALL TABLES")
        value("SELECT prepare_history(2)")
        worker = value("SELECT register_worker('w', 'here', 1, NULL, 1)")
        job = value("SELECT defer('t', locks => '{a,b}')")
        for _ in range(2):
            connection.execute(
                "SELECT finish(NULL, NULL, 0, array_agg(id), array_agg(claim_id), '{failed}',"
                " '{NULL}') FROM claim(%s, NULL, 1)",
                [worker],
            )
            assert value("SELECT status FROM all_jobs WHERE id = %s", job) == "failed"
            while value("SELECT roll_up(100)"):
                pass
            value("SELECT retry_job(%s)", job)
        value("SELECT cancel_job(%s)", job)
        assert value("SELECT delete_old_jobs('0 s', NULL, '{cancelled}')") == 1
        connection.execute("UPDATE rollup_days SET due_at = clock()")
        while value("SELECT roll_up(100)"):
            pass
        assert value("SELECT count(*) FROM uncounted_ends") == 0
