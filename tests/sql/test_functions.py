"""Every function and every statement fits the migrated database."""

import itertools
import re
from typing import Any

import psycopg
import pytest
from psycopg.errors import InvalidTransactionState

from inturn import sql
from inturn.operations.changes import jobs, lanes, pauses
from inturn.operations.engine import (
    cells,
    claim,
    enqueue,
    fences,
    finish,
    maintenance,
    schedules,
    workers,
)
from inturn.operations.reading import failures, job_pages, measures, situation, standstill

MODULES = (
    cells,
    claim,
    enqueue,
    failures,
    fences,
    finish,
    job_pages,
    jobs,
    lanes,
    maintenance,
    measures,
    pauses,
    schedules,
    situation,
    standstill,
    workers,
)
STATEMENTS = {
    f"{module.__name__}.{name}": text
    for module in MODULES
    for name, text in vars(module).items()
    if name.isupper() and not name.startswith("_") and isinstance(text, str)
}
FIRST_REVISION = sql.find_folder("migrations") / "versions" / "0001.up.sql"


def refusal(connection: psycopg.Connection[Any], statement: str) -> str | None:
    """Return the server's error, or None."""
    try:
        connection.execute(statement.encode())
    except psycopg.Error as error:
        return str(error)
    return None


def connect(dsn: str) -> psycopg.Connection[Any]:
    return psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn")


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_is_accepted_by_the_server(dsn: str, name: str) -> None:
    text = STATEMENTS[name]
    numbers = itertools.count(1)
    numbered = re.sub("%[sb]", lambda _: f"${next(numbers)}", text.replace("{schema}", "inturn"))
    with connect(dsn) as connection:
        assert refusal(connection, f"PREPARE it AS {numbered}") is None
        prepared = connection.execute(
            "SELECT cardinality(parameter_types) FROM pg_prepared_statements"
        ).fetchall()
    assert prepared == [(next(numbers) - 1,)], "it has other parameters than it seems"


def test_there_are_statements_to_check() -> None:
    assert len(STATEMENTS) >= 10


@pytest.mark.fresh_database
def test_every_function_body_fits_the_tables(dsn: str) -> None:
    """A migration creates functions unordered and unchecked. Applied again, they find each other."""
    with connect(dsn) as connection:
        refusals = [refusal(connection, text) for text in sql.code()]
    assert [reason for reason in refusals if reason] == []
    assert len(refusals) > 10


def test_a_source_file_opens_with_what_it_promises_and_holds_one_function_of_its_name() -> None:
    for file in (sql.find_folder("sql") / "functions").rglob("*.sql"):
        text = file.read_text(encoding="utf-8")
        assert text.startswith("-- "), file.name
        assert text.count("CREATE OR REPLACE FUNCTION") == 1, file.name
        assert f"CREATE OR REPLACE FUNCTION {file.stem}(" in text, file.name


def test_the_folders_say_which_functions_are_called_from_outside(dsn: str) -> None:
    with connect(dsn) as connection:
        rows = connection.execute("SELECT name FROM surface WHERE kind = 'function'").fetchall()
    assert function_names("api") == {name for (name,) in rows}
    assert function_names("internal").isdisjoint(function_names("api"))


def test_the_list_of_functions_names_each_public_one_once() -> None:
    text = (sql.find_folder("sql") / "functions" / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\* \[(\w+)\]\(api/(\w+)\.sql\) – \w", text, re.MULTILINE)
    assert all(name == file for name, file in listed)
    assert sorted(name for name, _ in listed) == sorted(function_names("api"))


def test_the_list_names_each_folder_of_internal_functions_once() -> None:
    folder = sql.find_folder("sql") / "functions"
    text = (folder / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\* \[(\w+)\]\(internal/\1\): \w", text, re.MULTILINE)
    assert sorted(listed) == sorted(each.name for each in (folder / "internal").glob("*/"))


def test_a_folder_of_functions_is_read_at_a_glance() -> None:
    internal = sql.find_folder("sql") / "functions" / "internal"
    sizes = {folder.name: len(list(folder.iterdir())) for folder in internal.glob("*/")}
    assert {name: size for name, size in sizes.items() if size > 25} == {}


def test_no_statement_of_python_reads_a_table() -> None:
    """People in psql can then ask the same. What was applied is read before the views are there."""
    tables = re.findall(r"CREATE TABLE (\w+)", FIRST_REVISION.read_text(encoding="utf-8"))
    assert "jobs" in tables
    reads = re.compile(r"(?:FROM|JOIN) \{schema\}\.(\w+)\b(?!\()")
    found = {
        name.rpartition(".")[2]
        for name, text in STATEMENTS.items()
        if set(reads.findall(text)) & set(tables)
    }
    assert found == {"APPLIED", "SERVED"}


def function_names(folder: str) -> set[str]:
    return {file.stem for file in (sql.find_folder("sql") / "functions" / folder).rglob("*.sql")}


def test_no_line_of_sql_is_wider_than_a_screen_beside_another() -> None:
    folders = (sql.find_folder("sql"), sql.find_folder("migrations"))
    files = [
        file
        for folder in folders
        for file in folder.rglob("*")
        if file.suffix in (".sql", ".md") and file.name != "tables.sql"
    ]
    assert len(files) > 100
    wide = [
        f"{file.name}:{number}"
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 100
    ]
    assert wide == []


TRANSITIONS = [
    "SELECT claim(coalesce((SELECT id FROM workers), gen_random_uuid()), NULL, 1)",
    "SELECT finish(gen_random_uuid(), NULL, 1, '{}', '{}', '{}', '{}')",
    "SELECT retry('{}', '{}', '{}', '{}')",
]


def test_every_transition_refuses_a_transaction_that_reads_the_past(dsn: str) -> None:
    with connect(dsn) as connection:
        for level in (psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE):
            connection.isolation_level = level
            name = level.name.replace("_", " ")
            for call in TRANSITIONS:
                with (
                    connection.transaction(force_rollback=True),
                    pytest.raises(psycopg.errors.InvalidTransactionState) as refusal,
                ):
                    connection.execute(call.encode())
                assert re.search(f"only in READ COMMITTED.* {name}", str(refusal.value))


@pytest.mark.parametrize(
    "call",
    [
        *TRANSITIONS,
        "SELECT defer_jobs('{a}', ARRAY[jsonb '{}'], '{q}', '{NULL}', NULL, NULL, NULL)",
    ],
)
def test_a_session_that_reads_null_as_a_text_is_refused(dsn: str, call: str) -> None:
    with connect(dsn) as connection:
        connection.execute("SELECT register_worker('w', 'h', 1, NULL, 1)")
        connection.execute("SET array_nulls = off")
        with pytest.raises(InvalidTransactionState, match="SET array_nulls = on"):
            connection.execute(call.encode())
        connection.execute("RESET array_nulls")
        assert connection.execute("SELECT FROM jobs").fetchall() == []


def test_a_temporary_table_cannot_stand_in_for_one_of_ours(dsn: str) -> None:
    with connect(dsn) as connection:
        connection.execute("CREATE TEMPORARY TABLE workers (id uuid)")
        connection.execute(
            "INSERT INTO pg_temp.workers VALUES ('00000000-0000-0000-0000-000000000001')"
        )
        with pytest.raises(psycopg.errors.NoDataFound, match="not registered"):
            connection.execute(
                "SELECT inturn.claim('00000000-0000-0000-0000-000000000001', NULL, 1)"
            )


def test_a_function_that_rules_out_scans_is_never_compiled(dsn: str) -> None:
    """Before PostgreSQL 18, ruling out the only scan makes a plan expensive enough for JIT."""
    with connect(dsn) as connection:
        ruling_out = dict(
            connection.execute(
                "SELECT proname, 'jit=off' = ANY (proconfig) FROM pg_proc "
                "WHERE pronamespace = 'inturn'::regnamespace AND proconfig::text ~ 'enable_'"
            ).fetchall()
        )
    assert {"claim", "look_at_live"} <= set(ruling_out)
    assert [name for name, is_set in ruling_out.items() if not is_set] == []


def test_the_checksum_covers_every_script_that_is_applied() -> None:
    assert sorted(sql.read_scripts()) == sorted(text.encode() for text in sql.code())
