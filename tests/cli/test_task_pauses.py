"""A pause of a task is named wherever somebody asks why its jobs do not start."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.calling import type_in
from tests.cli.conftest import Run
from tests.cli.engine import Engine
from tests.cli.test_doctor import findings
from tests.cli.test_remedies import advice_in


def reasons(queue: Run, job: int) -> list[str]:
    found: list[dict[str, Any]] = json.loads(queue("jobs", "explain", str(job), "--json").stdout)
    return [each["reason"] for each in found]


def status(queue: Run, job: int) -> str:
    return str(json.loads(queue("jobs", "show", str(job), "--json").stdout)["status"])


def test_a_task_is_paused_and_resumed_from_the_command_line(engine: Engine, queue: Run) -> None:
    worker = engine.sign_on()
    job = engine.defer(task="mail")
    paused = queue("tasks", "pause", "mail", "--for", "2h", "--reason", "no paper", "--by", "eve")
    assert paused.returncode == 0, paused.stderr
    assert "paused task mail until" in paused.stdout
    for _ in range(2):  # before a claim has met the job, and after
        assert status(queue, job) == "blocked"
        assert reasons(queue, job) == ["task paused"]
        listed = json.loads(queue("queues", "list", "--json").stdout)
        assert [(each["runnable"], each["blocked"]) for each in listed] == [(0, 1)]
        assert engine.query("SELECT count(*) FROM claim(%s, NULL, 10)", worker) == [(0,)]
    resumed = queue("tasks", "resume", "mail")
    assert "resumed task mail" in resumed.stdout
    listed = json.loads(queue("queues", "list", "--json").stdout)
    assert [(each["runnable"], each["blocked"]) for each in listed] == [(1, 0)]
    assert engine.query("SELECT id FROM claim(%s, NULL, 10)", worker) == [(job,)]
    again = queue("tasks", "resume", "mail")
    assert again.returncode != 0
    assert "is not paused. To see pauses: queue tasks list" in again.stderr


def test_a_job_behind_one_of_a_paused_task_learns_of_the_pause(
    engine: Engine, queue: Run, folder: Path
) -> None:
    engine.sign_on()
    engine.defer(lock="a", task="mail")
    behind = engine.defer(lock="a")
    engine.query("SELECT pause_task('mail', 'no paper', NULL, 'eve')")
    assert reasons(queue, behind) == ["lane head waits", "task paused"]
    said = queue("jobs", "explain", str(behind)).stdout
    assert "(mail) goes first and its task is paused" in said
    assert "task mail has been paused by eve" in said
    command = advice_in(said)[0]
    assert command == "queue tasks resume mail"
    assert type_in(command, folder, INTURN_DSN=engine.dsn).returncode == 0
    assert "task paused" not in reasons(queue, behind)


@pytest.mark.parametrize("name", ["mail", "-x", "it's"])
def test_each_place_that_names_a_pause_prints_the_command_that_ends_it(
    name: str, engine: Engine, queue: Run, folder: Path
) -> None:
    engine.sign_on()
    job = engine.defer(task=name)

    def pause() -> None:
        engine.query("SELECT pause_task(%s, 'no paper', NULL, 'eve')", name)

    def find(words: list[str]) -> str:
        done = queue(*words)
        printed = done.stdout + done.stderr
        (line,) = [line for line in printed.splitlines() if "queue tasks resume" in line]
        assert "by eve" in printed
        assert "no paper" in printed
        return "queue tasks resume" + line.partition("queue tasks resume")[2]

    for words in (["top"], ["jobs", "explain", str(job)], ["doctor"], ["tasks", "list"]):
        pause()
        assert findings(queue)[1]["paused"]["state"] == "warn"
        assert type_in(find(words), folder, INTURN_DSN=engine.dsn).returncode == 0
        assert findings(queue)[1]["paused"]["state"] == "ok"
        assert "tasks resume" not in queue(*words).stdout


def test_jobs_that_are_aside_are_listed_and_counted_as_blocked(engine: Engine, queue: Run) -> None:
    worker = engine.sign_on()
    jobs = [engine.defer(task="mail"), engine.defer(task="mail", lock="a")]
    engine.query("SELECT pause_task('mail')")
    engine.query("SELECT count(*) FROM claim(%s, NULL, 10)", worker)
    assert engine.query("SELECT DISTINCT status::text FROM jobs") == [("paused",)]
    listed = json.loads(queue("jobs", "list", "--status", "blocked", "--json").stdout)
    assert sorted(int(each["id"]) for each in listed) == jobs
    counted = engine.query("SELECT blocked FROM count_jobs_by('task', 100, 100)")
    assert counted == [(2,)]
    assert queue("jobs", "cancel", "--task", "mail", "--all", "--yes").returncode == 0
    assert engine.query("SELECT count(*) FROM jobs") == [(0,)]
