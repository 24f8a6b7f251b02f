"""Overview: the verdict in words, and panels that say why they are empty."""

import pytest
from starlette.testclient import TestClient

from inturn import App
from tests.conftest import Query


def test_an_empty_queue_says_that_nothing_waits_and_what_to_do(client: TestClient) -> None:
    page = client.get("/").text
    assert "No worker is running." in page
    assert "queue defer" in page


def test_the_verdict_names_a_queue_that_nobody_serves(client: TestClient, app: App) -> None:
    app.configure_task("shop.pay", queue="mail", lock="order:1").defer()
    page = client.get("/").text
    assert "No live worker, although jobs wait." in page
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


def test_a_database_that_was_never_migrated_is_named(empty_dsn: str) -> None:
    from inturn.web import Access, create_app

    site = create_app(App(empty_dsn), authorize=lambda request: Access.FULL)
    with TestClient(site) as client:
        answer = client.get("/")
    assert answer.status_code == 200
    assert "queue migrate" in answer.text


def test_functions_of_another_version_are_named(client: TestClient, query: Query) -> None:
    query("UPDATE applied_code SET checksum = 'x' RETURNING 1")
    assert "are not those of this version" in client.get("/").text


@pytest.mark.parametrize("chosen", ["1h", "6h", "24h", "7d", "nonsense"])
def test_each_range_can_be_chosen(client: TestClient, chosen: str) -> None:
    assert client.get("/", params={"range": chosen}).status_code == 200
