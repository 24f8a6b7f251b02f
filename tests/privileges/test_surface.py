"""The catalog agrees with sql/privileges/surface.sql on what may be used from outside."""

import re
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

import inturn
from inturn import sql
from inturn.schema.migrate import migrate
from inturn.sql import KINDS
from tests.privileges.conftest import Session
from tests.roles import LOGINS

PUBLIC = """
SELECT proname FROM pg_proc CROSS JOIN LATERAL aclexplode(coalesce(proacl, acldefault('f', proowner))) AS granted
WHERE pronamespace = 'inturn'::regnamespace AND granted.grantee = 0
UNION ALL
SELECT relname FROM pg_class CROSS JOIN LATERAL aclexplode(relacl) AS granted
WHERE relnamespace = 'inturn'::regnamespace AND granted.grantee = 0
UNION ALL
SELECT nspname FROM pg_namespace CROSS JOIN LATERAL aclexplode(nspacl) AS granted
WHERE nspname = 'inturn' AND granted.grantee = 0
"""
DOORS = (
    "SELECT proname FROM pg_proc WHERE pronamespace = 'inturn'::regnamespace AND prosecdef "
    "ORDER BY 1"
)
OPEN = (
    "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA inturn TO PUBLIC; GRANT "
    "SELECT ON inturn.jobs TO PUBLIC"
)


def migrated(dsn: str) -> None:
    migrate(dsn)


def scripted(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.script().encode())


def migrated_again(dsn: str) -> None:
    migrate(dsn)
    with psycopg.connect(dsn) as connection:
        connection.execute(OPEN)
        connection.execute(
            "CREATE FUNCTION inturn.left_behind() RETURNS int LANGUAGE sql AS 'SELECT 1'"
        )
        connection.execute("UPDATE inturn.applied_code SET checksum = 'an older one'")
    migrate(dsn)


@pytest.mark.parametrize("bring_up", [migrated, scripted, migrated_again])
def test_nothing_is_open_to_everybody(empty_dsn: str, bring_up: Callable[[str], None]) -> None:
    bring_up(empty_dsn)
    with psycopg.connect(empty_dsn) as connection:
        assert connection.execute(PUBLIC).fetchall() == []
        doors = [name for (name,) in connection.execute(DOORS)]
        assert doors == sorted(listed_functions(connection) - {"clock"})


def test_a_function_that_runs_as_the_owner_looks_for_temporary_tables_last(admin: Session) -> None:
    rows = admin.execute(
        "SELECT proname, (SELECT setting FROM unnest(proconfig) AS setting "
        "WHERE setting LIKE 'search_path=%') "
        "FROM pg_proc WHERE pronamespace = 'inturn'::regnamespace AND prosecdef"
    ).fetchall()
    assert {path for _, path in rows} == {"search_path=inturn, pg_temp"}


def test_each_name_on_the_list_is_one_function(admin: Session) -> None:
    names = [
        name
        for (name,) in admin.execute(
            "SELECT proname FROM pg_proc WHERE pronamespace = 'inturn'::regnamespace"
        )
    ]
    assert [name for name in listed_functions(admin) if names.count(name) != 1] == []


def test_each_part_of_the_list_is_for_somebody(admin: Session) -> None:
    roles = [set(each) for (each,) in admin.execute("SELECT roles FROM inturn.surface")]
    assert all(roles)
    assert set().union(*roles) == set(KINDS)


def test_everything_that_python_calls_or_reads_is_on_the_list(admin: Session) -> None:
    package = Path(inturn.__file__).parent
    text = "".join(
        file.read_text()
        for folder in ("operations", "worker")
        for file in (package / folder).rglob("*.py")
    )
    types = {
        name
        for (name,) in admin.execute(
            "SELECT typname FROM pg_type LEFT JOIN pg_class ON pg_class.oid = typrelid "
            "WHERE typtype = 'e' OR relkind = 'c'"
        )
    }
    listed = {name for (name,) in admin.execute("SELECT name FROM inturn.surface")}
    named = set(re.findall(r"\{schema\}\.(\w+)", text))
    made = set(re.findall(r"CREATE FUNCTION \{schema\}\.(\w+)", text))  # by the owner, for a move
    assert {"defer_jobs", "claim", "lane_status", "heartbeat"} <= named
    assert named - types - listed - made == set()


@pytest.mark.parametrize("kind", KINDS)
def test_a_role_may_call_what_is_on_its_list_and_nothing_else(admin: Session, kind: str) -> None:
    may = admin.execute(
        "SELECT proname FROM pg_proc "
        "WHERE pronamespace = 'inturn'::regnamespace "
        "AND has_function_privilege(%s, oid, 'EXECUTE')",
        [LOGINS[kind]],
    ).fetchall()
    assert {name for (name,) in may} == listed_functions(admin, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_role_may_read_the_columns_on_its_list_and_nothing_else(
    admin: Session, kind: str
) -> None:
    may = admin.execute(
        "SELECT relname, attname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid "
        "AND attnum > 0 "
        "WHERE relnamespace = 'inturn'::regnamespace AND relkind IN ('r', 'p', 'v') "
        "AND NOT attisdropped "
        "AND has_column_privilege(%s, pg_class.oid, attnum, 'SELECT')",
        [LOGINS[kind]],
    ).fetchall()
    listed = admin.execute(
        "SELECT name, attname FROM inturn.surface "
        "JOIN pg_attribute ON attrelid = to_regclass('inturn.' || name) AND attnum > 0 "
        "AND NOT attisdropped "
        "WHERE kind = 'table' AND %s = ANY (roles) "
        "AND (columns IS NULL OR attname = ANY (regexp_split_to_array(columns, ', ')))",
        [kind],
    ).fetchall()
    assert sorted(may) == sorted(listed)


@pytest.mark.parametrize("kind", KINDS)
def test_a_role_may_write_nowhere(admin: Session, kind: str) -> None:
    may = admin.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'inturn'::regnamespace AND ("
        "relkind IN ('r', 'p', 'v') "
        "AND (has_table_privilege(%(login)s, oid, 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER') "
        "OR has_any_column_privilege(%(login)s, oid, 'INSERT, UPDATE, REFERENCES')) "
        "OR relkind = 'S' AND has_sequence_privilege(%(login)s, oid, 'USAGE, UPDATE'))",
        {"login": LOGINS[kind]},
    ).fetchall()
    assert may == []
    assert admin.execute(
        "SELECT has_schema_privilege(%s, 'inturn', 'CREATE')", [LOGINS[kind]]
    ).fetchone() == (False,)


@pytest.mark.parametrize("column", ["args", "errors", "result", "claim_id", "last_error"])
def test_a_monitor_is_shown_no_column_that_can_hold_a_secret(admin: Session, column: str) -> None:
    may = admin.execute(
        "SELECT attrelid::regclass FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid "
        "WHERE relnamespace = 'inturn'::regnamespace AND attname = %s "
        "AND relkind IN ('r', 'p', 'v') "
        "AND has_column_privilege(%s, attrelid, attnum, 'SELECT')",
        [column, LOGINS["monitor"]],
    ).fetchall()
    assert may == []


def listed_functions(connection: Session, kind: str | None = None) -> set[str]:
    rows = connection.execute(
        "SELECT name FROM inturn.surface WHERE kind = 'function' "
        "AND (%(kind)s::text IS NULL OR %(kind)s = ANY (roles))",
        {"kind": kind},
    )
    return {name for (name,) in rows}


# What each parameter of these functions is compared with. A parameter that is compared with text
# which a monitor may not read would let it guess that text letter by letter.
ASKED_OF_MONITORS = {
    "count_jobs_by": {
        "p_statuses": "jobs.status",
        "p_queue": "jobs.queue",
        "p_task": "jobs.task",
        "p_lock": "jobs.lock",
    },
    "count_lanes": {"p_states": "lanes.state"},
    "list_audit": {"p_lock": "lane_audit.lock"},
    "list_changes": {"p_before": "lane_audit.id"},
    "list_job_audit": {"p_id": "lane_audit.job_id"},
    "list_limit_keys": {"p_after": "gates.key"},
    "list_line": {"p_lock": "jobs.lock"},
    "list_troubled_lanes": {"p_trouble": "lanes.state"},
    "measure_history": {
        "p_from": "rollups.at",
        "p_until": "rollups.at",
        "p_task": "rollups.task",
        "p_queue": "rollups.queue",
    },
    "measure_lane": {"p_lock": "jobs.lock"},
    "measure_line": {"p_lock": "jobs.lock"},
    "measure_paces": {"p_locks": "finished_jobs.lock"},
    "verify": {"p_since": "finished_jobs.finished_at", "p_lock": "finished_jobs.lock"},
    "verify_slice": {
        "p_after": "finished_jobs.id",
        "p_kept": "finished_jobs.id",
        "p_until": "finished_jobs.started_at",
        "p_since": "finished_jobs.finished_at",
        "p_lock": "finished_jobs.lock",
        "p_calls": "finished_jobs.started_at",
        "p_open": "finished_jobs.created_at",
    },
}
OF_SHAPE = {"p_limit", "p_looked", "p_by", "p_minutes", "p_size"}  # how much, and in which form


def test_no_question_of_a_monitor_compares_with_what_it_may_not_read(admin: Session) -> None:
    asked: dict[str, set[str]] = {}
    for name, parameters in admin.execute(
        "SELECT proname, proargnames[:pronargs] FROM pg_proc JOIN inturn.surface ON name = proname "
        "WHERE pronamespace = 'inturn'::regnamespace AND kind = 'function' "
        "AND 'monitor' = ANY (roles) AND pronargs > 0"
    ):
        if compared := set(parameters) - OF_SHAPE:
            asked[name] = compared
    assert asked == {name: set(columns) for name, columns in ASKED_OF_MONITORS.items()}
    for columns in ASKED_OF_MONITORS.values():
        for column in columns.values():
            assert admin.execute(
                "SELECT has_column_privilege(%s, 'inturn.' || %s, %s, 'SELECT')",
                [LOGINS["monitor"], *column.split(".")],
            ).fetchone() == (True,), column
