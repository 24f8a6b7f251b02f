"""`queue worker --processes N`: what happens if a worker process or the supervisor dies."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.cli.conftest import Run, Start, StartScript, Until, defer, next_instant, statuses

pytestmark = pytest.mark.landing

PYTHONPATH = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), "not there"]))

# A job that ends its worker process with the given status.
LEAVING = """
import os, sys, time
from tasks import app

if os.path.exists("the second is broken") and "ann-2" in sys.argv:
    while not os.path.exists("broken"):
        time.sleep(0.01)
while os.path.exists("slow"):
    time.sleep(0.01)
if os.path.exists("broken"):
    raise RuntimeError("a new version that cannot be imported")


@app.task
def leave(status: int) -> None:
    os._exit(status)
"""


def workers(dsn: str) -> dict[str, int]:
    with psycopg.connect(dsn) as connection:
        return dict(
            connection.execute(
                "SELECT name, pid FROM inturn.workers ORDER BY started_at"
            ).fetchall()
        )


@pytest.fixture
def supervisor(start: Start, dsn: str, folder: Path, until: Until) -> "subprocess.Popen[str]":
    """A supervisor with two worker processes that serve."""
    (folder / "leaving.py").write_text(LEAVING)
    supervisor = start("-a", "leaving:app", "worker", "-n", "ann", "--processes", "2", "--dsn", dsn)
    until(lambda: set(workers(dsn)) == {"ann-1", "ann-2"})
    return supervisor


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [process for process in processes if _is_alive(process)]


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # it ended between the two calls
        return False


def test_workers_finish_their_jobs_and_end_when_their_supervisor_is_killed(
    supervisor: "subprocess.Popen[str]",
    dsn: str,
    folder: Path,
    until: Until,
    log: Callable[[], str],
) -> None:
    processes = [psutil.Process(pid) for pid in workers(dsn).values()]
    defer(dsn, "tasks.work", until="may end")
    until((folder / "working").exists)
    supervisor.kill()
    until(lambda: log().count("supervisor.gone") == 2)
    until(lambda: len(alive(processes)) == 1)  # the other has nothing to finish
    (folder / "may end").touch()
    until(lambda: not alive(processes))
    assert statuses(dsn) == ["succeeded"]
    assert workers(dsn) == {}


def test_the_death_of_a_supervisor_that_drains_aborts_nothing(
    supervisor: "subprocess.Popen[str]",
    dsn: str,
    folder: Path,
    until: Until,
    log: Callable[[], str],
) -> None:
    """A service manager may lose patience. For the workers that is not a second signal."""
    processes = [psutil.Process(pid) for pid in workers(dsn).values()]
    defer(dsn, "tasks.work", until="may end")
    until((folder / "working").exists)
    supervisor.terminate()
    until(lambda: log().count("worker.stopping") == 2)
    next_instant()
    supervisor.kill()
    until(lambda: "supervisor.gone" in log())
    next_instant()
    (folder / "may end").touch()
    until(lambda: not alive(processes))
    assert "worker.aborting" not in log()
    assert statuses(dsn) == ["succeeded"]


@pytest.mark.parametrize("status", [2, 3, 11, 69])
def test_a_worker_that_has_served_is_replaced_whatever_its_status_and_its_sibling_goes_on(
    status: int, supervisor: "subprocess.Popen[str]", dsn: str, until: Until, log: Callable[[], str]
) -> None:
    before = workers(dsn)
    defer(dsn, "leaving.leave", status=status)
    until(lambda: f"status {status}, replaced in 1 s" in log())
    until(lambda: len(set(workers(dsn).values()) - set(before.values())) == 1)
    assert "supervisor.stopping" not in log()
    supervisor.terminate()
    assert supervisor.wait(60) == 0


def test_a_worker_that_has_run_enough_jobs_is_replaced_at_once(
    start: Start, dsn: str, folder: Path, until: Until, log: Callable[[], str]
) -> None:
    limits = ("--processes", "2", "--max-jobs", "3")
    supervisor = start("-a", "tasks:app", "worker", "-n", "ann", *limits, "--dsn", dsn)
    until(lambda: set(workers(dsn)) == {"ann-1", "ann-2"})
    before = set(workers(dsn).values())
    for number in range(12):
        defer(dsn, "tasks.touch", name=f"file {number}")
    until(lambda: "is replaced" in log() and statuses(dsn) == ["succeeded"] * 12)
    until(lambda: set(workers(dsn)) == {"ann-1", "ann-2"} and set(workers(dsn).values()) != before)
    assert "worker.stopping: it has run" in log()
    assert "worker.died" not in log()
    supervisor.terminate()
    assert supervisor.wait(60) == 0


def test_a_replacement_that_cannot_start_does_not_end_the_sibling_that_serves(
    supervisor: "subprocess.Popen[str]",
    dsn: str,
    folder: Path,
    until: Until,
    log: Callable[[], str],
) -> None:
    """This can happen during a deploy."""
    (folder / "broken").touch()
    os.kill(workers(dsn)["ann-1"], signal.SIGKILL)
    until(lambda: "worker.died: ann-1, status 2" in log())
    assert "supervisor.stopping" not in log()
    (folder / "broken").unlink()
    until(lambda: log().count("worker.started: ann-1") == 2)
    supervisor.terminate()
    assert supervisor.wait(60) == 0


def test_a_replacement_that_is_told_to_end_before_it_serves_has_not_failed(
    supervisor: "subprocess.Popen[str]",
    dsn: str,
    folder: Path,
    until: Until,
    log: Callable[[], str],
) -> None:
    (folder / "slow").touch()
    os.kill(workers(dsn)["ann-1"], signal.SIGKILL)
    until(lambda: "worker.died: ann-1" in log())
    until(lambda: len(psutil.Process(supervisor.pid).children()) == 2)
    supervisor.terminate()
    assert supervisor.wait(60) == 0


def test_a_replacement_that_the_system_refuses_does_not_end_the_sibling_that_serves(
    supervisor: "subprocess.Popen[str]", dsn: str, until: Until, log: Callable[[], str]
) -> None:
    process, files = psutil.Process(supervisor.pid), psutil.RLIMIT_NOFILE
    before = process.rlimit(files)
    process.rlimit(files, (3, before[1]))  # no further file for it
    os.kill(workers(dsn)["ann-1"], signal.SIGKILL)
    until(lambda: "worker.not_started: ann-1: [Errno 24]" in log())
    process.rlimit(files, before)
    until(lambda: log().count("worker.started: ann-1") == 2)
    assert log().count("worker.started: ann-2") == 1
    supervisor.terminate()
    assert supervisor.wait(60) == 0


def test_a_worker_that_never_served_does_not_end_the_sibling_that_serves(
    start: Start, dsn: str, folder: Path, until: Until, log: Callable[[], str]
) -> None:
    (folder / "leaving.py").write_text(LEAVING)
    (folder / "the second is broken").touch()
    supervisor = start("-a", "leaving:app", "worker", "-n", "ann", "--processes", "2", "--dsn", dsn)
    until(lambda: "worker.started: ann-1" in log())
    (folder / "broken").touch()
    until(lambda: "worker.died: ann-2, status 2" in log())
    assert "supervisor.stopping" not in log()
    supervisor.terminate()
    assert supervisor.wait(60) == 0


def test_a_supervisor_passes_sighup_on(
    supervisor: "subprocess.Popen[str]",
    dsn: str,
    folder: Path,
    until: Until,
    log: Callable[[], str],
) -> None:
    defer(dsn, "tasks.work", until="may end")
    until((folder / "working").exists)
    supervisor.send_signal(signal.SIGHUP)
    until(lambda: log().count("worker.stopping: SIGHUP") == 2)
    (folder / "may end").touch()
    assert supervisor.wait(60) == 0
    assert statuses(dsn) == ["succeeded"]


def test_the_second_signal_ends_all_processes_whatever_a_task_does(
    supervisor: "subprocess.Popen[str]",
    dsn: str,
    folder: Path,
    until: Until,
    log: Callable[[], str],
) -> None:
    processes = [psutil.Process(pid) for pid in workers(dsn).values()]
    defer(dsn, "tasks.work", until="never")
    until((folder / "working").exists)
    supervisor.terminate()
    until(lambda: log().count("worker.stopping") == 2)
    next_instant()
    supervisor.terminate()
    assert supervisor.wait(60) == 143
    until(lambda: not alive(processes))


@pytest.mark.parametrize("spelled", [["--dsn", "{}"], ["--dsn={}"]], ids=" ".join)
def test_the_password_of_the_database_is_in_no_arguments_nor_in_the_environment_of_tasks(
    spelled: list[str], start: Start, dsn: str, folder: Path, until: Until
) -> None:
    (folder / "environment.py").write_text(
        "import os, subprocess\n"
        "from pathlib import Path\n"
        "from tasks import app\n"
        "@app.task\n"
        "def show() -> None: Path('environment').write_bytes(subprocess.check_output('env'))\n"
    )
    secret = make_conninfo(dsn, password="hunter2")
    words = [word.format(secret) for word in spelled]
    supervisor = start(
        "-a", "environment:app", "worker", "--processes", "2", *words, "-q", "default"
    )
    until(lambda: len(workers(dsn)) == 2)
    for pid in workers(dsn).values():
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
        assert b"environment:app" in arguments
        assert b"default" in arguments
        assert b"hunter2" not in arguments
    defer(dsn, "environment.show")
    until(lambda: statuses(dsn) == ["succeeded"])
    assert "PATH=" in (folder / "environment").read_text()
    assert "hunter2" not in (folder / "environment").read_text()
    assert "INTURN_SUPERVISOR" not in (folder / "environment").read_text()
    supervisor.terminate()
    assert supervisor.wait(60) == 0


def test_a_supervisor_ends_if_no_worker_can_start(script: Run, folder: Path, dsn: str) -> None:
    (folder / "leaving.py").write_text(LEAVING)
    (folder / "broken").touch()
    ended = script("-a", "leaving:app", "worker", "--processes", "2", INTURN_DSN=dsn)
    assert ended.returncode == 2, ended.stderr


OWN_COMMAND = """
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "lib"))
from inturn.cli import main

main(["worker", "-n", "ann", "--processes", "2"], name="ours", app="elsewhere:app")
"""


def test_a_program_with_a_command_of_its_own_starts_workers_of_its_app_with_what_it_imports(
    start_script: StartScript, folder: Path, dsn: str, until: Until
) -> None:
    (folder / "program" / "lib").mkdir(parents=True)
    (folder / "program" / "ours.py").write_text(OWN_COMMAND)
    (folder / "program" / "lib" / "elsewhere.py").write_text(
        "import os\n"
        "from pathlib import Path\n"
        "from inturn import App\n"
        "app = App()\n"
        "@app.task\n"
        "def note() -> None: Path('seen').write_text(repr(os.environ.get('PYTHONPATH')))\n"
    )
    supervisor = start_script(
        [sys.executable, "program/ours.py"], INTURN_DSN=dsn, PYTHONPATH=PYTHONPATH
    )
    until(lambda: set(workers(dsn)) == {"ann-1", "ann-2"})
    defer(dsn, "elsewhere.note")
    until(lambda: statuses(dsn) == ["succeeded"])
    assert (folder / "seen").read_text() == repr(
        PYTHONPATH
    )  # not the supervisor's own settings for its workers
    supervisor.terminate()
    assert supervisor.wait(60) == 0


HASTY = """
from inturn.cli import main
from inturn.cli.processes import supervised, supervisor

supervised.WORD_SECONDS, supervisor.SILENT_SECONDS = 0.2, 5.0
main(["worker", "-n", "ann", "--processes", "2"], name="hasty", app="tasks:app")
"""


def test_a_worker_process_that_stands_still_is_named_killed_and_replaced(
    start_script: StartScript, folder: Path, dsn: str, until: Until, log: Callable[[], str]
) -> None:
    (folder / "hasty.py").write_text(HASTY)
    supervisor = start_script([sys.executable, "hasty.py"], INTURN_DSN=dsn)
    until(lambda: set(workers(dsn)) == {"ann-1", "ann-2"})
    before = workers(dsn)
    os.kill(before["ann-1"], signal.SIGSTOP)
    until(lambda: workers(dsn)["ann-1"] != before["ann-1"])
    assert f"worker.silent: ann-1, process {before['ann-1']}, has said nothing for 5 s" in log()
    assert workers(dsn)["ann-2"] == before["ann-2"]
    assert "worker.silent: ann-2" not in log()
    supervisor.terminate()
    assert supervisor.wait(60) == 0
