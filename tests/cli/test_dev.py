"""`queue dev`: a server that stays while you develop, and a worker that follows the code."""

import signal
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.cli.conftest import Run, Start, Until


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
    assert "another address each time" in run("jobs", "list", INTURN_DSN=dsn).stderr
    assert log("worker.stopped") == 2
    assert log("Traceback") == 0


def test_without_an_app_it_is_a_server_whose_data_stays(
    start: Start, folder: Path, until: Until
) -> None:
    for found in ([], [("kept",)]):
        dev = start("dev")
        until(lambda: (folder / "out").read_text().count("\n") == 2)
        with psycopg.connect((folder / "out").read_text().splitlines()[0]) as connection:
            if found:
                assert connection.execute("SELECT * FROM remembered").fetchall() == found
            else:
                connection.execute("CREATE TABLE remembered AS SELECT 'kept'")
        dev.send_signal(signal.SIGTERM)
        assert dev.wait(60) == 0
    assert (folder / ".inturn" / ".gitignore").read_text() == "*\n"


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
