"""psql and other clients say what the tables and functions are (`\\dt+`, `\\df+`)."""

import pytest

from inturn import sql
from tests.conftest import Query

WITHOUT = {
    "table": """
SELECT relname FROM pg_class
WHERE relnamespace = 'inturn'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
    AND obj_description(oid, 'pg_class') IS NULL""",
    "view": """
SELECT relname FROM pg_class
WHERE relnamespace = 'inturn'::regnamespace AND relkind = 'v'
    AND obj_description(oid, 'pg_class') IS NULL""",
    "function": """
SELECT name FROM surface
WHERE kind = 'function' AND NOT EXISTS (
    SELECT FROM pg_proc WHERE pronamespace = 'inturn'::regnamespace AND proname = name
        AND obj_description(oid, 'pg_proc') IS NOT NULL)""",
}


@pytest.mark.parametrize("kind", WITHOUT)
def test_each_table_view_and_public_function_says_what_it_is(query: Query, kind: str) -> None:
    assert query(WITHOUT[kind]) == []


@pytest.mark.parametrize("kind", ["TABLE", "FUNCTION"])
def test_a_comment_is_one_whole_sentence(kind: str) -> None:
    for name, text in sql.find_comments(kind).items():
        assert text[0].isupper(), name
        assert text.endswith((".", ":")), (name, text)
        assert 10 < len(text) < 400, (name, text)
        assert "\n" not in text


def test_a_comment_is_the_first_sentence_above_what_it_is_about(query: Query) -> None:
    [(table, function)] = query(
        "SELECT obj_description('pauses'::regclass, 'pg_class'), "
        "obj_description('change_limit'::regproc, 'pg_proc')"
    )
    assert (
        table == "Paused queues, in which no job starts, and paused tasks, whose jobs do not start."
    )
    assert function == "Sets the given parts of a limit, and keeps the others."
