"""Pages are bounded: in queries, in time and in connections, and they say what they lack."""

import re
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from starlette.testclient import TestClient

from inturn import App
from inturn.operations.engine import maintenance
from inturn.web import reading
from inturn.web.reading import CONNECTIONS
from tests.conftest import Query

MOST_QUERIES = 6
PATIENCE = 120.0  # seconds: only keeps a failing test from hanging
SESSIONS = """
SELECT state, query FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'inturn web'
    AND backend_type = 'client backend'
"""
MOST_BYTES = 150_000
SLOW = """
CREATE OR REPLACE FUNCTION measure_history(
    p_from timestamptz, p_until timestamptz DEFAULT NULL, p_minutes integer DEFAULT NULL,
    p_by text DEFAULT NULL, p_task text DEFAULT NULL, p_queue text DEFAULT NULL
) RETURNS TABLE (
    at timestamptz, name text, succeeded bigint, failed bigint, cancelled bigint, aborted bigint,
    wait_p50 interval, wait_p95 interval, run_p50 interval, run_p95 interval
) LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(600); END $$
"""


@pytest.fixture
def busy(app: App) -> dict[str, str]:
    """A queue with lanes in several states, and the addresses of pages about them."""

    @app.task(name="shop.pay", on_failure="halt")
    def pay(fail: bool = False) -> None:
        if fail:
            raise ValueError("no money")

    for number in range(4):
        pay.configure(lock=f"order:{number}").defer(fail=number % 2 == 0)
        pay.configure(lock=f"order:{number}").defer()
    app.run_worker()
    app.lanes.pause("order:1")
    job_id = pay.configure(lock="order:1").defer()
    pay.configure(lock="order:0").defer()
    return {
        "/": "/",
        "/lanes": "/lanes?prefix=order:",
        "/lane": "/lane?lock=order:0",
        "/jobs/{job_id}": f"/jobs/{job_id}",
    }


def test_no_page_of_a_busy_queue_asks_more_than_six_queries(
    client: TestClient, busy: dict[str, str]
) -> None:
    for address in busy.values():
        answer = client.get(address)
        assert answer.status_code == 200, address
        (count,) = re.findall(r'desc="(\d+)"', answer.headers["server-timing"])
        assert 1 <= int(count) <= MOST_QUERIES, address


def test_the_first_load_is_small(client: TestClient, busy: dict[str, str]) -> None:
    page = client.get("/")
    files = set(re.findall(r'(?:src|href)="(/assets/[^"]+)"', page.text))
    assert len(files) == 6
    answers = [client.get(file) for file in files]
    assert {each.status_code for each in answers} == {200}
    assert all("immutable" in each.headers["cache-control"] for each in answers)
    assert len(page.content) + sum(len(each.content) for each in answers) <= MOST_BYTES


@pytest.mark.fresh_database
@pytest.mark.parametrize("patience", [3], indirect=True)
def test_a_panel_that_takes_too_long_says_so_and_the_page_is_shown(
    client: TestClient, busy: dict[str, str], dsn: str
) -> None:
    with psycopg.connect(dsn, options="-c search_path=inturn") as connection:
        connection.execute(SLOW)
    answer = client.get("/")
    assert answer.status_code == 200
    (panel,) = re.findall(r'<section class="panel" id="history".*?</section>', answer.text, re.S)
    assert "This took longer than 2 s" in panel
    assert "data-failed" in panel
    assert "order:0" in answer.text


def test_a_lock_on_a_table_does_not_hold_a_page_up(
    client: TestClient, busy: dict[str, str], dsn: str
) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("LOCK TABLE inturn.lane_audit IN ACCESS EXCLUSIVE MODE")
        page = client.get("/lane?lock=order:0")
    assert page.status_code == 200
    (panel,) = re.findall(r'<section class="panel" id="changes".*?</section>', page.text, re.S)
    assert "A table of the queue is locked" in panel
    assert "shop.pay" in page.text


def test_many_readers_share_two_connections(
    client: TestClient, busy: dict[str, str], query: Query
) -> None:
    with ThreadPoolExecutor(12) as threads:
        pages = list(threads.map(lambda _: client.get("/lanes"), range(24)))
    assert {page.status_code for page in pages} == {200}
    deadline = time.monotonic() + PATIENCE
    # A session that the site has ended may be there for another moment.
    while not 1 <= len(query(SESSIONS)) <= CONNECTIONS:
        assert time.monotonic() < deadline, query(SESSIONS)
        time.sleep(0.1)


def test_a_connection_that_the_server_has_closed_is_not_used_again(
    client: TestClient, busy: dict[str, str], query: Query
) -> None:
    assert "All lanes" in client.get("/").text
    query(
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
        "WHERE application_name = 'inturn web'"
    )
    page = client.get("/").text
    assert "cannot be reached" not in page
    assert "order:0" in page


def test_an_outage_is_named_and_does_not_break_the_page() -> None:
    from inturn.web import Access, create_app

    nowhere = App("postgresql://nobody@127.0.0.1:1/x")
    with TestClient(create_app(nowhere, authorize=lambda request: Access.FULL)) as client:
        answer = client.get("/")
    assert answer.status_code == 200
    assert "The database cannot be reached" in answer.text


def test_a_page_that_gets_no_connection_says_so(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "WAIT_SECONDS", 0.01)
    site = reading.Reading(App("postgresql://nobody@127.0.0.1:1/x").connector)
    for _ in range(CONNECTIONS):
        assert site._room.acquire()
    with site.open() as reader:
        panel = reader.panel(lambda reader: reader.run(maintenance.get_now()))
    assert panel.problem is not None
    assert "cancelled" in panel.problem.title
