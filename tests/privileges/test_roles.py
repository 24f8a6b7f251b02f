"""What producers, workers, operators and monitors may do and may not do, each logged in alone."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import psycopg
import psycopg2
import pytest
from psycopg.errors import InsufficientPrivilege

from inturn import App, JobContext
from inturn.cli.database import Database
from inturn.database import rights
from inturn.doctor.checks import examine
from inturn.errors import DatabaseUnavailable
from inturn.model import Status
from inturn.operations.changes import jobs, lanes
from inturn.operations.engine import schedules, workers
from tests.cli.calling import invoke
from tests.database.test_transactional_defer import asyncpg_options
from tests.privileges.conftest import Log, Session
from tests.roles import LOGINS, PREFIX, as_login, create_role

QUIET: dict[str, Any] = {"wait": False, "install_signal_handlers": False}
CLAIM = "SELECT id, claim_id FROM inturn.claim(%s, NULL, 10)"
FINISH = (
    "SELECT finished_id FROM inturn.finish(%s, NULL, 0, %s, %s, '{succeeded}', '{NULL}') "
    "WHERE finished_id IS NOT NULL"
)
REGISTER = "SELECT inturn.register_worker('w', 'here', 1, NULL, 1)"
SECRET = '{"secret": 1}'


def one(session: Session, statement: str, *parameters: object) -> Any:
    row = session.execute(statement.encode(), parameters or None).fetchone()
    return row and row[0]


# ------------------------------------------------------------------ what they may


def test_explain_blames_no_transaction_at_once_whose_age_its_owner_cannot_see(
    granted: str, log_in: Log, admin: Session
) -> None:
    with App(granted).open() as root:
        job = root.configure_task("t").defer()
    with admin.transaction():
        admin.execute("SELECT FROM inturn.jobs FOR UPDATE")
        busy = "SELECT unblock FROM inturn.explain(%s) WHERE reason = 'busy'"
        unblock = one(log_in("operator"), busy, job)
        assert unblock.startswith("if it is still there in some seconds, commit it or roll it")


def test_a_producer_defers_waits_for_the_result_and_cancels_while_a_worker_does_the_job(
    granted: str, log_in: Log
) -> None:
    seen: list[str] = []
    worker = App(as_login(granted, LOGINS["worker"]), worker_defaults=QUIET)

    @worker.task(name="add", lock="sums")
    def add(a: int, b: int) -> int:
        return a + b

    @worker.task(name="note", pass_context=True)
    def note(context: JobContext) -> None:
        with context.transaction() as connection:
            seen.append(one(connection, "SELECT session_user"))

    with App(as_login(granted, LOGINS["producer"])).open() as producer:
        assert producer.check_connection()
        sums = producer.configure_task("add", lock="sums").batch_defer(
            {"a": 1, "b": 2}, {"a": 3, "b": 4}
        )
        noted = producer.configure_task("note", queueing_lock="k", on_conflict="replace").defer()
        unwanted = producer.configure_task("add", schedule_in={"hours": 1}).defer(a=1, b=1)
        assert producer.job_manager.cancel_job_by_id(unwanted)
        worker.run_worker()
        assert [producer.job_manager.result(job) for job in sums] == [3, 7]
        assert seen == [LOGINS["worker"]]
        statuses = [producer.job_manager.get_job_status(job) for job in (noted, unwanted)]
        assert statuses == [Status.SUCCEEDED, Status.CANCELLED]


@pytest.mark.anyio
async def test_a_worker_keeps_its_schedules_and_deletes_old_jobs(
    granted: str, admin: Session
) -> None:
    app = App(
        as_login(granted, LOGINS["worker"]),
        worker_defaults={**QUIET, "wait": True, "keep_history": 1},
    )
    ticks: list[int] = []
    enough = anyio.Event()

    @app.periodic(cron="* * * * * *", periodic_id="tick")
    @app.task(name="tick", lock="tick")  # each deletes the one before it
    async def tick(timestamp: int) -> None:
        ticks.append(timestamp)
        await app.job_manager.delete_old_jobs_async(0)
        if len(ticks) == 2:
            enough.set()

    with anyio.fail_after(120):
        async with anyio.create_task_group() as running:
            running.start_soon(app.run_worker_async)
            await enough.wait()
            running.cancel_scope.cancel()
    assert one(admin, "SELECT count(*) FROM inturn.schedules") == 1
    assert one(admin, "SELECT count(*) FROM inturn.finished_jobs") <= 1


def test_an_operator_sees_and_changes_everything_that_python_and_the_command_line_offer(
    granted: str, admin: Session
) -> None:
    with App(granted).open() as root:
        first, second, third, fourth = root.configure_task("t", lock="lane").batch_defer(
            *[{"n": n} for n in range(4)]
        )
        free = root.configure_task("t", schedule_in={"hours": 1}).defer(n=5)
    with App(as_login(granted, LOGINS["operator"])).open() as app:
        jobs_, lanes_ = app.job_manager, app.lanes
        assert lanes_.pause("lane", reason="stop", until=datetime.now(UTC) + timedelta(hours=1))
        assert [lane.lock for lane in lanes_.list()] == ["lane"]
        assert lanes_.show("lane") is not None
        assert jobs_.explain(first)[0].reason == "lane paused"
        assert lanes_.resume("lane")
        assert lanes_.skip_head("lane") == first
        assert lanes_.retry_head("lane") is None
        assert jobs_.cancel_job_by_id(second, delete_job=True)
        assert lanes_.cancel_waiting("lane") == 2
        assert jobs_.retry_job_by_id(third, lock="other lane", priority=3)
        assert jobs_.retry_job_by_id(fourth)
        assert jobs_.retry_job_by_id(free)
        assert {job.id: job.task_kwargs for job in jobs_.list_jobs()}[third] == {"n": 2}
        assert [counts["name"] for counts in jobs_.list_queues()] == ["default"]
        assert [counts["name"] for counts in jobs_.list_locks()] == ["lane", "other lane"]
        assert [counts["name"] for counts in jobs_.list_tasks()] == ["t"]
        assert jobs_.get_stalled_jobs() == []
        assert jobs_.delete_old_jobs(0, include_cancelled=True) >= 0
        for look in (
            lanes.report_lane("lane"), workers.list_workers(9), lanes.list_audit("lane", 9),
            jobs.get_job(third),
            schedules.list_schedules(9),
            jobs.list_summaries(jobs.JobFilter(), 9), jobs.count_jobs(jobs.JobFilter(), 9),
            lanes.count_lanes(9),
        ):  # fmt: skip
            app.connector.run(look)
    whos = admin.execute("SELECT DISTINCT who FROM inturn.lane_audit").fetchall()
    assert whos == [(LOGINS["operator"],)]


def test_a_producer_that_names_itself_is_recorded_and_operators_and_monitors_read_it(
    admin: Session, log_in: Log
) -> None:
    job = one(admin, "SELECT inturn.defer('t')")
    assert one(log_in("producer"), "SELECT inturn.cancel_job(%s, p_by => 'web')", job)
    for kind in ("operator", "monitor"):
        found = log_in(kind).execute("SELECT who, operation, job_id FROM inturn.lane_audit")
        assert found.fetchall() == [("web", "cancel-job", job)]


@pytest.mark.parametrize(("kind", "may_read_errors"), [("operator", True), ("monitor", False)])
def test_the_doctor_needs_no_more_than_a_monitor_may(
    granted: str, admin: Session, log_in: Log, kind: str, may_read_errors: bool
) -> None:
    for lock in "abc":
        admin.execute("SELECT inturn.defer('t', lock => %s, on_failure => 'halt')", [lock])
    jobs_ = admin.execute(
        "SELECT id, claim_id FROM inturn.claim(inturn.register_worker('w', 'h', 1, NULL, 3), NULL, 3)"
    ).fetchall()
    admin.execute(
        "SELECT inturn.finish(NULL, NULL, 0, %s::bigint[], %s::uuid[], "
        "'{failed,failed,failed}', array_fill(%s::jsonb, '{3}'))",
        [[id for id, _ in jobs_], [claim for _, claim in jobs_], '{"error": "secret"}'],
    )
    admin.execute("SELECT inturn.heartbeat(id, p_trouble => 'secret') FROM inturn.workers")
    found = {each.check: each for each in examine(Database(log_in(kind), "inturn"))}
    assert found["schema"].state == "ok"
    assert found["workers"].detail.startswith("refused by the database")
    assert found["lanes"].detail.startswith("3 lanes are halted")
    assert found["errors"].state == found["failures"].state == "warn"
    for check in ("errors", "failures", "workers"):
        assert ("secret" in found[check].detail) == may_read_errors


def test_a_monitor_reads_the_views_without_what_jobs_are_given_and_say(
    admin: Session, log_in: Log
) -> None:
    admin.execute("SELECT inturn.defer('t', %s::jsonb)", [SECRET])
    monitor = log_in("monitor")
    assert one(monitor, "SELECT task FROM inturn.all_jobs") == "t"
    assert one(monitor, "SELECT runnable FROM inturn.queue_status") == 1
    assert one(monitor, "SELECT max(done) FROM inturn.progress") is None
    for statement in (
        "SELECT * FROM inturn.worker_status",
        "SELECT lock, waiting FROM inturn.lane_status",
    ):
        assert monitor.execute(statement.encode()).fetchall() == []
    with_secrets = ("all_jobs", "live_jobs", "jobs", "finished_jobs", "lane_status", "progress")
    for hidden in (*with_secrets, "recent_failures", "shared_errors"):
        with pytest.raises(InsufficientPrivilege):
            monitor.execute(f"SELECT * FROM inturn.{hidden}".encode())


# ------------------------------------------------------------------ what they may not

NOT_BY_ANYBODY = [
    "INSERT INTO inturn.jobs (task, created_at, status, worker_id, claim_id) "
    "VALUES ('t', now(), 'doing', gen_random_uuid(), gen_random_uuid())",
    "INSERT INTO inturn.jobs (task, created_at, status) VALUES ('t', now(), 'todo')",
    "UPDATE inturn.jobs SET priority = 9",
    "DELETE FROM inturn.jobs",
    "INSERT INTO inturn.finished_jobs SELECT * FROM inturn.finished_jobs",
    "DELETE FROM inturn.finished_jobs_default",
    "UPDATE inturn.lanes SET worker_id = NULL",
    "INSERT INTO inturn.lane_audit (at, who, operation, lock, jobs) "
    "VALUES (now(), 'me', 'pause', 'x', 0)",
    "DELETE FROM inturn.workers",
    "UPDATE inturn.fences_seen SET token = 0",
    "UPDATE inturn.progress SET done = 0",
    "INSERT INTO inturn.granted_roles VALUES (current_user, 'operator')",
    "SELECT nextval('inturn.fences')",
    "SELECT setval('inturn.jobs_id_seq', 1)",
    "LOCK TABLE inturn.jobs",
    "TRUNCATE inturn.jobs",
    "ALTER TABLE inturn.jobs ADD COLUMN colour text",
    "ALTER FUNCTION inturn.defer SECURITY INVOKER",
    "CREATE OR REPLACE FUNCTION inturn.clock() RETURNS timestamptz LANGUAGE sql AS 'SELECT now()'",
    "CREATE TABLE inturn.mine (id int)",
    "CREATE FUNCTION inturn.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "DROP FUNCTION inturn.claim",
    "DROP SCHEMA inturn CASCADE",
    "SET ROLE inturn_test_owner",
    "SELECT inturn.grant_to(current_user, 'operator')",
    "SELECT inturn.archive_jobs('{1}', NULL, '{succeeded}', NULL)",
    "SELECT inturn.start_jobs(gen_random_uuid(), '{1}', false)",
    "SELECT inturn.restore_job(1)",
    "SELECT inturn.lock_lane('x')",
    "SELECT inturn.audit('pause', 'x', 0, 'somebody else', NULL)",
    "SELECT inturn.notify_workers(NULL)",
    "SELECT inturn.replace_waiting(1, 't', '{}', NULL)",
]
ARGUMENTS = [
    "SELECT args FROM inturn.jobs",
    "SELECT args FROM inturn.all_jobs",
    "SELECT args FROM inturn.finished_jobs",
    "SELECT args FROM inturn.finished_jobs_default",
    "SELECT progress FROM inturn.all_jobs",
    "SELECT text FROM inturn.progress",
    "SELECT args FROM inturn.jobs_of_worker(gen_random_uuid())",
]
DEFER = [
    "SELECT inturn.defer('t')",
    "SELECT inturn.defer_jobs('{t}', ARRAY['{}'::jsonb], '{default}', NULL, '{0}', NULL, NULL)",
]
DEFER_ANY = [
    "SELECT inturn.defer('%s')",
    "SELECT inturn.defer_job('%s', '{}', 'q', NULL, 0, NULL, NULL, 'hold', 'continue', NULL)",
    "SELECT inturn.defer_jobs('{t,%s}', ARRAY['{}'::jsonb, '{}'], NULL, NULL, NULL, NULL, NULL)",
    "SELECT inturn.open_batch('b', '%s')",
]
WORK = [
    REGISTER,
    "SELECT inturn.claim(gen_random_uuid(), NULL, 1)",
    "SELECT inturn.rescue()",
    "SELECT inturn.declare_dead('{}', '{}')",
    "SELECT inturn.finish(NULL, NULL, 0, '{1}', ARRAY[gen_random_uuid()], '{succeeded}', '{NULL}')",
    "SELECT inturn.prune_history('0 s')",
    "SELECT inturn.report_progress('{1}', '{1}', '{1}', '{NULL}', '{NULL}')",
    "SELECT inturn.prune_progress(0, 9)",
]
OPERATE = [
    "SELECT inturn.pause_lane('x')",
    "SELECT inturn.skip_head('x')",
    "SELECT inturn.retry_job(1)",
    "SELECT inturn.delete_job(1)",
    "SELECT inturn.explain(1)",
]
AUDIT = "SELECT who FROM inturn.lane_audit"
NOT_BY = {
    "producer": [
        *ARGUMENTS,
        *WORK,
        *OPERATE,
        AUDIT,
        "SELECT inturn.delete_old_jobs('0 s', NULL, '{failed}')",
        *(statement % "builtin:remove" for statement in DEFER_ANY),
    ],
    "worker": [
        *ARGUMENTS[:-1],
        *DEFER,
        *OPERATE,
        AUDIT,
        "SELECT inturn.cancel_job(1)",
        "SELECT inturn.await_end(1)",
    ],
    "operator": [ARGUMENTS[-1], *DEFER, *WORK],
    "monitor": [
        *ARGUMENTS,
        "SELECT inturn.count_jobs(9, inturn.jobs_where('{failed}', error => 'card 4'))",
        *DEFER,
        *WORK,
        *OPERATE,
        "SELECT inturn.cancel_job(1)",
        "SELECT inturn.await_end(1)",
    ],
}
REFUSED = [
    (kind, statement) for kind, own in NOT_BY.items() for statement in [*NOT_BY_ANYBODY, *own]
]


def test_a_role_is_refused_everything_that_it_was_not_granted(admin: Session, log_in: Log) -> None:
    admin.execute("SELECT inturn.defer('t', %s::jsonb)", [SECRET])
    sessions = {kind: log_in(kind) for kind in NOT_BY}
    done = []
    for kind, statement in REFUSED:
        try:
            with sessions[kind].transaction():
                sessions[kind].execute(statement.encode())
        except InsufficientPrivilege:
            continue
        done.append((kind, statement))
    assert done == []


@pytest.mark.parametrize("statement", DEFER_ANY)
def test_a_producer_defers_whatever_is_not_built_in_and_who_may_delete_defers_that_too(
    admin: Session, log_in: Log, statement: str
) -> None:
    """A built-in task deletes old jobs, with the rights of the worker that runs it."""
    producer = log_in("producer")
    for task in ("t", "built", "a.builtin:remove", "Builtin:remove"):
        assert one(producer, statement % task)
    refused = "'builtin:remove' is built in. Only a role that may delete old jobs may defer it"
    with pytest.raises(InsufficientPrivilege, match=refused):
        producer.execute((statement % "builtin:remove").encode())
    assert one(admin, statement % "builtin:remove")
    admin.execute(f"GRANT {LOGINS['worker']} TO {LOGINS['producer']}")
    try:
        assert one(producer, statement % "builtin:remove")
    finally:
        admin.execute(f"REVOKE {LOGINS['worker']} FROM {LOGINS['producer']}")


def test_the_owner_could_do_all_of_it(log_in: Log) -> None:
    """So nothing above is refused for being wrong."""
    owner = log_in("owner")
    owner.execute("SET search_path = inturn, pg_temp")
    wrong = []
    for statement in sorted({statement for _, statement in REFUSED}):
        try:
            with owner.transaction(force_rollback=True):
                owner.execute(statement.encode())
        except psycopg.Error as error:
            if (error.sqlstate or "").startswith(
                ("22", "42")
            ):  # else it was allowed, and there is no such job
                wrong.append((statement, str(error)))
    assert wrong == []


def test_a_job_is_finished_by_nobody_who_does_not_know_its_claim(
    admin: Session, log_in: Log
) -> None:
    admin.execute("SELECT inturn.defer('t')")
    worker, other = log_in("worker"), log_in("worker")
    mine = one(worker, REGISTER)
    job, claim = worker.execute(CLAIM, [mine]).fetchone() or (None, None)
    theirs = one(other, REGISTER)
    guess = one(other, "SELECT gen_random_uuid()")
    assert other.execute(FINISH, [theirs, [job], [guess]]).fetchall() == []
    assert one(other, "SELECT count(*) FROM inturn.jobs_of_worker(%s)", theirs) == 0
    assert worker.execute(FINISH, [mine, [job], [claim]]).fetchall() == [(job,)]


@pytest.mark.parametrize("kind", ["producer", "worker", "operator"])
def test_no_temporary_object_stands_in_for_one_of_the_schema(
    admin: Session, log_in: Log, kind: str
) -> None:
    session = log_in(kind)
    session.execute("SET search_path = pg_temp, public")
    for table in ("jobs", "workers", "lanes", "finished_jobs"):
        session.execute(f"CREATE TEMP TABLE {table} (LIKE pg_class)".encode())
    session.execute(
        "CREATE FUNCTION pg_temp.clock() RETURNS timestamptz "
        "LANGUAGE sql AS $$SELECT 'epoch'::timestamptz$$"
    )
    call = {
        "producer": "SELECT inturn.defer('t')",
        "worker": REGISTER,
        "operator": "SELECT inturn.pause_lane('x')",
    }[kind]
    session.execute(call.encode())
    where = {
        "producer": "created_at FROM inturn.jobs",
        "worker": "started_at FROM inturn.workers",
        "operator": "since FROM inturn.lanes",
    }
    assert abs(one(admin, f"SELECT now() - {where[kind]}")) < timedelta(minutes=1)


# ------------------------------------------------------------------ the clock

PAST = "SELECT set_config('inturn.clock', '2001-01-01 00:00:00+00', false)"
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
BORN = "SELECT created_at FROM inturn.jobs ORDER BY id DESC LIMIT 1"


@pytest.mark.parametrize(
    "setting", [PAST, "SELECT set_config('inturn.clock', 'not a time', false)"]
)
def test_a_producer_cannot_set_the_clock(admin: Session, log_in: Log, setting: str) -> None:
    producer = log_in("producer")
    producer.execute(setting.encode())
    producer.execute("SELECT inturn.defer('t')")
    assert one(admin, "SELECT now() - created_at < interval '1 hour' FROM inturn.jobs")


def test_a_worker_cannot_outlive_its_heartbeat_by_the_clock(admin: Session, log_in: Log) -> None:
    worker = log_in("worker")
    worker.execute("SELECT set_config('inturn.clock', '2099-01-01 00:00:00+00', false)")
    worker.execute(REGISTER.encode())
    assert one(admin, "SELECT heartbeat_at < now() + interval '1 hour' FROM inturn.workers")


@pytest.mark.parametrize("who", ["owner", "superuser"])
def test_the_owner_of_the_schema_can_set_the_clock(admin: Session, log_in: Log, who: str) -> None:
    session = log_in("owner") if who == "owner" else admin
    session.execute(PAST)
    session.execute("SELECT inturn.defer('t')")
    assert one(admin, BORN) == LONG_AGO
    with admin.transaction():
        assert one(session, "SELECT inturn.clock()") == LONG_AGO


def test_a_missing_right_is_named_with_the_login_and_the_command_that_gives_it(
    granted: str, tmp_path: Path
) -> None:
    login = LOGINS["monitor"]
    dsn = as_login(granted, login)
    advice = f"The owner of the schema can give it: queue schema grants --apply --producer {login}"
    refused = rf"^Login {login} lacks a privilege: permission denied for function \w+\. {advice}$"
    with App(dsn).open() as app, pytest.raises(DatabaseUnavailable, match=refused):
        app.configure_task("t").defer()
    with closing(psycopg2.connect(dsn)) as old, pytest.raises(DatabaseUnavailable, match=refused):
        app.configure_task("t", connection=old).defer()
    ended = invoke("jobs", "retry", "1", "--dsn", dsn, folder=tmp_path)
    assert f"Login {login} lacks a privilege: permission denied" in ended.stderr
    assert f"queue schema grants --apply --operator {login}\n" in ended.stderr


@pytest.mark.anyio
async def test_asyncpg_tells_the_login_too(granted: str) -> None:
    login = LOGINS["monitor"]
    connection = await asyncpg.connect(**asyncpg_options(as_login(granted, login)))
    with pytest.raises(DatabaseUnavailable, match=f"^Login {login} lacks a privilege"):
        await App(granted).configure_task("t", connection=connection).defer_async()
    await connection.close()


def test_a_login_without_any_role_is_told_of_all(granted: str, admin: Session) -> None:
    create_role(admin, f"{PREFIX}_stranger", "LOGIN")
    with pytest.raises(DatabaseUnavailable, match="permission denied for schema") as raised:
        App(as_login(granted, f"{PREFIX}_stranger")).run_worker(**QUIET, db_grace=0)
    assert str(raised.value).endswith(
        f"--apply --producer {PREFIX}_stranger (or --worker, --monitor, --operator)"
    )


def test_what_the_errors_know_of_rights_is_what_the_database_grants(admin: Session) -> None:
    listed = admin.execute("SELECT name, roles FROM inturn.surface WHERE columns IS NULL")
    assert rights.read_rights() == {name: frozenset(roles) for name, roles in listed.fetchall()}
