"""Tasks: the last hour of each, its charts, and which workers know it."""

import pytest
from starlette.testclient import TestClient

from inturn import App
from tests.conftest import Query
from tests.web.operated import PRESS, REGISTER, run_and_count


@pytest.mark.fresh_database
def test_an_empty_page_says_what_to_do(client: TestClient) -> None:
    page = client.get("/tasks").text
    assert "No jobs ended in the last hour" in page
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
    assert "No jobs ended" in client.get("/task", params={"name": "other"}).text


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


def test_a_task_is_paused_and_resumed_with_reason_and_end(
    client: TestClient, app: App, query: Query
) -> None:
    @app.task(name="mail.send")
    def send() -> None:
        pass

    job = send.configure(lock="order:1").defer()
    answer = client.post(
        "/tasks/pause",
        params={"name": "mail.send"},
        data={"reason": "provider outage", "hours": "2"},
    )
    assert answer.status_code == 303
    assert query(
        "SELECT paused_by, reason, until - clock() BETWEEN '1h59m' AND '2h' FROM paused_tasks"
    ) == [("ana", "provider outage", True)]
    for address in (answer.headers["location"], "/tasks"):
        page = client.get(address).text
        assert ("Paused the task." in page) == (address != "/tasks")
        assert '<td data-label="By">ana</td>' in page
        assert '<a class="lock" href="/task?name=mail.send">mail.send</a>' in page
        assert "provider outage" in page
    app.run_worker()
    assert app.job_manager.get_job_status(job) == "blocked"
    assert client.post("/tasks/resume", params={"name": "mail.send"}, data=PRESS).status_code == 303
    app.run_worker()
    assert app.job_manager.get_job_status(job) == "succeeded"
    assert "provider outage" not in client.get("/tasks").text
    assert query("SELECT who, operation FROM lane_audit ORDER BY id") == [
        ("ana", "pause-task"),
        ("ana", "resume-task"),
    ]


def test_a_page_lists_ten_pauses_and_counts_the_others(client: TestClient, query: Query) -> None:
    query("SELECT pause_task('t' || n) FROM generate_series(1, 13) AS n")
    page = client.get("/tasks").text
    assert page.count('data-label="Ends"') == 10
    assert "3 more pauses" in page


def test_what_cannot_be_paused_or_resumed_is_refused_with_a_way_back(
    client: TestClient, query: Query
) -> None:
    for path, params, data in (
        ("/tasks/resume", {"name": "mail.send"}, PRESS),
        ("/tasks/resume", {}, PRESS),
        ("/tasks/pause", {"name": "t" * 513}, PRESS),
        ("/tasks/pause", {}, PRESS),
        ("/tasks/pause", {"name": "mail.send"}, {"hours": "-1"}),
    ):
        answer = client.post(path, params=params, data=data)
        assert answer.status_code == 409, (path, params, data)
        assert 'href="/tasks"' in answer.text
    assert query("SELECT * FROM pauses") == []
