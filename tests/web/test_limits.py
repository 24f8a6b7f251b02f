"""Limits: how much is used, by which keys, and changing them."""

import pytest
from starlette.testclient import TestClient

from inturn import App
from tests.conftest import Query
from tests.web.operated import PRESS, REGISTER


def use_limits(app: App, query: Query, keys: int = 2) -> None:
    """Let one job of each key run, and another wait."""
    app.limits.set("customer:*", concurrency=1)
    for key in range(keys):
        for _ in range(2):
            app.configure_task("x", limit=f"customer:{key:03}").defer()
    [(worker,)] = query(REGISTER, "w", "host", 1, None, 1000, ["x"], [])
    for _ in range(2):
        query("SELECT id FROM claim(%s, NULL, 500)", worker)


def test_an_empty_page_says_how_to_set_one(client: TestClient) -> None:
    page = client.get("/limits").text
    assert "queue limits set stripe --concurrency 5" in page
    assert "No keys of limits are in use." in page


def test_limits_and_keys_show_what_is_used_and_what_waits(
    client: TestClient, app: App, query: Query
) -> None:
    use_limits(app, query)
    page = client.get("/limits").text
    limits, _, keys = page.partition('id="keys-of-limits"')
    assert '<td data-label="Used" class="n">2</td>' in limits
    assert "<span>2</span>" in limits, "two jobs wait"
    assert keys.count("1 of 1") == 2
    assert keys.count('<td data-label="Waiting" class="n">1</td>') == 2


def test_further_keys_are_on_further_pages(client: TestClient, app: App, query: Query) -> None:
    use_limits(app, query, keys=52)
    page = client.get("/limits").text
    assert 'href="/limits?after=customer%3A049"' in page
    second = client.get("/limits", params={"after": "customer:049"}).text
    assert "customer:049" not in second.partition("keys-of-limits")[2]
    assert second.count('data-label="Key"') == 2


def test_a_limit_is_set_changed_and_removed(client: TestClient, query: Query) -> None:
    rows = "SELECT pattern, slots, rate, burst FROM limits"
    new = {"pattern": "stripe", "concurrency": "5", "rate": "100/min", "burst": "20"}
    answer = client.post("/limits/set", data=new)
    assert answer.headers["location"] == "/limits?done=limit-set"
    assert query(rows) == [("stripe", 5, 100, 20)]
    # The pattern of the address counts: that of the form may be another by accident.
    change = {"concurrency": "7", "rate": "", "burst": "", "pattern": "other"}
    client.post("/limits/set", params={"pattern": "stripe"}, data=change)
    assert query(rows) == [("stripe", 7, None, None)]
    client.post("/limits/remove", params={"pattern": "stripe"}, data=PRESS)
    assert query(rows) == []
    assert query("SELECT who, operation, lock FROM lane_audit ORDER BY id") == [
        ("ana", "set-limit", "stripe"),
        ("ana", "set-limit", "stripe"),
        ("ana", "remove-limit", "stripe"),
    ]


@pytest.mark.parametrize(
    "form",
    [
        PRESS,
        {"pattern": "x"},
        {"pattern": "x", "concurrency": "0"},
        {"pattern": "x", "concurrency": "many"},
        {"pattern": "x", "concurrency": "9" * 12},
        {"pattern": "x", "concurrency": "1", "burst": "3"},
        {"pattern": "x", "rate": "fast"},
        {"pattern": "a*b", "concurrency": "1"},
        {"pattern": "x" * 2000, "concurrency": "1"},
        {"pattern": "", "concurrency": "1"},
    ],
)
def test_a_wrong_limit_is_refused_with_a_way_back(
    client: TestClient, query: Query, form: dict[str, str]
) -> None:
    answer = client.post("/limits/set", data=form)
    assert answer.status_code == 409
    assert 'href="/limits"' in answer.text
    assert query("SELECT * FROM limits") == []


def test_a_limit_that_is_gone_cannot_be_removed(client: TestClient) -> None:
    assert client.post("/limits/remove", params={"pattern": "x"}, data=PRESS).status_code == 409
