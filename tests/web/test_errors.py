"""Errors: groups of failures, and their retry in the order of the lanes."""

import re

from starlette.testclient import TestClient

from inturn import App
from inturn.web import Access
from tests.web.conftest import Browse

HOSTILE = "<img src=x onerror=alert(1)>\u202e"


def fail_some(app: App) -> list[int]:
    """Let four jobs in two lanes fail with one error, and one with another."""

    @app.task(name="shop.pay")
    def pay(order: int) -> None:
        raise ValueError(f"order {order} has no money" if order < 9 else HOSTILE)

    ids: list[int] = [
        pay.configure(lock=lock).defer(order=order)
        for order, lock in enumerate(("order:1", "order:2", "order:1", "order:2", "order:1"), 5)
    ]
    app.run_worker(concurrency=1)  # so that the last one is known
    return ids


def test_without_failures_it_says_so(client: TestClient) -> None:
    page = client.get("/errors").text
    assert "No job failed for good in the last hour" in page
    assert "No error affects several lanes" in page


def test_failures_that_differ_in_numbers_are_one_group(client: TestClient, app: App) -> None:
    ids = fail_some(app)
    page = client.get("/errors").text
    rows = re.findall(r'<tr id="error-(\d+)">(.*?)</tr>', page, re.S)
    assert int(rows[0][0]) in ids[2:4]  # the last of either lane
    assert [int(job_id) for job_id, _ in rows[1:]] == ids[4:]
    cells = re.findall(r'data-label="(Failed|Lanes)"[^>]*>(?:<a[^>]*>)?(\d+)', rows[0][1])
    assert cells == [("Failed", "4"), ("Lanes", "2")]
    assert "has no money" in rows[0][1]
    assert "First" in rows[0][1]
    assert "<img" not in page
    assert "\u202e" not in page
    assert int(re.findall(r"\d+", client.get("/errors").headers["server-timing"])[0]) <= 6


def test_a_group_links_to_its_jobs(client: TestClient, app: App) -> None:
    ids = fail_some(app)
    page = client.get("/jobs", params={"q": f"like:{ids[3]}"}).text
    found = [int(id) for id in re.findall(r'<tr id="job-(\d+)">', page)]
    assert found == sorted(ids[:4], reverse=True)


def test_errors_that_halt_several_lanes_are_named(client: TestClient, app: App) -> None:
    @app.task(name="shop.pay", on_failure="halt")
    def pay() -> None:
        raise ValueError("bank is down")

    for lock in ("a", "b"):
        pay.configure(lock=lock).defer()
    app.run_worker()
    page = client.get("/errors").text
    assert "bank is down" in page.split('id="shared"')[1]
    assert 'href="/lanes?state=halted"' in page


def test_who_may_not_retry_sees_no_button(browse: Browse, app: App) -> None:
    fail_some(app)
    assert "Retry in lane order" not in browse(Access.READ_ONLY).get("/errors").text
    assert "Retry in lane order" in browse(Access.only("retry")).get("/errors").text
