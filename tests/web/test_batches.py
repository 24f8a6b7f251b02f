"""Batches: their progress, and closing and cancelling them."""

import pytest
from starlette.testclient import TestClient

from inturn import App
from inturn.web import queue_actions
from tests.conftest import Query
from tests.web.operated import PRESS


def open_batch(app: App, jobs: int, *, in_lanes: bool = False) -> int:
    batch = app.batches.open("import", callback=app.configure_task("report"))
    for number in range(jobs):
        lock = f"order:{number}" if in_lanes else None
        app.configure_task("shop.pay", batch=batch, lock=lock).defer()
    return batch


def test_an_empty_page_says_how_to_open_one(client: TestClient) -> None:
    assert "app.batch(" in client.get("/batches").text


def test_a_batch_shows_its_progress(client: TestClient, app: App) -> None:
    @app.task(name="shop.pay")
    def pay() -> None:
        pass

    batch = open_batch(app, 3)
    app.run_worker()
    app.configure_task("other", batch=batch).defer()
    page = client.get("/batches").text
    assert f'href="/batch?id={batch}"' in page
    assert '<progress max="4" value="3"' in page
    one = client.get("/batch", params={"id": batch}).text
    assert "3 of 4 jobs ended" in one
    assert "<dt>Succeeded</dt><dd>3</dd>" in one


def test_older_batches_are_on_further_pages(client: TestClient, app: App, query: Query) -> None:
    query(
        "SELECT count(open_batch('b' || n, NULL, '{}', NULL, 'default', 0, NULL, NULL, NULL)) "
        "FROM generate_series(1, 51) AS n"
    )
    last = client.get("/batches").text
    [(oldest,), (second,)] = query("SELECT id FROM batches ORDER BY id LIMIT 2")
    assert last.count('data-label="Progress"') == 50
    assert f'href="/batches?before={second}"' in last
    first = client.get("/batches", params={"before": second}).text
    assert first.count('data-label="Progress"') == 1
    assert f'href="/batch?id={oldest}"' in first
    assert "Newest" in first


def test_a_batch_is_closed_once(client: TestClient, app: App, query: Query) -> None:
    batch = open_batch(app, 1)
    answer = client.post("/batches/close", params={"id": batch}, data=PRESS)
    assert answer.headers["location"] == f"/batch?id={batch}&done=batch-closed"
    assert query("SELECT state FROM batch_status") == [("closed",)]
    again = client.post("/batches/close", params={"id": batch}, data=PRESS)
    assert again.status_code == 409
    assert "already closed" in again.text


@pytest.mark.parametrize("in_lanes", [False, True])
def test_a_batch_is_cancelled_if_its_name_was_typed(
    client: TestClient, app: App, query: Query, in_lanes: bool
) -> None:
    batch = open_batch(app, 3, in_lanes=in_lanes)
    assert client.post("/batches/cancel", params={"id": batch}, data=PRESS).status_code == 409
    assert query("SELECT count(*) FROM jobs WHERE status <> 'pending'") == [(3,)]
    answer = client.post("/batches/cancel", params={"id": batch}, data={"confirm": "import"})
    assert "done=batch-cancelled" in answer.headers["location"]
    assert query("SELECT count(*) FROM jobs") == [(0,)]
    assert "Cancelled waiting jobs: 4." in client.get(answer.headers["location"]).text


def test_one_request_cancels_no_more_than_it_may(
    client: TestClient, app: App, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_actions, "MOST_STEPS", 2)
    batch = open_batch(app, 3, in_lanes=True)
    answer = client.post("/batches/cancel", params={"id": batch}, data={"confirm": "import"})
    assert "done=batch-cancelled-some" in answer.headers["location"]
    left = query("SELECT count(*) FROM jobs")[0][0]
    assert 0 < left < 4
    monkeypatch.undo()
    client.post("/batches/cancel", params={"id": batch}, data={"confirm": "import"})
    assert query("SELECT count(*) FROM jobs") == [(0,)]


def test_running_jobs_are_asked_to_end_only_if_you_say_so(
    client: TestClient, app: App, query: Query
) -> None:
    batch = open_batch(app, 1)
    [(worker,)] = query("SELECT register_worker('w', 'host', 1, NULL, 1)")
    query("SELECT id FROM claim(%s, NULL, 1)", worker)
    name = {"confirm": "import"}
    client.post("/batches/cancel", params={"id": batch}, data=name)
    assert query("SELECT abort FROM jobs WHERE status = 'doing'") == [(False,)]
    client.post("/batches/cancel", params={"id": batch}, data={**name, "abort": "yes"})
    assert query("SELECT abort FROM jobs WHERE status = 'doing'") == [(True,)]


@pytest.mark.parametrize("id", ["", "0", "-1", "x", "99", "9" * 19, "9" * 30, "\u0661"])
def test_a_batch_that_does_not_exist_is_not_found(client: TestClient, id: str) -> None:
    assert client.get("/batch", params={"id": id}).status_code == 404
    for action in ("close", "cancel"):
        answer = client.post(f"/batches/{action}", params={"id": id}, data=PRESS)
        assert answer.status_code == 409
        assert "This batch does not exist" in answer.text
