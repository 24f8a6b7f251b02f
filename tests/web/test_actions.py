"""Actions: each does what the command does, says what it does to the lane, and is audited."""

import re
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from starlette.testclient import TestClient

from inturn import App
from inturn.operations.changes import lanes
from inturn.web import actions
from tests.conftest import Query
from tests.waiting import wait_until
from tests.web.conftest import EMPTY


def defer(app: App, lock: str = "a", count: int = 1) -> list[int]:
    task = app.configure_task("shop.pay", lock=lock)
    return [int(task.defer()) for _ in range(count)]


def halt(app: App) -> list[int]:
    @app.task(name="shop.pay", on_failure="halt", lock="a")
    def pay(fail: bool = False) -> None:
        if fail:
            raise ValueError("no money")

    ids = [int(pay.defer(fail=True)), int(pay.defer()), int(pay.defer())]
    app.run_worker()
    return ids


def read_effects(page: str) -> dict[str, str]:
    found = re.findall(r'action="([^"?]*)[^"]*">\s*<p>([^<]*)</p>', page)
    return dict(found)


def audit(app: App) -> list[tuple[str, str]]:
    entries = app.connector.run(lanes.list_audit("a", 10))
    return [(each.operation, each.who) for each in entries]


def test_pause_and_resume(client: TestClient, app: App) -> None:
    defer(app)
    effect = read_effects(client.get("/lane?lock=a").text)["/lane/pause"]
    assert effect == "No other job of this lane starts until it is resumed."
    answer = client.post("/lane/pause?lock=a", data={"reason": "bank is down", "hours": "1.5"})
    assert answer.headers["location"] == "/lane?lock=a&done=paused"
    page = client.get(answer.headers["location"]).text
    assert "Paused the lane." in page
    assert "bank is down" in page
    lane = app.lanes.show("a")
    assert lane is not None
    assert lane.stopped_until is not None
    client.post("/lane/resume?lock=a", data=EMPTY)
    assert app.lanes.show("a") is None
    assert audit(app) == [("resume", "ana"), ("pause", "ana")]


@pytest.mark.parametrize("hours", ["0", "-1", "x", "nan", "inf", "1e300"])
def test_a_pause_of_no_length_is_refused(client: TestClient, app: App, hours: str) -> None:
    defer(app)
    answer = client.post("/lane/pause?lock=a", data={"hours": hours})
    assert answer.status_code == 409
    assert "is not a number of hours" in answer.text
    assert app.lanes.show("a") is None


def test_a_halted_lane_retries_its_head_before_the_jobs_behind(
    client: TestClient, app: App
) -> None:
    first, *_ = halt(app)
    effects = read_effects(client.get("/lane?lock=a").text)
    assert effects["/lane/retry-head"] == (
        f"Job {first} (shop.pay) runs again, at the head. Then the 2 behind it follow in order."
    )
    assert "/lane/pause" not in effects
    answer = client.post("/lane/retry-head?lock=a", data=EMPTY)
    assert answer.headers["location"] == f"/lane?lock=a&done=head-retried&n={first}"
    assert f"Job {first} is due now" in client.get(answer.headers["location"]).text
    assert app.job_manager.get_job_status(first) == "todo"
    assert audit(app)[0] == ("retry-head", "ana")


def test_a_halted_lane_goes_on_without_its_head(client: TestClient, app: App) -> None:
    first, second, _ = halt(app)
    effects = read_effects(client.get("/lane?lock=a").text)
    assert effects["/lane/skip-head"].startswith(
        f"The lane continues without job {first} (shop.pay)"
    )
    client.post("/lane/skip-head?lock=a", data={"head": str(first)})
    assert app.job_manager.get_job_status(first) == "failed"
    assert app.job_manager.explain(second)[0].reason != "lane halted"
    assert audit(app)[0] == ("skip-head", "ana")


def test_skip_does_nothing_if_another_job_is_the_head_by_now(client: TestClient, app: App) -> None:
    first, second = defer(app, count=2)
    app.job_manager.cancel_job_by_id(first)
    answer = client.post("/lane/skip-head?lock=a", data={"head": str(first)})
    assert answer.status_code == 409
    assert "Another job is now the head" in answer.text
    assert app.job_manager.get_job_status(second) == "todo"
    assert audit(app) == []


def test_cancel_waiting_needs_the_name_of_the_lane(client: TestClient, app: App) -> None:
    ids = defer(app, count=3)
    for typed in ("", "A", "a "):
        answer = client.post("/lane/cancel-waiting?lock=a", data={"confirm": typed})
        assert answer.status_code == 409
    assert {app.job_manager.get_job_status(each) for each in ids} <= {"todo", "blocked"}
    answer = client.post("/lane/cancel-waiting?lock=a", data={"confirm": "a"})
    assert "Cancelled waiting jobs: 3" in client.get(answer.headers["location"]).text
    assert {app.job_manager.get_job_status(each) for each in ids} == {"cancelled"}


def test_a_job_is_cancelled_retried_and_deleted(client: TestClient, app: App) -> None:
    (job_id,) = defer(app)
    for verb, status in (("cancel", "cancelled"), ("retry", "todo"), ("cancel", "cancelled")):
        answer = client.post(f"/jobs/{job_id}/{verb}", data=EMPTY)
        assert answer.status_code == 303, answer.text
        assert app.job_manager.get_job_status(job_id) == status
    answer = client.post(f"/jobs/{job_id}/delete", data=EMPTY)
    assert f"Job {job_id} is deleted." in client.get(answer.headers["location"]).text
    assert app.job_manager.get_job_status(job_id) is None


@pytest.mark.parametrize("verb", ["retry", "cancel", "abort", "delete"])
@pytest.mark.parametrize("job_id", ["4711", str(2**63), "9" * 5000])
def test_an_action_on_a_job_that_is_gone_says_so(
    client: TestClient, verb: str, job_id: str
) -> None:
    answer = client.post(f"/jobs/{job_id}/{verb}", data=EMPTY)
    assert answer.status_code == 409
    assert "Nothing was changed" in answer.text


def test_an_action_that_loses_its_connection_does_not_say_that_nothing_was_changed(
    client: TestClient, dsn: str, query: Query
) -> None:
    end = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
        "AND datname = current_database() AND application_name = 'inturn web'"
    )
    with psycopg.connect(dsn) as held, ThreadPoolExecutor() as threads:
        held.execute("LOCK TABLE inturn.lanes")
        answering = threads.submit(client.post, "/lane/pause?lock=a", data=EMPTY)
        wait_until(lambda: query(end))
        answer = answering.result()
    assert answer.status_code == 409
    assert "Unknown whether this was done" in answer.text
    assert "Nothing was changed" not in answer.text


def test_an_action_may_lose_its_connection_between_two_statements(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "TERMS", "SELECT pg_terminate_backend(pg_backend_pid())")
    answer = client.post("/lane/pause?lock=a", data=EMPTY)
    assert answer.status_code == 409
    assert "The database cannot be reached or went away" in answer.text


def test_what_was_done_is_in_the_log(
    client: TestClient, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    defer(app)
    with caplog.at_level("INFO", "inturn.web"):
        client.post("/lane/pause?lock=a", data=EMPTY)
    (record,) = [each for each in caplog.records if each.name.startswith("inturn.web")]
    assert record.getMessage() == ("dashboard.changed: /lane/pause by ana: paused {'lock': 'a'}")


@pytest.mark.parametrize("query", ["done=x", "done=head-retried", "done=head-retried&n=<b>"])
def test_a_link_cannot_make_a_page_say_something(client: TestClient, query: str) -> None:
    assert 'id="result"' not in client.get(f"/?{query}").text
