"""Defect H: a worker with a dead or blocked event loop looked alive.

Its lane stood still for ever, and no check found anything wrong.
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from inturn import App
from tests.cli.calling import invoke
from tests.conftest import Query
from tests.field.conftest import Start
from tests.waiting import wait_until

pytestmark = pytest.mark.landing

TaskLog = Callable[[], list[str]]
FAST = ("--heartbeat", "0.2", "--stalled-after", "1")


def task(name: str) -> str:
    return f"tests.field.field_app.{name}"


SCRIPT = "from tests.field.field_app import app; app.run_worker(concurrency=2, update_heartbeat_interval=0.2)"
EMBEDDED = "from tests.field.field_app import app; app.run_worker(wait=False, install_signal_handlers=False)"


def test_a_dead_loop_ends_its_process_though_a_thread_runs_on_and_its_job_is_charged(
    run_python: Start, app: App, query: Query, task_log: TaskLog
) -> None:
    process = run_python("-c", SCRIPT)
    app.configure_task(task("stay")).defer(seconds=60)
    wait_until(lambda: "stay" in task_log())
    app.configure_task(task("close_files"), lock="lane").defer()
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "loop.dead" in stderr
    errors = query("SELECT errors -> 0 FROM jobs")
    assert [error["lost"] is error["crashed"] is True for (error,) in errors] == [True, True]


def test_a_dead_loop_ends_its_process_though_its_last_words_fail(
    run_python: Start, app: App, query: Query, task_log: TaskLog
) -> None:
    process = run_python("-c", SCRIPT)
    app.configure_task(task("stay")).defer(seconds=60)
    wait_until(lambda: "stay" in task_log())
    app.configure_task(task("break_the_log")).defer(name="inturn.worker.worker")
    wait_until(lambda: query("SELECT FROM finished_jobs"))
    app.configure_task(task("close_files"), lock="lane").defer()
    process.communicate(timeout=120)
    assert process.returncode == 1
    assert query("SELECT count(*) FROM jobs WHERE (errors -> 0 -> 'crashed')::boolean") == [(2,)]


@pytest.mark.parametrize("awaits", [False, True], ids=["returns", "awaits"])
def test_a_child_that_a_task_has_forked_is_no_worker(
    worker: Start, app: App, query: Query, task_log: TaskLog, awaits: bool
) -> None:
    app.configure_task(task("fork"), lock="lane").defer(awaits=awaits)
    app.configure_task(task("say"), lock="lane").defer(word="hello")
    _, stderr = worker("--one-shot").communicate(timeout=120)  # until no child has its stderr
    assert stderr.count("worker.stopped") == 1, stderr
    assert set(task_log()) == ({"parent", "hello"} if awaits else {"parent", "child", "hello"})
    assert query("SELECT DISTINCT status::text, attempts FROM finished_jobs") == [("succeeded", 1)]


@pytest.mark.parametrize("awaits", [False, True], ids=["returns", "awaits"])
def test_a_forked_child_leaves_the_connections_of_an_embedded_worker_alone(
    run_python: Start, app: App, query: Query, awaits: bool
) -> None:
    """Such a worker catches no signals. Their hook would end the child in the next turn."""
    app.configure_task(task("fork")).defer(awaits=awaits)
    app.configure_task(task("say")).defer(word="hello")
    process = run_python("-c", EMBEDDED)
    _, stderr = process.communicate(timeout=120)  # until no child has its stderr
    assert stderr == ""
    assert query("SELECT DISTINCT status::text, attempts FROM finished_jobs") == [("succeeded", 1)]


def test_a_child_that_is_forked_in_a_thread_ends(
    worker: Start, app: App, query: Query, task_log: TaskLog
) -> None:
    app.configure_task(task("fork_in_thread")).defer()
    worker("--one-shot").communicate(timeout=120)
    assert task_log() == ["forked", "forked"]
    assert query("SELECT status::text, attempts FROM finished_jobs") == [("succeeded", 1)]


def test_a_job_that_ends_one_loop_after_the_other_fails_in_the_end(
    worker: Start, app: App, query: Query
) -> None:
    app.configure_task(task("close_files"), lock="lane").defer()
    app.configure_task(task("say"), lock="lane").defer(word="hello")
    statuses = []
    for _ in range(4):  # the last one finds that it was lost once too often
        process = worker("--one-shot", "--max-lost-attempts", "2", *FAST)
        process.communicate(timeout=120)
        statuses.append(process.returncode)
    assert statuses == [1, 1, 1, 0]
    assert query("SELECT task, status::text, attempts FROM finished_jobs ORDER BY id") == [
        (task("close_files"), "failed", 3),
        (task("say"), "succeeded", 1),
    ]


def test_a_blocked_loop_is_reported_in_the_worker_s_row_and_once_in_the_log_with_the_stack(
    worker: Start, app: App, query: Query, task_log: TaskLog, tmp_path: Path
) -> None:
    app.configure_task(task("block_until_released")).defer()
    process = worker(*FAST)
    wait_until(lambda: "block" in task_log())
    wait_until(
        lambda: query("SELECT FROM workers WHERE heartbeat_at - loop_turned_at > interval '1.5 s'")
    )
    (tmp_path / "released").touch()
    wait_until(lambda: query("SELECT FROM finished_jobs"))
    wait_until(
        lambda: query("SELECT FROM workers WHERE heartbeat_at - loop_turned_at < interval '1 s'")
    )
    process.terminate()
    _, stderr = process.communicate(timeout=120)
    assert stderr.count("loop.blocked") == 1
    assert ", in block_until_released\n" in stderr


def test_every_command_reports_a_blocked_loop(app: App, dsn: str, query: Query) -> None:
    ((worker,),) = query("SELECT register_worker('stuck', 'here', 7, NULL, 1)")
    running, waiting = app.configure_task("a", lock="lane").defer(), app.configure_task("b").defer()
    query("SELECT FROM claim(%s, NULL, 1)", worker)
    query("SELECT heartbeat(%s, %s)", worker, timedelta(seconds=30))

    def answer(*arguments: str) -> str:
        return invoke(*arguments, "--dsn", dsn).output

    assert "blocked" in answer("workers", "list")
    assert "the event loop of stuck is blocked" in answer("doctor")
    assert "holder blocked" in answer("jobs", "explain", str(running))
    assert "workers blocked" in answer("jobs", "explain", str(waiting))


def test_a_timeout_reaches_a_thread_while_the_loop_is_blocked(
    worker: Start, app: App, query: Query, task_log: TaskLog, tmp_path: Path
) -> None:
    app.configure_task(task("obey"), timeout=0.5).defer()
    app.configure_task(task("block_until_released")).defer(after="obey")
    process = worker("-c", "2", *FAST)
    wait_until(lambda: "block" in task_log())
    wait_until(lambda: "obeyed" in task_log())
    assert query("SELECT count(*) FROM jobs WHERE status = 'doing'") == [(2,)], (
        "the loop has turned meanwhile"
    )
    (tmp_path / "released").touch()
    wait_until(lambda: query("SELECT FROM finished_jobs HAVING count(*) = 2"))
    assert query("SELECT status::text FROM finished_jobs WHERE task = %s", task("obey")) == [
        ("failed",)
    ]
    process.terminate()


def test_a_task_that_cannot_be_stopped_is_reported(worker: Start, app: App) -> None:
    app.configure_task(task("defy"), timeout=0.5).defer(seconds=3)
    _, stderr = worker("--one-shot", *FAST).communicate(timeout=120)
    assert stderr.count("job.overdue") == 1
    assert "a thread cannot be stopped" in stderr


@pytest.mark.parametrize("seconds", [60.0])
def test_a_worker_that_fails_ends_though_a_thread_runs_on_and_charges_what_it_had_in_hand(
    worker: Start, app: App, query: Query, task_log: TaskLog, seconds: float
) -> None:
    stay = app.configure_task(task("stay"), lock="lane").defer(seconds=seconds)
    process = worker("-c", "2", *FAST)
    wait_until(lambda: "stay" in task_log())
    app.configure_task(task("break_the_log")).defer()
    _, stderr = process.communicate(timeout=seconds / 2)
    assert process.returncode == 1
    assert "ZeroDivisionError: a filter of the log is broken" in stderr.splitlines()[-1]
    ((job, error),) = query("SELECT id, errors -> 0 FROM jobs")
    assert job == stay
    assert error["lost"] is error["crashed"] is True
    assert "a filter of the log is broken" in error["error"]
