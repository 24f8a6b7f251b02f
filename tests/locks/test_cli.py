"""The commands of `queue locks`."""

import json
import os
import signal
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import redis
from psycopg.conninfo import make_conninfo

from inturn.cli.commands import locks
from inturn.locks import (
    install,
    lock_from_url,
)
from tests.cli.calling import Ended, invoke
from tests.locks.conftest import Spawn


def queue_locks(*arguments: str) -> Ended:
    return invoke("locks", *arguments)


@pytest.fixture(params=["redis", "file", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "redis":
        return f"unix://{request.getfixturevalue('socket')}#it"
    if request.param == "file":
        return f"file://{tmp_path}/it.lock"
    dsn = request.getfixturevalue("empty_dsn")
    install(dsn)
    return f"{url_of(dsn)}#it"


def url_of(dsn: str) -> str:
    from psycopg.conninfo import conninfo_to_dict

    parts = {key: str(value) for key, value in conninfo_to_dict(dsn).items()}
    name = parts.pop("dbname")
    return f"postgresql:///{name}?" + "&".join(
        f"{key}={quote(value, safe='')}" for key, value in parts.items()
    )


def test_cli_shows_waits_for_and_runs(address: str) -> None:
    assert queue_locks("show", address).returncode == 3
    assert queue_locks("wait", address, "--timeout", "0").returncode == 0
    with lock_from_url(address) as lease:
        assert lease is not None
        result = queue_locks("show", address, "-o", "json")
        assert result.returncode == 0
        assert json.loads(result.stdout)["name"]
        assert queue_locks("wait", address, "--timeout", "0.05").returncode == 4
        assert queue_locks("run", "--timeout", "0", address, "--", "true").returncode == 4
    assert queue_locks("run", "--timeout", "0", address, "--", "sh", "-c", "exit 7").returncode == 7
    assert queue_locks("show", address).returncode == 3


def test_cli_lists(address: str, empty_dsn: str) -> None:
    store = address.partition("#")[0].removesuffix("/it.lock")
    assert "No lock" in queue_locks("list", store).output
    more: Any = {"mode": "table"} if store.startswith("postgresql") else {}
    with lock_from_url(address, **more):
        listed = json.loads(queue_locks("list", store, "-o", "json").stdout)
        assert len(listed) == 1
        assert listed[0]["name"].endswith(("it", "it.lock"))
        assert "OWNER" in queue_locks("list", store).stdout


def test_cli_lists_the_locks_beside_keys_of_other_programs(
    conn: "redis.Redis", socket: str
) -> None:
    for key in (b"inturn:{\xff}", b"inturn:{}", b"inturn:{}}"):
        conn.set(key, "theirs")
    with lock_from_url(f"unix://{socket}#it"):
        done = queue_locks("list", f"unix://{socket}", "-o", "json")
    assert [one["name"] for one in json.loads(done.stdout)] == ["it"]


def test_cli_says_that_it_may_not_list(pg: str) -> None:
    done = queue_locks("list", url_of(make_conninfo(pg, options="-c role=pg_signal_backend")))
    assert done.returncode == 69
    assert "permission denied for table inturn_locks" in done.stderr


def test_cli_lists_only_folders(tmp_path: Path) -> None:
    file = tmp_path / "it.lock"
    file.touch()
    for path in (file, tmp_path / "none"):
        done = queue_locks("list", f"file://{path}")
        assert (done.returncode, "is not a folder: use file:///folder" in done.stderr) == (2, True)


def test_cli_breaks_a_lock_only_with_a_confirmation(socket: str) -> None:
    address = f"unix://{socket}#it"
    assert queue_locks("break", address, "--yes").returncode == 3
    lease = lock_from_url(address).acquire()
    assert queue_locks("break", address).returncode == 2  # there is no terminal to confirm it
    assert queue_locks("break", address, "--dry-run").returncode == 0
    assert lock_from_url(address).locked()
    assert queue_locks("break", address, "--yes").returncode == 0
    assert not lock_from_url(address).locked()
    assert lease is not None


def test_cli_a_kernel_lock_cannot_be_broken(tmp_path: Path) -> None:
    address = f"file://{tmp_path}/it.lock"
    with lock_from_url(address):
        done = queue_locks("break", address, "--yes")
        assert done.returncode == 2
        assert "end that process" in done.output


def test_cli_an_unreachable_store_is_69(tmp_path: Path) -> None:
    assert queue_locks("show", f"unix://{tmp_path}/nothing#it").returncode == 69
    assert queue_locks("show", "ftp://it").returncode == 2


@pytest.mark.landing
def test_cli_run_ends_its_command_when_the_lock_is_lost(
    conn: "redis.Redis", socket: str, spawn: Spawn
) -> None:
    """A command must not go on in the belief that it runs alone."""
    code = "from inturn.cli import main; main()"
    command = [sys.executable, "-c", code]
    words = (f"unix://{socket}#it", "sh", "-c", "echo runs; exec cat")
    run = spawn("", "locks", "run", "--ttl", 0.6, *words, command=command)
    if run.line() != "runs" or not conn.exists("inturn:{it}"):  # it was over during a stall
        run = spawn("", "locks", "run", "--ttl", 20, *words, command=command)
        assert run.line() == "runs"
        assert conn.exists("inturn:{it}")
    conn.set("inturn:{it}", "taken")
    assert run.process.wait(30) != 0
    assert conn.get("inturn:{it}") == "taken"


@pytest.mark.landing
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_cli_run_keeps_the_lock_until_its_command_ends(
    number: signal.Signals, tmp_path: Path, spawn: Spawn
) -> None:
    """A signal to the terminal's programs must not free the lock of one that is still busy."""
    address = f"file://{tmp_path}/it.lock"
    command = [sys.executable, "-c", "from inturn.cli import main; main()"]
    heard = "trap 'echo heard' INT TERM; echo runs; read line; read line; exit 7"
    words = ("locks", "run", address, "--", "bash", "-c", heard)
    run = spawn("", *words, command=command, start_new_session=True)
    assert run.line() == "runs"
    if number == signal.SIGINT:
        os.killpg(run.process.pid, number)  # as Ctrl-C does
    else:
        run.process.send_signal(number)
    assert run.line() == "heard"
    lease, _ = lock_from_url(address).try_acquire(0.5)
    assert lease is None, "its command still runs"
    run.process.communicate("end\nend\n", timeout=30)
    assert run.process.returncode == 7


def test_cli_run_passes_on_a_signal_that_comes_while_its_command_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    popen = subprocess.Popen

    def start(command: tuple[str, ...]) -> subprocess.Popen[bytes]:
        process = popen(command)
        signal.raise_signal(signal.SIGTERM)
        return process

    monkeypatch.setattr(subprocess, "Popen", start)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, *locks.PASSED_ON)}
    try:
        with locks._start(("sleep", "60")) as process:
            assert process.wait(30) == -signal.SIGTERM
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("option", ["--dry-run", "--yes"])
def test_cli_promises_no_break_of_a_lock_that_ends_only_with_its_holder(
    option: str, tmp_path: Path
) -> None:
    address = f"file://{tmp_path}/it.lock"
    with lock_from_url(address) as lease:
        assert lease is not None
        done = queue_locks("break", address, option)
    assert (done.returncode, done.stdout) == (2, "")
    assert "It is freed when its holder ends" in done.stderr


def test_cli_says_when_a_lock_was_taken_as_a_time(address: str) -> None:
    with lock_from_url(address) as lease:
        assert lease is not None
        (at,) = {
            json.loads(queue_locks("show", address, "--json").stdout)["acquired_at"],
        }
        assert datetime.fromisoformat(at).utcoffset() == timedelta(0)


def test_cli_ends_like_a_shell_if_there_is_no_such_command(address: str, tmp_path: Path) -> None:
    assert queue_locks("run", address, "--", "no-such-command").returncode == 127
    file = tmp_path / "plain.txt"
    file.touch()
    assert queue_locks("run", address, "--", str(file)).returncode == 126
    assert queue_locks("show", address).returncode == 3, "the lock is free again"
