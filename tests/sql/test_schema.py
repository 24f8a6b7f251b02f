"""Migrations and functions make one schema, whichever way one gets there."""

import string
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest
from psycopg.errors import CheckViolation, InvalidParameterValue

from inturn import App, PsycopgConnector, sql
from inturn.arguments import QUEUE, check_timeout
from inturn.errors import BadArgument, ConfigurationError, ConnectorException, SchemaMismatch
from inturn.schema.migrate import downgrade, migrate
from tests.snapshot import SNAPSHOT, snapshot, tables

pytestmark = pytest.mark.fresh_database


def test_migrations_make_the_tables_that_are_written_down(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        if connection.info.server_version < 180000:
            pytest.skip("pg_dump words things by the server's version, and the snapshot is of 18")
    assert tables(dsn) == SNAPSHOT.read_text(encoding="utf-8"), (
        "run `make schema` and look at the difference"
    )


def test_down_and_up_again_ends_the_same(dsn: str) -> None:
    before = snapshot(dsn)
    downgrade(dsn, "base")
    assert "jobs" not in snapshot(dsn)
    migrate(dsn)
    assert snapshot(dsn) == before


def test_a_second_migration_changes_nothing(dsn: str) -> None:
    def applied() -> object:
        with psycopg.connect(dsn) as connection:
            return connection.execute("SELECT xmin, applied_at FROM inturn.applied_code").fetchone()

    before = applied()
    migrate(dsn)
    assert applied() == before


def test_the_folder_of_the_migrations_may_have_a_percent_sign_in_its_name(
    empty_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "50%").symlink_to(sql.find_folder("migrations").parent)
    monkeypatch.setattr(sql, "find_folder", lambda name: tmp_path / "50%" / name)
    assert migrate(empty_dsn).after == sql.revision()
    downgrade(empty_dsn, "base")


def test_migrations_at_once_wait_for_each_other(empty_dsn: str) -> None:
    errors: list[BaseException] = []

    def deploy() -> None:
        try:
            migrate(empty_dsn)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=deploy) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with App(empty_dsn).open() as app:
        app.check_connection()


def test_a_database_with_older_functions_gets_the_new_ones(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "CREATE OR REPLACE FUNCTION inturn.clock() RETURNS timestamptz "
            "LANGUAGE sql AS 'SELECT now()'"
        )
        connection.execute("UPDATE inturn.applied_code SET checksum = 'an older one'")
    migrate(dsn)
    with psycopg.connect(dsn) as connection:
        row = connection.execute(
            "SELECT prosrc FROM pg_proc WHERE oid = 'inturn.clock'::regproc"
        ).fetchone()
        assert row is not None
        assert "inturn.clock" in row[0]
        assert connection.execute("SELECT checksum FROM inturn.applied_code").fetchall() == [
            (sql.checksum(),)
        ]


def test_a_server_that_is_too_old_is_named_and_stays_as_it_is(
    empty_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.schema.migrate.OLDEST", 99)
    with pytest.raises(ConfigurationError, match="needs PostgreSQL 99 or later, and this server"):
        migrate(empty_dsn)
    with psycopg.connect(empty_dsn) as connection:
        assert connection.execute("SELECT to_regnamespace('inturn')").fetchone() == (None,)


def test_a_failed_migration_leaves_nothing_behind(
    empty_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "code", lambda: iter(["CREATE FUNCTION broken("]))
    with pytest.raises(ConnectorException, match="syntax error"):
        migrate(empty_dsn)
    with psycopg.connect(empty_dsn) as connection:
        assert connection.execute("SELECT to_regnamespace('inturn')").fetchone() == (None,)


def test_another_schema_name_works_as_well(empty_dsn: str) -> None:
    migrate(empty_dsn, 'my "own" schema')
    with psycopg.connect(empty_dsn) as connection:
        rows = connection.execute(
            "SELECT DISTINCT nspname FROM pg_namespace WHERE nspname IN ('inturn', %s)",
            ['my "own" schema'],
        )
        assert rows.fetchall() == [('my "own" schema',)]


OLD = "UPDATE inturn.schema_version SET version_num = '0000'"
NEW = (
    "UPDATE inturn.schema_version SET version_num = '9999'; "
    "UPDATE inturn.applied_code SET checksum = 'another'"
)
CHANGED = "UPDATE inturn.applied_code SET checksum = 'another'"
GONE = "DROP SCHEMA inturn CASCADE"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (OLD, "is at revision 0000, this version needs .*: queue migrate"),
        (NEW, "is at revision 9999, newer than this version knows"),
        (CHANGED, "functions .* are not those of this version. .*apply them: queue migrate"),
        (GONE, "has no tables of inturn in the schema 'inturn'. Create them: queue migrate"),
    ],
    ids=["older", "newer", "other functions", "never migrated"],
)
def test_a_worker_refuses_a_schema_that_does_not_fit_and_says_what_to_do(
    dsn: str, change: str, message: str
) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute(change)
    with pytest.raises(SchemaMismatch, match=message):
        App(dsn).run_worker(wait=False, install_signal_handlers=False)


def test_deferring_into_a_database_without_a_schema_says_what_to_do(empty_dsn: str) -> None:
    with App(empty_dsn).open() as app, pytest.raises(SchemaMismatch, match="queue migrate"):
        app.configure_task("anything").defer()


@pytest.mark.parametrize("schema", ["inturn", "Other Schema"])
def test_the_script_leaves_what_a_migration_leaves(dsn: str, empty_dsn: str, schema: str) -> None:
    app = App(connector=PsycopgConnector(empty_dsn, schema=schema))
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(app.schema_manager.get_schema().encode())
    assert str(migrate(empty_dsn, schema)) == f"revision {sql.revision()}, up to date"
    with app.open():
        assert app.check_connection()
    if schema == "inturn":
        assert snapshot(empty_dsn) == snapshot(dsn)


def test_an_app_brings_its_schema_up_to_date(empty_dsn: str) -> None:
    app = App(empty_dsn)
    with app.open():
        assert not app.check_connection()
        app.schema_manager.apply_schema()
        assert app.check_connection()
        anyio.run(app.schema_manager.apply_schema_async)
        assert app.check_connection()


def test_work_in_one_schema_holds_up_nothing_in_another(dsn: str) -> None:
    """Two queues in one database: one claim at a time clears the front of its own."""
    migrate(dsn, "other")
    claim = "SELECT id FROM {0}.claim({0}.register_worker('w', 'here', 1, NULL, 1), NULL, 1)"
    with psycopg.connect(dsn) as one, psycopg.connect(dsn) as two:
        for connection, schema in ((one, "inturn"), (two, "other")):
            app = App(connector=PsycopgConnector(dsn, schema=schema))
            with app.open():
                task = app.configure_task("t", lock="lane")
                task.defer()
                assert connection.execute(claim.format(schema).encode()).fetchall()
                connection.commit()
                for _ in range(3):
                    task.defer()
            assert (
                connection.execute(claim.format(schema).encode()).fetchall() == []
            )  # and it stays open
        statuses = two.execute("SELECT status::text FROM other.jobs ORDER BY id").fetchall()
        assert statuses == [("doing",), ("blocked",), ("blocked",), ("blocked",)]


def test_a_lane_that_is_taken_in_one_schema_is_free_in_another(dsn: str) -> None:
    """An open transaction in one schema does not block the lane of that name in the other."""
    migrate(dsn, "other")
    with psycopg.connect(dsn) as person, psycopg.connect(dsn) as worker:
        person.execute("SELECT inturn.pause_lane('daily')")  # and it stays open
        worker.execute("SET lock_timeout = '1s'")
        worker.execute("SELECT other.defer('t', lock => 'daily')")
        claim = (
            "SELECT lock FROM other.claim(other.register_worker('w', 'here', 1, NULL, 1), NULL, 1)"
        )
        assert worker.execute(claim).fetchall() == [("daily",)]
        assert worker.execute("SELECT other.pause_lane('daily')").fetchone() == (True,)


ONE = "ARRAY['t'], ARRAY[jsonb '{}'], ARRAY[%s::text]"
WAYS_IN = {
    "defer": "SELECT inturn.defer('t', queue => %s)",
    "defer_job": "SELECT inturn.defer_job('t', '{}', %s, NULL, 0, NULL, NULL, 'hold', 'continue', NULL)",
    "defer_jobs": f"SELECT inturn.defer_jobs({ONE}, NULL, '{{0}}', NULL, NULL)",
    "among others": "SELECT inturn.defer_jobs('{t,t,t}', ARRAY[jsonb '{}', '{}', '{}'], ARRAY['a', %s::text, 'b'], NULL, "
    "'{0,0,0}', NULL, NULL)",
    "queueing lock": f"SELECT inturn.defer_jobs({ONE}, NULL, '{{0}}', NULL, NULL, p_queueing_locks => '{{k}}')",
    "retry": "SELECT inturn.retry(array_agg(id), array_agg(claim_id), '{0}', '{NULL}', p_queues => ARRAY[%s::text]) "
    "FROM inturn.claim(inturn.register_worker('w', 'here', 1, NULL, 1), NULL, 1)",
    "retry_job_changed": "SELECT inturn.retry_job_changed(id, p_queue => %s) FROM inturn.jobs WHERE status = 'scheduled'",
}


@pytest.fixture
def session(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """A job is due, and another one is not."""
    with psycopg.connect(dsn) as connection:
        connection.execute("SELECT inturn.defer('t', queue => 'before')")
        connection.execute(
            "SELECT inturn.defer('t', queue => 'before', scheduled_at => now() + interval '1 day')"
        )
        yield connection


@pytest.mark.parametrize("way", WAYS_IN)
@pytest.mark.parametrize("queue", ["!", "a,b", "", "x" * 64, "*", "two words", "a\n", "é"])
def test_the_server_too_refuses_what_is_not_a_valid_name_of_a_queue(
    session: psycopg.Connection[Any], queue: str, way: str
) -> None:
    """`!` above all, which workers take for a request to end a job."""
    assert not QUEUE.fullmatch(queue)
    with pytest.raises(
        (InvalidParameterValue, CheckViolation),
        match=r"queue: give 1 to 63 letters|jobs_queue_name",
    ):
        session.execute(WAYS_IN[way].encode(), [queue])


@pytest.mark.parametrize("way", WAYS_IN)
def test_the_server_takes_each_name_of_a_queue_that_python_takes(
    session: psycopg.Connection[Any], way: str
) -> None:
    for queue in (string.ascii_letters, string.digits + "_.:-", "x" * 63, "-"):
        assert QUEUE.fullmatch(queue)
        with session.transaction(force_rollback=True):
            session.execute(WAYS_IN[way].encode(), [queue])
            assert session.execute(
                "SELECT FROM inturn.jobs WHERE queue = %s", [queue]
            ).fetchall() == [()]


def test_the_server_names_the_invalid_queue_among_many(
    session: psycopg.Connection[Any],
) -> None:
    with pytest.raises(InvalidParameterValue, match="'two words' is not a valid queue name"):
        session.execute(WAYS_IN["among others"].encode(), ["two words"])


@pytest.mark.parametrize("queue", ["!", "a,b", "", "x" * 64])
def test_no_change_by_hand_gives_a_job_a_name_that_would_deceive_workers(
    session: psycopg.Connection[Any], queue: str
) -> None:
    with pytest.raises(CheckViolation, match="jobs_queue_name"):
        session.execute("UPDATE inturn.jobs SET queue = %s", [queue])


@pytest.mark.parametrize(
    "timeout", [timedelta(microseconds=999), timedelta(days=365, microseconds=1)]
)
def test_the_server_too_refuses_a_timeout_that_python_refuses(dsn: str, timeout: timedelta) -> None:
    with pytest.raises(BadArgument):
        check_timeout(timeout)
    defer = "SELECT inturn.defer_job('t', '{}', 'q', NULL, 0, NULL, NULL, 'hold', 'continue', %s)"
    with psycopg.connect(dsn) as connection, pytest.raises(CheckViolation, match="jobs_timeout"):
        connection.execute(defer, [timeout])


@pytest.mark.parametrize("timeout", [timedelta(milliseconds=1), timedelta(days=365)])
def test_the_server_takes_the_longest_and_the_shortest_timeout_of_python(
    dsn: str, timeout: timedelta
) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("SELECT inturn.defer('t', timeout => %s)", [check_timeout(timeout)])


def test_names_that_are_keys_are_compared_by_their_bytes(dsn: str) -> None:
    """A new version of the system's collations then corrupts no index, such as the lanes' mutex."""
    keys = """
        SELECT DISTINCT attrelid::regclass::text, attname, collname::text
        FROM pg_index CROSS JOIN unnest(indkey) WITH ORDINALITY AS key(attnum, place)
        JOIN pg_attribute USING (attnum) JOIN pg_collation ON pg_collation.oid = attcollation
        JOIN pg_class ON pg_class.oid = indrelid
        WHERE attrelid = indrelid AND relnamespace = 'inturn'::regnamespace
    """
    with psycopg.connect(dsn) as connection:
        found = connection.execute(keys).fetchall()
    assert {(table, column) for table, column, collation in found if collation != "C"} == {
        ("inturn.applied_code", "checksum"),  # written by us alone, in ASCII
        ("inturn.schema_version", "version_num"),
    }
    assert ("inturn.lanes", "lock", "C") in found
    assert ("inturn.jobs", "queueing_lock", "C") in found


def test_nobody_prepares_the_history_of_more_than_a_month(dsn: str) -> None:
    """A worker may call it, and each day is a table."""
    with psycopg.connect(dsn) as connection:
        connection.execute("SELECT inturn.prepare_history(40)")
        days = connection.execute(
            "SELECT count(*) FROM pg_inherits WHERE inhparent = 'inturn.finished_jobs'::regclass"
        ).fetchone()
    assert days == (33,)  # today, 31 days, and the net under them
