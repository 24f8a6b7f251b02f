"""What a page costs: bytes, statements, and pages of the tables.

Pages of the tables are compared beside few rows and beside five times as many of each kind, since
they repeat on any machine. tests/sql/test_reads_cost.py has the sizes and the kinds.
"""

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from inturn import App
from inturn.states import STATUSES
from inturn.web import Access, create_app
from inturn.web.pages import PAGES
from tests.sql.recorder import KINDS
from tests.sql.test_growth import Bench
from tests.sql.test_reads_cost import DEEPER, FEW, LARGE, SMALL
from tests.web.operated import MOST_QUERIES_OF_CHECKS
from tests.web.test_attacks import fill_in

FIRST_LOAD = 150 * 1024  # bytes
STATEMENTS = 6
LOADED = re.compile(
    r"""<(?:script src|link rel="stylesheet" href|link rel="icon" href)="([^"]*)\""""
)
# Each page, and the ways to ask for it that read something else.
ADDRESSES = [
    *(fill_in(page.path) for page in PAGES),
    "/?range=7d",
    "/lanes?prefix=lane",
    "/lanes?state=paused",
    "/lanes?queue=default&task=t&waiting=1&oldest=1s&sort=waiting",
    "/lanes?prefix=lane&queue=default&task=t*&waiting=1&oldest=1s",
    "/lanes?state=held&task=t",
    "/lane?lock=busy",
    "/lane?lock=lane+7",
    *(f"/jobs?q=state:{state}" for state in STATUSES),
    "/jobs?q=task:t",
    "/jobs?q=task:none",
    "/jobs?q=task:t*",
    "/jobs?q=error:none",
    "/jobs?q=lock:busy",
    "/jobs?q=lock:lane*+task:none",
    "/jobs?q=batch:1+task:none",
    "/jobs?before=7",
    "/queue?name=default",
    "/task?name=t",
    "/batch?id=1",
]
# The preview of a change reads all that match, and says so (docs/bulk.md).
PREVIEWS = ["/bulk?action=cancel&q=task:t", "/bulk/lanes?action=resume"]


class Meter:
    """Counts the pages that the statements of one page touch."""

    def __init__(self, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pages = 0
        connect = app.connector.connect

        def connect_and_count(*given: Any, **options: Any) -> Any:
            connection = connect(*given, **options)
            if given == ("web",) and not options:
                connection.execute(
                    "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0;"
                    "SET auto_explain.log_analyze = on; SET auto_explain.log_buffers = on;"
                    "SET auto_explain.log_timing = off; SET auto_explain.log_level = notice;"
                    "SET client_min_messages = notice"
                )
                connection.add_notice_handler(self._add)
            return connection

        monkeypatch.setattr(app.connector, "connect", connect_and_count)

    def _add(self, notice: psycopg.errors.Diagnostic) -> None:
        # The first line with buffers is that of the whole plan.
        found = re.search(r"Buffers: shared((?: \w+=\d+)+)", notice.message_primary or "")
        if found:
            parts = dict(part.split("=") for part in found[1].split())
            self.pages += int(parts.get("hit", 0)) + int(parts.get("read", 0))


@pytest.fixture
def bench(dsn: str) -> Iterator[Bench]:
    options = "-c search_path=inturn"
    with closing(psycopg.connect(dsn, autocommit=True, options=options)) as connection:
        yield Bench(connection)


def read_all(app: App, meter: Meter) -> dict[str, int]:
    """Return the pages that each address touches, over connections that know the catalogue."""
    found = {}
    with TestClient(create_app(app, authorize=lambda _: Access.FULL)) as client:
        for address in (*ADDRESSES, *ADDRESSES):
            meter.pages = 0
            answer = client.get(address)
            assert answer.status_code in (200, 404), (address, answer.text)
            assert 'class="problem"' not in answer.text, (address, answer.text)
            found[address] = meter.pages
    return found


@pytest.mark.proof
@pytest.mark.parametrize("kind", KINDS)
def test_no_page_touches_more_beside_five_times_as_many_rows(
    app: App, bench: Bench, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = Meter(app, monkeypatch)
    bench.grow(KINDS[kind], 1, SMALL)
    small = read_all(app, meter)
    bench.grow(KINDS[kind], SMALL + 1, LARGE)
    large = read_all(app, meter)
    assert min(small[page] for page in ("/", "/lanes")) > 0
    grown = {
        address: (small[address], pages)
        for address, pages in large.items()
        if pages > DEEPER * small[address] + FEW
    }
    assert grown == {}, f"from {SMALL:,} to {LARGE:,}"


@pytest.mark.proof
@pytest.mark.fresh_database
def test_a_page_that_reads_everything_is_noticed(
    app: App, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.connection.execute(  # three times, since the page reads much of 10,000 jobs anyway
        "CREATE OR REPLACE VIEW halted_lanes AS SELECT max(lock) AS lock, "
        "max(created_at::timestamptz) AS stopped_at, max(id) AS failed_job_id FROM ("
        "TABLE jobs UNION ALL TABLE jobs UNION ALL TABLE jobs) AS jobs "
        "HAVING max(lock) = 'nothing'"
    )
    meter = Meter(app, monkeypatch)
    bench.grow(KINDS["free jobs"], 1, SMALL)
    small = read_all(app, meter)
    bench.grow(KINDS["free jobs"], SMALL + 1, LARGE)
    assert read_all(app, meter)["/"] > DEEPER * small["/"] + FEW


@pytest.mark.parametrize("address", [*ADDRESSES, *PREVIEWS])
def test_a_page_asks_few_questions(client: TestClient, app: App, address: str) -> None:
    for lock in ("lane 7", "busy"):
        for _ in range(5):
            app.configure_task("t", lock=lock).defer()
        app.lanes.pause(lock)
    answer = client.get(address)
    said = re.search(r'queries;desc="(\d+)"', answer.headers.get("server-timing", ""))
    if said is None:  # nothing is there
        assert answer.status_code == 404
        return
    assert (
        0 < int(said[1]) <= (MOST_QUERIES_OF_CHECKS if address == "/system/checks" else STATEMENTS)
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
def test_the_first_load_is_small(client: TestClient, app: App, page: Any) -> None:
    for number in range(200):
        app.lanes.pause(f"order:{number}", reason="bank is down")
    answer = client.get(fill_in(page.path))
    sizes = {page.path: len(answer.content)}
    for link in LOADED.findall(answer.text):
        sizes[link] = len(client.get(link).content)
    assert page.path == "/lanes" or len(sizes) >= 4 or answer.status_code == 404
    assert sum(sizes.values()) <= FIRST_LOAD, sizes
