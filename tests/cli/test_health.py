"""`queue worker --health-port`, `queue health`, and what systemd hears, with real processes."""

import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread

import psycopg
import pytest

from inturn.database.connectors import PsycopgConnector
from inturn.endpoint import Answer, Endpoint
from inturn.health.checks import Health
from inturn.health.database_check import DatabaseCheck
from inturn.health.probe import ask
from inturn.vitals import Vitals
from tests.cli.conftest import Run, Start, Until, defer
from tests.conftest import Query
from tests.metrics.scrape import free_ports, get
from tests.proxy import Faulty
from tests.waiting import wait_until

pytestmark = pytest.mark.landing

TASKS = """
import asyncio
import os
import time
from pathlib import Path

from inturn import App

app = App()


@app.task
async def block(until: str) -> None:
    Path("blocking").touch()
    while not Path(until).exists():
        time.sleep(0.01)


@app.task
async def stay(until: str) -> None:
    Path("staying").touch()
    while not Path(until).exists():
        await asyncio.sleep(0.01)


@app.task
def show() -> None:
    Path("shown").write_text(repr({name for name in os.environ if "NOTIFY" in name}))
"""
SLOW_SECOND = """
import sys
import time
from pathlib import Path

from tasks import app

while any(each.endswith("-2") for each in sys.argv) and not Path("go").exists():
    time.sleep(0.01)
"""
LIVE, READY, STARTUP = "/-/live", "/-/ready", "/-/startup"


@pytest.fixture
def port() -> int:
    return free_ports()


@pytest.fixture
def start_worker(start: Start, folder: Path, dsn: str, port: int, until: Until) -> Start:
    (folder / "health_tasks.py").write_text(TASKS)

    def start_worker(*arguments: str, **environment: str) -> subprocess.Popen[str]:
        words = ["-a", "health_tasks:app", "worker", "--health-port", str(port), *arguments]
        return start(*words, **{"INTURN_DSN": dsn} | environment)

    return start_worker


def test_live_fails_while_a_task_blocks_the_event_loop_and_recovers(
    start_worker: Start, port: int, until: Until, dsn: str, folder: Path
) -> None:
    start_worker()
    until(lambda: get(port, READY).status == 200)
    defer(dsn, "health_tasks.block", until="go")
    until((folder / "blocking").exists)
    assert get(port, LIVE).status == 200, "a short block is no reason for a restart"
    until(lambda: get(port, LIVE).status == 503)
    assert "blocked for 1" in get(port, LIVE).checks["event loop"]
    assert get(port, READY).status == 503
    (folder / "go").touch()
    until(lambda: get(port, LIVE).status == 200)
    until(lambda: get(port, READY).status == 200)


@pytest.mark.parametrize("fault", ["refused", "silent"])
def test_ready_fails_while_the_database_is_away_and_recovers_and_live_does_not_care(
    start_worker: Start, port: int, until: Until, faulty_server: tuple[Faulty, str], fault: str
) -> None:
    proxy, address = faulty_server
    start_worker(INTURN_DSN=address)
    until(lambda: get(port, READY).status == 200)
    if fault == "refused":
        proxy.refuse()
        proxy.reset()
    else:
        proxy.fall_silent()
    until(lambda: get(port, READY).status == 503)
    # The probe has asked by itself, and not only looked at what the worker knows.
    told = "cannot be reached" if fault == "refused" else "no answer for"
    until(lambda: told in get(port, READY).checks["database"])
    assert get(port, LIVE).status == 200
    proxy.heal()
    until(lambda: get(port, READY).status == 200)


def test_a_probe_that_lost_its_own_connection_asks_over_another(
    start_worker: Start, port: int, until: Until, query: Query
) -> None:
    start_worker()
    until(lambda: get(port, READY).status == 200)
    cut = (
        "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name LIKE '%%health%%'"
    )
    assert query(cut) == [(True,)]
    until(lambda: query("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE "
                        "'%%health%%' AND datname = current_database()") == [(0,)])  # fmt: skip
    for _ in range(20):  # one of them asks anew
        told = get(port, READY).checks["database"]
        assert told == "ok" or told.startswith("no answer for"), told  # the machine may be busy
        time.sleep(0.1)
    until(lambda: get(port, READY).checks["database"] == "ok")


def test_a_worker_whose_loop_waits_for_too_long_is_not_ready() -> None:
    worker = Vitals(
        is_registered=True,
        is_stopping=False,
        is_database_away=False,
        trouble=None,
        last_turn=time.monotonic() - 600.0,
        longest_pause=600.0,
        slots=1,
        busy_slots=0,
        is_listening=None,
        counted_wakeups={},
        heartbeat_failures=0,
    )
    health = Health(lambda: 0.0, lambda: None)
    assert health.check_readiness()["registered"] == "not yet"
    health.attach(lambda: worker)
    assert set(health.check_readiness().values()) == {"ok"}
    worker = worker._replace(last_turn=worker.last_turn - 61.0)
    assert re.fullmatch(r"has waited for \d+ s", health.check_readiness()["worker loop"])


def test_a_worker_that_waits_for_its_database_is_live_and_not_ready(
    start_worker: Start, port: int, until: Until, faulty_server: tuple[Faulty, str]
) -> None:
    proxy, address = faulty_server
    proxy.refuse()
    start_worker("--db-grace", "10m", INTURN_DSN=address)
    until(lambda: get(port, LIVE).status == 200)
    assert get(port, STARTUP).checks == {"registered": "not yet"}
    assert get(port, READY).status == 503
    proxy.heal()
    until(lambda: get(port, STARTUP).status == 200)
    until(lambda: get(port, READY).status == 200)


def test_a_worker_that_stops_is_live_and_not_ready(
    start_worker: Start, port: int, until: Until, dsn: str, folder: Path
) -> None:
    worker = start_worker()
    defer(dsn, "health_tasks.stay", until="go")
    until((folder / "staying").exists)
    worker.send_signal(signal.SIGTERM)
    until(lambda: get(port, READY).checks["stopping"] == "takes no more jobs")
    assert get(port, READY).status == 503
    assert get(port, LIVE).status == 200
    (folder / "go").touch()
    assert worker.wait() == 0
    assert get(port, LIVE).status == 0


@pytest.mark.fresh_database
def test_a_schema_that_does_not_fit_makes_a_worker_unready(
    start_worker: Start, port: int, until: Until, dsn: str, queue: Run
) -> None:
    start_worker()
    until(lambda: get(port, READY).status == 200)
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE inturn.applied_code SET checksum = 'another'")
    told = "its schema does not match this version"
    until(lambda: get(port, READY).checks["database"] == told)
    assert get(port, READY).status == 503


def test_a_command_asks_a_worker_how_it_is(
    start_worker: Start, port: int, until: Until, run: Run
) -> None:
    nobody = run("health", "live", "--port", str(port))
    assert nobody.returncode == 10
    assert nobody.stdout.startswith("no answer: ")
    start_worker()
    until(lambda: get(port, READY).status == 200)
    live = run("health", "live", INTURN_WORKER_HEALTH_PORT=str(port))
    assert (live.returncode, live.stdout) == (0, "event loop: ok\n")
    # On a busy machine, the database may take too long for a probe.
    until(lambda: run("health", "ready", "-p", str(port)).returncode == 0)
    assert run("health", "live").returncode == 2


def test_a_check_that_gets_no_thread_is_made_again(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = DatabaseCheck(PsycopgConnector(dsn))
    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", lambda _: _refuse_thread())
        with pytest.raises(RuntimeError, match="can't start new thread"):
            check.find_problem()
    with closing(check):
        wait_until(lambda: check.find_problem() is None)


def _refuse_thread() -> None:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("body", [b"hello", b"[]", b'{"checks": [{"name": "db"}]}'])
def test_another_server_on_the_port_is_no_healthy_worker(body: bytes) -> None:
    routes = {LIVE: lambda _: Answer(200, "application/json", body)}
    with Endpoint("127.0.0.1", 0, routes) as other:
        assert ask("127.0.0.1", other.port, LIVE) == (False, "not a worker's health endpoint")


@pytest.mark.parametrize("host", ["two words", "worker..internal", "é" * 64])
def test_a_name_that_no_host_can_have_gets_no_answer(host: str) -> None:
    reply = ask(host, 1, LIVE)
    assert not reply.is_ok
    assert reply.text.startswith("no answer: ")


def test_each_worker_process_has_ports_of_its_own_and_a_command_asks_all_of_them(
    start: Start, folder: Path, dsn: str, until: Until, run: Run
) -> None:
    first = free_ports(3)
    start("-a", "tasks:app", "worker", "--processes", "3", "--health-port", str(first),
          "--metrics-port", str(first), INTURN_DSN=dsn)  # fmt: skip
    ports = range(first, first + 3)
    until(lambda: all(get(each, READY).status == 200 for each in ports))
    assert all("inturn_worker_slots 1.0" in get(each, "/metrics").text for each in ports)
    words = ("health", "ready", "--port", str(first), "--processes", "3")
    until(lambda: run(*words).returncode == 0)
    asked = run(*words)
    assert [line.split()[0] for line in asked.stdout.splitlines()] == [
        f"127.0.0.1:{each}" for each in ports
    ]
    assert run("health", "live", "--port", str(first), "--processes", "4").returncode == 10


@pytest.mark.fresh_database
def test_ports_that_would_be_given_twice_are_refused(run: Run, dsn: str) -> None:
    ended = run("-a", "tasks:app", "worker", "--processes", "4", "--health-port", "9103",
                "--metrics-port", "9100", INTURN_DSN=dsn)  # fmt: skip
    assert (ended.returncode, ended.stderr) == (
        2,
        "error: --health-port: 9103 is one of the 4 ports from --metrics-port 9100 on\n",
    )


def test_a_port_that_is_in_use_is_one_line_and_exit_2(run: Run, dsn: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run("-a", "tasks:app", "worker", "--health-port", port, INTURN_DSN=dsn)
    assert ended.returncode == 2
    [line] = ended.stderr.splitlines()
    assert line.startswith(f"error: Port {port} on 127.0.0.1 cannot be used: ")


# ------------------------------------------------------------------ systemd


class Systemd:
    """The socket that systemd listens on, and what it has heard."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.setblocking(False)
        self.heard: list[str] = []

    def has_heard(self, word: str) -> bool:
        """Return True if this word has come since `heard` was last cleared."""
        self.heard += self.hear()
        return word in self.heard

    def hear(self) -> list[str]:
        """Return the words that have come since the last call."""
        words: list[str] = []
        while True:
            try:
                words += self._socket.recv(4096).decode().splitlines()
            except BlockingIOError:
                return words

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def systemd(folder: Path) -> Iterator[Systemd]:
    systemd = Systemd(folder / "notify")
    yield systemd
    systemd.close()


def test_systemd_hears_that_a_worker_is_ready_lives_hangs_and_stops(
    start_worker: Start, systemd: Systemd, until: Until, dsn: str, folder: Path
) -> None:
    worker = start_worker(NOTIFY_SOCKET=str(systemd.path), WATCHDOG_USEC="300000")
    until(lambda: systemd.has_heard("READY=1"))
    for _ in range(3):
        until(lambda: "WATCHDOG=1" in systemd.hear())
    defer(dsn, "health_tasks.block", until="go")
    until((folder / "blocking").exists)
    systemd.hear()  # what was on its way
    enough = time.monotonic() + 1.0  # three times as long as systemd would wait
    until(lambda: time.monotonic() > enough)
    assert systemd.hear() == [], "a worker that hangs must not say that it lives"
    (folder / "go").touch()
    until(lambda: "WATCHDOG=1" in systemd.hear())
    worker.send_signal(signal.SIGTERM)
    systemd.heard.clear()
    until(lambda: systemd.has_heard("STOPPING=1"))
    assert worker.wait() == 0


def test_a_watchdog_for_another_process_hears_nothing(
    start_worker: Start, systemd: Systemd, until: Until, port: int
) -> None:
    start_worker(NOTIFY_SOCKET=str(systemd.path), WATCHDOG_USEC="300000", WATCHDOG_PID="1")
    until(lambda: systemd.has_heard("READY=1"))
    until(lambda: get(port, READY).status == 200)
    assert "WATCHDOG=1" not in systemd.heard + systemd.hear()


def test_a_task_does_not_inherit_the_socket_of_systemd(
    start_worker: Start, systemd: Systemd, until: Until, dsn: str, folder: Path
) -> None:
    start_worker(NOTIFY_SOCKET=str(systemd.path))
    defer(dsn, "health_tasks.show")
    until(lambda: (folder / "shown").exists() and (folder / "shown").read_text())
    assert (folder / "shown").read_text() == "set()"


def test_the_supervisor_says_ready_once_all_its_workers_serve_and_speaks_for_all(
    start: Start, systemd: Systemd, until: Until, query: Query, dsn: str, folder: Path
) -> None:
    (folder / "slow_second.py").write_text(SLOW_SECOND)
    process = start("-a", "slow_second:app", "worker", "--processes", "2", INTURN_DSN=dsn,
                    NOTIFY_SOCKET=str(systemd.path), WATCHDOG_USEC="300000")  # fmt: skip
    until(lambda: query("SELECT count(*) FROM workers") == [(1,)])
    enough = time.monotonic() + 1.0  # ten looks of the supervisor
    until(lambda: time.monotonic() > enough)
    assert systemd.hear() == []
    (folder / "go").touch()
    until(lambda: systemd.has_heard("READY=1"))
    assert query("SELECT count(*) FROM workers") == [(2,)]
    assert systemd.heard.count("READY=1") == 1
    until(lambda: "WATCHDOG=1" in systemd.hear())
    process.send_signal(signal.SIGTERM)
    systemd.heard.clear()
    assert process.wait() == 0
    systemd.has_heard("")
    assert systemd.heard.count("STOPPING=1") == 1
    assert "READY=1" not in systemd.heard
