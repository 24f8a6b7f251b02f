"""`queue worker`: how it finds the app and the database, and how it ends."""

import os
import signal
import socket
from pathlib import Path

import psycopg
import pytest

from tests.cli.conftest import Run, Start, Until, defer, next_instant, statuses
from tests.cli.engine import Engine


@pytest.mark.parametrize(
    "words",
    [
        ["-a", "tasks:app", "worker"],
        ["worker", "-a", "tasks:app"],
        ["-a", "no:such", "worker", "-a", "tasks:app"],
    ],
)
def test_the_app_is_named_before_or_after_the_command_and_the_later_wins(
    words: list[str], run: Run, dsn: str, folder: Path
) -> None:
    defer(dsn, "tasks.touch", name="done")
    ended = run(*words, "--one-shot", "--dsn", dsn)
    assert ended.returncode == 0, ended.stderr
    assert (folder / "done").exists()
    assert statuses(dsn) == ["succeeded"]


def test_the_app_and_the_database_are_found_in_the_environment(run: Run, dsn: str) -> None:
    ended = run("worker", "--one-shot", INTURN_APP="tasks:app", INTURN_DSN=dsn)
    assert ended.returncode == 0, ended.stderr


def test_the_garbage_collector_skips_what_the_app_has_imported(
    script: Run, dsn: str, folder: Path
) -> None:
    (folder / "mine.py").write_text(
        "import gc\n"
        "from pathlib import Path\n"
        "from inturn import App\n"
        "app = App()\n"
        "@app.task\n"
        "def count():\n"
        "    Path('frozen').write_text(f'{gc.get_freeze_count()} {len(gc.get_objects())}')\n"
    )
    defer(dsn, "mine.count")
    ended = script("-a", "mine:app", "worker", "--one-shot", INTURN_DSN=dsn)
    assert ended.returncode == 0, ended.stderr
    frozen, others = map(int, (folder / "frozen").read_text().split())
    assert frozen > others


def test_the_app_is_found_in_pyproject(run: Run, dsn: str, folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.inturn]\napp = "tasks:app"\n')
    ended = run("worker", "--one-shot", "--dsn", dsn)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.fresh_database
def test_the_dsn_given_beats_that_of_the_app_and_leaves_its_schema(
    run: Run, dsn: str, folder: Path
) -> None:
    (folder / "far.py").write_text(
        "from inturn import App, PsycopgConnector\n"
        "app = App(connector=PsycopgConnector('postgresql://nowhere.invalid/x', schema='mine'))\n"
    )
    refused = run("-a", "far:app", "worker", "--one-shot", "--dsn", dsn)
    assert refused.returncode == 11
    assert run("-a", "far:app", "migrate", "--dsn", dsn).returncode == 0
    ended = run("-a", "far:app", "worker", "--one-shot", "--dsn", dsn)
    assert ended.returncode == 0, ended.stderr


def test_a_worker_refuses_a_database_that_was_not_migrated_and_says_the_command(
    run: Run, empty_dsn: str
) -> None:
    ended = run("-a", "tasks:app", "worker", INTURN_DSN=empty_dsn)
    assert ended.returncode == 11
    assert ended.stderr.splitlines() == [
        "error: The database has no tables of inturn in the schema 'inturn'. "
        "Create them: queue -a tasks:app migrate"
    ]
    assert run("-a", "tasks:app", "migrate", INTURN_DSN=empty_dsn).returncode == 0
    assert run("-a", "tasks:app", "worker", "--one-shot", INTURN_DSN=empty_dsn).returncode == 0


@pytest.mark.parametrize(
    "path",
    ["nowhere:app", "tasks:nothing", "tasks:time", "tasks", "broken:app", "leaves:app", "open:app"],
)
def test_a_wrong_app_is_one_line_and_exit_2(path: str, run: Run, folder: Path, dsn: str) -> None:
    (folder / "broken.py").write_text("1 / 0\n")
    (folder / "leaves.py").write_text("raise SystemExit(0)\n")
    (folder / "open.py").write_text("def f(:\n")
    ended = run("-a", path, "worker", INTURN_DSN=dsn)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error: ")
    assert path in line


def test_a_signal_during_the_import_is_no_fault_of_the_app(run: Run, folder: Path) -> None:
    (folder / "long.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")
    ended = run("-a", "long:app", "worker")
    assert (ended.returncode, ended.stderr) == (143, "")


def test_the_traceback_of_a_broken_app_is_shown_when_asked_for(run: Run, folder: Path) -> None:
    (folder / "broken.py").write_text("1 / 0\n")
    ended = run("-a", "broken:app", "worker", "-v")
    assert ended.returncode == 2
    assert "Traceback" in ended.stderr
    assert (
        "ZeroDivisionError: division by zero (broken.py, line 1)" in ended.stderr.splitlines()[-1]
    )


def test_a_missing_app_or_database_is_reported_with_the_remedy(run: Run) -> None:
    nobody = run("worker")
    assert (nobody.returncode, "queue -a package.module:app worker" in nobody.stderr) == (2, True)
    nowhere = run("-a", "tasks:app", "worker")
    assert (nowhere.returncode, "set INTURN_DSN=" in nowhere.stderr) == (2, True)


def test_a_wrong_option_is_exit_2(run: Run, dsn: str) -> None:
    ended = run("-a", "tasks:app", "worker", "--dsn", dsn, "--heartbeat", "60")
    assert ended.returncode == 2
    assert "--stalled-after: 30.0 seconds" in ended.stderr


def test_a_database_that_is_away_at_the_start_is_exit_69(run: Run) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening, so no server can answer here
        dsn = f"postgresql://127.0.0.1:{unused.getsockname()[1]}/x"
        for command in (
            ["-a", "tasks:app", "worker"],
            ["migrate"],
            ["schema", "status"],
            ["defer", "tasks.touch"],
        ):
            ended = run(*command, "--dsn", dsn)
            assert ended.returncode == 69, ended.stderr
            assert ended.stderr.startswith("error: The database cannot be reached")


def test_sigterm_lets_the_running_job_finish_and_is_exit_0(
    start: Start, dsn: str, folder: Path, until: Until
) -> None:
    defer(dsn, "tasks.work", until="may end")
    defer(dsn, "tasks.touch", name="too late")
    worker = start("-a", "tasks:app", "worker", "-n", "ann", "--dsn", dsn)
    until((folder / "working").exists)
    worker.send_signal(signal.SIGTERM)
    until(lambda: "worker.stopping" in (folder / "log").read_text())
    assert worker.poll() is None
    (folder / "may end").touch()
    assert worker.wait(60) == 0
    assert statuses(dsn) == ["succeeded", "todo"]
    assert not (folder / "too late").exists()
    for line in (folder / "log").read_text().splitlines():
        assert line[:20].endswith("Z"), line


@pytest.mark.landing
@pytest.mark.fresh_database
def test_sigterm_while_it_registers_is_obeyed_in_order(
    start: Start, dsn: str, folder: Path, until: Until
) -> None:
    """You can end a worker as soon as it is in the table, and it then removes its row."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION take_long() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN PERFORM pg_sleep(0.5); RETURN NEW; END'"
        )
        connection.execute(
            "CREATE TRIGGER t BEFORE INSERT ON inturn.workers FOR EACH ROW EXECUTE FUNCTION take_long()"
        )
        worker = start("-a", "tasks:app", "worker", "--dsn", dsn)
        sleeping = (
            "SELECT FROM pg_stat_activity "
            "WHERE datname = current_database() AND wait_event = 'PgSleep'"
        )
        until(lambda: connection.execute(sleeping).fetchone() is not None)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
        log = (folder / "log").read_text()
        assert "worker.stopping: SIGTERM" in log
        assert "worker.stopped" in log
        assert "WARNING" not in log
    assert workers(dsn) == []


@pytest.mark.landing
def test_a_second_sigterm_gives_the_job_back_and_is_exit_143(
    start: Start, dsn: str, folder: Path, until: Until
) -> None:
    (folder / "patient").touch()
    defer(dsn, "tasks.stay")
    worker = start("-a", "tasks:app", "worker", "--dsn", dsn)
    until((folder / "staying").exists)
    worker.send_signal(signal.SIGTERM)
    until(lambda: "worker.stopping" in (folder / "log").read_text())
    next_instant()
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 143
    assert statuses(dsn) == ["todo"]


@pytest.mark.landing
def test_a_third_sigterm_ends_it_whatever_runs(
    start: Start, dsn: str, folder: Path, until: Until
) -> None:
    (folder / "patient").touch()
    defer(dsn, "tasks.work", until="never")
    worker = start("-a", "tasks:app", "worker", "--dsn", dsn)
    until((folder / "working").exists)
    worker.send_signal(signal.SIGTERM)
    until(lambda: "worker.stopping" in (folder / "log").read_text())
    next_instant()
    worker.send_signal(signal.SIGTERM)
    until(lambda: "worker.aborting" in (folder / "log").read_text())
    next_instant()
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 143
    assert "process.killed: the third signal (SIGTERM)" in (folder / "log").read_text()


@pytest.mark.landing
def test_the_end_of_the_grace_gives_the_job_back_and_is_exit_0(
    start: Start, dsn: str, folder: Path, until: Until
) -> None:
    defer(dsn, "tasks.stay")
    worker = start("-a", "tasks:app", "worker", "--grace", "0.1", "--dsn", dsn)
    until((folder / "staying").exists)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 0
    assert statuses(dsn) == ["todo"]


def workers(dsn: str) -> list[tuple[str, int]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute("SELECT name, pid FROM inturn.workers ORDER BY name").fetchall()


@pytest.mark.landing
def test_several_processes_are_watched_and_stopped_together(
    start: Start, dsn: str, folder: Path, until: Until
) -> None:
    supervisor = start("-a", "tasks:app", "worker", "-n", "ann", "--processes", "2", "--dsn", dsn)
    until(lambda: [name for name, _ in workers(dsn)] == ["ann-1", "ann-2"])
    killed = workers(dsn)[0]
    os.kill(killed[1], signal.SIGKILL)
    until(lambda: [name for name, _ in workers(dsn) if (name, _) != killed] == ["ann-1", "ann-2"])
    defer(dsn, "tasks.work", until="may end")
    until((folder / "working").exists)
    supervisor.send_signal(signal.SIGTERM)
    until(lambda: (folder / "log").read_text().count("worker.stopping") == 2)
    assert supervisor.poll() is None
    (folder / "may end").touch()
    assert supervisor.wait(60) == 0
    assert statuses(dsn) == ["succeeded"]


@pytest.mark.landing
def test_a_second_signal_aborts_the_jobs_of_all_processes(
    start: Start, dsn: str, folder: Path, until: Until
) -> None:
    (folder / "patient").touch()
    defer(dsn, "tasks.stay")
    supervisor = start("-a", "tasks:app", "worker", "--processes", "2", "--dsn", dsn)
    until((folder / "staying").exists)
    until(lambda: len(workers(dsn)) == 2)
    supervisor.send_signal(signal.SIGTERM)
    until(lambda: (folder / "log").read_text().count("worker.stopping") == 2)
    next_instant()
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(60) == 143
    until(lambda: statuses(dsn) == ["todo"])


@pytest.mark.landing
def test_several_processes_end_at_once_when_none_can_work(
    script: Run, empty_dsn: str, dsn: str
) -> None:
    ended = script("-a", "tasks:app", "worker", "--processes", "3", INTURN_DSN=empty_dsn)
    assert ended.returncode == 11, ended.stderr
    assert (
        script(
            "-a", "tasks:app", "worker", "--processes", "2", "--one-shot", INTURN_DSN=dsn
        ).returncode
        == 0
    )


@pytest.mark.landing
def test_a_worker_is_named_after_its_host_and_process_unless_you_name_it(
    start: Start, dsn: str, folder: Path, engine: Engine, until: Until
) -> None:
    def name_of(*words: str, **environment: str) -> str:
        worker = start("-a", "tasks:app", "worker", *words, INTURN_DSN=dsn, **environment)
        until(lambda: engine.query("SELECT 1 FROM workers"))
        ((name, host, pid),) = engine.query("SELECT name, hostname, pid FROM workers")
        assert pid == worker.pid
        worker.terminate()
        assert worker.wait(60) == 0
        return str(name).replace(f"{host}:{pid}", "HOST:PID")

    assert name_of() == "HOST:PID"
    assert name_of("--name", "ann") == "ann"
    assert name_of(INTURN_WORKER_NAME="eve") == "eve"
    tasks = folder / "tasks.py"
    tasks.write_text(tasks.read_text().replace("App()", "App(worker_defaults={'name': 'own'})"))
    assert name_of() == "own"
