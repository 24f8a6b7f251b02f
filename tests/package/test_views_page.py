"""docs/views.md says what each column of each view means, as the catalog does."""

import re

from tests.conftest import Query
from tests.views_page import NOTHING, PAGE, write_page

CATALOG = """
SELECT relname::text, attname::text, obj_description(pg_class.oid, 'pg_class'),
       col_description(pg_class.oid, attnum)
FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0
WHERE relnamespace = 'inturn'::regnamespace AND relkind = 'v'
"""


def test_the_page_of_the_views_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == write_page(), "run `make docs`"


def test_the_page_has_each_view_and_column_with_the_comment_of_the_catalog(query: Query) -> None:
    catalog = query(CATALOG)
    undocumented = [f"{view}.{column}" for view, column, *texts in catalog if None in texts]
    assert undocumented == []
    page = PAGE.read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (\w+)\n\n(.*?)(?=\n## |\Z)", page, re.MULTILINE | re.DOTALL))
    meanings: dict[str, dict[str, str]] = {}
    for view, text in sections.items():
        meanings[view] = dict(re.findall(r"^\* `(\w+)`: (.*)$", text, re.MULTILINE))
        for other, columns in re.findall(r"^As in \[(\w+)\]\(#\1\): (.*)\.$", text, re.MULTILINE):
            names = re.findall(r"`(\w+)`", columns)
            meanings[view] |= {name: meanings[other][name] for name in names}
    listed = {
        (view, column, sections[view].partition("\n")[0], meaning)
        for view, columns in meanings.items()
        for column, meaning in columns.items()
    }
    assert listed == {
        (*names, about, text.rstrip(".").removesuffix(NOTHING)) for *names, about, text in catalog
    }


def test_the_page_says_what_each_status_means(query: Query) -> None:
    [(statuses,)] = query("SELECT enum_range(NULL::job_status)::text[]")
    rows = re.findall(r"^\| (`.*?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    named = {name for row in rows[: len(statuses)] for name in re.findall(r"`(\w+)`", row)}
    assert set(statuses) - named == {"paused"}  # people see it blocked
    assert "is `paused`" in PAGE.read_text(encoding="utf-8")
