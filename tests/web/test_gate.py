"""No other site can post to the dashboard, frame it, or keep what it answers."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from inturn import App
from inturn.web import Access, create_app
from inturn.web.gate import LONGEST_BODY, LONGEST_URL

HOST = "queue.example"
FORM = {"content-type": "application/x-www-form-urlencoded"}
HERE, ELSEWHERE = f"http://{HOST}", "https://evil.example"
PASSED = 303


@pytest.fixture
def bare(app: App) -> TestClient:
    """A client that adds no header of its own."""
    site = create_app(app, authorize=lambda request: Access.FULL)
    return TestClient(site, base_url=HERE, follow_redirects=False)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "same-origin"}, PASSED),
        ({"sec-fetch-site": "same-origin", "origin": HERE}, PASSED),
        ({"sec-fetch-site": "same-origin", "origin": ELSEWHERE}, 403),
        ({"sec-fetch-site": "same-origin", "origin": "null"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "none"}, 403),
        ({"sec-fetch-site": "cross-site", "origin": HERE}, 403),
        ({"sec-fetch-site": ""}, 403),
        ({"sec-fetch-site": "", "origin": HERE}, 403),
        ({"origin": HERE}, PASSED),
        ({"origin": f"https://{HOST}"}, PASSED),
        ({"origin": HERE, "host": HOST.upper()}, PASSED),  # the names of hosts have no case
        ({"origin": ELSEWHERE}, 403),
        ({"origin": "null"}, 403),
        ({"origin": f"{HERE}:81"}, 403),
        ({"origin": f"{HERE}.evil.example"}, 403),
        ({"origin": f"file://{HOST}"}, 403),
        ({"origin": HOST}, 403),
        ({"origin": "http://", "host": ""}, 403),
        ({"referer": f"{HERE}/lane"}, 403),
        ({}, 403),
    ],
)
def test_only_a_page_of_this_host_may_post(
    bare: TestClient, app: App, headers: dict[str, str], status: int
) -> None:
    app.configure_task("shop.pay", lock="a").defer()
    answer = bare.post("/lane/pause?lock=a", content="", headers={**FORM, **headers})
    assert answer.status_code == status
    lane = app.lanes.show("a")
    assert (lane is not None and lane.state == "paused") == (status == PASSED)


def test_reading_needs_no_such_header(bare: TestClient) -> None:
    assert bare.get("/", headers={"sec-fetch-site": "cross-site"}).status_code == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(client: TestClient, method: str) -> None:
    assert client.request(method, "/lane/pause?lock=a").status_code == 405


def test_an_action_cannot_be_taken_by_a_link(client: TestClient, app: App) -> None:
    app.configure_task("shop.pay", lock="a").defer()
    assert client.get("/lane/pause?lock=a").status_code == 405
    assert app.lanes.show("a") is None


@pytest.mark.parametrize("kind", ["text/plain", "application/json", "multipart/form-data", ""])
def test_only_forms_are_read(client: TestClient, kind: str) -> None:
    answer = client.post("/lane/pause?lock=a", content="x=1", headers={"content-type": kind})
    assert answer.status_code == 415


def test_a_large_form_is_refused(client: TestClient) -> None:
    answer = client.post("/lane/pause?lock=a", data={"reason": "x" * LONGEST_BODY})
    assert answer.status_code == 413


def test_a_form_that_does_not_say_its_length_is_refused(client: TestClient) -> None:
    def parts() -> Iterator[bytes]:
        yield b"reason=x"

    answer = client.post("/lane/pause?lock=a", content=parts(), headers=FORM)
    assert answer.status_code == 413


def test_a_long_address_is_refused(client: TestClient) -> None:
    assert client.get("/lanes", params={"prefix": "x" * LONGEST_URL}).status_code == 414


@pytest.mark.parametrize("path", ["/", "/lanes", "/nothing", "/-/health", "/jobs/1"])
def test_every_answer_forbids_frames_scripts_and_caches(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "base-uri 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["//evil.example", "/\\evil.example", "/lanes/"])
def test_no_address_leads_to_another_site(client: TestClient, path: str) -> None:
    answer = client.get(f"http://testserver{path}")
    assert answer.status_code == 404
    assert "location" not in answer.headers


def test_after_an_action_the_browser_stays_here_whatever_the_lock_is(
    client: TestClient, app: App
) -> None:
    for lock in ("//evil.example", "https://evil.example/?x=1#y", "a\r\nlocation: x", "../../x"):
        app.configure_task("shop.pay", lock=lock).defer()
        answer = client.post("/lane/pause", params={"lock": lock}, data={"next": "//evil.example"})
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/lane?lock=")
        assert client.get(answer.headers["location"]).status_code == 200
