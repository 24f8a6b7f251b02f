"""Who is believed: a password, a header of the proxy that was named, and a login that may only read."""

import base64
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from starlette.testclient import TestClient

from inturn import App
from inturn.web import Access, BasicAuth, TrustedHeader, create_app
from inturn.web.access import hash_password
from inturn.web.app import EVERY_ACTION
from inturn.web.pages import PAGES
from tests.roles import LOGINS, grant_roles
from tests.web.conftest import SAME_ORIGIN
from tests.web.test_attacks import fill_in

HEADER = "x-forwarded-user"


def basic(name: str, password: str) -> dict[str, str]:
    token = base64.b64encode(f"{name}:{password}".encode()).decode()
    return {"authorization": f"Basic {token}", **SAME_ORIGIN}


def test_a_password_is_asked_for_and_its_name_stands_in_the_audit(app: App) -> None:
    site = create_app(app, authorize=BasicAuth({"ana": hash_password("pä:ss")}))
    with TestClient(site, follow_redirects=False) as client:
        asked = client.get("/lanes")
        assert asked.status_code == 401
        assert asked.headers["www-authenticate"].startswith("Basic ")
        for wrong in (basic("ana", "pass"), basic("eve", "pä:ss"), {"authorization": "Basic ?"}):
            assert client.get("/lanes", headers=wrong).status_code == 401
        assert client.get("/lanes", headers=basic("ana", "pä:ss")).status_code == 200
        done = client.post("/lane/pause?lock=a", data={"a": "b"}, headers=basic("ana", "pä:ss"))
        assert done.status_code == 303
    (lane,) = app.lanes.list()
    assert lane.stopped_by == "ana"


@pytest.mark.parametrize(
    ("peer", "headers", "status"),
    [
        ("10.0.0.5", [(HEADER, "ana")], 200),
        ("10.0.0.5", [], 403),
        ("10.0.0.5", [(HEADER, " ")], 403),
        ("10.0.0.5", [(HEADER, "eve"), (HEADER, "ana")], 403),  # the client's, and the proxy's
        ("10.0.0.6", [(HEADER, "ana")], 403),
        ("127.0.0.1", [(HEADER, "ana")], 403),
        ("10.0.0.6", [(HEADER, "ana"), ("x-forwarded-for", "10.0.0.5")], 403),
    ],
)
def test_a_header_is_believed_only_from_the_proxy_that_was_named(
    app: App, peer: str, headers: list[tuple[str, str]], status: int
) -> None:
    site = create_app(app, authorize=TrustedHeader(HEADER, proxy="10.0.0.5"))
    with TestClient(site, client=(peer, 1)) as client:
        assert client.get("/lanes", headers=headers).status_code == status


@pytest.fixture
def reader(dsn: str) -> Iterator[App]:
    """An app whose login is a monitor: the role of docs/dashboard.md for people who only look."""
    grant_roles(dsn)
    app = App(make_conninfo(dsn, user=LOGINS["monitor"]))
    with app.open():
        yield app


@pytest.mark.fresh_database
def test_a_login_that_may_only_read_shows_pages_and_changes_nothing(
    app: App, reader: App, dsn: str
) -> None:
    app.lanes.pause("a", reason="x")
    job = app.configure_task("t", lock="a").defer(secret="s")
    site = create_app(reader, authorize=lambda _: Access.FULL)
    with TestClient(site, headers=SAME_ORIGIN, follow_redirects=False) as client:
        for page in PAGES:
            assert client.get(fill_in(page.path)).status_code in (200, 404), page.path
        assert "verdict" in client.get("/").text
        for action in EVERY_ACTION:
            path = fill_in(action.path).replace("/7", f"/{int(job)}")
            answer = client.post(f"{path}?lock=a", data={"head": str(int(job)), "confirm": "a"})
            assert answer.status_code == 409, (action.path, answer.text)
    with psycopg.connect(dsn, options="-c search_path=inturn") as connection:
        assert connection.execute("SELECT count(*) FROM jobs").fetchone() == (1,)
        assert connection.execute("SELECT stopped::text FROM lanes").fetchall() == [("paused",)]
