"""What `explain` advises can be typed as it is printed, and never makes matters worse."""

import json
import os
import re
import signal
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from tests.cli.calling import SCRIPT, type_in
from tests.cli.conftest import Run, StartScript, Until
from tests.cli.engine import Engine

LOCK = "-it's $HOME; a\tlane"
LANE = "letters"
REPAIRED = "once the cause is fixed: "
Situation = Callable[[Engine], int]


def finish(engine: Engine, claimed: tuple[int, object], status: str) -> None:
    engine.query(
        "SELECT finish((SELECT id FROM workers), '{default}', 0, ARRAY[%s::bigint], ARRAY[%s::uuid], "
        "ARRAY[%s::job_status], ARRAY[NULL::jsonb])",
        *(claimed[0], claimed[1], status),
    )


def succeeded(engine: Engine) -> int:
    id = engine.defer(lock=LOCK)
    finish(engine, engine.claim(), "succeeded")
    return id


def failed(engine: Engine) -> int:
    id = engine.defer()
    engine.fail(engine.claim(), None, "no")
    return id


def halted_its_lane(engine: Engine) -> int:
    id = engine.defer(lock=LOCK, on_failure="halt")
    engine.defer(lock=LOCK)
    engine.fail(engine.claim(), None, "no")
    return id


def behind_a_failed_job(engine: Engine) -> int:
    return halted_its_lane(engine) + 1


def behind_a_failed_job_that_was_deleted(engine: Engine) -> int:
    id = halted_its_lane(engine)
    engine.query("SELECT delete_job(%s)", id)
    return id + 1


def running(engine: Engine) -> int:
    engine.defer(lock=LOCK)
    return engine.claim()[0]


def behind_a_running_job(engine: Engine) -> int:
    running(engine)
    return engine.defer(lock=LOCK)


def behind_a_job_in_a_paused_lane(engine: Engine) -> int:
    engine.defer("other", lock=LOCK)
    take_the_only_slot(engine)
    return paused(engine)


def paused(engine: Engine) -> int:
    engine.query("SELECT pause_lane(%s)", LOCK)
    return engine.defer(lock=LOCK)


def take_the_only_slot(engine: Engine) -> None:
    """A worker runs something else, which is no reason for what it could not start anyway."""
    engine.defer(priority=1)
    engine.claim()


def scheduled(engine: Engine) -> int:
    return engine.defer(lock=LOCK, delay="1 month")


def waiting_for_a_retry(engine: Engine) -> int:
    id = engine.defer(lock=LOCK)
    engine.fail(engine.claim(), "1 hour", "no")
    take_the_only_slot(engine)
    return id


def behind_a_job_that_waits_for_a_retry(engine: Engine) -> int:
    waiting_for_a_retry(engine)
    return engine.defer(lock=LOCK)


def behind_a_job_that_is_due(engine: Engine) -> int:
    due(engine, LOCK)
    return engine.defer(lock=LOCK)


def due(engine: Engine, lock: str, task: str = "t", queue: str = "default") -> None:
    """Defer a job whose time has come, but that no claim has met since."""
    id = engine.defer(task, lock, queue, delay="1 hour")
    engine.query("UPDATE jobs SET scheduled_at = clock() - interval '1 minute' WHERE id = %s", id)


def behind_a_job_that_no_worker_has_taken_yet(engine: Engine) -> int:
    engine.defer(lock=LOCK)
    return engine.defer(lock=LOCK)


SITUATIONS: dict[Situation, tuple[list[str], list[str]]] = {  # the advice, and the statuses then
    succeeded: ([], ["succeeded"]),
    failed: (["queue jobs retry"], ["todo"]),
    halted_its_lane: (["queue lanes retry-head"], ["todo", "blocked"]),
    behind_a_failed_job: (["queue lanes retry-head"], ["todo", "blocked"]),
    behind_a_failed_job_that_was_deleted: (["queue lanes resume"], ["todo"]),
    running: ([], ["doing"]),
    behind_a_running_job: ([], ["doing", "blocked"]),
    paused: (["queue lanes resume"], ["todo"]),
    behind_a_job_in_a_paused_lane: (["queue lanes resume"], ["todo", "doing", "blocked"]),
    scheduled: ([], ["scheduled"]),
    waiting_for_a_retry: (["queue jobs retry"], ["todo", "doing"]),
    behind_a_job_that_waits_for_a_retry: (
        ["queue lanes retry-head"],
        ["todo", "doing", "blocked"],
    ),
    behind_a_job_that_is_due: ([], ["scheduled", "todo"]),
    behind_a_job_that_no_worker_has_taken_yet: ([], ["todo", "blocked"]),
}


def advice_in(printed: str) -> list[str]:
    return [line.partition("unblock: ")[2] for line in printed.splitlines() if "unblock: " in line]


def deploy(engine: Engine, folder: Path) -> None:
    """Write an app that knows the task `t`."""
    (folder / "own.py").write_text(
        f"from inturn import App\napp = App({engine.dsn!r})\n@app.task(name='t')\ndef send(): ...\n"
    )


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda each: each.__name__)
def test_the_advice_to_a_job_helps_it_and_harms_no_other(
    situation: Situation, engine: Engine, run: Run, folder: Path
) -> None:
    engine.sign_on()
    asked = situation(engine)
    before = engine.statuses()
    commands, after = SITUATIONS[situation]
    printed = run("jobs", "explain", str(asked), "--dsn", engine.dsn)
    assert printed.returncode == 0, printed.stderr
    advised = advice_in(printed.stdout)
    typed = [line.removeprefix(REPAIRED) for line in advised]
    assert [" ".join(line.split()[:3]) for line in typed] == commands
    as_json = json.loads(run("jobs", "explain", str(asked), "--json", "--dsn", engine.dsn).stdout)
    assert [each["unblock"] for each in as_json if each["unblock"]] == advised
    for command in typed:
        assert command.count("--dsn") == 1
        done = type_in(command, folder)
        assert done.returncode == 0, (command, done.stderr)
    assert list(engine.statuses().values()) == after
    if not commands:
        assert engine.statuses() == before


def test_in_sql_the_advice_is_quoted_for_a_shell_too(
    engine: Engine, dsn: str, folder: Path
) -> None:
    engine.sign_on()
    asked = behind_a_failed_job(engine)
    with psycopg.connect(dsn) as connection:
        ((command,),) = connection.execute("SELECT unblock FROM inturn.explain(%s)", [asked])
    assert command.startswith(REPAIRED)
    done = type_in(command.removeprefix(REPAIRED), folder, INTURN_DSN=dsn)
    assert done.returncode == 0
    assert engine.claim()[0] == asked - 1


def no_worker(engine: Engine) -> None:
    """Nobody serves the queue."""


def a_worker_without_a_free_slot(engine: Engine) -> None:
    engine.query("SELECT register_worker('w', 'host', 7, '{mail}', 1)")
    engine.defer(queue="mail")
    engine.query("SELECT FROM claim((SELECT id FROM workers), '{mail}', 1)")


def a_worker_without_a_free_slot_for_the_due_head(engine: Engine) -> None:
    a_worker_without_a_free_slot(engine)
    due(engine, LANE, "own.send", "mail")


def a_worker_that_stands_still(engine: Engine) -> None:
    engine.query("SELECT register_worker('w', 'host', 7, '{mail}', 1)")
    engine.query("SELECT heartbeat(id, '1 minute') FROM workers")


@pytest.mark.landing
@pytest.mark.parametrize(
    "workers",
    [
        no_worker,
        a_worker_without_a_free_slot,
        a_worker_without_a_free_slot_for_the_due_head,
        a_worker_that_stands_still,
    ],
    ids=lambda each: each.__name__,
)
def test_the_worker_that_explain_advises_runs_the_job(
    workers: Callable[[Engine], None],
    engine: Engine,
    run: Run,
    start_script: StartScript,
    folder: Path,
    until: Until,
) -> None:
    workers(engine)
    (folder / "own.py").write_text(
        f"from inturn import App\napp = App({engine.dsn!r})\n@app.task(queue='mail')\ndef send(): ...\n"
    )
    id = int(run("-a", "own:app", "defer", "own.send", "--lock", LANE).stdout)
    printed = run("-a", "own:app", "jobs", "explain", str(id)).stdout
    (command,) = advice_in(printed)
    assert command == "queue -a own:app worker --queues mail"
    path = f"{SCRIPT.parent}{os.pathsep}{os.environ['PATH']}"
    start_script(["bash", "-c", f"exec {command}"], PATH=path)
    until(lambda: engine.statuses()[id] == "succeeded")


@pytest.mark.landing
def test_a_task_that_no_worker_knows_runs_once_its_code_is_deployed(
    engine: Engine, run: Run, start_script: StartScript, folder: Path, until: Until
) -> None:
    engine.sign_on(["other"])
    id = engine.defer()
    printed = run("jobs", "explain", str(id), "--dsn", engine.dsn).stdout
    assert advice_in(printed) == ["deploy the code that declares it"]
    deploy(engine, folder)
    start_script([str(SCRIPT), "-a", "own:app", "worker"])
    until(lambda: engine.statuses()[id] == "succeeded")


def behind_a_failed_job_of_an_unknown_task(engine: Engine) -> int:
    engine.sign_on()
    asked = behind_a_failed_job(engine)
    engine.query("UPDATE workers SET tasks = '{other}'")
    return asked


def behind_a_retry_of_an_unknown_task(engine: Engine) -> int:
    engine.sign_on()
    engine.defer(lock=LOCK)
    engine.fail(engine.claim(), "1 hour", "no")
    engine.query("UPDATE workers SET tasks = '{other}'")
    return engine.defer(lock=LOCK)


@pytest.mark.parametrize(
    "situation",
    [behind_a_failed_job_of_an_unknown_task, behind_a_retry_of_an_unknown_task],
    ids=lambda each: each.__name__,
)
def test_nobody_is_told_to_retry_a_task_that_no_worker_knows_before_it_is_deployed(
    situation: Situation, engine: Engine, run: Run, folder: Path
) -> None:
    asked = situation(engine)
    command = ""
    for job in (asked - 1, asked):
        first, *others = advice_in(run("jobs", "explain", str(job), "--dsn", engine.dsn).stdout)
        condition, _, command = first.partition(", then: ")
        assert condition == "deploy the code of its task"
        assert all(other == "deploy the code that declares it" for other in others)
    engine.query("UPDATE workers SET tasks = '{other,t}'")  # it is deployed
    (advised,) = advice_in(run("jobs", "explain", str(asked), "--dsn", engine.dsn).stdout)
    assert advised.removeprefix(REPAIRED) == command
    assert type_in(command, folder).returncode == 0
    assert engine.claim()[0] == asked - 1


def test_the_jobs_that_fill_a_limit_are_named_and_the_limit_can_be_raised(
    engine: Engine, run: Run, folder: Path
) -> None:
    engine.query("SELECT register_worker('w', 'host', 7, '{default}', 10)")
    engine.query("SELECT set_limit(%s, 5)", "-it's $HOME; a\tkey*")
    for _ in range(8):
        engine.query("SELECT defer('t', limit_key => %s)", "-it's $HOME; a\tkey 1")
    worker = "(SELECT id FROM workers)"
    engine.query(f"SELECT claim({worker}, '{{default}}', 1)")
    engine.query(f"SELECT claim({worker}, '{{default}}', 8)")
    printed = run("jobs", "explain", "6", "--dsn", engine.dsn).stdout
    assert "5 jobs of limit" in printed
    assert all(f"job {job} (t) since" in printed for job in (1, 2, 3))
    assert "job 4 (t)" not in printed
    [advised] = advice_in(printed)
    condition, _, command = advised.partition("more: ")
    assert re.fullmatch(
        "if they hang: queue jobs cancel .*--abort 1 2 3; if you can allow ", condition
    )
    assert type_in(command, folder).returncode == 0
    assert engine.query("SELECT slots FROM limits") == [(10,)]
    engine.query(f"SELECT claim({worker}, '{{default}}', 8)")
    assert list(engine.statuses().values()) == ["doing"] * 8


def test_a_rate_can_be_raised(engine: Engine, run: Run, folder: Path) -> None:
    engine.sign_on()
    engine.query("SELECT set_limit('mail', NULL, 3, '1 minute', 1)")
    for _ in range(2):
        engine.query("SELECT defer('t', limit_key => 'mail')")
        engine.query("SELECT claim((SELECT id FROM workers), '{default}', 1)")
    [advised] = advice_in(run("jobs", "explain", "2", "--dsn", engine.dsn).stdout)
    assert advised.endswith(" --rate 6/min mail")
    assert type_in(advised.partition("more: ")[2], folder).returncode == 0
    assert engine.query("SELECT rate, period, burst FROM limits") == [(6, timedelta(minutes=1), 1)]


def test_the_transaction_that_explain_names_can_be_ended(
    engine: Engine, dsn: str, run: Run, until: Until
) -> None:
    engine.sign_on()
    asked = engine.defer()
    explained = ("jobs", "explain", str(asked), "--dsn", engine.dsn)
    with closing(psycopg.connect(dsn)) as user:
        user.execute("SELECT FROM inturn.jobs FOR UPDATE")
        until(lambda: advice_in(run(*explained).stdout))  # a younger transaction is not named
        (advised,) = advice_in(run(*explained).stdout)
        engine.query(advised.partition("if you cannot: ")[2])
        until(lambda: run(*explained).stdout.startswith("ready"))
    assert engine.claim()[0] == asked


@pytest.mark.landing
def test_a_job_of_a_lost_worker_needs_a_worker_only_if_none_is_live(
    engine: Engine, run: Run, start_script: StartScript, folder: Path, until: Until
) -> None:
    id = running(engine)
    engine.query("DELETE FROM workers")
    deploy(engine, folder)
    asked = ("-a", "own:app", "jobs", "explain", str(id))
    (command,) = advice_in(run(*asked).stdout)
    assert command == "queue -a own:app worker"
    engine.sign_on()
    assert advice_in(run(*asked).stdout) == []
    engine.query("DELETE FROM workers")
    start_script(["bash", "-c", f"exec {SCRIPT.parent}/{command}"])
    until(lambda: engine.statuses()[id] == "succeeded")


@pytest.mark.landing
def test_a_worker_whose_event_loop_stays_blocked_can_be_killed(
    engine: Engine, run: Run, start_script: StartScript, folder: Path, until: Until
) -> None:
    (folder / "own.py").write_text(
        f"import pathlib, time\nfrom inturn import App\napp = App({engine.dsn!r})\n"
        "begun = pathlib.Path('begun')\n"
        "@app.task(name='t', lock='letters')\n"
        "async def stand_still_once():\n"
        "    if not begun.exists():\n"
        "        begun.touch()\n"
        "        time.sleep(3600)\n"
    )
    worker = [str(SCRIPT), "-a", "own:app", "worker", "--heartbeat", "0.2"]
    id = int(run("-a", "own:app", "defer", "t").stdout)
    start_script(worker)
    until(lambda: (folder / "begun").exists())
    start_script(worker)  # it believes that the other one is alive, however busy the machine is
    explained = ("jobs", "explain", str(id), "--dsn", engine.dsn)
    until(lambda: advice_in(run(*explained).stdout))
    (advised,) = advice_in(run(*explained).stdout)
    assert engine.statuses()[id] == "doing"
    pid = advised.partition("kill -9 ")[2].partition(" on ")[0]
    assert "(it runs 1 job; jobs not aborted restart elsewhere)" in advised
    os.kill(int(pid), signal.SIGKILL)
    start_script([*worker, "--stalled-after", "2"])
    until(lambda: engine.query("SELECT id FROM finished_jobs"))
    assert engine.query("SELECT status::text, attempts FROM finished_jobs") == [("succeeded", 2)]
    assert advice_in(run(*explained).stdout) == []


def test_advice_names_the_app_the_database_and_the_schema_that_you_named(
    engine: Engine, run: Run, folder: Path
) -> None:
    missing = run("jobs", "explain", "7", "--dsn", engine.dsn, "--schema", "inturn")
    command = missing.stderr.partition("queue ")[2].strip()
    assert type_in(f"queue {command}", folder).returncode == 0
    secret = f"{engine.dsn} password=hunter"
    told = run("jobs", "explain", "7", "--dsn", secret).stderr
    assert "queue jobs list --dsn …" in told
    assert "hunter" not in told


def test_without_an_app_the_advice_says_where_yours_belongs(engine: Engine, run: Run) -> None:
    asked = engine.defer()
    for environment, worker in (
        ({}, "queue -a package.module:app worker --queues default"),
        ({"INTURN_APP": "tasks:app"}, "queue worker --queues default"),
    ):
        printed = run("jobs", "explain", str(asked), INTURN_DSN=engine.dsn, **environment)
        assert advice_in(printed.stdout) == [worker]
