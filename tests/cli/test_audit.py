"""Each command that changes jobs or batches names the person, and `queue jobs show` shows it."""

import json

import psycopg
import pytest

from tests.cli.conftest import Run
from tests.cli.engine import Engine

COMMANDS = {
    "cancel-job": "jobs cancel --yes 1",
    "delete-job": "jobs delete --yes 1",
    "retry-job": "jobs retry 2",
    "retry-jobs": "jobs retry 2 3",
    "cancel-jobs": "jobs cancel --yes --task t",
    "delete-jobs": "jobs delete --yes --all",
    "abort-job": "jobs cancel --abort --yes 4",
    "abort-jobs": "jobs cancel --abort --yes --status doing",
    "close-batch": "batches close 1",
    "cancel-batch": "batches cancel --yes 1",
}


@pytest.fixture
def busy(engine: Engine) -> Engine:
    """A job that waits, two that are cancelled, one that runs, and a batch."""
    ids = [engine.defer("t", "a"), engine.defer("t", "b"), engine.defer("t", "b")]
    engine.query("SELECT cancel_job(id) FROM unnest(%s::bigint[]) AS id", ids[1:])
    engine.query("SELECT pause_queue('default')")
    running = engine.defer("t", "c")
    engine.query("SELECT resume_queue('default')")
    engine.query("UPDATE jobs SET priority = 9 WHERE id = %s", running)
    assert [*ids, engine.claim()[0]] == [1, 2, 3, running]
    engine.query("SELECT open_batch('import')")
    engine.query("DELETE FROM lane_audit")
    return engine


@pytest.mark.parametrize("operation", COMMANDS)
def test_a_command_names_the_person(busy: Engine, queue: Run, operation: str) -> None:
    words = COMMANDS[operation].split()
    assert queue(*words, USER="ann").returncode == 0
    assert busy.query("SELECT DISTINCT who, operation FROM lane_audit") == [("ann", operation)]


@pytest.mark.parametrize("operation", COMMANDS)
def test_without_a_name_it_is_the_login(busy: Engine, queue: Run, operation: str) -> None:
    assert queue(*COMMANDS[operation].split(), USER="").returncode == 0
    with psycopg.connect(busy.dsn) as connection:
        login = connection.info.user
    assert busy.query("SELECT DISTINCT who FROM lane_audit") == [(login,)]


@pytest.mark.parametrize(
    "operation", ["cancel-job", "delete-job", "retry-jobs", "close-batch", "cancel-batch"]
)
def test_the_option_goes_before_the_shell(busy: Engine, queue: Run, operation: str) -> None:
    assert queue(*COMMANDS[operation].split(), "--by", "ben", USER="ann").returncode == 0
    assert busy.query("SELECT who FROM lane_audit") == [("ben",)]


def test_a_dry_run_is_not_recorded(busy: Engine, queue: Run) -> None:
    assert queue("jobs", "cancel", "--task", "t", "--dry-run").returncode == 0
    assert busy.query("SELECT * FROM lane_audit") == []


def test_a_job_shows_what_people_did_to_it(busy: Engine, queue: Run) -> None:
    assert "changes:" not in queue("jobs", "show", "1").stdout
    queue("jobs", "cancel", "--yes", "1", USER="ann")
    queue("jobs", "retry", "1", USER="ben")
    lines = queue("jobs", "show", "1").stdout.splitlines()
    changes = lines[lines.index("changes:") + 1 :]
    assert [line.partition("  ")[2].partition("  ")[2] for line in changes] == [
        "retry-job by ben, job 1",
        "cancel-job by ann, job 1",
    ]
    shown = json.loads(queue("jobs", "show", "1", "--json").stdout)
    assert [each["who"] for each in shown["audit"]] == ["ben", "ann"]
    lane = queue("lanes", "show", "a").stdout
    assert "cancel-job by ann, job 1" in lane


def test_the_prompt_names_the_person(busy: Engine, queue: Run) -> None:
    assert queue("shell", "-c", "cancel(1); retry(2)", USER="ann").returncode == 0
    assert busy.query("SELECT who, operation, job_id FROM lane_audit ORDER BY id") == [
        ("ann", "cancel-job", 1),
        ("ann", "retry-job", 2),
    ]
