"""Signals to `queue worker`.

The first drains it, the second aborts its jobs and soon ends the process, and the third ends the
process at once.
"""

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from inturn import App
from inturn.worker import signals
from tests.cli.calling import clean
from tests.cli.conftest import Start, Until, next_instant, statuses

pytestmark = pytest.mark.landing

MORE_TASKS = """
import asyncio, multiprocessing, os, signal, threading, time
from pathlib import Path
import anyio
from inturn.worker import signals
from tasks import app

note = signals.Caught._note


def note_and_tell(caught: signals.Caught, number: signal.Signals) -> None:
    # A blocked event loop cannot log the signal.
    note(caught, number)
    Path(f"counted {caught._count}").touch()


signals.Caught._note = note_and_tell


@app.task
async def block() -> None:
    Path("working").touch()
    time.sleep(3600)


@app.task
async def block_in_c() -> None:
    Path("working").touch()
    # C waits here, and runs no handler meanwhile.
    os.system("while [ -e tasks.py -a ! -e unblocked ]; do sleep 0.1; done")


@app.task
def hang() -> None:
    Path("working").touch()
    time.sleep(3600)


@app.task
async def leave_a_thread() -> None:
    Path("working").touch()
    await asyncio.to_thread(time.sleep, 3600)


@app.task
async def occupy_all_threads() -> None:
    async with anyio.create_task_group() as group:
        limiter = anyio.to_thread.current_default_thread_limiter()
        for _ in range(int(limiter.total_tokens)):
            group.start_soon(anyio.to_thread.run_sync, time.sleep, 3600)
        while limiter.available_tokens:
            await anyio.sleep(0.01)
        Path("working").touch()


@app.task
def fork() -> None:
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(3600,))
    child.start()
    child.terminate()
    child.join()
    Path("forked").write_text(str(child.exitcode))


@app.task
async def take_over() -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, Path("signalled").touch)
    Path("working").touch()
    while not Path("signalled").exists():
        await asyncio.sleep(0.01)
"""

# It takes everything for one instant that happens in a minute.
SLOW = """
from inturn.worker import signals
from tasks import app

signals.INSTANT = 60.0
"""

Begin = Callable[[str], "subprocess.Popen[str]"]
Send = Callable[["subprocess.Popen[str]", signal.Signals], None]


@pytest.fixture
def begin(start: Start, dsn: str, folder: Path, until: Until) -> Begin:
    """A worker that runs the only job."""

    def begin(task: str) -> "subprocess.Popen[str]":
        (folder / "more.py").write_text(MORE_TASKS)
        with App(dsn).open() as app:
            app.configure_task(f"more.{task}").defer()
        worker = start("-a", "more:app", "worker", "--dsn", dsn)
        until((folder / "working").exists)
        return worker

    return begin


@pytest.fixture
def send(folder: Path, until: Until) -> Send:
    """Send a signal, and wait until it is counted and the next one counts as another one."""
    counts = itertools.count(1)

    def send(worker: "subprocess.Popen[str]", number: signal.Signals) -> None:
        worker.send_signal(number)
        until((folder / f"counted {next(counts)}").exists)
        next_instant()

    return send


def work(
    dsn: str, start: Start, folder: Path, until: Until, app: str = "tasks:app"
) -> "subprocess.Popen[str]":
    with App(dsn).open() as producer:
        producer.configure_task("tasks.work").defer(until="may end")
    worker = start("-a", app, "worker", "--dsn", dsn)
    until((folder / "working").exists)
    return worker


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name
)
def test_the_first_of_each_signal_lets_the_running_job_end(
    number: signal.Signals,
    start: Start,
    dsn: str,
    folder: Path,
    until: Until,
    log: Callable[[], str],
) -> None:
    worker = work(dsn, start, folder, until)
    worker.send_signal(number)
    until(lambda: f"worker.stopping: {number.name}" in log())
    assert worker.poll() is None
    (folder / "may end").touch()
    assert worker.wait(60) == 0
    assert statuses(dsn) == ["succeeded"]


def test_two_signals_in_one_instant_are_one(
    start: Start, dsn: str, folder: Path, until: Until, log: Callable[[], str]
) -> None:
    """A service manager may signal both a process group and the process."""
    (folder / "slow.py").write_text(SLOW)
    worker = work(dsn, start, folder, until, "slow:app")
    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        worker.send_signal(number)
    until(lambda: "worker.stopping" in log())
    next_instant()
    assert worker.poll() is None
    (folder / "may end").touch()
    assert worker.wait(60) == 0
    assert "worker.aborting" not in log()
    assert statuses(dsn) == ["succeeded"]


def test_a_process_that_ignores_sighup_goes_on_ignoring_it(
    dsn: str, start: Start, folder: Path, until: Until, log: Callable[[], str]
) -> None:
    """nohup does this."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        worker = work(dsn, start, folder, until)
    finally:
        signal.signal(signal.SIGHUP, before)
    worker.send_signal(signal.SIGHUP)
    next_instant()
    worker.send_signal(signal.SIGINT)
    until(lambda: "worker.stopping: SIGINT" in log())
    (folder / "may end").touch()
    assert worker.wait(60) == 0


def test_a_signal_that_blocked_code_handles_late_is_not_another_one(
    begin: Begin, dsn: str, folder: Path, log: Callable[[], str]
) -> None:
    worker = begin("block_in_c")
    worker.send_signal(signal.SIGTERM)
    next_instant()
    (folder / "unblocked").touch()
    assert worker.wait(60) == 0
    assert "worker.stopping: SIGTERM" in log()
    assert "worker.aborting" not in log()
    assert statuses(dsn) == ["succeeded"]


@pytest.mark.parametrize("task", ["block", "block_in_c", "hang", "leave_a_thread"])
def test_the_second_signal_ends_the_process_whatever_a_task_does(
    task: str, begin: Begin, send: Send, log: Callable[[], str]
) -> None:
    """A blocked event loop, in Python or in C, or a thread that does not end."""
    worker = begin(task)
    send(worker, signal.SIGTERM)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 143
    if task.startswith("block"):  # the worker itself can do nothing about that
        assert (
            "process.killed: still here 4 s after the second signal (SIGTERM)"
            in log().splitlines()[-1]
        )


def test_a_worker_gives_its_jobs_back_though_tasks_occupy_every_thread_that_others_share(
    begin: Begin, send: Send, dsn: str, folder: Path, until: Until, log: Callable[[], str]
) -> None:
    (folder / "patient").touch()
    worker = begin("occupy_all_threads")
    for _ in range(2):
        send(worker, signal.SIGTERM)
    until(lambda: "jobs given back: 1" in log())
    worker.send_signal(signal.SIGTERM)  # or it waits for the threads
    assert worker.wait(60) == 143
    assert statuses(dsn) == ["todo"]


def test_that_takes_less_than_five_seconds() -> None:
    assert signals.PATIENCE + signals.LAST_WORDS < 5


def test_a_third_signal_ends_the_process_at_once_though_the_event_loop_is_blocked(
    begin: Begin, send: Send, folder: Path, log: Callable[[], str]
) -> None:
    (folder / "patient").touch()
    worker = begin("block")
    send(worker, signal.SIGTERM)
    send(worker, signal.SIGTERM)
    worker.send_signal(signal.SIGINT)
    assert worker.wait(60) == 130
    assert "process.killed: the third signal (SIGINT)" in log()


def test_the_second_signal_ends_a_worker_whose_server_does_not_answer(
    start: Start, dsn: str, until: Until, log: Callable[[], str]
) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        worker = start("-a", "tasks:app", "worker", "--dsn", dsn)
        until(lambda: "worker.started" in log())
        # First the one that makes connections: a worker may still be opening some.
        [(data,)] = connection.execute("SHOW data_directory").fetchall()
        postmaster = int((Path(data) / "postmaster.pid").read_text().split()[0])
        os.kill(postmaster, signal.SIGSTOP)
        backends: set[int] = set()
        try:
            for _ in range(10):  # one that is just starting shows a moment later
                rows = connection.execute(
                    "SELECT pid FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                ).fetchall()
                for pid in {pid for (pid,) in rows} - backends:
                    os.kill(pid, signal.SIGSTOP)
                backends |= {pid for (pid,) in rows}
                time.sleep(0.1)
            worker.send_signal(signal.SIGTERM)
            until(lambda: "worker.stopping" in log())
            next_instant()
            second = time.monotonic()
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(60) == 143
            assert time.monotonic() - second < 30  # it has used its patience once at most
        finally:
            for pid in (postmaster, *backends):
                os.kill(pid, signal.SIGCONT)


def test_the_end_of_a_forked_child_is_no_signal_to_its_worker(
    start: Start, dsn: str, folder: Path, log: Callable[[], str]
) -> None:
    (folder / "more.py").write_text(MORE_TASKS)
    with App(dsn).open() as app:
        app.configure_task("more.fork").defer()
    worker = start("-a", "more:app", "worker", "--dsn", dsn, "--one-shot")
    assert worker.wait(60) == 0
    assert (folder / "forked").read_text() == str(-signal.SIGTERM)
    assert "worker.stopping" not in log()
    assert statuses(dsn) == ["succeeded"]


def test_a_task_that_waits_for_signals_of_its_own_takes_none_away(
    begin: Begin, folder: Path, until: Until, log: Callable[[], str]
) -> None:
    """The event loop replaces the interpreter's wakeup file descriptor."""
    worker = begin("take_over")
    worker.send_signal(signal.SIGTERM)
    until(lambda: "worker.stopping: SIGTERM" in log())
    assert worker.poll() is None
    worker.send_signal(signal.SIGUSR1)
    assert worker.wait(60) == 0
    assert (folder / "signalled").exists()
    assert "worker.aborting" not in log()


PROGRAM = """
import signal, sys, threading
from more import app

def state():
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    fd = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(fd)
    return handlers, fd, [thread.name for thread in threading.enumerate() if "signals" in thread.name]

before = state()
print(app.run_worker(), state() == before, flush=True)
sys.stdin.readline()
"""


def test_a_program_that_runs_a_worker_gets_its_signals_back_after_the_second_too(
    dsn: str, folder: Path, until: Until, send: Send
) -> None:
    """The program goes on, and nothing ends it some seconds later."""
    (folder / "more.py").write_text(MORE_TASKS)
    (folder / "patient").touch()
    with App(dsn).open() as app:
        app.configure_task("tasks.stay").defer()
    (folder / "program.py").write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, "program.py"],
        cwd=folder,
        env=clean({"INTURN_DSN": dsn}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        until((folder / "staying").exists)
        for _ in range(2):
            send(program, signal.SIGTERM)
        assert program.stdout is not None
        assert program.stdout.readline() == "SIGTERM True\n"
        assert program.communicate("\n", 60)[0] == ""
        assert program.returncode == 0
