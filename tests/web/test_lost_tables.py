"""Nothing can be read: every page is shown anyway, and says so."""

import psycopg
import pytest

from inturn.web import Access
from inturn.web.pages import PAGES
from tests.web.conftest import Browse

ADDRESSES = {
    "/lane": "/lane?lock=a",
    "/jobs/{job_id}": "/jobs/1",
    "/queue": "/queue?name=q",
    "/task": "/task?name=t",
    "/batch": "/batch?id=1",
    "/bulk": "/bulk?action=retry&id=1",
    "/bulk/lanes": "/bulk/lanes?action=resume&state=halted",
}
RUNS = {"/bulk/run", "/bulk/lanes/run"}  # of this process


@pytest.mark.fresh_database
@pytest.mark.parametrize("path", sorted({page.path for page in PAGES} - RUNS))
def test_a_page_says_that_nothing_can_be_read(browse: Browse, dsn: str, path: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("ALTER SCHEMA inturn RENAME TO lost")
    answer = browse(Access.FULL).get(ADDRESSES.get(path, path))
    assert answer.status_code == 200, answer.text[-600:]
    said = "has no tables of inturn" if path == "/system/checks" else "problem"
    assert said in answer.text
