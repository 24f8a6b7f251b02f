"""What holds for each page and each form about queues, tasks, workers, batches and limits."""

import re
from collections.abc import Callable
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from inturn import App
from inturn.web import Access
from inturn.web.queue_actions import QUEUE_ACTIONS
from inturn.web.results import describe_result
from tests.conftest import Query
from tests.web.operated import HOSTILE, fill
from tests.web.test_budget import OF_CHECKS

PAGES = (
    "/queues", "/queue?name=paused", "/tasks", f"/task?name={quote(HOSTILE)}", "/workers", "/schedules",
    "/batches", "/batch", "/limits", "/system", "/system/checks", "/system/changes",
)  # fmt: skip
CHECKS = "/system/checks"
MOST_QUERIES = 6
FIRST_LOAD = 150 * 1024  # bytes
ROWS = 60  # more than most pages list
MANY_ROWS = 120
ASSET = re.compile(r'(?:src|href)="(/assets/[^"]+\.(?:js|css|svg))"')
PATHS = [action.path for action in QUEUE_ACTIONS]


def complete(path: str, batch: int) -> str:
    return f"/batch?id={batch}" if path == "/batch" else path


def count_queries(client: TestClient, path: str) -> int:
    answer = client.get(path)
    assert answer.status_code == 200
    found = re.search(r'queries;desc="(\d+)"', answer.headers["server-timing"])
    assert found is not None
    return int(found[1])


def test_hostile_text_is_shown_and_does_nothing(client: TestClient, app: App, query: Query) -> None:
    batch = fill(app, query, HOSTILE)
    for path in PAGES:
        page = client.get(complete(path, batch)).text
        for text in ("<script>alert", "<img", "\x1b", "\u202e", "onerror=alert(1)>"):
            assert text not in page, (path, text)
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page, f"{path} does not show it"
        assert "{{7-7}}" in page, "it is not a template"
        assert "&amp;amp;" in page, "it is escaped, not passed through"


@pytest.mark.landing
def test_no_page_asks_more_than_it_may_whatever_there_is(
    client: TestClient, app: App, query: Query
) -> None:
    empty = {path: count_queries(client, path) for path in PAGES if path != "/batch"}
    batch = fill(app, query, "x", ROWS)
    for path in PAGES:
        most = OF_CHECKS if path == CHECKS else MOST_QUERIES
        assert empty.get(path, 0) <= most, path
        assert count_queries(client, complete(path, batch)) <= most, path


@pytest.mark.landing
def test_the_first_load_of_a_full_page_is_small(client: TestClient, app: App, query: Query) -> None:
    batch = fill(app, query, "customeroflength", MANY_ROWS)
    for path in PAGES:
        page = client.get(complete(path, batch)).text
        assets = {found: len(client.get(found).content) for found in set(ASSET.findall(page))}
        assert len(assets) >= 5
        assert len(page.encode()) + sum(assets.values()) <= FIRST_LOAD, (path, len(page))


def test_each_form_needs_its_permission(
    browse: Callable[[Access], TestClient], query: Query
) -> None:
    for action in QUEUE_ACTIONS:
        others = Access.only(*(Access.FULL.actions - {action.permission}))
        for access, status in (
            (Access.FORBIDDEN, 403),
            (Access.READ_ONLY, 403),
            (others, 403),
            (Access.only(action.permission), 409),  # it looks, and finds nothing to change
        ):
            form = {"confirm": "no"}
            assert browse(access).post(action.path, data=form).status_code == status, action.path
    assert query("SELECT * FROM lane_audit") == []


@pytest.mark.landing
def test_a_person_without_a_permission_sees_no_form(
    browse: Callable[[Access], TestClient], app: App, query: Query
) -> None:
    batch = fill(app, query, "x")
    for path in PAGES:
        page = browse(Access.READ_ONLY).get(complete(path, batch)).text
        assert 'method="post"' not in page, path
    for permission, path in (
        ("pause", "/queue?name=x"),
        ("pause", "/task?name=x"),
        ("limit", "/limits"),
        ("batch", "/batch"),
    ):
        page = browse(Access.only(permission)).get(complete(path, batch)).text
        assert 'method="post"' in page


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "", "origin": "http://testserver"},
    ],
)
def test_other_sites_can_change_nothing(
    client: TestClient, query: Query, path: str, headers: dict[str, str]
) -> None:
    form = {"confirm": "everything", "pattern": "x", "concurrency": "1"}
    answer = client.post(path, params={"name": "mail"}, data=form, headers=headers)
    assert answer.status_code == 403
    assert client.get(path, params={"name": "mail"}).status_code == 405
    assert query("SELECT * FROM lane_audit") == []


def test_each_result_has_a_sentence() -> None:
    for word in (
        "queue-paused", "queue-resumed", "task-paused", "task-resumed", "everything-paused", "everything-resumed",
        "limit-set", "limit-removed", "batch-closed", "batch-cancelled", "batch-cancelled-some",
    ):  # fmt: skip
        assert describe_result({"done": word, "n": "3"})
