"""Queues: what waits, who serves it, and what is paused."""

from starlette.testclient import TestClient

from inturn import App
from tests.conftest import Query
from tests.web.operated import PRESS, REGISTER


def test_an_empty_page_says_how_to_get_a_queue(client: TestClient) -> None:
    page = client.get("/queues").text
    assert "No queue has a live job" in page
    assert "queue defer TASK --queue mail" in page


def test_a_queue_is_counted_by_what_its_jobs_wait_for(client: TestClient, app: App) -> None:
    task = app.configure_task("mail.send", queue="mail", lock="order:1")
    first = task.defer()
    task.defer()
    app.configure_task("mail.send", queue="mail", schedule_in={"hours": 1}).defer()
    page = client.get("/queues").text
    for label, count in (("Ready", 1), ("Blocked", 1), ("Scheduled", 1), ("Running", 0)):
        assert f'<td data-label="{label}" class="n">{count}</td>' in page
    assert f'href="/jobs/{first}"' in page, "the oldest is a link"
    assert "no worker" in page
    assert "nobody" in page


def test_workers_that_serve_a_queue_are_named(client: TestClient, app: App, query: Query) -> None:
    app.configure_task("mail.send", queue="mail").defer()
    query(REGISTER, "everything-1", "host", 1, None, 4, [], [])
    query(REGISTER, "img-1", "host", 2, ["img"], 4, [], [])
    page = client.get("/queues", params={"prefix": "mail"}).text
    assert '<td data-label="Served by" class="why">everything-1</td>' in page


def test_a_prefix_and_an_order_come_from_the_address(client: TestClient, app: App) -> None:
    for queue in ("img", "mail", "mail-bulk"):
        app.configure_task("x", queue=queue).defer()
    app.configure_task("x", queue="mail-bulk").defer()
    page = client.get("/queues", params={"prefix": "mail", "sort": "ready"}).text
    assert 0 < page.index(">mail-bulk<") < page.index(">mail<")
    assert ">img<" not in page
    assert "Clear filter" in client.get("/queues", params={"prefix": "x"}).text


def test_a_page_lists_forty_queues_and_counts_the_others(
    client: TestClient, app: App, query: Query
) -> None:
    queues = [f"q{number:03}" for number in range(103)]
    query(REGISTER, "w", "host", 1, queues, 4, [], [])
    page = client.get("/queues").text
    assert page.count('data-label="Ready"') == 40
    assert "63 more queues" in page


def test_a_queue_is_paused_and_resumed_with_reason_and_end(
    client: TestClient, app: App, query: Query
) -> None:
    app.configure_task("mail.send", queue="mail").defer()
    answer = client.post(
        "/queues/pause", params={"name": "mail"}, data={"reason": "provider outage", "hours": "2"}
    )
    assert answer.status_code == 303
    assert query(
        "SELECT paused_by, reason, until - clock() BETWEEN '1h59m' AND '2h' FROM paused_queues"
    ) == [("ana", "provider outage", True)]
    page = client.get(answer.headers["location"]).text
    assert "Paused the queue." in page
    assert '<td data-label="By">ana</td>' in page
    assert "provider outage" in page
    assert client.post("/queues/resume", params={"name": "mail"}, data=PRESS).status_code == 303
    assert query("SELECT * FROM paused_queues") == []
    assert query("SELECT who, operation FROM lane_audit ORDER BY id") == [
        ("ana", "pause-queue"),
        ("ana", "resume-queue"),
    ]


def test_everything_is_paused_only_if_the_word_was_typed(client: TestClient, query: Query) -> None:
    refused = client.post("/queues/pause-everything", data={"confirm": "yes"})
    assert refused.status_code == 409
    assert query("SELECT * FROM paused_queues") == []
    client.post("/queues/pause-everything", data={"confirm": "everything"})
    assert query("SELECT queue FROM paused_queues") == [(None,)]
    page = client.get("/queues").text
    assert "all queues" in page
    assert "Pause everything" not in page
    assert client.post("/queues/resume-everything", data=PRESS).status_code == 303
    assert query("SELECT * FROM paused_queues") == []


def test_what_cannot_be_paused_or_resumed_is_refused_with_a_way_back(
    client: TestClient, query: Query
) -> None:
    for path, params, data in (
        ("/queues/resume", {"name": "mail"}, PRESS),
        ("/queues/resume-everything", {}, PRESS),
        ("/queues/pause", {"name": "q" * 64}, PRESS),
        ("/queues/pause", {}, PRESS),
        ("/queues/pause", {"name": "mail"}, {"hours": "-1"}),
        ("/queues/pause", {"name": "mail"}, {"hours": "nan"}),
    ):
        answer = client.post(path, params=params, data=data)
        assert answer.status_code == 409, (path, params, data)
        assert 'href="/queues"' in answer.text
    assert query("SELECT * FROM pauses") == []
