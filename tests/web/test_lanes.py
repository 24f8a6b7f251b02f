"""Lanes: the list, its filters, and the address as the only state."""

import re

from starlette.testclient import TestClient

from inturn import App


def find_locks(page: str) -> list[str]:
    return re.findall(r'class="lock" href="[^"]*">([^<]*)<', page)


def test_lanes_are_listed_with_the_reason_why_they_do_not_move(
    client: TestClient, app: App
) -> None:
    app.configure_task("shop.pay", lock="order:1").defer()
    app.lanes.pause("order:1", reason="bank is down", by="eve")
    page = client.get("/lanes").text
    assert find_locks(page) == ["order:1"]
    assert "by eve: bank is down" in page


def test_a_prefix_finds_lanes_by_name_even_if_nothing_is_wrong(
    client: TestClient, app: App
) -> None:
    for lock in ("order:1", "order:2", "customer:1"):
        app.configure_task("shop.pay", lock=lock).defer()
    page = client.get("/lanes", params={"prefix": "order:", "sort": "name"}).text
    assert find_locks(page) == ["order:1", "order:2"]


def test_a_state_filters(client: TestClient, app: App) -> None:
    for lock in ("a", "b"):
        app.configure_task("shop.pay", lock=lock).defer()
    app.lanes.pause("a")
    assert find_locks(client.get("/lanes", params={"state": "paused"}).text) == ["a"]
    assert "Clear the filter" in client.get("/lanes", params={"state": "held"}).text


def test_a_filter_that_nobody_knows_is_left_out(client: TestClient) -> None:
    strange = client.get(
        "/lanes", params={"state": "x' OR 1=1", "sort": "drop table", "prefix": "\0"}
    )
    assert strange.status_code == 200
