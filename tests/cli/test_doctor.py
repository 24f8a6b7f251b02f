"""`queue doctor` tells the truth, and each line of its advice helps as it is printed."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from inturn.cli.database import Database
from inturn.doctor import checks
from inturn.doctor.checks import judge_history
from inturn.doctor.finding import Finding
from inturn.formatting import span
from inturn.operations.reading import history
from inturn.schema.migrate import migrate
from tests.cli.calling import SCRIPT, type_in
from tests.cli.conftest import Run, StartScript, Until
from tests.cli.engine import Engine
from tests.cli.test_reference import first_cells
from tests.cli.test_remedies import LOCK, advice_in

NOON = "2026-01-31 12:00:00+00"
LATER = "2026-01-31 12:15:00+00"


def findings(queue: Run) -> tuple[int, dict[str, Any]]:
    ended = queue("doctor", "--json")
    return ended.returncode, {found["check"]: found for found in json.loads(ended.stdout)}


def follow(found: dict[str, Any], engine: Engine, folder: Path) -> str:
    """Type the advice into a shell, and return what it prints."""
    done = type_in(found["advice"], folder, INTURN_DSN=engine.dsn)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_doctor_finds_nothing(engine: Engine, queue: Run) -> None:
    engine.sign_on()
    engine.defer("t", "a")
    status, found = findings(queue)
    assert {found[check]["state"] for check in found} == {"ok"}
    assert (status, list(found)) == (0, first_cells("The doctor", "watching"))
    lines = queue("doctor", "-v").stdout.splitlines()
    assert lines[0] == "ok    schema        inturn matches this version"
    assert len(lines) == len(found)
    assert queue("doctor").stdout == f"ok    {len(found)} checks (-v lists them)\n"


def test_the_doctor_names_what_is_wrong_first_and_counts_the_rest(
    engine: Engine, queue: Run
) -> None:
    engine.query("SELECT pause_queue('reports')")
    engine.defer("t", "a")
    lines = queue("doctor").stdout.splitlines()
    states = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert states == sorted(states, key=["fail", "warn", "ok"].index)
    assert {"fail", "warn"} < set(states)
    assert re.fullmatch(r"ok    \d+ other checks \(-v lists them\)", lines[-1])


@pytest.mark.fresh_database
def test_the_doctor_finds_a_schema_that_does_not_fit(
    engine: Engine, queue: Run, folder: Path
) -> None:
    engine.query("UPDATE applied_code SET checksum = 'other'")
    status, found = findings(queue)
    assert (status, list(found)) == (10, ["schema"])
    assert found["schema"]["state"] == "fail"
    assert found["schema"]["advice"] == "queue migrate"
    follow(found["schema"], engine, folder)
    assert findings(queue)[1]["schema"]["state"] == "ok"


def test_the_doctor_finds_jobs_and_lanes_that_are_stuck(engine: Engine, queue: Run) -> None:
    engine.sign_on(["other"])
    engine.defer("t", "a", on_failure="halt")
    engine.fail(engine.claim(), None, "no")
    engine.defer("t", queue="mail")
    engine.defer("t")
    status, found = findings(queue)
    assert status == 10
    assert {
        check: found[check]["state"] for check in ("queues", "tasks", "lanes")
    } == dict.fromkeys(("queues", "tasks", "lanes"), "fail")
    assert found["queues"]["advice"] == "queue -a package.module:app worker --queues mail"
    assert "t (queue default)" in found["tasks"]["detail"]
    assert found["lanes"]["advice"] == "queue lanes explain a"


def lose(engine: Engine, error: str | None = None) -> None:
    """Lose the worker with the job that it claimed, and with its error if it could report one."""
    engine.query("DELETE FROM workers")
    engine.query("SELECT * FROM rescue(5, NULL, true, %s)", error)
    engine.query("UPDATE jobs SET status = 'todo', scheduled_at = NULL WHERE status = 'scheduled'")


def test_the_doctor_names_the_job_over_which_workers_die(
    engine: Engine, queue: Run, folder: Path
) -> None:
    engine.at("2026-01-31 14:00:00+00")
    engine.defer("shop.odd", "a\x1b")
    engine.sign_on()
    engine.claim()
    lose(engine)
    engine.sign_on()
    assert findings(queue)[1]["crashes"]["state"] == "ok"  # this happens: a machine goes down
    engine.claim()
    lose(engine)
    engine.sign_on()
    status, found = findings(queue)
    assert (status, found["crashes"]["state"]) == (10, "fail")
    assert "job 1 (shop.odd, lock a\\x1b), 2 times" in found["crashes"]["detail"]
    assert found["crashes"]["advice"] == "queue jobs show 1"
    assert "lost: worker" in follow(found["crashes"], engine, folder)
    engine.query("SELECT cancel_job(1)")
    assert findings(queue)[1]["crashes"]["state"] == "ok"


def test_the_doctor_finds_sequences_that_are_behind(engine: Engine, queue: Run) -> None:
    """This happens after an upgrade by logical replication."""
    engine.sign_on()
    for _ in range(3):
        engine.defer("t")
    engine.query("SELECT setval('jobs_id_seq', 1, false)")
    status, found = findings(queue)
    assert (status, found["sequences"]["state"]) == (10, "fail")
    assert found["sequences"]["detail"].endswith("jobs_id_seq is at 0, but must be at 3")
    engine.query(found["sequences"]["advice"])
    assert findings(queue)[1]["sequences"]["state"] == "ok"


def test_the_doctor_finds_a_sequence_that_gives_ids_out_of_order(
    engine: Engine, queue: Run
) -> None:
    engine.query("ALTER SEQUENCE jobs_id_seq CACHE 20")
    status, found = findings(queue)
    assert (status, found["sequences"]["state"]) == (10, "fail")
    assert found["sequences"]["advice"] == "ALTER SEQUENCE inturn.jobs_id_seq CACHE 1;"
    engine.query(found["sequences"]["advice"])
    assert findings(queue)[1]["sequences"]["state"] == "ok"


def test_the_doctor_warns_of_a_job_that_a_worker_named_as_its_cause_of_death(
    engine: Engine, queue: Run
) -> None:
    engine.defer("shop.odd")
    engine.sign_on()
    engine.claim()
    lose(engine, "Traceback\nRecursionError: too deep")
    engine.sign_on()
    status, found = findings(queue)
    assert (status, found["crashes"]["state"]) == (0, "warn")
    assert found["crashes"]["detail"].endswith("job 1 (shop.odd), 1 time")


@pytest.mark.parametrize("where", ["doing", "scheduled"])
def test_the_doctor_finds_such_a_job_wherever_it_is(engine: Engine, queue: Run, where: str) -> None:
    engine.defer("shop.odd", delay="1 hour" if where == "scheduled" else None)
    engine.sign_on()
    engine.query(
        "UPDATE jobs SET errors = %s::jsonb",
        '[{"lost": true, "error": "x"}, {"lost": true, "error": "y"}]',
    )
    if where == "doing":
        engine.claim()
    assert engine.statuses() == {1: where}
    assert findings(queue)[1]["crashes"]["state"] == "fail"


def test_the_doctor_finds_lanes_reconciled_in_the_last_day(engine: Engine, queue: Run) -> None:
    engine.sign_on()
    engine.at("2026-01-30 13:00:00+00")
    engine.query("SELECT audit('reconcile', 'before', 1, 'inturn', 'no token')")
    engine.at("2026-01-31 14:00:00+00")
    engine.heartbeat()
    assert findings(queue)[1]["reconciler"]["state"] == "ok"
    engine.query("SELECT audit('reconcile', 'slept', 1, 'inturn', 'no token')")
    status, found = findings(queue)
    assert (status, found["reconciler"]["state"]) == (10, "fail")
    assert found["reconciler"]["detail"].endswith("had to be woken: slept")


def remark_in(printed: str) -> str:
    return printed[printed.index("queue batches close") :].strip()


def test_the_doctor_finds_a_batch_that_nobody_closes_and_the_advice_leads_to_its_end(
    engine: Engine, queue: Run, folder: Path
) -> None:
    engine.at(NOON)
    engine.sign_on()
    for name in ("import", "busy", "closed", "young"):
        engine.at("2026-01-31 13:01:00+00" if name == "young" else NOON)
        engine.query("SELECT open_batch(%s)", name)
    engine.query("SELECT close_batch(3)")
    engine.at(NOON)
    engine.query("SELECT defer('t', batch_id => 1)")
    engine.at("2026-01-31 13:30:00+00")
    engine.query("SELECT defer('t', batch_id => 2)")
    engine.at("2026-01-31 14:00:00+00")
    engine.heartbeat()
    status, found = findings(queue)
    assert (status, found["batches"]["state"]) == (0, "warn"), "it waits for an hour, not longer"
    assert found["batches"]["detail"].startswith(
        "1 batch is open, though no job has joined for an hour: 1 import (for 2h00m)."
    )
    engine.claim()
    engine.claim()
    engine.query("SELECT claim((SELECT id FROM workers), '{default}', 1)")
    assert findings(queue)[1]["batches"]["detail"].startswith("1 batch is open"), "counted by now"
    assert found["batches"]["advice"] == "queue batches show 1"
    shown = type_in(found["batches"]["advice"], folder, INTURN_DSN=engine.dsn)
    closed = type_in(remark_in(shown.stderr), folder, INTURN_DSN=engine.dsn)
    assert closed.returncode == 0, closed.stderr
    assert findings(queue)[1]["batches"]["state"] == "ok"
    engine.at("2026-01-31 14:30:00+00")
    engine.heartbeat()
    assert "2 batches are open" in findings(queue)[1]["batches"]["detail"]


def test_a_batch_whose_newest_job_has_ended_is_not_forgotten(engine: Engine, queue: Run) -> None:
    engine.at(NOON)
    engine.sign_on()
    engine.query("SELECT open_batch('import')")
    engine.at("2026-01-31 13:30:00+00")
    engine.heartbeat()
    engine.query("SELECT defer('t', batch_id => 1)")
    engine.fail(engine.claim(), None, "no")
    engine.query("SELECT FROM claim((SELECT id FROM workers), '{default}', 1)")
    assert engine.query("SELECT FROM batch_events WHERE event = 'joined'") == []
    assert findings(queue)[1]["batches"]["state"] == "ok"
    engine.query("SELECT prepare_history(1)")
    engine.at("2026-01-31 14:31:00+00")
    engine.heartbeat()
    assert findings(queue)[1]["batches"]["state"] == "warn"


@pytest.mark.parametrize(("counted", "running"), [(1, 0), (0, 1)])
def test_the_doctor_finds_a_limit_that_counts_wrong_and_its_advice_repairs_it(
    counted: int, running: int, engine: Engine, queue: Run
) -> None:
    engine.sign_on()
    engine.query("SELECT set_limit('stripe', 1)")
    engine.query("SELECT defer('t', limit_key => 'stripe')")
    claimed = engine.claim()
    assert findings(queue)[1]["limits"]["state"] == "ok"
    if not running:
        engine.query("SELECT defer('t', limit_key => 'stripe')")
        engine.fail(claimed, None, "no")
    engine.query("UPDATE gates SET used = %s", counted)
    engine.query("SELECT FROM claim((SELECT id FROM workers), '{default}', 1)")
    status, found = findings(queue)
    assert (status, found["limits"]["state"]) == (10, "fail")
    assert found["limits"]["detail"].endswith(
        f"stripe counts {counted}, but {running} {'is' if running else 'are'} running"
    )
    engine.query(found["limits"]["advice"])
    assert engine.query("SELECT coalesce(sum(used), 0) FROM gates") == [(running,)]
    if not running:
        assert engine.claim()[0] == 2, "the job that stood before a full limit"
    status, found = findings(queue)
    assert (status, found["limits"]["state"]) == (10, "fail")
    assert found["limits"]["detail"].endswith("repaired in the last day: stripe")
    engine.query("UPDATE lane_audit SET at = at - interval '25 hours'")
    assert findings(queue)[1]["limits"]["state"] == "ok"


def test_a_late_worker_alone_is_a_warning(engine: Engine, queue: Run) -> None:
    engine.at("2026-01-31 14:00:00+00")
    engine.sign_on()
    engine.at("2026-01-31 14:01:00+00")
    status, found = findings(queue)
    assert (status, found["workers"]["state"]) == (0, "warn")


def test_the_doctor_finds_a_long_transaction_and_a_clock_that_is_wrong(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(engine.dsn) as other, psycopg.connect(engine.dsn, autocommit=True) as own:
        other.execute("SELECT 1")  # and its transaction stays open
        pid = other.info.backend_pid

        def state_of(check: str) -> tuple[str, str]:
            (found,) = [
                found for found in checks.examine(Database(own, "inturn")) if found.check == check
            ]
            return found.state, found.advice or ""

        monkeypatch.setattr(checks, "LONG", timedelta(0))
        assert state_of("transactions") == (
            "warn",
            f"if it is not needed: SELECT pg_terminate_backend({pid})",
        )
        monkeypatch.setattr(checks, "LONGER", timedelta(0))
        assert state_of("transactions")[0] == "fail"
        other.execute("SET application_name = 'inturn task'")
        assert state_of("transactions")[1] == "queue jobs list --status doing"
        other.execute("RESET application_name")
        monkeypatch.setattr(checks, "SKEW", timedelta(hours=-1))
        assert state_of("clock")[0] == "warn"
        own.execute(state_of("transactions")[1].partition(": ")[2].encode())
        with pytest.raises(psycopg.OperationalError):
            other.execute("SELECT 1")


def test_the_doctor_names_a_worker_whose_clock_is_wrong(engine: Engine, queue: Run) -> None:
    for name, ahead in (("right", "1 s"), ("fast", "2 hours"), ("slow", "-2 hours")):
        engine.query(
            "SELECT register_worker(%s, 'host', 7, NULL, 1,"
            " p_clock => clock_timestamp() + %s::interval)",
            name,
            ahead,
        )
    told = queue("doctor").stdout
    assert "differed from the server's: fast on host, slow on host\n" in told
    rows = json.loads(queue("workers", "list", "--json").stdout)
    assert [round(row["clock_ahead"] / 3600) for row in rows] == [2, 0, -2]


def test_the_doctor_of_a_database_without_the_schema(run: Run, empty_dsn: str) -> None:
    ended = run("doctor", INTURN_DSN=empty_dsn)
    assert (ended.returncode, ended.stdout.splitlines()[1]) == (10, f"{'':<20}do: queue migrate")


def test_without_a_worker_it_is_a_failure_only_if_jobs_wait(engine: Engine, queue: Run) -> None:
    status, found = findings(queue)
    assert (status, found["workers"]["state"], found["tasks"]["state"]) == (0, "warn", "ok")
    engine.defer()
    status, found = findings(queue)
    assert (status, found["workers"]["state"], found["tasks"]["state"]) == (10, "fail", "warn")
    assert found["workers"]["detail"] == "no live worker, but jobs are waiting"
    assert found["tasks"]["detail"].startswith("not checked")


def test_workers_that_are_all_late_are_no_workers(engine: Engine, queue: Run, folder: Path) -> None:
    engine.at(NOON)
    engine.sign_on()
    engine.defer()
    engine.at(LATER)
    status, found = findings(queue)
    assert (status, found["workers"]["state"]) == (10, "fail")
    assert found["workers"]["detail"].endswith("no heartbeat for 30 seconds from w")
    engine.sign_on()
    status, found = findings(queue)
    assert (status, found["workers"]["state"]) == (0, "warn")
    assert "late" in follow(found["workers"], engine, folder)


@pytest.mark.landing
@pytest.mark.parametrize(("queues", "asked"), [(["mail"], " --queues mail"), (list("abcd"), "")])
def test_the_worker_that_the_doctor_advises_serves_the_queues(
    queues: list[str],
    asked: str,
    engine: Engine,
    queue: Run,
    start_script: StartScript,
    folder: Path,
    until: Until,
) -> None:
    (folder / "own.py").write_text(
        f"from inturn import App\napp = App({engine.dsn!r})\n@app.task(name='t')\ndef send(): ...\n"
    )
    for name in queues:
        engine.defer(queue=name)
    engine.sign_on()
    assert findings(queue)[1]["queues"]["state"] == "fail"
    advised = json.loads(queue("-a", "own:app", "doctor", "--json").stdout)
    (command,) = [found["advice"] for found in advised if found["check"] == "queues"]
    assert command == f"queue -a own:app worker{asked}"
    start_script(["bash", "-c", f"exec {SCRIPT.parent}/{command}"])
    until(lambda: set(engine.statuses().values()) == {"succeeded"})
    assert findings(queue)[1]["queues"]["state"] == "ok"


def test_a_task_that_nobody_knows_is_found_between_two_tries(
    engine: Engine, queue: Run, folder: Path
) -> None:
    engine.sign_on(["other"])
    engine.defer("-typo 'task'", lock=LOCK)
    engine.fail(engine.claim(), "30 seconds", "unknown")
    assert engine.statuses() == {1: "scheduled"}
    status, found = findings(queue)
    assert (status, found["tasks"]["state"]) == (10, "fail")
    assert "-typo 'task' (queue default)" in found["tasks"]["detail"]
    deployment, _, command = found["tasks"]["advice"].partition("; to give up its jobs: ")
    assert deployment == "deploy the code that declares it"
    assert type_in(f"{command} --yes", folder, INTURN_DSN=engine.dsn).returncode == 0
    assert findings(queue)[1]["tasks"]["state"] == "ok"


def test_a_worker_that_lacks_a_task_is_named_if_a_job_of_it_is_next(
    engine: Engine, queue: Run
) -> None:
    engine.sign_on(["t", "other"])
    engine.query("SELECT register_worker('lost', 'host', 8, NULL, 1, '{other}')")
    engine.query("SELECT register_worker('far', 'host', 9, '{mail}', 1, '{other}')")
    engine.defer("other")
    assert findings(queue)[1]["tasks"]["state"] == "ok"
    engine.defer("t")
    status, found = findings(queue)
    assert (status, found["tasks"]["state"]) == (0, "warn")
    assert found["tasks"]["detail"] == "worker lost serves queue default but does not know t"
    assert found["tasks"]["advice"].startswith("stop worker lost, the oldest of these")
    engine.query("DELETE FROM workers WHERE name = 'lost'")
    assert findings(queue)[1]["tasks"]["state"] == "ok"


@pytest.mark.parametrize("what", ["a worker", "a job"])
def test_a_clock_of_the_server_that_was_set_back_is_named(
    engine: Engine, queue: Run, what: str
) -> None:
    engine.at(LATER)
    if what == "a worker":
        engine.sign_on()
    else:
        engine.defer()
    assert findings(queue)[1]["clock"]["state"] == "ok"
    engine.at(NOON)
    found = findings(queue)[1]["clock"]
    detail = "the server's clock was set back: workers or jobs are 15m00s ahead of it"
    assert (found["state"], found["detail"]) == ("warn", detail)


def test_the_worker_to_stop_is_the_one_that_started_first(engine: Engine, queue: Run) -> None:
    """The order of names and of registrations says nothing. The older one registered twice."""
    engine.at(NOON)
    register = "SELECT register_worker(%s, 'host', 8, NULL, 1, %s, p_age => %s)"
    engine.query(register, "a new one", ["tick_v2"], "1 minute")
    engine.query(register, "m old one", ["tick"], "1 hour")
    engine.query(register, "z new one", ["tick_v2"], "0 s")
    engine.defer("tick")
    engine.defer("tick_v2")
    advice = findings(queue)[1]["tasks"]["advice"]
    assert advice.startswith("stop worker m old one, the oldest of these")


def test_a_task_of_next_week_is_not_missed_yet(engine: Engine, queue: Run) -> None:
    engine.sign_on(["other"])
    engine.defer("of the next release", delay="7 days")
    assert findings(queue)[1]["tasks"]["state"] == "ok"


def test_the_oldest_job_that_could_start_is_named_with_its_age(
    engine: Engine, queue: Run, folder: Path
) -> None:
    engine.at(NOON)
    engine.sign_on()
    engine.query("SELECT pause_lane('paused')")
    for lock in ("paused", "lane", "lane"):
        engine.defer(lock=lock)
    engine.at(LATER)
    engine.heartbeat()
    engine.defer()
    status, found = findings(queue)
    assert (status, found["backlog"]["state"]) == (0, "warn")
    assert found["backlog"]["detail"].endswith("for 15m00s: job 2 in queue default")
    assert found["backlog"]["advice"] == "queue jobs explain 2"
    assert follow(found["backlog"], engine, folder).startswith("ready")
    engine.query("SELECT FROM claim((SELECT id FROM workers), '{default}', 9)")
    assert findings(queue)[1]["backlog"]["state"] == "ok"


def test_paused_lanes_are_named_with_their_time_until_they_are_resumed(
    engine: Engine, queue: Run, folder: Path
) -> None:
    engine.at(NOON)
    engine.sign_on()
    engine.query("SELECT pause_lane(%s, 'no paper', NULL, 'ann')", LOCK)
    engine.at("2026-01-31 12:05:00+00")
    engine.query("SELECT pause_lane('short', NULL, clock() + interval '1 hour', 'ann')")
    engine.query("SELECT pause_lane('over', NULL, clock() + interval '1 minute')")
    engine.at(LATER)
    engine.heartbeat()
    status, found = findings(queue)
    assert (status, found["paused"]["state"]) == (0, "warn")
    assert found["paused"]["detail"] == (
        "paused: lane -it's $HOME; a\\tlane (for 15m00s, until resumed, by ann: no paper), "
        "lane short (for 10m00s, 50m00s left, by ann)"
    )
    engine.query("SELECT pause_queue('mail', NULL, NULL, 'bob')")
    found = findings(queue)[1]["paused"]
    assert found["detail"].startswith(
        "paused: queue mail (for 0s, until resumed, by bob), lane -it"
    )
    assert found["advice"].count("; queue lanes resume ") == 2
    follow(found, engine, folder)
    assert findings(queue)[1]["paused"]["state"] == "ok"


def test_halted_lanes_are_counted_and_the_advice_leads_to_a_retry(
    engine: Engine, queue: Run, folder: Path
) -> None:
    engine.at(NOON)
    engine.sign_on()
    for lock in (LOCK, "b", "c", "d"):
        engine.defer(lock=lock, on_failure="halt")
        engine.fail(engine.claim(), None, f"no such {lock}")
    engine.at(LATER)
    engine.heartbeat()
    found = findings(queue)[1]["lanes"]
    assert found["detail"].startswith("4 lanes are halted by a failed job, the longest for 15m00s")
    (advised, _) = advice_in(follow(found, engine, folder))
    condition, _, command = advised.partition(": ")
    assert condition == "once the cause is fixed"
    assert type_in(command, folder, INTURN_DSN=engine.dsn).returncode == 0
    assert findings(queue)[1]["lanes"]["detail"].startswith("3 lanes")


def test_lanes_that_one_error_has_halted_are_retried_by_one_command(
    engine: Engine, queue: Run, folder: Path
) -> None:
    engine.sign_on()

    def halt(*errors: str) -> dict[str, Any]:
        for error in errors:
            engine.defer(lock=f"lane of {error}", on_failure="halt")
            engine.fail(engine.claim(), None, error)
        found = findings(queue)[1]["lanes"]
        assert isinstance(found, dict)
        return found

    alone = "queue lanes explain 'lane of KeyError'"
    assert halt("KeyError", "bank 1 is down", "bank 2 is down")["advice"] == alone, "too few"
    assert halt("ValueError", "bank 3 is down", "OSError")["advice"] == alone, "no majority"
    found = halt("bank 4 is down")
    assert found["detail"].startswith("7 lanes are halted")
    assert found["detail"].endswith(". 4 of them have the same error: bank 1 is down")
    cause, command = found["advice"].split(": ")
    assert cause == "once the cause is fixed"
    asked = type_in(command, folder, INTURN_DSN=engine.dsn)
    assert asked.returncode == 2, "it changes nothing before you agree"
    assert findings(queue)[1]["lanes"]["detail"].startswith("7 lanes")
    done = type_in(f"{command} --yes", folder, INTURN_DSN=engine.dsn)
    assert (done.returncode, done.stdout) == (0, "retried the head of 7 lanes\n")
    assert findings(queue)[1]["lanes"]["state"] == "ok"


def test_one_error_of_many_lanes_is_told_once_with_an_example(
    engine: Engine, queue: Run, folder: Path
) -> None:
    engine.at(NOON)
    engine.sign_on()
    for number in range(5):
        engine.defer("pay", lock=f"customer:{number}", on_failure="halt")
        error = f"Traceback\n  …\nValueError: card of customer {number} was declined"
        engine.fail(engine.claim(), None if number < 2 else "1 hour", error)
    engine.defer("other", lock="other")
    engine.fail(engine.claim(), "1 hour", "KeyError")
    _, found = findings(queue)
    assert found["errors"]["state"] == "warn"
    assert found["errors"]["detail"] == (
        "2 lanes are halted and 3 jobs wait for a retry with the same error: "
        "ValueError: card of customer 0 was declined (for example job 1, pay)"
    )
    on_a_terminal = queue("doctor", COLUMNS="80").stdout.splitlines()
    assert max(map(len, on_a_terminal)) <= 80
    joined = " ".join(line.strip() for line in on_a_terminal)
    assert f"errors        {found['errors']['detail']} do: queue jobs show 1 " in joined
    assert "card of customer 0" in follow(found["errors"], engine, folder)
    engine.query("DELETE FROM jobs")
    assert findings(queue)[1]["errors"]["state"] == "ok"


def test_an_error_of_one_job_and_two_lanes_is_told_in_the_singular(
    engine: Engine, queue: Run
) -> None:
    engine.sign_on()
    for number in range(3):
        engine.defer("pay", lock=f"customer:{number}", on_failure="halt")
        engine.fail(engine.claim(), None if number else "1 hour", "KeyError")
    assert findings(queue)[1]["errors"]["detail"].startswith(
        "2 lanes are halted and 1 job waits for a retry with the same error: KeyError"
    )


def test_the_doctor_says_where_to_look_if_an_event_loop_is_blocked(
    engine: Engine, queue: Run
) -> None:
    engine.sign_on()
    engine.query("SELECT heartbeat(id, '2 minutes') FROM workers")
    status, found = findings(queue)
    assert (status, found["workers"]["state"]) == (0, "warn")
    assert found["workers"]["detail"] == (
        "the event loop of w is blocked. See loop.blocked in the log"
    )


def test_failures_of_the_last_hour_are_counted_with_the_most_frequent(
    engine: Engine, queue: Run, folder: Path
) -> None:
    engine.at(NOON)
    engine.sign_on()
    for minute, task in ((0, "old"), (50, "-rare task"), (55, "mail it"), (59, "mail it")):
        engine.at(f"2026-01-31 12:{minute:02}:00+00")
        engine.heartbeat()
        engine.defer(task)
        engine.fail(engine.claim(), None, f"Traceback\nSMTPError: {minute} away")
    engine.at("2026-01-31 13:05:00+00")
    engine.heartbeat()
    status, found = findings(queue)
    assert (status, found["failures"]["state"]) == (0, "warn")
    assert found["failures"]["detail"] == (
        "3 jobs failed for good in the last hour, most often mail it (2 times): SMTPError: 59 away"
    )
    listed = follow(found["failures"], engine, folder).splitlines()[1:]
    assert [line.split()[0] for line in listed] == ["4", "3"]
    engine.at("2026-01-31 14:00:00+00")
    engine.heartbeat()
    assert findings(queue)[1]["failures"]["state"] == "ok"


def test_the_advice_about_sequences_names_all_of_them_in_any_schema(empty_dsn: str) -> None:
    schema = "My queue.1"
    migrate(empty_dsn, schema=schema)
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute("SELECT set_config('search_path', quote_ident(%s), false)", [schema])
        connection.execute("SELECT defer('t'), pause_lane('a')")
        connection.execute("ALTER SEQUENCE jobs_id_seq RESTART")
        connection.execute("ALTER SEQUENCE lane_audit_id_seq RESTART")

        def look() -> Finding:
            found = checks.examine(Database(connection, schema))
            return next(each for each in found if each.check == "sequences")

        first = look()
        assert first.state == "fail"
        connection.execute((first.advice or "").encode())
        assert look().state == "ok"


@pytest.mark.parametrize(
    ("size", "share", "state"), [(6, 0.6, "warn"), (6, 0.4, "ok"), (4, 0.9, "ok")]
)
def test_the_doctor_warns_of_a_history_that_is_large_and_most_of_the_database(
    size: int, share: float, state: str
) -> None:
    found = judge_history(history.StoredBytes(size * 2**30, round(size * 2**30 / share), 7))
    assert (found.check, found.state) == ("history", state)
    assert f"{size}.0 GB" in found.detail


@pytest.mark.fresh_database
def test_days_without_ended_jobs_do_not_count(engine: Engine, queue: Run) -> None:
    engine.query("SELECT prepare_history(4)")
    assert "ended jobs of 0 days take 0 B" in queue("doctor", "-v").stdout
    engine.defer("t")
    engine.fail(engine.claim(), None, "boom")
    assert "ended jobs of 1 day take" in queue("doctor", "-v").stdout


RAN = """
INSERT INTO rollups SELECT 60, '2026-01-31 12:00:00+00', 'default', 't', 100, 0, 0, 0, '{}',
    histogram(array_fill(duration_bin(now(), now() + interval '%s minutes'), '{100}'))
"""


@pytest.mark.parametrize(
    ("usual", "minutes", "state"),
    [(None, 59, "ok"), (None, 61, "warn"), ("10", 20, "ok"), ("10", 50, "warn"), ("1", 9, "ok"),
     ("1", 11, "warn"), ("60", 61, "ok")],
)  # fmt: skip
def test_a_lane_whose_job_runs_far_longer_than_others_of_its_task_is_held_for_long(
    engine: Engine, queue: Run, usual: str | None, minutes: int, state: str
) -> None:
    engine.at("2026-01-31 14:00:00+00")
    if usual is not None:
        engine.query(RAN.replace("%s", usual))
    engine.defer(lock="order:4711")
    engine.claim()
    engine.query("SELECT register_worker('other', 'host', 8, '{default}', 1)")
    engine.defer()  # it has no lane
    engine.query("SELECT FROM claim((SELECT id FROM workers WHERE name = 'other'), NULL, 1)")
    engine.at(f"{datetime(2026, 1, 31, 14, tzinfo=UTC) + timedelta(minutes=minutes)}")
    engine.query("UPDATE workers SET heartbeat_at = clock(), loop_turned_at = clock()")
    found = findings(queue)[1]["held"]
    assert found["state"] == state, found
    if state == "warn":
        age = span(timedelta(minutes=minutes))
        assert found["detail"].startswith(f"held for long: lane order:4711 (for {age} by job 1 ")
        assert "job 2" not in found["detail"], "it has no lane, and no limit"
        assert ("99 of 100 took at most" in found["detail"]) == (usual is not None)
        assert found["advice"].startswith("queue jobs explain 1")


def test_a_job_that_fills_a_limit_for_long_is_found_without_a_lane(
    engine: Engine, queue: Run
) -> None:
    engine.at("2026-01-31 14:00:00+00")
    engine.sign_on()
    engine.query("SELECT set_limit('bank', 1)")
    engine.query("SELECT defer('load', limit_key => 'bank')")
    engine.claim()
    engine.at("2026-01-31 16:00:00+00")
    engine.heartbeat()
    found = findings(queue)[1]["held"]
    assert (found["state"], found["detail"]) == (
        "warn",
        "held for long: limit bank (for 2h00m by job 1 (load))",
    )


@pytest.mark.parametrize(
    ("keep", "says"),
    [(None, "for a week, because no live worker is set otherwise"),
     (365.0, "for 365d: --keep-history of worker w"), (0.5, "for 0.5d: --keep-history of worker w"),
     ("infinity", "for ever: --keep-history of worker w")],
)  # fmt: skip
def test_the_doctor_says_how_long_the_history_is_kept_and_who_says_so(
    engine: Engine, queue: Run, keep: object, says: str
) -> None:
    engine.query("SELECT register_worker('w', 'host', 7, NULL, 1, p_keep_history => %s)", keep)
    engine.query("SELECT register_worker('v', 'host', 8, NULL, 1)")
    detail = findings(queue)[1]["history"]["detail"]
    assert detail.endswith(f"% of the database. They are kept {says}")
    assert detail.startswith("ended jobs of ")
