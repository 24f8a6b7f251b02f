"""Tasks: the last hour of each, its charts, and which workers know it."""

import pytest
from starlette.testclient import TestClient

from inturn import App
from tests.conftest import Query
from tests.web.operated import REGISTER, run_and_count


def test_an_empty_page_says_what_to_do(client: TestClient) -> None:
    page = client.get("/tasks").text
    assert "No job has ended in the last hour" in page
    assert "queue worker" in page


def test_tasks_show_how_their_jobs_ended(client: TestClient, app: App, query: Query) -> None:
    @app.task(name="shop.pay")
    def pay(amount: int) -> None:
        if amount < 0:
            raise ValueError("less than nothing")

    for amount in (1, 2, 3, -1):
        pay.defer(amount=amount)
    run_and_count(app, query)
    page = client.get("/tasks").text
    assert 'href="/task?name=shop.pay"' in page
    assert '<td data-label="Succeeded" class="n">3</td>' in page
    assert "1 (25.0%)" in page
    one = client.get("/task", params={"name": "shop.pay", "range": "1h"}).text
    assert "4 jobs ended" in one
    assert "1 failed" in one
    assert one.count('<svg class="chart"') == 3
    assert "No job of it has ended" in client.get("/task", params={"name": "other"}).text


def test_tasks_are_sorted_and_filtered_by_the_address(
    client: TestClient, app: App, query: Query
) -> None:
    @app.task(name="a.good")
    def good() -> None:
        pass

    @app.task(name="b.bad")
    def bad() -> None:
        raise ValueError

    for _ in range(3):
        good.defer()
    bad.defer()
    run_and_count(app, query)
    busiest = client.get("/tasks").text
    assert busiest.index("a.good") < busiest.index("b.bad")
    failed = client.get("/tasks", params={"sort": "failed"}).text
    assert failed.index("b.bad") < failed.index("a.good")
    assert "a.good" not in client.get("/tasks", params={"prefix": "b"}).text


def test_workers_that_know_a_task_are_named(client: TestClient, query: Query) -> None:
    query(REGISTER, "web-1", "host", 1, None, 4, ["mail.send"], [])
    query(REGISTER, "gone", "host", 2, None, 4, ["mail.send"], [])
    query("UPDATE workers SET heartbeat_at = clock() - interval '1 h' WHERE pid = 2 RETURNING 1")
    assert "1 worker" in client.get("/tasks").text
    page = client.get("/task", params={"name": "mail.send"}).text
    assert 'href="/workers?prefix=web-1"' in page
    assert "gone" not in page


def test_a_task_that_no_worker_knows_says_so(client: TestClient, app: App, query: Query) -> None:
    query(REGISTER, "web-1", "host", 1, None, 4, ["mail.send"], [])
    app.configure_task("shop.pay", queue="shop").defer()
    assert "no worker knows it" in client.get("/tasks").text
    page = client.get("/task", params={"name": "shop.pay"}).text
    assert "Jobs wait in <code>shop</code>" in page


@pytest.mark.parametrize("params", [{}, {"name": ""}, {"name": "\0"}])
def test_a_task_without_a_name_is_not_there(client: TestClient, params: dict[str, str]) -> None:
    assert client.get("/task", params=params).status_code == 404
