"""`queue lanes`."""

import json
import os
import pty
import shlex
import subprocess
from pathlib import Path

import psycopg
import pytest

from inturn.cli.output.printing import STYLES
from inturn.formatting import argument
from inturn.states import LANE_STATES
from tests.cli.calling import SCRIPT, clean, type_in
from tests.cli.conftest import Answer, Run
from tests.cli.engine import Engine

TRACEBACK = "Traceback (most recent call last):\n  File …\nCardTimeout"
STRANGE = ["-x", "two words", "[red]:smile:'", "a\x1b[31m\n\u202eb\\"]
CHANGES = ["resume", "skip-head", "retry-head", "cancel-waiting", "explain", "show"]


@pytest.fixture
def retrying(engine: Engine) -> Engine:
    """A lane whose job has failed three times, with six jobs behind it."""
    engine.query("ALTER TABLE jobs ALTER COLUMN id RESTART WITH 9001")
    engine.at("2026-01-31 14:16:54+00")
    for task in ("charge_card", "ship_order", "send_receipt", "a", "b", "c", "d"):
        engine.defer(task, "order:4711")
    for delay in ("0", "0", "4 minutes"):
        engine.at("2026-01-31 14:28:10+00")
        engine.fail(engine.claim(), delay, TRACEBACK)
    engine.at("2026-01-31 14:28:58+00")
    engine.heartbeat()
    return engine


def test_a_retrying_lane_is_explained(retrying: Engine, queue: Run) -> None:
    ended = queue("lanes", "explain", "order:4711")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "order:4711  retrying   6 waiting, oldest 12m04s",
        "  head 9001 charge_card  attempt 3 failed 48s ago: CardTimeout",
        "  └─ next attempt at 14:32:10Z (in 3m12s)          unblock: queue lanes retry-head order:4711",
        "  behind it: 9002 ship_order, 9003 send_receipt … (4 more)",
    ]


def test_a_retry_that_a_pause_holds_is_due_and_nothing_is_promised(
    retrying: Engine, queue: Run
) -> None:
    retrying.query("SELECT pause_task('charge_card')")
    retrying.at("2026-01-31 14:40:00+00")
    retrying.heartbeat()
    assert "its retry is due: CardTimeout" in queue("lanes", "list").stdout
    assert "queue tasks resume charge_card" in queue("lanes", "explain", "order:4711").stdout


def test_every_state_of_a_lane_stands_out_in_a_list() -> None:
    assert set(LANE_STATES) <= STYLES.keys()


def test_a_head_that_cannot_be_retried_is_not_promised_to_be(engine: Engine, queue: Run) -> None:
    engine.defer("t", "a")
    engine.query("SELECT pause_lane('a', 'no paper', NULL, 'ann')")
    assert queue("lanes", "list").stdout.rstrip().endswith("by ann: no paper")
    for more in ("--dry-run", "--yes"):
        ended = queue("lanes", "retry-head", "--state", "paused", "--all", more)
        assert ended.returncode == 2
        assert "queue lanes resume --state paused" in ended.stderr


def test_a_delayed_lane_says_what_it_waits_for(engine: Engine, dsn: str, queue: Run) -> None:
    engine.at("2026-01-31 14:00:00+00")
    for task in ("first", "second", "third"):
        engine.defer(task, "lane")
    claimed = engine.claim()
    with psycopg.connect(dsn, options="-c search_path=inturn") as user:
        user.execute("SELECT FROM jobs WHERE task = 'second' FOR UPDATE")
        engine.fail(claimed, None, "no")
        listed = queue("lanes", "list").stdout
        assert "an open transaction has job 2 locked" in queue("lanes", "explain", "lane").stdout
    assert "delayed" in listed
    assert listed.rstrip().endswith("an open transaction has job 2 locked")
    assert queue("lanes", "explain", "lane").stdout.splitlines() == [
        "lane  delayed   2 waiting, oldest 0s",
        "  head 2 second  not tried yet",
        "  └─ an open transaction had locked its next job; workers check again at 14:00:00Z (in 1s)",
        "  behind it: 3 third",
    ]


def test_the_advice_of_explain_unblocks_the_lane(retrying: Engine, queue: Run) -> None:
    _, _, advice = queue("lanes", "explain", "order:4711").stdout.partition("unblock: ")
    ended = queue(*shlex.split(advice.splitlines()[0])[1:])
    assert (ended.returncode, ended.stdout) == (0, "job 9001 of order:4711 is due now\n")
    assert "the next free worker takes it" in queue("lanes", "explain", "order:4711").stdout
    assert retrying.claim()[0] == 9001


def test_an_explanation_as_json(retrying: Engine, queue: Run) -> None:
    explanation = json.loads(queue("lanes", "explain", "order:4711", "--json").stdout)
    assert explanation["lane"]["head"]["id"] == "9001"
    assert explanation["lane"]["head"]["at"] == "2026-01-31T14:32:10Z"
    assert explanation["lane"]["next"] == [
        {"id": "9002", "task": "ship_order"},
        {"id": "9003", "task": "send_receipt"},
    ]
    assert [reason["reason"] for reason in explanation["reasons"]] == ["retry wait"]


def test_a_held_lane_is_explained(engine: Engine, queue: Run) -> None:
    engine.at("2026-01-31 14:00:00+00")
    first, second = (engine.defer("t", "a") for _ in range(2))
    engine.claim()
    engine.at("2026-01-31 14:00:20+00")
    lines = queue("lanes", "explain", "a").stdout.splitlines()
    assert lines[:2] == [
        "a  held   1 waiting, oldest 20s",
        f"  running {first} t  attempt 1 since 20s on worker w",
    ]
    assert lines[2] == "  └─ the next job starts when this one ends"
    assert lines[3:] == [f"  behind it: {second} t"]
    assert queue("lanes", "list").stdout.rstrip().endswith("attempt 1 is running")
    engine.at("2026-01-31 14:01:00+00")
    assert (
        "worker w has sent no heartbeat since 14:00:00Z (1m00s ago)"
        in queue("lanes", "explain", "a").stdout
    )


def test_a_lane_that_is_held_for_long_is_explained_with_what_ends_its_job(
    engine: Engine, queue: Run
) -> None:
    engine.at("2026-01-31 14:00:00+00")
    engine.sign_on()
    for _ in range(2):
        engine.defer("t", "a")
    engine.claim()
    engine.at("2026-01-31 16:00:00+00")
    engine.heartbeat()
    advice = "unblock: if it hangs: queue jobs cancel --abort 1"
    assert advice in queue("lanes", "explain", "a").stdout
    assert advice in queue("jobs", "explain", "2").stdout
    engine.query("SELECT cancel_job(1, true)")
    advice = (
        "unblock: it was asked to abort; if it does not: kill -9 7 on host (it runs 1 job; "
        "jobs not aborted restart elsewhere)"
    )
    assert advice in queue("lanes", "explain", "a").stdout
    assert advice in queue("jobs", "explain", "2").stdout


def test_a_job_that_ignores_the_request_to_abort_is_explained_with_its_process_at_once(
    engine: Engine, queue: Run
) -> None:
    engine.sign_on()
    engine.defer("t")
    engine.claim()
    assert "unblock" not in queue("jobs", "explain", "1").stdout
    engine.query("SELECT cancel_job(1, true)")
    assert "if it does not: kill -9 7 on host" in queue("jobs", "explain", "1").stdout


def test_a_halted_lane_is_explained_and_goes_on(engine: Engine, queue: Run) -> None:
    engine.at("2026-01-31 14:00:00+00")
    failed = engine.defer("t", "a", on_failure="halt")
    engine.defer("t", "a")
    engine.fail(engine.claim(), None, TRACEBACK)
    lines = queue("lanes", "explain", "a").stdout.splitlines()
    assert lines[:2] == [
        "a  halted   1 waiting, oldest 0s",
        f"  failed {failed} t  attempt 1 failed 0s ago: CardTimeout",
    ]
    assert [line.partition("unblock: ")[2] for line in lines[2:4]] == [
        "once the cause is fixed: queue lanes retry-head a",
        "queue lanes skip-head a",
    ]
    assert lines[4:] == [f"  behind it: {failed + 1} t"]
    ended = queue("lanes", "skip-head", "a", "--yes", "-o", "jsonl")
    assert json.loads(ended.stdout) == {"lock": "a", "job_id": str(failed)}
    assert engine.claim()[0] == failed + 1


def test_a_lane_whose_failed_job_was_deleted_can_only_go_on(engine: Engine, queue: Run) -> None:
    failed = engine.defer("t", "a", on_failure="halt")
    engine.defer("t", "a")
    engine.fail(engine.claim(), None, "no")
    assert queue("jobs", "delete", str(failed), "--yes").returncode == 0
    for change in (["skip-head", "--yes"], ["retry-head"]):
        ended = queue("lanes", *change, "a")
        assert (ended.returncode, "queue lanes explain a" in ended.stderr) == (4, True)
    assert "unblock: queue lanes resume a" in queue("lanes", "explain", "a").stdout
    assert queue("lanes", "resume", "a").returncode == 0
    assert engine.claim()[0] == failed + 1


def test_a_lane_without_a_worker_is_explained(engine: Engine, queue: Run) -> None:
    id = engine.defer("t", "a", queue="mail")
    assert (
        f"  head {id} t  not tried yet\n  └─ no live worker serves queue mail"
        in queue("lanes", "explain", "a").stdout
    )


def test_a_lane_is_paused_explained_and_resumed(engine: Engine, queue: Run) -> None:
    engine.at("2026-01-31 14:00:00+00")
    engine.defer("t", "a")
    paused = queue("lanes", "pause", "a", "--for", "10m", "--reason", "bank is down")
    assert (paused.returncode, paused.stdout) == (0, "paused a until 14:10:00Z (in 10m00s)\n"), (
        paused.stderr
    )
    lines = queue("lanes", "explain", "a").stdout.splitlines()
    assert lines[0] == "a  paused   1 waiting, oldest 0s"
    assert "until 14:10:00Z (in 10m00s): bank is down  unblock: queue lanes resume a" in lines[2]
    assert queue("lanes", "resume", "a").stdout == "resumed a\n"
    assert engine.claim()
    not_stopped = queue("lanes", "resume", "a")
    assert (not_stopped.returncode, "neither paused nor halted" in not_stopped.stderr) == (4, True)


def test_a_pause_can_be_changed_and_keeps_its_reason(engine: Engine, queue: Run) -> None:
    engine.at("2026-01-31 14:00:00+00")
    engine.defer("t", "a")
    queue("lanes", "pause", "a", "--for", "10m", "--reason", "bank is down", "--by", "ann")
    engine.at("2026-01-31 14:05:00+00")
    longer = queue("lanes", "pause", "a", "--for", "1h", "--by", "eve")
    assert (longer.returncode, longer.stdout) == (
        0,
        "paused a until 15:05:00Z (in 1h00m), instead of until 14:10:00Z (in 5m00s)\n",
    )
    (lane,) = json.loads(queue("lanes", "list", "--json").stdout)
    assert (lane["stop_reason"], lane["stopped_by"]) == ("bank is down", "eve")
    assert lane["stopped_at"] == "2026-01-31T14:00:00Z"
    engine.at("2026-01-31 14:30:00+00")
    engine.sign_on()
    assert engine.query("SELECT id FROM claim((SELECT id FROM workers), '{default}', 1)") == []
    audit = json.loads(queue("lanes", "show", "a", "--json").stdout)["audit"]
    assert [(entry["operation"], entry["who"]) for entry in audit] == [
        ("pause", "eve"),
        ("pause", "ann"),
    ]


def test_a_halted_lane_cannot_be_paused_and_keeps_its_failed_job(
    engine: Engine, queue: Run
) -> None:
    halt(engine, "a")
    ended = queue("lanes", "pause", "a", "--for", "1h")
    assert (ended.returncode, "queue lanes explain a" in ended.stderr) == (4, True)
    assert queue("lanes", "retry-head", "a").returncode == 0


def test_a_pause_of_a_lane_without_a_job_says_so(engine: Engine, queue: Run) -> None:
    engine.defer("t", "order:1")
    assert queue("lanes", "pause", "order:1").stderr == ""
    assert "Check the lock" in queue("lanes", "pause", "ordre:1").stderr


@pytest.mark.parametrize("change", ["pause", "resume", "skip-head", "retry-head", "cancel-waiting"])
def test_the_audit_names_the_person_at_the_shell(engine: Engine, queue: Run, change: str) -> None:
    engine.defer("t", "a")
    if change in ("resume", "skip-head"):
        engine.query("SELECT pause_lane('a')")
    if change == "retry-head":
        halt(engine, "a")
    yes = ["--yes"] if change in ("skip-head", "cancel-waiting") else []
    assert queue("lanes", change, "a", *yes, USER="ann").returncode == 0
    assert engine.query("SELECT who FROM lane_audit ORDER BY id DESC LIMIT 1") == [("ann",)]


def halt(engine: Engine, lock: str, error: str = TRACEBACK) -> int:
    """Halt a lane, and return its failed job."""
    engine.query("SELECT cancel_waiting(%s)", lock)
    id = engine.defer("charge", lock, on_failure="halt")
    engine.fail(engine.claim(), None, error)
    return id


def test_a_halted_lane_is_listed_first_with_its_failed_job_and_the_error(
    engine: Engine, queue: Run
) -> None:
    for number in range(3):
        engine.query("SELECT pause_lane(%s)", f"paused {number}")
    failed = halt(engine, "a")
    behind = engine.defer("ship", "a")
    first = queue("lanes", "list").stdout.splitlines()[1]
    assert first.startswith("a ")
    assert f"{failed} charge" in first
    assert first.rstrip().endswith("CardTimeout")
    (lane,) = json.loads(queue("lanes", "list", "--state", "halted", "--json").stdout)
    assert (lane["failed_job_id"], lane["failed_task"]) == (str(failed), "charge")
    assert (lane["job_id"], lane["last_error"]) == (str(behind), TRACEBACK)
    assert engine.query("SELECT failed_job_id, last_error FROM lane_status LIMIT 1") == [
        (failed, TRACEBACK)
    ]
    engine.query("SELECT delete_job(%s)", failed)
    assert f"{failed} (deleted)" in queue("lanes", "list").stdout


def test_lanes_are_chosen_by_their_state(engine: Engine, queue: Run) -> None:
    for number in range(3):
        engine.query("SELECT pause_lane(%s)", f"paused {number}")
    halt(engine, "a")
    engine.defer("t", "b")
    engine.claim()

    def listed(*words: str) -> list[str]:
        return [
            lane["lock"] for lane in json.loads(queue("lanes", "list", "--json", *words).stdout)
        ]

    assert listed("--state", "held") == ["b"]
    assert listed("--state", "held", "--state", "halted") == ["a", "b"]
    assert listed("--state", "paused", "--limit", "1") == ["paused 0"]
    cut = queue("lanes", "list", "--state", "paused", "--limit", "1")
    assert cut.stderr == "… 2 more (raise --limit to see them)\n"
    assert queue("lanes", "list", "--state", "delayed").stderr == "No lane is delayed.\n"


def test_every_halted_lane_can_be_retried_at_once(
    engine: Engine, queue: Run, answer: Answer
) -> None:
    every = ["lanes", "retry-head", "--state", "halted", "--all"]
    none = queue(*every, "--yes")
    assert none.returncode == 0
    assert (none.stdout, none.stderr) == ("", "No lane matches. Nothing was changed.\n")
    for lock in ("a", "b"):
        halt(engine, lock)
    engine.query("SELECT pause_lane('paused')")
    assert queue(*every).returncode == 2, "nobody was asked"
    asked = answer("n", *every).stderr
    assert "Retry the head of 2 lanes? [y/N]" in asked
    ended = queue(*every, "--yes", "--json", "--by", "ann")
    assert json.loads(ended.stdout) == {
        "action": "retry-head",
        "changed": 2,
        "asked": 0,
        "refused": {},
    }
    assert set(engine.statuses().values()) == {"todo"}
    assert engine.query("SELECT stopped::text FROM lanes WHERE stopped IS NOT NULL") == [
        ("paused",)
    ]
    assert engine.query("SELECT DISTINCT who FROM lane_audit WHERE operation = 'retry-head'") == [
        ("ann",)
    ]
    for words in ([], ["a", "--all"], ["a", "--dry-run"]):
        assert queue("lanes", "retry-head", *words).returncode == 2


def test_a_pause_until_a_time(engine: Engine, queue: Run) -> None:
    ended = queue("lanes", "pause", "a", "--until", "2100-01-31T12:00:00+01:00", "--json")
    lane = json.loads(ended.stdout)["lane"]
    assert (lane["state"], lane["stopped_until"]) == ("paused", "2100-01-31T11:00:00Z")


@pytest.mark.parametrize(
    "wrong",
    [
        ["--until", "2020-01-01T00:00:00Z"],
        ["--until", "9999-01-01T00:00:00Z"],
        ["--until", "2100-01-01"],
        ["--for", "0s"],
        ["--for", "99999w"],
        ["--for", "soon"],
        ["--for", "1h", "--until", "2100-01-01T00:00:00Z"],
    ],
)
def test_a_pause_that_makes_no_sense_is_exit_2(
    engine: Engine, queue: Run, wrong: list[str]
) -> None:
    assert queue("lanes", "pause", "a", *wrong).returncode == 2
    assert engine.query("SELECT FROM lanes") == []


def test_lanes_are_listed_stopped_ones_first(retrying: Engine, queue: Run) -> None:
    retrying.query("SELECT pause_lane('z', 'why [bold]')")
    lines = queue("lanes", "list").stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["LOCK", "STATE"],
        ["z", "paused"],
        ["order:4711", "retrying"],
    ]
    assert lines[1].rstrip().endswith("why [bold]")
    assert lines[2].split(maxsplit=5)[4:] == [
        "6",
        "9001 charge_card          retry in 3m12s: CardTimeout",
    ]
    rows = json.loads(queue("lanes", "list", "--json").stdout)
    assert [(row["lock"], row["job_id"], row["waiting"]) for row in rows] == [
        ("z", None, 0),
        ("order:4711", "9001", 6),
    ]


def test_lanes_that_are_held_are_listed_after_one_that_waits(engine: Engine, queue: Run) -> None:
    engine.at("2026-01-31 12:00:00+00")
    engine.defer("t", lock="held")
    engine.claim()
    engine.at("2026-01-31 12:00:01+00")
    engine.defer("t", lock="retrying")
    engine.fail(engine.claim(), "30 seconds", "boom")
    listed = json.loads(queue("lanes", "list", "--json").stdout)
    assert [lane["lock"] for lane in listed] == ["retrying", "held"]


def test_what_a_worker_has_claimed_ahead_is_told_from_what_it_runs(
    engine: Engine, queue: Run
) -> None:
    engine.at("2026-01-31 14:00:00+00")
    worker = engine.sign_on()
    running, ahead = engine.defer("t", "a"), engine.defer("t", "b")
    engine.query("SELECT id FROM claim(%s, '{default}', 2)", worker)
    rows = json.loads(queue("lanes", "list", "--json").stdout)
    assert {row["job_id"]: row["job_status"] for row in rows} == {
        str(running): "doing",
        str(ahead): "claimed",
    }
    (line,) = [line for line in queue("lanes", "list").stdout.splitlines() if line[0] == "b"]
    assert line.endswith("claimed: its worker runs other jobs first")
    assert queue("lanes", "explain", "b").stdout.splitlines()[1] == (
        f"  claimed {ahead} t  0s ago by worker w, which runs other jobs first"
    )
    assert f"job      {ahead} t, started 0 times, claimed" in queue("lanes", "show", "b").stdout
    assert queue("jobs", "explain", str(ahead)).stdout == (
        "claimed           since 14:00:00Z (0s ago) by worker w, which runs other jobs first\n"
    )
    shown = queue("jobs", "show", str(ahead)).stdout.splitlines()
    assert shown[0].split() == ["job", str(ahead), "claimed"]
    assert "claimed    14:00:00Z (0s ago)" in shown
    assert json.loads(queue("workers", "list", "--json").stdout)[0]["claimed"] == 1
    assert "A worker has already claimed job" in queue("jobs", "cancel", "--yes", str(ahead)).stderr


def test_a_list_says_how_much_it_leaves_out(engine: Engine, queue: Run) -> None:
    for number in range(5):
        engine.query(f"SELECT pause_lane('{number}')")
    ended = queue("lanes", "list", "--limit", "2", "-o", "jsonl")
    assert len(ended.stdout.splitlines()) == 2
    assert ended.stderr == "… 3 more (raise --limit to see them)\n"
    assert queue("lanes", "list", "--limit", "5").stderr == ""


def test_nothing_to_list(engine: Engine, queue: Run) -> None:
    ended = queue("lanes", "list")
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        0,
        "",
        "No lane is in use, stopped or idle. Jobs may wait: queue jobs list\n",
    )
    assert queue("lanes", "list", "--json").stdout == "[]\n"
    assert queue("lanes", "list", "--state", "held").stderr == "No lane is held.\n"


def test_a_lane_is_shown_with_the_changes_made_to_it(retrying: Engine, queue: Run) -> None:
    queue("lanes", "pause", "order:4711", "--reason", "first")
    queue("lanes", "resume", "order:4711")
    lines = queue("lanes", "show", "order:4711").stdout.splitlines()
    assert "state       retrying since 14:28:10Z (48s ago)" in lines
    assert "backlog     6 waiting, oldest 12m04s" in lines
    assert [line.split()[3] for line in lines[-2:]] == ["resume", "pause"]
    lane = json.loads(queue("lanes", "show", "order:4711", "--json").stdout)
    assert [(entry["operation"], entry["reason"]) for entry in lane["audit"]] == [
        ("resume", "first"),
        ("pause", "first"),
    ]


def test_the_head_is_skipped_only_if_somebody_confirms(
    retrying: Engine, queue: Run, answer: Answer
) -> None:
    alone = queue("lanes", "skip-head", "order:4711")
    assert alone.returncode == 2
    assert alone.stderr.endswith("To proceed, run: queue lanes skip-head --yes order:4711\n")
    declined = answer("", "lanes", "skip-head", "order:4711")
    assert (declined.returncode, declined.stdout) == (6, "")
    assert (
        "Cancel job 9001 (charge_card) of the lane order:4711, with 6 jobs behind it? [y/N]"
        in declined.stderr
    )
    assert declined.stderr.endswith("error: Nothing was changed.\n")
    assert retrying.statuses()[9001] == "scheduled"
    agreed = answer("y", "lanes", "skip-head", "order:4711")
    assert (agreed.returncode, agreed.stdout) == (0, "skipped job 9001 of order:4711\n")
    assert retrying.statuses()[9001] == "cancelled"


@pytest.mark.landing
def test_another_head_than_the_one_confirmed_is_not_skipped(engine: Engine, folder: Path) -> None:
    asked = engine.defer("t", "a")
    person, terminal = pty.openpty()
    environment = clean({"INTURN_DSN": engine.dsn})
    with (
        os.fdopen(person, "wb", buffering=0) as keyboard,
        os.fdopen(terminal) as stdin,
        subprocess.Popen(
            [SCRIPT, "lanes", "skip-head", "a"],
            cwd=folder,
            env=environment,
            stdin=stdin,
            stderr=subprocess.PIPE,
        ) as process,
    ):
        assert process.stderr is not None
        question = b""
        while not question.endswith(b"[y/N]: "):
            question += process.stderr.read(1) or pytest.fail(question.decode())
        urgent = engine.defer("t", "a", priority=1)
        keyboard.write(b"y\n")
        errors = process.stderr.read()
    assert (process.returncode, b"now has another next job" in errors) == (4, True)
    assert engine.statuses() == {asked: "blocked", urgent: "todo"}
    assert engine.query("SELECT FROM lane_audit") == []


def test_a_long_lane_is_counted_as_far_as_a_thousand(engine: Engine, queue: Run) -> None:
    engine.query(
        "INSERT INTO jobs (created_at, status, task, lock) "
        "SELECT clock(), 'todo', 't', 'a' FROM generate_series(1, 1200)"
    )
    lines = queue("lanes", "explain", "a").stdout.splitlines()
    assert lines[0].startswith("a  free   1,001 or more waiting")
    assert lines[-1] == "  behind it: 2 t, 3 t … (at least 998 more)"
    assert "Cancel 1,001 jobs or more" in queue("lanes", "cancel-waiting", "a").stderr


def test_the_head_that_runs_is_not_skipped(engine: Engine, queue: Run) -> None:
    id = engine.defer("t", "a")
    engine.claim()
    ended = queue("lanes", "skip-head", "a", "--yes")
    assert (ended.returncode, "is running" in ended.stderr) == (4, True)
    assert engine.statuses() == {id: "doing"}


def test_waiting_jobs_are_cancelled(retrying: Engine, queue: Run, answer: Answer) -> None:
    assert queue("lanes", "cancel-waiting", "order:4711").returncode == 2
    assert "Cancel 7 jobs" in answer("n", "lanes", "cancel-waiting", "order:4711").stderr
    ended = queue("lanes", "cancel-waiting", "order:4711", "--yes")
    assert (ended.returncode, ended.stdout) == (0, "cancelled 7 jobs of order:4711\n")
    assert set(retrying.statuses().values()) == {"cancelled"}


def test_there_is_no_retry_to_hasten_and_nothing_to_cancel(engine: Engine, queue: Run) -> None:
    engine.defer("t", "a")
    assert queue("lanes", "retry-head", "a").returncode == 4
    engine.claim()
    assert queue("lanes", "cancel-waiting", "a", "--yes").returncode == 4


@pytest.mark.parametrize("change", CHANGES)
def test_a_lane_that_is_not_there_is_exit_3(engine: Engine, queue: Run, change: str) -> None:
    ended = queue("lanes", change, "nobody")
    assert (ended.returncode, ended.stdout) == (3, "")
    assert ended.stderr.startswith(
        "error: The lane nobody is not stopped and has no running or ready job."
    )


@pytest.mark.parametrize("lock", STRANGE)
def test_a_strange_lock_is_shown_harmless_and_its_commands_can_be_copied(
    engine: Engine, queue: Run, lock: str
) -> None:
    queue("lanes", "pause", "--", lock)
    for output in (queue("lanes", "list").stdout, queue("lanes", "show", "--", lock).stdout):
        assert "\x1b" not in output
        assert "\u202e" not in output
        assert lock.encode("unicode_escape").decode().replace("\\\\", "\\") in output
    assert json.loads(queue("lanes", "list", "--json").stdout)[0]["lock"] == lock
    _, _, advice = queue("lanes", "explain", "--", lock).stdout.partition("unblock: ")
    assert type_in(advice.splitlines()[0], INTURN_DSN=engine.dsn).returncode == 0
    assert engine.query("SELECT FROM lanes") == []


def test_a_lock_in_a_command_stays_one_argument() -> None:
    assert [argument(lock) for lock in ("order:4711", "a b", "-x")] == [
        "order:4711",
        "'a b'",
        "-- -x",
    ]


@pytest.mark.parametrize("lock", ["", "x" * 1025, "\udcff"])
def test_an_invalid_lock_is_exit_2(queue: Run, lock: str) -> None:
    assert queue("lanes", "explain", lock).returncode == 2
