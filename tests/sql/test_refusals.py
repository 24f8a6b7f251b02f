"""The functions refuse what can only be a mistake, or an attack, and change nothing then."""

import psycopg
import pytest
from psycopg.errors import InvalidParameterValue, ObjectNotInPrerequisiteState

from inturn.sql import find_folder
from tests.conftest import Query

NEGATIVE_AGES = [
    "SELECT delete_old_jobs('-1 day', NULL, '{succeeded}')",
    "SELECT prune_history('-100 days')",
    "SELECT prune_batches('-1 s', 10)",
]
NOT_A_NAME = ["root\n2026 forged", "\x1b[2J", "x" * 201]
BY = ["SELECT cancel_job(1, p_by => %s)", "SELECT set_limit('k', 1, p_by => %s)"]


@pytest.mark.parametrize("call", NEGATIVE_AGES)
def test_a_negative_age_is_refused(query: Query, call: str) -> None:
    days = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'finished_jobs'::regclass"
    before = query(days)
    with pytest.raises(InvalidParameterValue, match="give 0 or more, not -"):
        query(call)
    assert query(days) == before
    query(call.replace("-1", "0", 1))


@pytest.mark.parametrize("call", BY)
@pytest.mark.parametrize("name", NOT_A_NAME)
def test_a_name_in_the_audit_is_short_and_has_one_line(query: Query, call: str, name: str) -> None:
    query("SELECT setval('jobs_id_seq', 1, false), setval('batches_id_seq', 1, false)")
    query("SELECT defer('t'), open_batch('b')")
    with pytest.raises(InvalidParameterValue, match="at most 200 characters, on one line"):
        query(call, name)
    assert query("SELECT status::text FROM jobs") == [("todo",)]
    query(call, "Ané 姓名 " + "x" * 190)
    assert query("SELECT count(*) FROM lane_audit") == [(1,)]


def test_one_function_writes_the_audit() -> None:
    files = (find_folder("sql") / "functions").rglob("*.sql")
    assert [file.stem for file in files if "INTO lane_audit" in file.read_text()] == ["audit"]


def test_a_fence_that_no_start_was_given_shuts_nobody_out(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        connection.execute("SELECT defer('t')")
        ((fence,),) = connection.execute(
            "SELECT fence FROM claim(register_worker('w', 'here', 1, NULL, 1), NULL, 1)"
        ).fetchall()
        for wrong in (fence + 1, 2**63 - 1):
            with pytest.raises(ObjectNotInPrerequisiteState, match="was not given by this"):
                connection.execute("SELECT check_fence('acct', %s)", [wrong])
        connection.execute("SELECT check_fence('acct', %s)", [fence])
