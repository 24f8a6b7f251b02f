"""`queue jobs` and `queue lanes` about many jobs or lanes, and docs/bulk.md."""

import json
import os
import pty
import re
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest

from inturn import App
from tests.cli.calling import SCRIPT, clean
from tests.cli.conftest import Answer, Run
from tests.cli.engine import Engine

PAGE = (Path(__file__).parents[2] / "docs" / "bulk.md").read_text("utf-8")
TIMEOUT = "Traceback (most recent call last):\n  File …\nTimeout: the supplier is slow"

CHANGES = ("retry", "cancel", "delete", "move", "retry-head", "pause", "resume", "skip-head")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)


def fail(engine: Engine, lock: str | None, on_failure: str = "continue") -> int:
    id = engine.defer("mail.send", lock, on_failure=on_failure)
    claimed = engine.claim()
    engine.fail(claimed, None, TIMEOUT)
    assert claimed[0] == id
    return id


@pytest.fixture
def failed(engine: Engine) -> Engine:
    """Three jobs have failed in two lanes, one of which they halt, and a job waits in each."""
    fail(engine, "customer:1", "halt")
    fail(engine, "customer:2")
    fail(engine, "customer:2")
    engine.defer("mail.send", "customer:1")
    engine.defer("mail.send", "customer:2")
    return engine


def test_a_dry_run_says_what_becomes_of_the_order_and_changes_nothing(
    failed: Engine, queue: Run
) -> None:
    before = failed.statuses()
    told = queue("jobs", "retry", "--task", "mail.send", "--error", "Timeout", "--dry-run")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.splitlines() == [
        "Would have retried 3 jobs.",
        "2 lanes run these jobs at their old places: in the order in which they were deferred "
        "before the 2 jobs that wait in them, unless those are older.",
        "1 lane is halted by one of them, and will continue.",
        "  1 mail.send of customer:1, failed: Timeout: the supplier is slow",
        "  2 mail.send of customer:2, failed: Timeout: the supplier is slow",
        "  3 mail.send of customer:2, failed: Timeout: the supplier is slow",
    ]
    cancelled = queue("jobs", "cancel", "--lock-prefix", "customer:", "--dry-run", "--json")
    told_as_json = json.loads(cancelled.stdout)
    assert (told_as_json["preview"]["count"], told_as_json["preview"]["sample"]) == (2, ["4", "5"])
    assert failed.statuses() == before


def test_a_bulk_asks_names_jobs_and_lanes_and_means_no_unless_told_otherwise(
    failed: Engine, queue: Run, answer: Answer
) -> None:
    words = ["jobs", "retry", "--status", "failed"]
    refused = answer("", *words)
    assert refused.returncode == 6
    assert "Retry 3 jobs in 2 lanes? [y/N]" in refused.stderr
    alone = queue(*words)
    assert alone.returncode == 2
    assert "queue jobs retry" in alone.stderr
    assert "--status failed --before 2" in alone.stderr
    assert set(failed.statuses().values()) == {"failed", "todo", "blocked"}
    done = answer("y", *words)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "retried 3 jobs")
    assert "failed" not in failed.statuses().values()


@pytest.mark.parametrize(
    "wrong",
    [
        ["jobs", "retry"],
        ["jobs", "delete", "--dry-run"],
        ["jobs", "cancel", "1", "--queue", "mail"],
        ["jobs", "cancel", "1", "--all"],
        ["jobs", "retry", "--older-than", "1h", "--before", "2026-01-01T00:00:00Z"],
        ["lanes", "resume"],
        ["lanes", "pause", "a", "--all"],
    ],
    ids=" ".join,
)
def test_a_bulk_must_say_what_it_is_about(queue: Run, wrong: list[str]) -> None:
    ended = queue(*wrong, "--yes")
    assert ended.returncode == 2, ended.stdout


def test_what_is_left_is_counted_by_reason(failed: Engine, queue: Run, dsn: str) -> None:
    with psycopg.connect(dsn, options="-c search_path=inturn") as user:
        user.execute("SELECT pause_lane('customer:2')")
        ended = queue("jobs", "cancel", "--all", "--yes", "--json")
        assert ended.returncode == 5
        assert json.loads(ended.stdout)["refused"] == {"busy": 1}
        assert "1 job left: it was in use" in ended.stderr
        all_left = queue("jobs", "cancel", "--lock", "customer:2", "--yes")
        assert all_left.returncode == 4
        user.rollback()
    assert queue("jobs", "cancel", "--all", "--yes").stdout == "cancelled 1 job\n"


def test_a_flood_moves_behind_the_other_jobs(engine: Engine, queue: Run, answer: Answer) -> None:
    flood = [engine.defer("ops.nap") for _ in range(3)]
    mine = engine.defer("mail.send")
    words = ["jobs", "move", "--task", "ops.nap", "--priority", "-10"]
    assert queue(*words, "--dry-run").stdout.splitlines()[:2] == [
        "Would have moved 3 jobs.",
        "They get priority -10: jobs of higher priority go first.",
    ]
    assert engine.query("SELECT DISTINCT priority FROM jobs") == [(0,)]
    asked = answer("y", *words)
    assert "Move 3 jobs? [y/N]" in asked.stderr
    assert asked.stdout.splitlines()[-1] == "moved 3 jobs"
    assert engine.claim()[0] == mine
    assert "Nothing was changed." in queue(*words, "--yes").stderr, "they have moved"
    zero = queue("jobs", "move", "--queue", "default", "--priority", "0", "--to-queue", "slow")
    assert "--priority 0 --to-queue slow --yes" in zero.stderr
    again = queue("jobs", "move", *map(str, [*flood, mine]), "--to-queue", "slow", "--json")
    assert again.returncode == 5
    assert [job["now"] for job in json.loads(again.stdout)] == ["moved"] * 3
    assert f"Job {mine} was not moved: a worker has it." in again.stderr
    assert engine.query("SELECT DISTINCT queue FROM jobs WHERE task = 'ops.nap'") == [("slow",)]
    assert queue("jobs", "move", "99999", "--priority", "1").returncode == 3


def test_the_command_of_a_victim_moves_the_flood(engine: Engine, queue: Run) -> None:
    worker = engine.sign_on(["ops\u200bnap", "mail.send"])
    engine.query("SELECT defer('ops\u200bnap') FROM generate_series(1, 1001)")
    engine.query("SELECT id FROM claim(%s, '{default}', 1)", worker)
    victim = engine.defer("mail.send")
    explained = queue("jobs", "explain", str(victim)).stdout
    assert "1,000 jobs go first in queue default, all of task ops\\u200bnap" in explained
    command = re.search(r"unblock: if it may wait: queue (.*)$", explained, re.M)
    assert command
    words = subprocess.run(  # the shell unquotes it
        ["/bin/bash", "-c", f"printf '%s\\n' {command[1]}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert queue(*words, "--yes").stdout == "moved 1,000 jobs\n"
    assert "go first" not in queue("jobs", "explain", str(victim)).stdout


@pytest.mark.parametrize(
    "wrong",
    [
        ["1"],
        ["--all"],
        ["--priority", "1"],
        ["1", "--priority", "x"],
        ["1", "--to-queue", "a,b"],
        ["1", "--priority", "1", "--queue", "default"],
    ],
    ids=" ".join,
)
def test_a_move_must_say_what_goes_where(queue: Run, wrong: list[str]) -> None:
    assert queue("jobs", "move", *wrong, "--yes").returncode == 2


def test_lists_have_the_same_filters(failed: Engine, queue: Run) -> None:
    def ids(*words: str) -> list[str]:
        return [job["id"] for job in json.loads(queue("jobs", "list", "--json", *words).stdout)]

    assert ids("--error", "supplier") == ["3", "2", "1"]
    assert ids("--error", "SUPPLIER") == []
    assert ids("--lock-prefix", "customer:1") == ["4", "1"]
    assert ids("--older-than", "1h") == []
    assert ids("--before", "2100-01-01T00:00:00Z", "--status", "failed") == ["3", "2", "1"]
    counted = queue("jobs", "count", "--lock-prefix", "customer:", "--json")
    assert json.loads(counted.stdout) == {"count": 5, "or_more": False}


def test_a_bulk_that_an_error_ends_says_how_to_go_on(engine: Engine, queue: Run) -> None:
    fail(engine, "a")
    with psycopg.connect(engine.dsn) as user:
        user.execute("LOCK TABLE inturn.finished_jobs IN SHARE MODE")
        ended = queue("jobs", "retry", "--all", "--yes", PGOPTIONS="-c lock_timeout=50ms")
    assert ended.returncode == 69
    assert "0 jobs of 1 job done. To do the rest: queue jobs retry" in ended.stderr


@pytest.mark.landing
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_bulk_says_how_to_go_on(
    number: signal.Signals, engine: Engine, dsn: str, folder: Path
) -> None:
    """An open transaction stops the step that a signal then ends."""
    for lock in ("a", "b"):
        fail(engine, lock)
    words = ["jobs", "retry", "--task", "mail.send", "--yes", "--dsn", dsn]
    with psycopg.connect(dsn, options="-c search_path=inturn") as user:
        user.execute("LOCK TABLE finished_jobs IN SHARE MODE")
        bulk = subprocess.Popen(
            [SCRIPT, *words], cwd=folder, env=clean({}), stderr=subprocess.PIPE, text=True
        )
        while engine.query(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND query LIKE %s",
            "%change_jobs%",
        ) == [(0,)]:
            assert bulk.poll() is None
        bulk.send_signal(number)
        _, told = bulk.communicate(timeout=30)
    assert bulk.returncode == 128 + number
    assert "Interrupted: 0 jobs of 2 jobs done. To do the rest: queue jobs retry" in told
    command = re.search(r"To do the rest: queue (.*)$", told, re.M)
    assert command
    rest = subprocess.run(
        [SCRIPT, *shlex.split(command[1])],
        cwd=folder, env=clean({}), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (rest.returncode, rest.stdout) == (0, "retried 2 jobs\n"), rest.stderr


@pytest.mark.landing
def test_a_bar_shows_the_progress_on_a_terminal_only(
    failed: Engine, queue: Run, dsn: str, folder: Path
) -> None:
    quiet = queue("jobs", "cancel", "--all", "--yes")
    assert (quiet.stdout, quiet.stderr) == ("cancelled 2 jobs\n", "")
    main, other = pty.openpty()
    words = ["jobs", "retry", "--status", "cancelled", "--yes", "--dsn", dsn]
    environment = clean({"TERM": "xterm", "COLUMNS": "80"})
    subprocess.run(
        [SCRIPT, *words], cwd=folder, env=environment, stderr=other, check=True, timeout=60
    )
    os.close(other)
    assert "2/2" in os.read(main, 100_000).decode()
    os.close(main)


def test_the_commands_of_the_page_run(failed: Engine, queue: Run) -> None:
    commands = [line for block in blocks("sh") for line in block.splitlines()]
    assert commands
    for command in commands:
        words = shlex.split(command)[1:]
        ended = queue(
            *words, *(["--yes"] if words[0] in ("jobs", "lanes") and words[1] in CHANGES else [])
        )
        assert ended.returncode == 0, f"{command}: {ended.stderr}"


def test_the_examples_of_the_page_run(app: App, failed: Engine) -> None:
    names: dict[str, Any] = {"app": app}
    for example in blocks("python"):
        exec(compile(example, "bulk.md", "exec"), names)  # noqa: S102 (our own page)
    assert names["done"].changed == 3
    for statement in blocks("sql"):
        assert failed.query(statement) == [(0, 0, 0)], "all of them were retried"


def test_the_page_names_every_reason() -> None:
    from inturn.operations.changes.bulk_effect import REASONS

    assert set(re.findall(r"^\| `([a-z]+)` \|", PAGE, re.M)) == set(REASONS)


def test_a_paused_queue_is_named_wherever_somebody_looks(engine: Engine, queue: Run) -> None:
    job = engine.defer("mail.send")
    engine.sign_on(["mail.send"])
    told = queue("queues", "pause", "default", "--reason", "no paper", "--by", "ann", "--for", "1h")
    assert (told.returncode, told.stdout[:26]) == (0, "paused queue default until"), told.stderr
    longer = queue("queues", "pause", "default", "--by", "eve", "--json")
    pause = json.loads(longer.stdout)["pause"]
    assert (pause["by"], pause["reason"], pause["until"]) == ("eve", "no paper", None)
    (listed,) = json.loads(queue("queues", "list", "--json").stdout)
    assert (listed["runnable"], listed["blocked"], listed["oldest_id"]) == (0, 1, None)
    assert "by eve: no paper" in queue("queues", "list").stdout
    assert "paused: queue default (" in queue("doctor").stdout
    explained = queue("jobs", "explain", str(job)).stdout
    assert "queue default has been paused by eve" in explained
    unblock = re.search(r"unblock: queue (.*)$", explained, re.M)
    assert unblock
    assert queue(*shlex.split(unblock[1])).stdout == "resumed queue default\n"
    assert queue("queues", "resume", "default").returncode == 4
    for wrong in ([], ["default", "--all"]):
        assert queue("queues", "pause", *wrong).returncode == 2
    assert queue("queues", "pause", "--all").stdout == "paused all queues until you resume it\n"
    assert "all queues have been paused" in queue("jobs", "explain", str(job)).stdout
    assert queue("queues", "resume", "--all").returncode == 0
    assert engine.claim()[0] == job


def test_lanes_are_retried_by_their_error_and_the_question_says_so(
    engine: Engine, queue: Run, answer: Answer
) -> None:
    for lock, error in (("a", "CardTimeout"), ("b", "CardTimeout"), ("c", "KeyError")):
        engine.defer(lock=lock, on_failure="halt")
        engine.fail(engine.claim(), None, error)
    words = ["lanes", "retry-head", "--state", "halted", "--error", "Timeout"]
    dry = queue(*words, "--dry-run").stdout.splitlines()
    assert dry[:2] == [
        "Would have retried the head of 2 lanes.",
        "Only lanes whose job failed with 'Timeout'.",
    ]
    asked = answer("n", *words).stderr
    assert "Retry the head of 2 lanes whose job failed with 'Timeout'" in asked
    refused = queue(*words)
    assert "queue lanes retry-head --state halted --error Timeout --yes" in refused.stderr
    assert queue(*words, "--yes").stdout == "retried the head of 2 lanes\n"
    assert engine.query("SELECT lock FROM lanes WHERE stopped = 'halted'") == [("c",)]
