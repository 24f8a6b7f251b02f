"""A pause of a queue, or of all queues, is named wherever somebody asks why nothing starts."""

import json
import re
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


def test_a_job_behind_a_job_in_a_paused_queue_learns_of_the_pause(
    engine: Engine, queue: Run, folder: Path
) -> None:
    engine.sign_on()
    engine.defer(lock="a", queue="mail")
    behind = engine.defer(lock="a")
    engine.query("SELECT pause_queue('mail', 'no paper', NULL, 'eve')")
    assert reasons(queue, behind) == ["lane head waits", "queue paused", "queue unserved"]
    said = queue("jobs", "explain", str(behind)).stdout
    assert "job 1 (t) goes first and its queue is paused" in said
    assert "queue mail has been paused by eve" in said
    command = advice_in(said)[0]
    assert command == "queue queues resume mail"
    assert type_in(command, folder, INTURN_DSN=engine.dsn).returncode == 0
    assert reasons(queue, behind) == ["lane head waits", "queue unserved"]


def test_a_pause_of_all_queues_is_named_once(engine: Engine) -> None:
    engine.sign_on()
    engine.defer(lock="a", queue="mail")
    behind = engine.defer(lock="a")
    engine.query("SELECT pause_queue(NULL)")
    engine.query("SELECT pause_queue('mail')")
    found = engine.query("SELECT reason, unblock FROM explain(%s)", behind)
    assert [unblock for reason, unblock in found if reason == "queue paused"] == [
        "queue queues resume --all",
        "queue queues resume mail",  # that of the head
    ]


@pytest.mark.parametrize("runs", [False, True], ids=["lane is free", "another job runs there"])
def test_a_lane_whose_next_job_is_in_a_paused_queue_says_so(
    runs: bool, engine: Engine, queue: Run, folder: Path
) -> None:
    engine.sign_on()
    if runs:
        engine.defer(lock="a")
        engine.claim()
    engine.defer(lock="a", queue="mail")
    engine.defer(lock="a")
    goes_on = "the next job starts when this one ends"
    assert (goes_on in queue("lanes", "explain", "a").stdout) == runs
    engine.query("SELECT pause_queue('mail', 'no paper', NULL, 'eve')")
    said = queue("lanes", "explain", "a").stdout
    assert goes_on not in said
    assert "└─ queue mail has been paused by eve" in said
    command = advice_in(said)[0]
    assert type_in(command, folder, INTURN_DSN=engine.dsn).returncode == 0
    assert "paused" not in queue("lanes", "explain", "a").stdout


@pytest.mark.landing
@pytest.mark.parametrize("name", ["mail", "-x", None])
def test_each_place_that_names_a_pause_prints_the_command_that_ends_it(
    name: str | None, engine: Engine, queue: Run, folder: Path
) -> None:
    engine.sign_on()
    job = engine.defer(queue=name or "default")

    def pause() -> None:
        engine.query("SELECT pause_queue(%s, 'no paper', NULL, 'eve')", name)

    def find(printed: str) -> str:
        (line,) = [line for line in printed.splitlines() if "queue queues resume" in line]
        assert "by eve" in printed
        assert "no paper" in printed
        return "queue queues resume" + line.partition("queue queues resume")[2]

    for words in (["top"], ["jobs", "explain", str(job)], ["doctor"]):
        pause()
        assert findings(queue)[1]["paused"]["state"] == "warn"
        assert type_in(find(queue(*words).stdout), folder, INTURN_DSN=engine.dsn).returncode == 0
        assert findings(queue)[1]["paused"]["state"] == "ok"
        assert "queues resume" not in queue(*words).stdout


def test_the_list_of_queues_names_a_pause_even_if_no_row_does(engine: Engine, queue: Run) -> None:
    engine.query("SELECT pause_queue(NULL)")
    engine.query("SELECT pause_queue('mail')")
    said = queue("queues", "list").stderr
    assert "queues resume --all" in said
    assert "queues resume mail" in said
    engine.sign_on()  # the queue default, which has a row by now
    listed = queue("queues", "list")
    (head, row) = listed.stdout.splitlines()
    assert "PAUSED" in head
    assert row.split()[0] == "default"
    assert re.search(r"\bby \w+$", row.rstrip()), "all queues are paused"
    assert "queues resume --all" not in listed.stderr
    assert "queues resume mail" in listed.stderr


def test_a_pause_of_a_queue_that_nobody_knows_asks_whether_its_name_is_right(
    engine: Engine, queue: Run
) -> None:
    remark = "This queue has no jobs, and no worker names it."
    assert remark in queue("queues", "pause", "mial").stderr
    engine.defer(queue="mail")
    assert queue("queues", "pause", "mail").stderr == ""
    assert queue("queues", "pause", "--all").stderr == ""


@pytest.mark.parametrize("words", [["queues"], ["tasks"]], ids=" ".join)
def test_a_pause_that_has_ended_at_once_is_said_to_have_ended(words: list[str], queue: Run) -> None:
    ended = queue(*words, "pause", "mail", "--for", "0.000001s")
    assert ended.returncode == 4
    assert ended.stderr.endswith("mail has already ended.\n")


def test_the_times_of_a_reason_are_exported_in_utc(engine: Engine, queue: Run) -> None:
    engine.at("2026-01-31 14:00:00+00")
    engine.query("SELECT pause_queue('mail', NULL, '2026-01-31 15:00:00+00', 'eve')")
    job = engine.defer(lock="a", queue="mail")
    found = json.loads(queue("lanes", "explain", "a", "--json").stdout)["reasons"]
    assert "until 2026-01-31T15:00:00Z" in found[0]["detail"]
    assert found == json.loads(queue("jobs", "explain", str(job), "--json").stdout)
