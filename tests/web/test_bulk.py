"""A change of many jobs: its preview, its confirmation, its progress, and what it leaves."""

import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from threading import Thread
from time import monotonic, sleep
from typing import Literal

import psycopg
import pytest
from starlette.testclient import TestClient

from inturn import App, JobContext
from inturn.operations.changes import bulk
from inturn.operations.changes.jobs import JobFilter
from inturn.web import Access
from inturn.web.bulk.runs import MOST_AT_ONCE, BulkRun, BulkRuns
from tests.conftest import Query
from tests.waiting import wait_until
from tests.web.conftest import Browse, refuse_thread

HANGS = 120.0  # seconds; only keeps a failing test from hanging
PATHS = [f"/bulk/{name}" for name in ("retry", "cancel", "delete")]
LANE_PATHS = [f"/bulk/lanes/{name}" for name in ("resume", "retry-head", "skip-head", "pause")]
STOPS = [f"{path}/stop" for path in (*PATHS, *LANE_PATHS)]


def fail(app: App, *locks: str | None, halt: bool = False) -> list[int]:
    """Let a job fail in each of these lanes, in this order."""

    if "shop.pay" not in app.tasks:

        @app.task(name="shop.pay")
        def pay() -> None:
            raise ValueError("no money")

    on_failure: Literal["continue", "halt"] = "halt" if halt else "continue"
    ids: list[int] = [
        app.configure_task("shop.pay", lock=lock, on_failure=on_failure).defer() for lock in locks
    ]
    app.run_worker()
    return ids


def preview(client: TestClient, address: str) -> tuple[str, str, dict[str, str]]:
    """Return the page, the address that its form posts to, and the hidden fields."""
    page = client.get(address).text
    form = re.search(
        r'<form method="post" action="([^"]+)" class="confirm">(.*?)</form>', page, re.S
    )
    assert form, page
    hidden = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form[2])
    return page, unescape(form[1]), {name: unescape(value) for name, value in hidden}


def confirm(client: TestClient, address: str, **typed: str) -> str:
    """Confirm a preview, wait for the end, and return the last page of the run."""
    _, path, fields = preview(client, address)
    return follow(client, path, {**fields, **typed})


def follow(client: TestClient, path: str, fields: dict[str, str]) -> str:
    answer = client.post(path, data=fields)
    assert answer.status_code == 303, answer.text
    return wait_for(client, answer.headers["location"])


def wait_for(client: TestClient, address: str) -> str:
    until = monotonic() + HANGS
    while "data-refresh" in (page := str(client.get(address).text)):
        assert monotonic() < until, page
        sleep(0.01)  # a browser reloads the page, too
    return page


def statuses(query: Query) -> dict[int, str]:
    return dict(query("SELECT id, status::text FROM all_jobs ORDER BY id"))


@pytest.fixture
def held(dsn: str) -> Iterator[psycopg.Connection[object]]:
    """A connection whose transaction holds what it locks."""
    with psycopg.connect(dsn, options="-c search_path=inturn") as connection:
        yield connection


def test_the_preview_names_count_lanes_and_order_and_changes_nothing(
    client: TestClient, app: App, query: Query
) -> None:
    ids = fail(app, "a", "a", "b", None)
    app.configure_task("shop.pay", lock="a").defer()
    before = statuses(query)
    page, path, fields = preview(client, "/bulk?action=retry&q=state:failed")
    assert "Retry 4 jobs" in page
    assert "1 job without a lock can run immediately." in page
    assert "2 lanes run these jobs at their old places" in page
    assert "before the 1 job that waits in them, unless it is older" in page
    assert [int(id) for id in re.findall(r'href="/jobs/(\d+)"', page)] == [ids[3], *ids[:3]]
    assert fields["count"] == "4"
    assert path.startswith("/bulk/retry?")
    assert statuses(query) == before


def test_the_sample_has_twenty_jobs(client: TestClient, app: App) -> None:
    app.configure_task("shop.pay").batch_defer(*({"n": n} for n in range(30)))
    page, _, _ = preview(client, "/bulk?action=cancel&q=task:shop.pay")
    assert "The first 20 of 30" in page
    assert len(re.findall(r'href="/jobs/\d+"', page)) == 20


def test_all_that_match_are_retried_and_run_in_the_order_of_their_lanes(
    client: TestClient, app: App, query: Query
) -> None:
    is_bank_open = False
    ran: list[int] = []

    @app.task(name="shop.pay", pass_context=True)
    def pay(context: JobContext) -> None:
        if not is_bank_open:
            raise ValueError("the bank is closed")
        ran.append(context.job.id)

    ids = [pay.configure(lock=lock).defer() for lock in ("a", "b", "a", "b")]
    app.run_worker()
    page = confirm(client, "/bulk?action=retry&which=all&q=state:failed")
    assert "done" in page
    assert re.search(r"Retried</dt><dd>4<", page)
    assert set(statuses(query).values()) == {"todo", "blocked"}
    is_bank_open = True
    app.run_worker()
    assert sorted(ran) == ids
    assert [id for id in ran if id in (ids[0], ids[2])] == [ids[0], ids[2]]
    assert [id for id in ran if id in (ids[1], ids[3])] == [ids[1], ids[3]]


def test_a_group_of_errors_is_retried_and_no_other_failure(
    client: TestClient, app: App, query: Query
) -> None:
    ids = fail(app, "a", "b")

    @app.task(name="shop.other")
    def other() -> None:
        raise ValueError("no money")

    apart = other.defer()
    app.run_worker()
    confirm(client, f"/bulk?action=retry&q=like:{ids[0]}")
    assert statuses(query) == {ids[0]: "todo", ids[1]: "todo", apart: "failed"}


def test_ticked_rows_are_changed_and_no_others(client: TestClient, app: App, query: Query) -> None:
    ids = app.configure_task("shop.pay").batch_defer({}, {}, {})
    everything = ",".join(map(str, ids))
    confirm(client, f"/bulk?action=cancel&which=rows&ids={everything}&id={ids[0]}&id={ids[2]}")
    assert statuses(query) == {ids[0]: "cancelled", ids[1]: "todo", ids[2]: "cancelled"}


def test_a_page_is_changed(client: TestClient, app: App, query: Query) -> None:
    ids = app.configure_task("shop.pay").batch_defer({}, {}, {})
    confirm(client, f"/bulk?action=delete&which=page&ids={ids[0]},{ids[1]}")
    assert statuses(query) == {ids[2]: "todo"}


def test_the_beginning_of_a_task_chooses_jobs(client: TestClient, app: App, query: Query) -> None:
    mail = app.configure_task("mail.send").defer()
    other = app.configure_task("mailing").defer()
    confirm(client, "/bulk?action=cancel&q=task:mail.*")
    assert statuses(query) == {mail: "cancelled", other: "todo"}


def test_chosen_jobs_that_cannot_be_changed_are_announced(client: TestClient, app: App) -> None:
    [failed] = fail(app, "a")
    waiting = app.configure_task("shop.pay", lock="a").defer()
    page, _, _ = preview(client, f"/bulk?action=retry&ids={failed},{waiting}")
    assert "Retry 1 job<" in page
    assert "1 selected job will not change" in page


def test_more_than_a_hundred_need_their_number(client: TestClient, app: App, query: Query) -> None:
    app.configure_task("shop.pay").batch_defer(*({"n": n} for n in range(101)))
    page, path, fields = preview(client, "/bulk?action=cancel&q=task:shop.pay")
    assert "Type 101 to confirm" in page
    for typed in ({}, {"typed": "100"}, {"typed": "yes"}):
        refused = client.post(path, data={**fields, **typed})
        assert refused.status_code == 409
        assert "Type the number of jobs, 101" in refused.text
    assert set(statuses(query).values()) == {"todo"}
    follow(client, path, {**fields, "typed": "101"})
    assert set(statuses(query).values()) == {"cancelled"}


def test_a_hundred_need_a_click(client: TestClient, app: App) -> None:
    app.configure_task("shop.pay").batch_defer(*({"n": n} for n in range(100)))
    page, _, _ = preview(client, "/bulk?action=cancel&q=task:shop.pay")
    assert "to confirm" not in page


def test_more_jobs_than_the_person_saw_are_not_changed(
    client: TestClient, app: App, query: Query
) -> None:
    ids = fail(app, "a", "b")
    _, path, fields = preview(client, "/bulk?action=retry&q=state:failed")
    refused = client.post(path, data={**fields, "count": "1"})
    assert refused.status_code == 409
    assert "It now covers 2 jobs" in refused.text
    assert set(statuses(query).values()) == {"failed"}
    assert len(ids) == 2


def test_what_fails_after_the_preview_is_left(client: TestClient, app: App, query: Query) -> None:
    [first] = fail(app, "a")
    _, path, fields = preview(client, "/bulk?action=retry&q=state:failed")
    [second] = fail(app, "b")
    follow(client, path, fields)
    assert statuses(query) == {first: "todo", second: "failed"}


@pytest.mark.parametrize("missing", ["count", "until"])
def test_a_form_without_what_the_person_saw_is_refused(
    client: TestClient, app: App, missing: str
) -> None:
    fail(app, "a")
    _, path, fields = preview(client, "/bulk?action=retry&q=state:failed")
    del fields[missing]
    assert client.post(path, data=fields).status_code == 409


def test_a_job_that_somebody_works_on_is_named_and_can_be_tried_again(
    client: TestClient, app: App, query: Query, held: psycopg.Connection[object]
) -> None:
    ids = fail(app, "a", "b")
    held.execute("SELECT FROM finished_jobs WHERE id = %s FOR UPDATE", [ids[1]])
    page = confirm(client, "/bulk?action=retry&q=state:failed")
    left = page.split('id="left"')[1]
    assert f'href="/jobs/{ids[1]}"' in left
    assert "it was in use" in left
    assert f'href="/jobs/{ids[0]}"' not in left
    held.rollback()
    again = re.search(r'href="([^"]+)">Retry the rest', page)
    assert again
    confirm(client, unescape(again[1]))
    assert statuses(query) == {ids[0]: "todo", ids[1]: "todo"}


def test_a_change_can_be_stopped_and_the_rest_done_later(
    client: TestClient, app: App, query: Query, held: psycopg.Connection[object]
) -> None:
    ids = app.configure_task("shop.pay").batch_defer(*({"n": n} for n in range(450)))
    # The step that deletes waits here, for the table.
    held.execute("LOCK TABLE finished_jobs IN SHARE MODE")
    _, path, fields = preview(client, "/bulk?action=cancel&q=task:shop.pay")
    begun = client.post(path, data={**fields, "typed": "450"})
    address = begun.headers["location"]
    page = client.get(address).text
    assert "data-refresh" in page
    assert "<noscript><meta" in page
    stop = re.search(r'action="([^"]+/stop[^"]*)"', page)
    assert stop
    assert client.post(unescape(stop[1]), data={"x": ""}).status_code == 303
    held.rollback()
    page = wait_for(client, address)
    assert "stopped" in page
    assert "Committed steps stay" in page
    left = [id for id, status in statuses(query).items() if status == "todo"]
    assert 0 < len(left) < len(ids)
    rest = re.search(r'href="([^"]+)">Do the rest', page)
    assert rest
    confirm(client, unescape(rest[1]), typed=str(len(left)))
    assert set(statuses(query).values()) == {"cancelled"}


def test_a_change_that_gets_no_thread_takes_no_place(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = BulkRuns(app.connector)
    which = bulk.for_action("cancel", JobFilter(task="shop.pay"), abort=False)
    run = BulkRun(
        *("job", "cancel", "ana", 0, False, {}),
        lambda done, watch: bulk.change_jobs("cancel", which, done, watch=watch),
    )
    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", refuse_thread)
        for name in range(MOST_AT_ONCE):
            with pytest.raises(RuntimeError, match="can't start new thread"):
                runs.begin(replace(run, name=str(name)))
    assert runs.begin(run)
    wait_until(lambda: run.state == "ended")


def test_a_run_that_the_process_does_not_know_leads_to_the_rest(client: TestClient) -> None:
    page = client.get("/bulk/run?run=gone&action=retry&q=state:failed").text
    assert "Unknown change" in page
    assert 'href="/bulk?action=retry&amp;q=state%3Afailed"' in page
    assert "Unknown change" in client.get("/bulk/lanes/run?run=gone").text


def test_cancel_can_ask_workers_too(client: TestClient, app: App) -> None:
    app.configure_task("shop.pay").defer()
    page = client.get("/bulk?action=cancel&q=task:shop.pay").text
    assert 'href="/bulk?action=cancel&amp;q=task%3Ashop.pay&amp;abort=1"' in page
    assert "Workers are asked to abort" in client.get("/bulk?action=cancel&abort=1").text


@pytest.mark.parametrize(
    "query_string",
    [
        "",
        "action=explode",
        "action=retry&q=colour:red",
        "action=retry&which=rows",
        "action=retry&ids=1,x",
        "action=retry&ids=" + ",".join(map(str, range(1_100))),
        "action=retry&before=soon",
        "action=retry&before=2030-01-01T00:00:00",
        "action=retry&before=9999-12-31T23:59:59-12:00",
        "action=retry&q=%00%22",
    ],
)
def test_an_address_that_describes_no_bulk_is_refused(
    client: TestClient, query_string: str
) -> None:
    answer = client.get(f"/bulk?{query_string}")
    assert answer.status_code == 404
    assert 'class="confirm"' not in answer.text


def test_a_filter_that_matches_nothing_offers_nothing(client: TestClient) -> None:
    page = client.get("/bulk?action=delete&q=task:nothing").text
    assert "No job matches" in page
    assert 'class="confirm"' not in page


def test_hostile_text_is_only_text(client: TestClient, app: App) -> None:
    lock = "<script>alert(1)</script>\u202e"
    app.configure_task("<b>shop</b>", lock=lock).defer()
    page, path, fields = preview(client, "/bulk?action=cancel&q=state:todo")
    assert "<script>alert" not in page
    assert "<b>shop" not in page
    assert "\u202e" not in page
    follow(client, path, fields)


@pytest.mark.parametrize("path", [*PATHS, *LANE_PATHS, *STOPS])
def test_other_sites_cannot_post(client: TestClient, path: str) -> None:
    for headers in (
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
    ):
        assert client.post(path, data={"count": "0"}, headers=headers).status_code == 403


@pytest.mark.parametrize("path", [*PATHS, *LANE_PATHS, *STOPS])
def test_each_change_needs_its_right(browse: Browse, app: App, query: Query, path: str) -> None:
    fail(app, "a", halt=True)
    name = path.removesuffix("/stop").rpartition("/")[2]
    right = {"retry-head": "retry", "skip-head": "cancel", "resume": "pause"}.get(name, name)
    others = {"retry", "cancel", "delete", "pause", "enqueue", "view_args"} - {right}
    before = statuses(query)
    for access in (Access.READ_ONLY, Access.only(*others)):
        answer = browse(access).post(path, data={"count": "9", "until": "2100-01-01T00:00:00Z"})
        assert answer.status_code == 403
    assert browse(Access.FORBIDDEN).post(path, data={"count": "9"}).status_code == 403
    assert statuses(query) == before


def test_a_reader_may_look_at_a_preview_but_not_confirm(browse: Browse, app: App) -> None:
    fail(app, "a")
    page = browse(Access.READ_ONLY).get("/bulk?action=retry&q=state:failed").text
    assert "2 lanes" not in page
    assert "1 lane runs these jobs" in page
    assert "You may view this but not do it." in page
    assert 'class="confirm"' not in page


def test_get_changes_nothing(client: TestClient, app: App, query: Query) -> None:
    fail(app, "a")
    for path in (*PATHS, *LANE_PATHS, *STOPS):
        assert client.get(path).status_code in (404, 405)
    assert set(statuses(query).values()) == {"failed"}


def test_halted_lanes_are_resumed_together_with_the_name_of_the_person(
    client: TestClient, app: App, query: Query
) -> None:
    fail(app, "order:1", "order:2", "customer:1", halt=True)
    for lock in ("order:1", "order:2"):
        app.configure_task("shop.pay", lock=lock).defer()
    listed = client.get("/lanes?state=halted&prefix=order:").text
    link = re.search(r'href="(/bulk/lanes\?action=resume[^"]*)"', listed)
    assert link
    page, _, _ = preview(client, unescape(link[1]))
    assert "Resume 2 lanes" in page
    assert "The 2 jobs that wait in them continue." in page
    assert "The jobs that failed stay failed" in page
    page = confirm(client, unescape(link[1]))
    assert re.search(r"Resumed</dt><dd>2<", page)
    assert query("SELECT lock FROM lanes WHERE stopped = 'halted'") == [("customer:1",)]
    audit = query("SELECT DISTINCT who FROM lane_audit WHERE lock = 'order:1'")
    assert ("ana",) in audit


def test_the_heads_of_halted_lanes_are_retried_together(
    client: TestClient, app: App, query: Query
) -> None:
    ids = fail(app, "a", "b", halt=True)
    page = confirm(client, "/bulk/lanes?action=retry-head&state=halted")
    assert re.search(r"Retried the head of</dt><dd>2<", page)
    assert {statuses(query)[id] for id in ids} == {"todo"}


@pytest.mark.parametrize("asked", ["action=explode", "action=resume&state=flying", ""])
def test_a_bulk_of_lanes_needs_a_known_action_and_state(client: TestClient, asked: str) -> None:
    assert client.get(f"/bulk/lanes?{asked}").status_code == 404


@pytest.mark.parametrize(
    "address",
    [
        "/bulk?action=retry&q=state:failed",
        "/bulk?action=retry&q=like:1",
        "/bulk?action=cancel&q=task:shop.*",
        "/bulk/lanes?action=resume&state=halted",
        "/bulk/run?run=x",
    ],
)
def test_a_page_asks_little(client: TestClient, app: App, address: str) -> None:
    fail(app, "a", "b", halt=True)
    app.configure_task("shop.pay").batch_defer(*({} for _ in range(60)))
    answer = client.get(address)
    assert 1 <= int(re.findall(r"\d+", answer.headers["server-timing"])[0]) <= 6
