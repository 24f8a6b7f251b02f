"""`queue dev`: a server that stays while you develop, and a worker that follows the code."""

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from inturn.cli.processes import web_server
from inturn.cli.processes.web_server import LOOPBACK, serve_beside
from inturn.errors import ConfigurationError
from tests.cli.calling import clean, open_page
from tests.cli.conftest import Run, Start, StartScript, Until

pytestmark = pytest.mark.landing
# Other programs may have or release the usual port at any time.
WITH_USUAL_PORT = """
from inturn.cli.processes import web_server
web_server.PORT = {}
from inturn.__main__ import main
main()
"""

# Nobody sees what is raised in the garbage collector.
LOSING = """
import gc, signal

def interrupt(*_):
    if signal.getsignal(signal.SIGTERM) is signal.getsignal(signal.SIGINT):
        gc.callbacks.remove(interrupt)
        signal.raise_signal(signal.SIGTERM)

gc.callbacks.append(interrupt)
from inturn.__main__ import main
main()
"""


@pytest.fixture
def taken() -> Iterator[socket.socket]:
    """A port that another process has."""
    with socket.create_server((LOOPBACK, 0)) as server:
        yield server


def test_it_prints_the_dsn_runs_the_worker_follows_changes_and_leaves_no_server(
    start: Start, run: Run, folder: Path, until: Until
) -> None:
    def log(event: str) -> int:
        return (folder / "log").read_text().count(event)

    dev = start("dev", "tasks:app", TMPDIR=str(folder))
    until(lambda: log("worker.started") == 1)
    dsn, export = (folder / "out").read_text().splitlines()
    assert export == f"export INTURN_DSN='{dsn}'"
    assert run("defer", "tasks.touch", "name=first", INTURN_DSN=dsn).returncode == 0
    until((folder / "first").exists)

    tasks = folder / "tasks.py"
    tasks.write_text(
        tasks.read_text() + "\n\n@app.task\ndef new() -> None:\n    Path('new').touch()\n"
    )
    until(lambda: log("worker.started") == 2)
    assert run("defer", "tasks.new", INTURN_DSN=dsn).returncode == 0
    until((folder / "new").exists)

    tasks.write_text("1 / 0\n")
    until(lambda: log("dev.worker_ended: status 2"))
    assert dev.poll() is None

    dev.send_signal(signal.SIGINT)
    assert dev.wait(60) == 0
    assert not Path(str(conninfo_to_dict(dsn)["host"])).exists()
    assert "a new address" in run("jobs", "list", INTURN_DSN=dsn).stderr
    assert log("worker.stopped") == 2
    assert log("Traceback") == 0


def test_without_an_app_it_is_a_server_whose_data_stays(
    start: Start, folder: Path, until: Until
) -> None:
    addresses = set()
    for found in ([], [("kept",)]):
        dev = start("dev")
        until(lambda: (folder / "out").read_text().count("\n") == 2)
        addresses.add((folder / "out").read_text().splitlines()[0])
        with psycopg.connect(max(addresses)) as connection:
            if found:
                assert connection.execute("SELECT * FROM remembered").fetchall() == found
            else:
                connection.execute("CREATE TABLE remembered AS SELECT 'kept'")
        dev.send_signal(signal.SIGTERM)
        assert dev.wait(60) == 0
    assert len(addresses) == 1
    assert (folder / ".inturn" / ".gitignore").read_text() == "*\n"


def test_the_worker_logs_in_the_format_of_the_command(
    start: Start, folder: Path, until: Until
) -> None:
    dev = start("dev", "tasks:app", "--no-web", "--log-format", "json")
    until(lambda: "worker.started" in log_of(folder))
    dev.send_signal(signal.SIGTERM)
    assert dev.wait(60) == 0
    events = [json.loads(line)["event"] for line in log_of(folder).splitlines()]
    assert events[-1] == "dev.stopped"


def test_it_ends_although_its_signal_came_to_the_garbage_collector(
    start_script: StartScript, folder: Path
) -> None:
    dev = start_script([sys.executable, "-c", LOSING, "dev"])
    assert dev.wait(60) == 0
    assert "Exception ignored in" in (folder / "log").read_text()


def test_its_port_and_its_dashboard_have_the_same_addresses_at_each_start(
    start_script: StartScript, folder: Path, until: Until, taken: socket.socket
) -> None:
    usual, port, addresses = taken.getsockname()[1], free_port(), set()
    for _ in range(2):
        dev = start_dev(start_script, usual, "--port", str(port))
        until(lambda: "dev.ready" in log_of(folder))
        (dsn,) = re.findall(r"dev\.port: .* (postgresql://\S+)", log_of(folder))
        (link,) = re.findall(r"dev\.dashboard: (\S+) ", log_of(folder))
        assert f"@{LOOPBACK}:{port}/" in dsn
        addresses.add((dsn, link))
        with psycopg.connect(dsn) as connection:
            assert connection.execute("SHOW listen_addresses").fetchone() == (LOOPBACK,)
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(re.sub(r":[^:]+@", "@", dsn), passfile="none")
        dev.send_signal(signal.SIGTERM)
        assert dev.wait(60) == 0
        taken.close()  # the usual port is free again, and another one was kept
    assert len(addresses) == 1
    assert (folder / ".inturn" / "address.json").stat().st_mode & 0o077 == 0


def test_a_port_that_is_taken_is_named_before_anything_starts(
    run: Run, folder: Path, taken: socket.socket
) -> None:
    port = taken.getsockname()[1]
    ended = run("dev", "--port", str(port))
    assert ended.returncode != 0
    assert f"The port {port} of {LOOPBACK} cannot be used" in ended.stderr
    assert not (folder / ".inturn" / "postgres").exists()


def test_the_worker_finishes_its_jobs_before_the_server_stops(
    start: Start, run: Run, folder: Path, until: Until
) -> None:
    dev = start("dev", "tasks:app")
    until(lambda: "worker.started" in (folder / "log").read_text())
    dsn = (folder / "out").read_text().splitlines()[0]
    assert run("defer", "tasks.work", "until=may end", INTURN_DSN=dsn).returncode == 0
    until((folder / "working").exists)
    dev.send_signal(signal.SIGINT)
    until(lambda: "worker.stopping" in (folder / "log").read_text())
    (folder / "may end").touch()
    assert dev.wait(60) == 0
    assert "job.succeeded" in (folder / "log").read_text()


def test_the_dashboard_shows_its_jobs_to_this_machine_and_ends_with_it(
    start_script: StartScript, run: Run, folder: Path, until: Until, taken: socket.socket
) -> None:
    port = taken.getsockname()[1]
    dev = start_dev(start_script, port, TMPDIR=str(folder))
    until(lambda: "dev.ready" in (folder / "log").read_text())
    (address,) = re.findall(r"dev\.dashboard: (http://127\.0\.0\.1:\d+/\?key=\S+) ", log_of(folder))
    assert f":{port}/" not in address
    assert f"Another process has port {port}" in log_of(folder)
    assert run("defer", "anything", "--lock", "seen").returncode == 0
    assert "seen" in open_page(address, "lane?lock=seen")
    dev.send_signal(signal.SIGINT)
    assert dev.wait(120) == 0
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=120)  # noqa: S310 (our own)
    assert "Traceback" not in log_of(folder)


def test_the_dashboard_has_the_same_port_again_if_nobody_has_it(
    app_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    monkeypatch.setattr(web_server, "PORT", port)
    with serve_beside(app_dsn) as first, serve_beside(app_dsn) as second:
        assert first.startswith(f"http://127.0.0.1:{port}/?key=")
        assert not second.startswith(f"http://127.0.0.1:{port}/")
    with serve_beside(app_dsn) as again:
        assert again.startswith(f"http://127.0.0.1:{port}/")
        with pytest.raises(ConfigurationError, match=f"port {port}"):
            serve_beside(app_dsn, port).__enter__()
    monkeypatch.setattr(web_server, "PORT", 1)
    with serve_beside(app_dsn, port) as chosen:
        assert chosen.startswith(f"http://127.0.0.1:{port}/")


def test_it_needs_no_dashboard(start: Start, folder: Path, until: Until) -> None:
    dev = start("dev", "--no-web")
    until(lambda: "dev.ready" in log_of(folder))
    assert "dashboard" not in log_of(folder)
    dev.send_signal(signal.SIGINT)
    assert dev.wait(120) == 0


@pytest.mark.parametrize("package", ["jinja2", "starlette", "uvicorn"])
def test_without_the_packages_of_the_dashboard_it_says_how_to_get_them(
    package: str, folder: Path
) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None; sys.argv[1:] = ['dev']\n"
        "from inturn.__main__ import main; main()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=folder,
        env=clean({}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as dev:
        assert dev.stderr is not None
        said = ""
        while "dev.ready" not in said:
            line = dev.stderr.readline()
            assert line, said
            said += line
        dev.send_signal(signal.SIGINT)
        assert dev.wait(120) == 0
    assert "dev.no_dashboard" in said
    assert "Run: pip install 'inturn[web]'" in said


def start_dev(
    start_script: StartScript, usual: int, *words: str, **environment: str
) -> subprocess.Popen[str]:
    """Start `queue dev` as if this were the usual port of the dashboard."""
    code = WITH_USUAL_PORT.format(usual)
    return start_script([sys.executable, "-c", code, "dev", *words], **environment)


def free_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as found:
        port: int = found.getsockname()[1]
        return port


def log_of(folder: Path) -> str:
    return (folder / "log").read_text()
