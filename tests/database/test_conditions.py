"""Errors of the server are either conditions that pass or answers to the statement."""

from collections.abc import Iterator
from contextlib import closing, suppress
from threading import Thread
from typing import Any, LiteralString

import psycopg
import pytest

from inturn import App, PsycopgConnector
from inturn.database import drive
from inturn.errors import ConnectorException, DatabaseBusy, DatabaseUnavailable, SchemaMismatch
from inturn.health.database_check import DatabaseCheck
from inturn.operations import Operation, Statement
from inturn.operations.engine import claim, workers
from inturn.sql import SCHEMA
from tests.conftest import Query
from tests.roles import PREFIX, as_login, create_role

Connection = psycopg.Connection[Any]


@pytest.fixture
def connection(dsn: str) -> Iterator[Connection]:
    """A connection that prepares each statement at once, as a worker's does after a while."""
    with closing(psycopg.connect(dsn, autocommit=True, prepare_threshold=0)) as connection:
        yield connection


def ask(text: LiteralString, *parameters: object) -> Operation[list[Any]]:
    return list((yield Statement(text, parameters)))


def run(connection: Connection, text: LiteralString, *parameters: object) -> list[Any]:
    return drive.run(ask(text, *parameters), connection, SCHEMA)


RAISE: LiteralString = "SELECT pg_temp.raise(%s)"
LOST, WORN_OUT, WANTING, BUSY = (True, True), (True, False), (False, False), (False, False)
CODES = {
    **dict.fromkeys(("08006", "08P01", "57P01", "57P02", "57P03", "57P05", "40003"), LOST),
    **dict.fromkeys(
        ("25006", "25P03", "58030", "XX000", "XX002", "26000", "42P05", "42804", "42P13"), WORN_OUT
    ),
    **dict.fromkeys(("53100", "53200", "53300", "53400", "42501"), WANTING),
    **dict.fromkeys(("55P03", "57014", "40001", "40P01"), BUSY),
}


@pytest.mark.parametrize("code", CODES)
def test_a_condition_says_what_became_of_the_connection_and_of_the_statement(
    connection: Connection, code: str
) -> None:
    connection.execute(
        "CREATE FUNCTION pg_temp.raise(code text) RETURNS void LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the reason' USING ERRCODE = code; END $$"
    )
    with pytest.raises(DatabaseUnavailable, match="the reason") as raised:
        run(connection, RAISE, code)
    assert (raised.value.connection_lost, raised.value.outcome_unknown) == CODES[code]
    assert isinstance(raised.value, DatabaseBusy) == (code in ("55P03", "57014", "40001", "40P01"))


@pytest.mark.parametrize("code", ["22012", "23505", "42601", "54000", "P0001", "0A000"])
def test_an_answer_to_the_statement_is_not_a_condition(connection: Connection, code: str) -> None:
    connection.execute(
        "CREATE FUNCTION pg_temp.raise(code text) RETURNS void LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the reason' USING ERRCODE = code; END $$"
    )
    with pytest.raises(ConnectorException, match="the reason") as raised:
        run(connection, RAISE, code)
    assert not isinstance(raised.value, DatabaseUnavailable)


@pytest.mark.fresh_database
def test_a_migration_under_a_running_worker_costs_it_its_connection(
    dsn: str, connection: Connection, query: Query
) -> None:
    app = App(dsn)
    worker = drive.run(workers.register_worker("w", "host", 1, None, 1, []), connection, SCHEMA)
    with app.open():
        app.configure_task("t").batch_defer({}, {})
    assert len(drive.run(claim.claim(worker, None, 1, True, 1), connection, SCHEMA)) == 1
    with psycopg.connect(dsn) as migration:
        migration.execute("ALTER TABLE inturn.jobs ADD COLUMN colour text")
    with pytest.raises(DatabaseUnavailable, match="structure of query") as raised:
        drive.run(claim.claim(worker, None, 1, True, 1), connection, SCHEMA)
    assert (raised.value.connection_lost, raised.value.outcome_unknown) == WORN_OUT
    with closing(psycopg.connect(dsn, autocommit=True)) as another:
        assert len(drive.run(claim.claim(worker, None, 1, True, 1), another, SCHEMA)) == 1


@pytest.mark.fresh_database
def test_a_result_that_a_migration_has_changed_is_a_condition_whatever_the_language(
    dsn: str, connection: Connection
) -> None:
    connection.execute("CREATE TABLE things (a int)")
    run(connection, "SELECT * FROM things")
    with psycopg.connect(dsn) as migration:
        migration.execute("ALTER TABLE things ADD COLUMN b int")
    with pytest.raises(DatabaseUnavailable, match="cached plan") as raised:
        run(connection, "SELECT * FROM things")
    assert (raised.value.connection_lost, raised.value.outcome_unknown) == WORN_OUT


def test_a_session_that_became_read_only_is_of_no_further_use(connection: Connection) -> None:
    connection.execute("SET default_transaction_read_only = on")
    with pytest.raises(DatabaseUnavailable, match="read-only transaction") as raised:
        drive.run(workers.register_worker("w", "host", 1, None, 1, []), connection, SCHEMA)
    assert (raised.value.connection_lost, raised.value.outcome_unknown) == WORN_OUT


@pytest.mark.fresh_database
def test_a_right_that_was_revoked_is_missed_until_it_comes_back(
    dsn: str, connection: Connection
) -> None:
    with psycopg.connect(dsn, autocommit=True) as owner:
        role = f"role_{owner.info.dbname}"
        for statement in ("CREATE ROLE {}", "GRANT USAGE ON SCHEMA inturn TO {}"):
            owner.execute(psycopg.sql.SQL(statement).format(psycopg.sql.Identifier(role)))
        try:
            connection.execute(psycopg.sql.SQL("SET ROLE {}").format(psycopg.sql.Identifier(role)))
            with pytest.raises(
                DatabaseUnavailable,
                match=r"^Login \S+ lacks a privilege: permission denied for table lanes",
            ) as raised:
                run(connection, "SELECT count(*) FROM {schema}.lanes")
            assert (raised.value.connection_lost, raised.value.outcome_unknown) == WANTING
            grant = psycopg.sql.SQL("GRANT SELECT ON inturn.lanes TO {}").format(
                psycopg.sql.Identifier(role)
            )
            owner.execute(grant)
            assert run(connection, "SELECT count(*) FROM {schema}.lanes") == [(0,)]
        finally:
            connection.close()
            for statement in ("DROP OWNED BY {}", "DROP ROLE {}"):
                owner.execute(psycopg.sql.SQL(statement).format(psycopg.sql.Identifier(role)))


def test_a_lock_that_somebody_holds_is_a_reason_to_try_again_on_the_same_connection(
    dsn: str, connection: Connection
) -> None:
    connection.execute("SET lock_timeout = '10ms'")
    with psycopg.connect(dsn) as holder:
        holder.execute("LOCK TABLE inturn.lanes")
        with pytest.raises(DatabaseBusy, match="lock timeout"):
            run(connection, "SELECT count(*) FROM {schema}.lanes")
    assert run(connection, "SELECT count(*) FROM {schema}.lanes") == [(0,)]


@pytest.mark.fresh_database
def test_a_deadlock_that_the_server_resolves_is_a_reason_to_try_again(
    dsn: str, connection: Connection
) -> None:
    connection.execute("CREATE TABLE things (a int)")
    connection.execute("CREATE TABLE others (a int)")
    with (
        psycopg.connect(dsn, options="-c deadlock_timeout=1h") as other,
        closing(psycopg.connect(dsn)) as watcher,
    ):
        connection.execute("BEGIN")
        connection.execute("LOCK TABLE things")
        other.execute("LOCK TABLE others")
        blocked = other.info.backend_pid
        waiter = Thread(target=other.execute, args=("LOCK TABLE things",))
        waiter.start()
        while not watcher.execute(
            "SELECT 1 FROM pg_locks WHERE NOT granted AND pid = %s", (blocked,)
        ).fetchall():
            pass
        with pytest.raises(DatabaseBusy, match="deadlock"):
            run(connection, "LOCK TABLE others")
        connection.execute("ROLLBACK")
        waiter.join()


def test_a_session_that_was_ended_leaves_it_open_what_became_of_the_statement(
    connection: Connection,
) -> None:
    with pytest.raises(DatabaseUnavailable, match="administrator command") as raised:
        run(connection, "SELECT pg_terminate_backend(pg_backend_pid())")
    assert (raised.value.connection_lost, raised.value.outcome_unknown) == LOST


def test_a_connection_that_cannot_be_made_has_written_nothing(dsn: str) -> None:
    with pytest.raises(DatabaseUnavailable, match="nowhere") as raised:
        PsycopgConnector(dsn, dbname="nowhere").connect()
    assert not raised.value.outcome_unknown


@pytest.mark.parametrize(
    "missing",
    ["TABLE {schema}.nothing", "SELECT {schema}.nothing()", "SELECT nothing FROM {schema}.jobs"],
)
def test_a_missing_part_of_the_schema_is_reported_with_the_remedy(
    connection: Connection, missing: LiteralString
) -> None:
    with pytest.raises(SchemaMismatch, match="queue migrate"):
        run(connection, missing)


@pytest.mark.fresh_database
@pytest.mark.parametrize("schema", ["public", SCHEMA])
@pytest.mark.parametrize(
    "body",
    [
        "RAISE EXCEPTION 'quota: too many jobs' USING ERRCODE = 'invalid_parameter_value'",
        "RAISE EXCEPTION 'the warehouse is locked' USING ERRCODE = 'object_in_use'",
        "RAISE EXCEPTION 'too late' USING ERRCODE = 'object_not_in_prerequisite_state'",
        "RAISE EXCEPTION 'no such customer' USING ERRCODE = 'no_data_found'",
        "SELECT relname INTO STRICT v_name FROM pg_class WHERE relname = 'nothing'",
        "PERFORM FROM nothing",
        "PERFORM nothing(1)",
        "v_name := NEW.nothing",
    ],
)
def test_an_error_of_your_trigger_is_not_taken_for_one_of_ours(
    dsn: str, schema: str, body: str
) -> None:
    with psycopg.connect(dsn) as owner:
        owner.execute(
            f"CREATE FUNCTION {schema}.check_job() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ DECLARE v_name text; BEGIN {body}; RETURN NEW; END $$;"
            f"CREATE TRIGGER check_job BEFORE INSERT ON {SCHEMA}.jobs "
            f"FOR EACH ROW EXECUTE FUNCTION {schema}.check_job()".encode()
        )
    app = App(dsn)
    with app.open(), pytest.raises(ConnectorException) as raised:
        app.configure_task("t").defer()
    assert type(raised.value) is ConnectorException
    assert str(raised.value).startswith("The database refused: ")


def test_a_statement_behind_a_refused_one_in_a_pipeline_is_refused_too(
    connection: Connection,
) -> None:
    with suppress(psycopg.Error), connection.pipeline():
        for reason in ("division by zero", "pipeline aborted"):
            with pytest.raises(ConnectorException, match=f"refused: {reason}"):
                run(connection, "SELECT 1/0")


def test_a_limit_of_connections_is_no_database_that_cannot_be_reached(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        create_role(connection, f"{PREFIX}_crowded", "LOGIN CONNECTION LIMIT 0")
    crowded = PsycopgConnector(as_login(dsn, f"{PREFIX}_crowded"))
    with pytest.raises(DatabaseUnavailable, match="The server refuses more connections"):
        crowded.connect("listener", to_listen=True)
    with closing(DatabaseCheck(crowded)) as check:
        assert check.find_problem() == "it refuses more connections"
