"""`queue metrics`, and the endpoint that serves metrics and health."""

import logging
import signal
import socket
from pathlib import Path

import pytest

from inturn.endpoint import Answer, Endpoint
from inturn.errors import ConfigurationError
from inturn.metrics.catalogue import DATABASE
from tests.cli.conftest import Run, Start, Until
from tests.cli.engine import Engine
from tests.metrics.scrape import Samples, free_ports, get, scrape


def test_without_a_port_the_metrics_are_printed_once(engine: Engine, queue: Run) -> None:
    engine.defer("t", "lane")
    printed = queue("metrics")
    assert printed.returncode == 0, printed.stderr
    found = Samples(printed.stdout)
    assert found["inturn_lanes_runnable"] == 1
    assert {family.name for family in found.families} == {
        metric.name.removesuffix("_total") for metric in DATABASE
    }


def test_a_database_that_cannot_be_reached_is_an_error_if_they_are_printed(
    run: Run, dsn: str
) -> None:
    ended = run("metrics", "--dsn", "postgresql://127.0.0.1:1/x")
    assert (ended.returncode, ended.stdout) == (69, "")


@pytest.mark.landing
def test_with_a_port_they_are_served_until_a_signal_even_if_the_database_is_away_at_first(
    start: Start, until: Until, dsn: str, folder: Path
) -> None:
    port = free_ports()
    process = start("metrics", "--port", str(port), "--dsn", "postgresql://127.0.0.1:1/x")
    until(lambda: get(port, "/metrics").status == 200)
    assert scrape(port)["inturn_database_up"] == 0
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0
    process = start("metrics", "--port", str(port), INTURN_DSN=dsn)
    until(lambda: get(port, "/metrics").status == 200)
    assert scrape(port)["inturn_database_up"] == 1
    assert (folder / "log").read_text() == f"serving http://127.0.0.1:{port}/metrics\n"
    process.send_signal(signal.SIGINT)
    assert process.wait() == 0


# ------------------------------------------------------------------ the endpoint


def hello(accept: str) -> Answer:
    return Answer(200, "text/plain", b"hello")


def fail(accept: str) -> Answer:
    raise ValueError("secret")


def test_an_endpoint_answers_its_routes_and_names_them(caplog: pytest.LogCaptureFixture) -> None:
    with Endpoint("127.0.0.1", 0, {"/hello": hello, "/fail": fail}) as endpoint:
        assert get(endpoint.port, "/hello?verbose") == (200, "hello")
        assert get(endpoint.port, "/") == (404, "Not found. Available:\n/hello\n/fail\n")
        assert caplog.records == [], "a probe that asks every second would fill the log"
        broken = get(endpoint.port, "/fail")
    assert broken.status == 500
    assert "secret" not in broken.text
    assert "ValueError: secret" in caplog.text


def test_a_client_that_goes_away_or_sends_nonsense_leaves_no_trace(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with Endpoint("127.0.0.1", 0, {"/hello": hello}) as endpoint:
        for words in (b"", b"GET", b"\x16\x03\x01\r\n\r\n", b"GET /hello HTTP/1.0\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", endpoint.port)) as client:
                client.sendall(words)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        assert get(endpoint.port, "/hello").status == 200
    assert (capfd.readouterr().err, caplog.text) == ("", "")


def test_an_endpoint_listens_where_it_is_told_and_a_port_is_free_again_after_it() -> None:
    with Endpoint("::1", 0, {"/hello": hello}) as endpoint:
        assert endpoint.address == f"http://[::1]:{endpoint.port}"
        assert get(endpoint.port, "/hello").status == 0, "that is 127.0.0.1"
        with pytest.raises(ConfigurationError, match="cannot be used"):
            Endpoint("::1", endpoint.port, {})
    with Endpoint("::1", endpoint.port, {}):
        pass
    for host, port in (("127.0.0.1", 70000), ("nowhere.invalid", 0)):
        with pytest.raises(ConfigurationError, match="cannot be used"):
            Endpoint(host, port, {})
