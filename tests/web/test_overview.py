"""Overview: the verdict in words, and panels that say why they are empty."""

import re

import psycopg
import pytest
from starlette.testclient import TestClient

from inturn import App, RetryStrategy
from inturn.web import Access
from inturn.web.verdict import UNKNOWN
from tests.conftest import Query
from tests.web.conftest import Browse
from tests.web.operated import REGISTER

RETRY_ALL = "queue lanes retry-head --state halted --all"
BULK = 'href="/bulk/lanes?action=retry-head&amp;state=halted"'


def test_an_empty_queue_says_that_nothing_waits_and_what_to_do(client: TestClient) -> None:
    page = client.get("/").text
    assert "No worker is running." in page
    assert "queue defer" in page


def test_the_verdict_names_a_queue_that_nobody_serves(client: TestClient, app: App) -> None:
    app.configure_task("shop.pay", queue="mail", lock="order:1").defer()
    page = client.get("/").text
    assert "No live worker, but jobs are waiting." in page
    assert "no live worker serves" in page


def test_the_verdict_names_halted_lanes(client: TestClient, app: App) -> None:
    @app.task(name="shop.pay", on_failure="halt", lock="order:1")
    def pay() -> None:
        raise ValueError("no money")

    pay.defer()
    pay.defer()
    app.run_worker()
    page = client.get("/").text
    assert "1 lane is halted by a failed job" in page
    assert "ValueError: no money" in page
    assert 'href="/lane?lock=order%3A1"' in page


def find_headline(page: str) -> str:
    found = re.search(r'class="headline"[^>]*>(.*?)</p>', page)
    assert found is not None
    return found[1]


def test_the_first_line_is_what_stops_most(client: TestClient, app: App, query: Query) -> None:
    @app.task(name="shop.pay", on_failure="halt", lock="order:1")
    def pay() -> None:
        raise ValueError("no money")

    pay.defer()
    pay.defer()
    app.run_worker()
    page = client.get("/").text
    assert find_headline(page) == "No live worker, but jobs are waiting."
    assert re.search(r'class="attention"><dt>Workers</dt><dd>0', page)
    query(REGISTER, "web-1", "host", 1, None, 4, ["shop.pay"], [])
    page = client.get("/").text
    assert find_headline(page).startswith("1 lane is halted")
    assert "attention" not in page
    app.queues.pause(None, reason="bank is down", by="ann")
    assert find_headline(client.get("/").text).startswith("Paused: all queues")


def test_one_error_of_many_lanes_has_one_command_and_the_page_that_does_it(
    client: TestClient, browse: Browse, app: App
) -> None:
    @app.task(name="shop.pay", on_failure="halt")
    def pay() -> None:
        raise ValueError("no money")

    for order in (1, 2):
        pay.configure(lock=f"order:{order}").defer()
    app.run_worker()
    few = client.get("/").text
    assert "queue lanes explain order:1" in few
    assert RETRY_ALL not in few
    assert BULK not in few
    pay.configure(lock="order:3").defer()
    app.run_worker()
    page = client.get("/").text
    assert "All have the same error: ValueError: no money" in page
    assert f'once the cause is fixed: <code class="advice">{RETRY_ALL}</code> <button' in page
    assert BULK in page
    assert BULK not in browse(Access.READ_ONLY).get("/").text


@pytest.mark.fresh_database
def test_only_an_empty_database_is_told_to_defer_a_job(client: TestClient, app: App) -> None:
    for path in ("/", "/tasks"):
        assert "queue defer …" in client.get(path).text
    app.configure_task("shop.pay").defer()
    for path in ("/", "/tasks"):
        page = client.get(path).text
        assert "No jobs ended in" in page
        assert "queue defer …" not in page


def test_a_calm_queue_has_a_calm_verdict(client: TestClient, app: App, query: Query) -> None:
    [(worker,)] = query(REGISTER, "web-1", "host", 1, None, 4, ["shop.pay"], [])
    assert "Nothing waits: all work is done." in client.get("/").text
    for _ in range(2):
        app.configure_task("shop.pay", lock="order:1").defer()
    page = client.get("/").text
    assert "Work waits, and a live worker serves it." in page
    assert "No lane is stopped or needs a person." in page
    assert query("SELECT id FROM claim(%s, NULL, 1)", worker)
    assert "All lanes are moving." in client.get("/").text


def test_a_lane_that_waits_for_its_retry_does_not_move_though_nobody_has_to_act(
    client: TestClient, app: App, query: Query
) -> None:
    @app.task(name="shop.pay", retry=RetryStrategy(max_attempts=2, wait=60), lock="order:1")
    def pay() -> None:
        raise ValueError("no money")

    pay.defer()
    app.run_worker(wait=False)
    query(REGISTER, "web-1", "host", 1, None, 4, ["shop.pay"], [])
    page = client.get("/").text
    assert "No lane needs a person. Some are not moving now: 1 retrying." in page
    assert "All lanes are moving" not in page


def test_a_lane_that_is_held_for_long_is_among_those_that_do_not_move(
    client: TestClient, app: App, query: Query
) -> None:
    [(worker,)] = query(REGISTER, "web-1", "host", 1, None, 4, ["shop.pay"], [])
    app.configure_task("shop.pay", lock="order:1").defer()
    query("SELECT id FROM claim(%s, NULL, 1)", worker)
    query(
        "UPDATE jobs SET status = 'doing', started_at = started_at - interval '2 h' RETURNING 1",
    )
    page = client.get("/").text
    assert "Held for long: lane order:1" in page
    assert '<tr id="stalled-1">' in page


@pytest.mark.fresh_database
def test_what_cannot_be_read_is_no_good_news(client: TestClient, dsn: str, query: Query) -> None:
    query(REGISTER, "web-1", "host", 1, None, 4, [], [])
    with psycopg.connect(dsn) as connection:
        connection.execute("ALTER FUNCTION inturn.measure_waiting() RENAME TO lost")
    assert UNKNOWN[1:] in client.get("/").text


def test_a_database_that_was_never_migrated_is_named(empty_dsn: str) -> None:
    from inturn.web import Access, create_app

    site = create_app(App(empty_dsn), authorize=lambda request: Access.FULL)
    with TestClient(site) as client:
        answer = client.get("/")
    assert answer.status_code == 200
    assert "queue migrate" in answer.text


@pytest.mark.fresh_database
def test_functions_of_another_version_are_named_before_all_else(
    client: TestClient, app: App, query: Query
) -> None:
    app.configure_task("t").defer()  # and no worker is live
    app.queues.pause(None)
    query("UPDATE applied_code SET checksum = 'x' RETURNING 1")
    assert "are not those of this version" in find_headline(client.get("/").text)


@pytest.mark.parametrize("chosen", ["1h", "6h", "24h", "7d", "nonsense"])
def test_each_range_can_be_chosen(client: TestClient, chosen: str) -> None:
    assert client.get("/", params={"range": chosen}).status_code == 200
