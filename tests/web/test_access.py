"""Who may see and do what: the button is absent, and its address refuses."""

import base64
import re
from threading import Event, Lock
from typing import Any

import anyio
import anyio.to_thread
import psycopg
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.testclient import TestClient

from inturn import App
from inturn.errors import ConfigurationError
from inturn.web import Access, BasicAuth, SecretLink, TrustedHeader, access, create_app
from inturn.web.access import hash_password
from inturn.web.app import EVERY_ACTION
from tests.waiting import LIMIT, wait_until
from tests.web.conftest import EMPTY, SAME_ORIGIN, Browse

ACCESSES = {
    "forbidden": Access.FORBIDDEN,
    "read only": Access.READ_ONLY,
    "full": Access.FULL,
    **{name: Access.only(name) for name in sorted({each.permission for each in EVERY_ACTION})},
}


@pytest.mark.parametrize("name", ACCESSES)
def test_each_action_needs_its_permission(browse: Browse, name: str) -> None:
    with browse(ACCESSES[name]) as client:
        for action in EVERY_ACTION:
            path = action.path.replace("{job_id}", "7")
            answer = client.post(path, params={"lock": "x"}, data=EMPTY)
            may = name in ("full", action.permission)
            assert answer.status_code in ((303, 409) if may else (403,)), (path, answer.text)


def list_buttons(page: str) -> set[str]:
    return set(re.findall(r'<form method="post" action="([^"?]*)', page))


def test_a_page_offers_only_what_may_be_done(browse: Browse, app: App) -> None:
    job_id = app.configure_task("shop.pay", lock="a").defer()
    app.configure_task("shop.pay", lock="a").defer()
    pause, skip, cancel = "/lane/pause", "/lane/skip-head", "/lane/cancel-waiting"
    expected = {
        "read only": (set(), set()),
        "pause": ({pause}, set()),
        "cancel": ({skip, cancel}, {f"/jobs/{job_id}/cancel"}),
        "full": ({pause, skip, cancel}, {f"/jobs/{job_id}/cancel"}),
    }
    for name, (of_lane, of_job) in expected.items():
        with browse(ACCESSES[name]) as client:
            assert list_buttons(client.get("/lane?lock=a").text) == of_lane
            assert list_buttons(client.get(f"/jobs/{job_id}").text) == of_job


@pytest.mark.parametrize("path", ["/", "/lanes", "/lane?lock=a", "/jobs/1", "/live"])
def test_nobody_sees_a_page_without_access(browse: Browse, path: str) -> None:
    with browse(Access.FORBIDDEN) as client:
        answer = client.get(path)
    assert answer.status_code == 403
    assert "You may not see this page" in answer.text


def test_read_only_takes_away_what_authorize_gives(app: App) -> None:
    app.configure_task("shop.pay", lock="a").defer()
    site = create_app(app, authorize=lambda request: Access.FULL, read_only=True)
    with TestClient(site, headers=SAME_ORIGIN) as client:
        assert not list_buttons(client.get("/lane?lock=a").text)
        assert client.post("/lane/pause?lock=a", data=EMPTY).status_code == 403
    assert app.lanes.show("a") is None


@pytest.mark.fresh_database
def test_pages_read_in_read_only_transactions(client: TestClient, dsn: str) -> None:
    with psycopg.connect(dsn, options="-c search_path=inturn") as connection:
        connection.execute(
            "CREATE OR REPLACE FUNCTION measure_lanes() RETURNS TABLE (state text, lanes bigint, "
            "more boolean) LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN "
            "DELETE FROM lanes; RETURN QUERY SELECT 'held', 1::bigint, false; END $$"
        )
    assert "read-only transaction" in client.get("/").text


async def allow_ana(request: Request) -> Access:
    return Access.only("pause").named("ana")


def test_authorize_may_be_async_and_names_the_person_for_the_audit(app: App) -> None:
    app.configure_task("shop.pay", lock="a").defer()
    with TestClient(create_app(app, authorize=allow_ana), headers=SAME_ORIGIN) as client:
        client.post("/lane/pause?lock=a", data={"reason": "bank is down"})
    lane = app.lanes.show("a")
    assert lane is not None
    assert (lane.stopped_by, lane.stop_reason) == ("ana", "bank is down")


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.0.0.7"])
@pytest.mark.parametrize("more", [{}, {"x-forwarded-for": "127.0.0.1"}])
def test_nobody_is_believed_because_of_an_address(
    app: App, address: str, more: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    with TestClient(create_app(app), client=(address, 5)) as client:
        for host in ("localhost:8780", "127.0.0.1:8780"):
            assert client.get("/", headers={"host": host, **more}).status_code == 403
            answer = client.post(
                "/lane/pause?lock=a", data=EMPTY, headers={"host": host, **SAME_ORIGIN}
            )
            assert answer.status_code == 403
        assert app.lanes.show("a") is None
        (key,) = re.findall(r"open /(\?key=\S+) ", caplog.text)
        assert client.get(f"/{key}").status_code == 200


def test_a_link_with_a_secret_gives_a_strict_cookie(app: App) -> None:
    link, other = SecretLink(), SecretLink()
    site = create_app(app, authorize=link)
    with TestClient(site, headers=SAME_ORIGIN, follow_redirects=False) as client:
        assert client.get("/").status_code == 403
        assert client.get(f"/lanes{other.query}").status_code == 403
        assert client.post(f"/lane/pause{link.query}&lock=a", data=EMPTY).status_code == 403
        opened = client.get(f"/lanes{link.query}&state=halted")
        assert (opened.status_code, opened.headers["location"]) == (303, "/lanes?state=halted")
        cookie = opened.headers["set-cookie"].lower()
        assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/"))
        assert client.get("/lanes").status_code == 200
        assert client.post("/lane/pause?lock=a", data=EMPTY).status_code == 303


def test_guessing_passwords_costs_the_guesser(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(access, "monotonic", lambda: now[0])
    site = create_app(app, authorize=BasicAuth({"ana": hash_password("right")}))
    with TestClient(site, client=("10.0.0.7", 5)) as guesser:
        statuses = [
            guesser.get("/lanes", headers=basic("ana", f"{n}")).status_code for n in range(8)
        ]
        assert statuses == [401] * 5 + [429] * 3
        refused = guesser.get("/lanes", headers=basic("ana", "right"))
        assert refused.status_code == 429
        assert has_the_bar(refused.text)
        assert int(refused.headers["retry-after"]) == 1
        now[0] += 1
        assert guesser.get("/lanes", headers=basic("ana", "8")).status_code == 401
        now[0] += 1  # the next has to wait twice as long
        assert guesser.get("/lanes", headers=basic("ana", "right")).status_code == 429
        now[0] += 1
        assert guesser.get("/lanes", headers=basic("ana", "right")).status_code == 200
    with TestClient(site, client=("10.0.0.8", 5)) as ana:
        assert ana.get("/lanes", headers=basic("ana", "right")).status_code == 200


def test_two_passwords_are_checked_at_once_and_a_flood_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running, most, guard, go = [0], [0], Lock(), Event()

    def check(password: str, salt: bytes) -> bytes:
        with guard:
            running[0] += 1
            most[0] = max(most[0], running[0])
        go.wait(LIMIT)
        with guard:
            running[0] -= 1
        return b"wrong"

    authorize = BasicAuth({"ana": hash_password("right")})
    monkeypatch.setattr(access, "_scrypt", check)
    refused, all_refused = list[int](), anyio.Event()

    async def guess(n: int) -> None:
        headers = [(name.encode(), each.encode()) for name, each in basic("ana", "x").items()]
        scope = {"type": "http", "client": (f"10.0.0.{n}", 5), "headers": headers}
        try:
            assert await authorize(Request(scope)) == Access.FORBIDDEN
        except HTTPException as error:
            refused.append(error.status_code)
            if len(refused) == 82:
                all_refused.set()

    async def flood() -> None:
        async with anyio.create_task_group() as tasks:
            for n in range(100):
                tasks.start_soon(guess, n)
            await all_refused.wait()
            await anyio.to_thread.run_sync(wait_until, lambda: most[0] >= 2)
            go.set()

    anyio.run(flood)
    assert refused == [429] * 82
    assert most[0] == 2


def has_the_bar(page: str) -> bool:
    return '<a class="brand" href="/"' in page and '<a href="/lanes" data-key="l"' in page


def basic(name: str, password: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        (basic("ana", "right: with a colon"), 200),
        (basic("ana", "wrong"), 401),
        (basic("eve", "right: with a colon"), 401),
        (basic("", ""), 401),
        ({"authorization": "Basic %%%"}, 401),
        ({"authorization": "Basic " + base64.b64encode(b"\xff\xfe").decode()}, 401),
        ({"authorization": b"Basic \xe9"}, 401),
        ({"authorization": "Bearer x"}, 401),
    ],
)
def test_a_password_is_asked_for(app: App, headers: Any, status: int) -> None:
    users = {"ana": hash_password("right: with a colon")}
    with TestClient(create_app(app, authorize=BasicAuth(users))) as client:
        for _ in range(2):  # the second time, a right one is remembered
            answer = client.get("/", headers=headers)
            assert answer.status_code == status
            assert ("www-authenticate" in answer.headers) == (status == 401)
            assert has_the_bar(answer.text)


def test_a_hash_that_cannot_be_read_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="--hash-password"):
        BasicAuth({"ana": "secret"})


@pytest.mark.parametrize(
    ("address", "headers", "status"),
    [
        ("10.0.0.5", [("x-user", "ana")], 200),
        ("10.0.0.6", [("x-user", "ana")], 403),
        ("10.0.0.5", [], 403),
        ("10.0.0.5", [("x-user", " ")], 403),
        ("10.0.0.5", [("x-user", "eve"), ("x-user", "ana")], 403),
    ],
)
def test_a_header_is_believed_from_its_proxy_only(
    app: App, address: str, headers: Any, status: int
) -> None:
    authorize = TrustedHeader("X-User", proxy="10.0.0.5")
    with TestClient(create_app(app, authorize=authorize), client=(address, 5)) as client:
        assert client.get("/", headers=headers).status_code == status


def test_an_unknown_action_is_refused_when_the_app_starts() -> None:
    with pytest.raises(ConfigurationError, match="retry, cancel"):
        Access.only("retry", "destroy")
