"""A job may carry anything: pages show it as text, and nothing of it acts."""

import re
from html.parser import HTMLParser

import pytest
from starlette.testclient import TestClient

from inturn import App
from inturn.operations.changes import lanes
from inturn.operations.changes.lanes import AuditEntry
from tests.conftest import Query
from tests.web.conftest import EMPTY

HTML = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'`</textarea></title>{{7+7}}"
ANSI = "\x1b[31mred\x1b[0m\x07\b\x85"
BIDI = "\u202egnp.exe\u2066\u200b\ufeff"
STRANGE = f"{HTML} {ANSI} {BIDI}"
NAME = f"{HTML} {BIDI}"  # of a person; control characters are refused
LOCK = f"a/b?c=d&e#f%00 {STRANGE}"
INVISIBLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")


class Elements(HTMLParser):
    """Collects what a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.scripts: list[str | None] = []
        self.handlers: list[str] = []
        self.images = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        if tag == "script":
            self.scripts.append(given.get("src"))
        self.images += tag == "img"
        self.handlers += [name for name in given if name.startswith("on") or name == "style"]
        assert not (given.get("href") or "").startswith(("javascript:", "//", "http")), given


def check(page: str) -> None:
    """Raise if something in the page acts, or cannot be seen."""
    found = Elements()
    found.feed(page)
    assert all(source and source.startswith("/assets/") for source in found.scripts)
    assert (found.images, found.handlers) == (0, [])
    assert not INVISIBLE.search(page), INVISIBLE.findall(page)
    assert "&lt;script&gt;" in page
    assert "{{7+7}}" in page


@pytest.fixture
def strange(app: App, query: Query) -> int:
    """A job whose every text is strange, behind a lane that is paused strangely."""

    @app.task(name="strange.task", on_failure="halt")
    def fail(**arguments: object) -> None:
        raise ValueError(STRANGE)

    fail.configure(lock=LOCK, queueing_lock=STRANGE, limit=STRANGE, group=STRANGE).defer(
        **{"text": STRANGE, STRANGE: [STRANGE]}
    )
    job_id = fail.configure(lock=LOCK).defer(text=STRANGE)
    app.run_worker(name=STRANGE)
    query("UPDATE jobs SET task = %s RETURNING 1", STRANGE)
    query("UPDATE finished_jobs SET task = %s RETURNING 1", STRANGE)
    other = f"b{LOCK}"
    app.configure_task("strange.task", lock=other).defer()
    app.lanes.pause(other, reason=STRANGE, by=NAME)
    app.queues.pause("default", reason=STRANGE, by=NAME)
    return int(job_id)


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/", {}),
        ("/", {"range": STRANGE, "done": STRANGE, "n": STRANGE}),
        ("/lanes", {}),
        ("/lanes", {"prefix": STRANGE}),
        ("/lanes", {"prefix": "a/b", "state": STRANGE, "sort": STRANGE}),
        ("/lane", {"lock": LOCK}),
        ("/lane", {"lock": f"b{LOCK}"}),
    ],
)
def test_nothing_in_a_job_or_an_address_acts(
    client: TestClient, strange: int, path: str, asked: dict[str, str]
) -> None:
    answer = client.get(path, params=asked)
    assert answer.status_code == 200
    check(answer.text)


def test_nothing_in_a_job_acts_on_its_own_page(client: TestClient, strange: int) -> None:
    for job_id in (strange - 1, strange):
        answer = client.get(f"/jobs/{job_id}")
        assert answer.status_code == 200
        check(answer.text)


def test_an_action_reaches_a_lane_with_a_strange_name(
    client: TestClient, strange: int, app: App
) -> None:
    page = client.get("/lane", params={"lock": LOCK}).text
    (address,) = re.findall(r'action="(/lane/retry-head[^"]*)"', page)
    answer = client.post(address.replace("&amp;", "&"), data=EMPTY)
    assert answer.status_code == 303, answer.text
    assert client.get(answer.headers["location"]).status_code == 200
    assert [each.operation for each in list_changes(app)] == ["retry-head"]


def list_changes(app: App) -> list[AuditEntry]:
    return list(app.connector.run(lanes.list_audit(LOCK, 10)))


def test_numbers_beyond_those_of_a_browser_stay_exact(client: TestClient, app: App) -> None:
    job_id = app.configure_task("shop.pay").defer(id=9007199254740993)
    assert "9007199254740993" in client.get(f"/jobs/{job_id}").text


def test_secrets_are_hidden_in_arguments_and_commands(client: TestClient, app: App) -> None:
    job_id = app.configure_task("shop.pay").defer(
        user={"Password": "hunter2", "name": "ann"}, api_key="hunter2", tokens=["hunter2"]
    )
    page = client.get(f"/jobs/{job_id}").text
    assert "hunter2" not in page
    assert "ann" in page
