"""`queue web`: it serves whoever has its link, and no other machine without a password."""

import re
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from inturn.cli.processes import web_server
from inturn.database.connectors import PsycopgConnector
from inturn.tracing import Tracing
from inturn.web.access import hash_password
from tests.cli.calling import invoke, open_page

COMMAND = [sys.executable, "-m", "inturn", "web", "--port", "0"]


def refuse(*options: str, **environment: str) -> str:
    done = invoke(
        "web", "--port", "0", *options, env={"INTURN_DSN": "dbname=nothing", **environment}
    )
    assert done.returncode == 2, done.stderr
    return done.stderr


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.1.2.3"])  # noqa: S104 (it must refuse)
def test_it_serves_no_other_machine_without_a_password(address: str) -> None:
    assert "INTURN_WEB_USERS" in refuse("--bind", address)


def test_a_header_needs_the_address_of_its_proxy() -> None:
    assert "together" in refuse("--auth-header", "X-User")
    assert "is not an address" in refuse("--auth-header", "X-User", "--proxy", "the-proxy")


def test_users_that_cannot_be_read_are_named() -> None:
    assert "--hash-password" in refuse(INTURN_WEB_USERS="ana")
    assert "--hash-password" in refuse(INTURN_WEB_USERS="ana=secret")


def test_it_serves_pages_to_a_user_with_a_password(app_dsn: str) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--bind", "127.0.0.1"],
        env={
            "PATH": "/usr/bin:/bin",
            "INTURN_DSN": app_dsn,
            "INTURN_WEB_USERS": f"ana={hash_password('right')}",
        },
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/", process.stderr.readline())
        assert found
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(found[0], timeout=120)  # noqa: S310 (our own server)
        passwords = urllib.request.HTTPPasswordMgrWithDefaultRealm()
        passwords.add_password(None, found[0], "ana", "right")
        opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(passwords))
        page = opener.open(found[0], timeout=120).read().decode()
        assert "No worker is running" in page
    finally:
        process.terminate()
        process.wait(timeout=120)
        assert process.stderr is not None
        process.stderr.close()


def test_without_a_password_it_prints_a_link(app_dsn: str) -> None:
    process = subprocess.Popen(
        COMMAND,
        env={"PATH": "/usr/bin:/bin", "INTURN_DSN": app_dsn},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/\?key=\S+", process.stderr.readline())
        assert found
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(found[0].partition("?")[0], timeout=120)  # noqa: S310 (our own)
        assert "No worker is running" in open_page(found[0], "")
    finally:
        process.terminate()
        process.wait(timeout=120)
        assert process.stderr is not None
        process.stderr.close()


def test_its_own_app_is_traced_if_opentelemetry_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(web_server.make_app(PsycopgConnector("dbname=nothing")).tracing, Tracing)
    monkeypatch.setattr(web_server, "find_spec", lambda name: None)
    assert web_server.make_app(PsycopgConnector("dbname=nothing")).tracing is None
