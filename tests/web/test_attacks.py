"""Attacks without a browser: rights that are missing, bodies, addresses, and idle connections."""

import socket
from contextlib import ExitStack

import httpx2
import pytest
from starlette.routing import compile_path
from starlette.testclient import TestClient

from inturn import App
from inturn.web import Access, create_app
from inturn.web import access as rights
from inturn.web.app import EVERY_ACTION
from inturn.web.gate import LONGEST_BODY
from inturn.web.live import MOST_CLIENTS
from inturn.web.pages import PAGES
from tests.web.conftest import SAME_ORIGIN, Browse
from tests.web.seed import LIMIT
from tests.web.serving import serve

IDLE = 300  # connections that ask for the stream
PATHS = [action.path for action in EVERY_ACTION]


def fill_in(path: str) -> str:
    """Return an address of this pattern."""
    _, template, converters = compile_path(path)
    values = {name: "7" for name in converters}
    return template.format(**values)


@pytest.mark.parametrize("path", PATHS)
def test_an_action_is_refused_without_its_right(browse: Browse, path: str) -> None:
    (action,) = [each for each in EVERY_ACTION if each.path == path]
    others = [each for each in rights.ACTIONS if each != action.permission]
    for access in (Access.FORBIDDEN, Access.READ_ONLY, Access.only(*others)):
        with browse(access) as client:
            assert client.post(f"{fill_in(path)}?lock=a", data={"a": "b"}).status_code == 403
    with browse(Access.only(action.permission)) as client:
        assert client.post(f"{fill_in(path)}?lock=a", data={"a": "b"}).status_code in (303, 409)


@pytest.mark.parametrize("path", PATHS)
def test_read_only_refuses_each_action_whatever_authorize_says(app: App, path: str) -> None:
    site = create_app(app, authorize=lambda _: Access.FULL, read_only=True)
    with TestClient(site, headers=SAME_ORIGIN) as client:
        assert client.post(f"{fill_in(path)}?lock=a", data={"a": "b"}).status_code == 403


def test_nobody_sees_a_page_without_access(browse: Browse) -> None:
    with browse(Access.FORBIDDEN) as client:
        for page in PAGES:
            answer = client.get(fill_in(page.path))
            assert answer.status_code == 403, page.path
            assert "form" not in answer.text
        assert client.get("/live").status_code == 403


@pytest.mark.parametrize("path", PATHS)
def test_an_action_cannot_be_taken_by_following_a_link(client: TestClient, path: str) -> None:
    assert client.get(f"{fill_in(path)}?lock=a").status_code in (404, 405)


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": ""},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://testserver.evil.example"},
        {"origin": "http://testserver:81"},
        {"origin": "file://testserver"},
        {"sec-fetch-site": "cross-site", "origin": "http://testserver"},
        {},
    ],
)
def test_another_origin_changes_nothing(app: App, headers: dict[str, str]) -> None:
    site = create_app(app, authorize=lambda _: Access.FULL)
    with TestClient(site) as client:
        answer = client.post("/lane/pause?lock=a", data={"reason": "x"}, headers=headers)
    assert answer.status_code == 403
    assert app.lanes.list() == []


@pytest.mark.parametrize("headers", [SAME_ORIGIN, {"origin": "http://testserver"}])
def test_our_own_origin_does(app: App, headers: dict[str, str]) -> None:
    site = create_app(app, authorize=lambda _: Access.FULL)
    with TestClient(site, follow_redirects=False) as client:
        answer = client.post("/lane/pause?lock=a", data={"reason": "x"}, headers=headers)
    assert answer.status_code == 303
    assert [each.state for each in app.lanes.list()] == ["paused"]


@pytest.mark.parametrize(
    "query",
    ["next=//evil.example", "back=https://evil.example", "lock=//evil.example/", "lock=%0D%0Ax:y"],
)
def test_an_action_leads_to_a_page_of_ours(client: TestClient, query: str) -> None:
    data = {"next": "//evil.example", "back": "//evil.example", "path": "//evil.example"}
    answer = client.post(f"/lane/pause?lock=a&{query}", data=data)
    assert answer.status_code == 303
    target = httpx2.URL(answer.headers["location"])
    assert (target.host, target.path) == ("", "/lane")


@pytest.mark.parametrize(
    "path", ["//evil.example", "//evil.example/%2e%2e", "/\\evil.example", "/lanes/"]
)
def test_no_address_leads_elsewhere(client: TestClient, path: str) -> None:
    answer = client.get(httpx2.URL("http://testserver").copy_with(raw_path=path.encode()))
    assert "location" not in answer.headers
    assert answer.status_code == 404


def test_a_body_that_is_too_large_is_not_read(app: App) -> None:
    site = create_app(app, authorize=lambda _: Access.FULL)
    form = {"content-type": "application/x-www-form-urlencoded", **SAME_ORIGIN}
    with serve(site) as address, httpx2.Client(base_url=address, timeout=LIMIT) as client:
        url = "/lane/pause?lock=a"
        large = b"reason=" + b"x" * LONGEST_BODY
        assert client.post(url, content=large, headers=form).status_code == 413
        chunks = client.post(url, content=iter([b"reason=x"] * 10), headers=form)
        assert chunks.status_code == 413  # it does not say its length
        many = "&".join(f"a{n}=1" for n in range(1000)).encode()
        assert client.post(url, content=many, headers=form).status_code == 303
        multipart = client.post(url, files={"reason": b"x"}, headers=SAME_ORIGIN)
        assert multipart.status_code == 415
        assert client.get(f"/lanes?prefix={'x' * 9000}").status_code == 414
        assert client.get("/lanes").status_code == 200
    assert [each.state for each in app.lanes.list()] == ["paused"]  # the fields were ignored


def test_hundreds_of_idle_streams_do_not_hold_up_pages(app: App) -> None:
    """They send a request and read nothing. The cap answers those beyond it."""
    site = create_app(app, authorize=lambda _: Access.FULL)
    with serve(site) as address, ExitStack() as stack:
        host, port = address.removeprefix("http://").split(":")
        idle = []
        for _ in range(IDLE):
            idle.append(stack.enter_context(socket.create_connection((host, int(port)), LIMIT)))
            idle[-1].sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        statuses = [each.recv(12).decode()[-3:] for each in idle]
        assert statuses.count("200") == MOST_CLIENTS
        assert statuses.count("503") == IDLE - MOST_CLIENTS
        with httpx2.Client(base_url=address, timeout=LIMIT) as client:
            for page in PAGES:
                assert client.get(fill_in(page.path)).status_code in (200, 404)
            refused = client.get("/live")
            assert refused.status_code == 503
            assert int(refused.headers["retry-after"]) > 0
            for each in idle:
                each.close()
            # There is room again.
            with ExitStack() as again:
                found = 0
                while found != 200:
                    found = again.enter_context(client.stream("GET", "/live")).status_code


def test_half_a_request_does_not_hold_up_pages(app: App) -> None:
    site = create_app(app, authorize=lambda _: Access.FULL)
    with serve(site) as address, ExitStack() as stack:
        host, port = address.removeprefix("http://").split(":")
        for start in (
            b"GET / HTTP/1.1\r\nHost: loc",
            b"POST /lane/pause?lock=a HTTP/1.1\r\n",
        ) * 100:
            each = stack.enter_context(socket.create_connection((host, int(port)), LIMIT))
            each.sendall(start)
        assert httpx2.get(f"{address}/lanes", timeout=LIMIT).status_code == 200


@pytest.mark.parametrize("path", [*(page.path for page in PAGES), "/no/such/page"])
def test_every_answer_can_be_neither_framed_nor_kept(client: TestClient, path: str) -> None:
    headers = client.get(fill_in(path)).headers
    policy = dict(each.split(" ", 1) for each in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["form-action"] == "'self'"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in headers
