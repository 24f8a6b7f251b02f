"""After a job has ended: waiting for its end, and the days of the history.

The stories are told as in test_interleavings.
"""

from typing import LiteralString, cast

import psycopg
import pytest

from tests.race.harness import Job, Mutation, PromiseBroken, Session, Stage, Worker, promise, story

TOLD = "inturn ended"

NOT_MARKED = Mutation(
    "a waiter leaves no mark",
    "await_end.sql",
    "UPDATE jobs SET has_waiters = true WHERE id = p_id AND NOT has_waiters;",
    "PERFORM FROM jobs WHERE id = p_id FOR UPDATE;",
)


@story(
    NOT_MARKED,
    Mutation(
        "waiters are not notified",
        "notify_ended.sql",
        "PERFORM pg_notify('inturn ended', p_id::text);",
        "",
    ),
    Mutation(
        "whether somebody waits is read from before the finish could lock the job",
        "archive_jobs.sql",
        "NOT gone.has_waiters OR",
        "NOT (SELECT j.has_waiters FROM jobs AS j WHERE j.id = gone.id) OR",
    ),
)
def test_a_waiter_that_begins_just_before_a_finish_is_notified(stage: Stage) -> None:
    producer, worker, waiter = stage.session(), stage.worker(), stage.session()
    [first] = producer.defer("a")
    running = worker.claim_one()
    stage.make_gate("archive_jobs.sql", "jobs.claim_id IS NOT DISTINCT FROM ended.claim_id")
    with stage.notifications(TOLD) as notifications:
        worker.start_until("gate", worker.finish, running)
        promise(waiter.await_end(first) == "doing", "it runs")
        promise(worker.resume().accepted == [first], "it ends")
    promise(notifications == [str(first)], f"the waiter is notified, once: {notifications}")
    promise(waiter.await_end(first) == "succeeded", "and sees it")


@story(
    Mutation(
        "a waiter looks without waiting for a finish",
        "await_end.sql",
        "UPDATE jobs SET has_waiters = true WHERE id = p_id AND NOT has_waiters;",
        "UPDATE jobs SET has_waiters = true WHERE id = (SELECT id FROM jobs WHERE id = p_id FOR UPDATE SKIP LOCKED);",
    ),
    Mutation(
        "a waiter looks in the statement that marks",
        "await_end.sql",
        "UPDATE jobs SET has_waiters = true WHERE id = p_id AND NOT has_waiters;\n"
        "    -- One statement for both tables: a job that is being restored is in exactly one of them.\n"
        "    RETURN QUERY\n",
        "RETURN QUERY WITH marked AS (UPDATE jobs SET has_waiters = true WHERE id = p_id AND NOT has_waiters)\n",
    ),
)
def test_a_waiter_that_begins_during_a_finish_sees_the_end(stage: Stage) -> None:
    producer, worker, waiter = stage.session(), stage.worker(), stage.session()
    [first] = producer.defer("a")
    running = worker.claim_one()
    worker.begin()
    worker.finish(running)
    waiter.start(waiter.await_end, first)
    worker.commit()
    promise(waiter.result() == "succeeded", "nobody would tell it any more")


@story(NOT_MARKED)
def test_a_mark_outlives_a_retry(stage: Stage) -> None:
    producer, worker, waiter = stage.session(), stage.worker(), stage.session()
    [first] = producer.defer("a")
    promise(waiter.await_end(first) == "todo", "it waits")
    worker.retry(worker.claim_one())
    with stage.notifications(TOLD) as notifications:
        worker.finish(worker.claim_one())
    promise(notifications == [str(first)], f"the waiter is notified: {notifications}")


# ------------------------------------------------------- the reply to a task's own COMMIT was lost


HURRY = Mutation(
    "a COMMIT in progress counts as not ended",
    "has_ended.sql",
    "        RETURN NULL;",
    "        RETURN false;",
)
UNSEEN = Mutation(
    "a COMMIT in progress counts as ended",
    "has_ended.sql",
    "    ELSIF EXISTS (",
    "    ELSIF false AND EXISTS (",
)
ANYBODY = Mutation(
    "a job that anybody has finished counts as finished by this attempt",
    "has_ended.sql",
    " AND fence = p_fence",
    "",
)


@story(HURRY)
def test_of_a_commit_that_is_still_under_way_it_is_not_known_yet(stage: Stage) -> None:
    producer, worker, asking = stage.session(), stage.worker(), stage.session()
    [first] = producer.defer("a")
    running = worker.claim_one()
    fence = fence_of(stage, first)
    worker.begin()
    worker.finish(running, want=0)
    promise(asking.has_ended(running, fence) is None, "nobody can know yet")
    worker.commit()
    promise(
        asking.has_ended(running, fence) is True, "it has committed, so nothing is to be done again"
    )


@story(HURRY, UNSEEN)
def test_a_commit_that_did_not_come_through_is_no_end(stage: Stage) -> None:
    producer, worker, asking = stage.session(), stage.worker(), stage.session()
    [first] = producer.defer("a")
    running = worker.claim_one()
    fence = fence_of(stage, first)
    worker.begin()
    worker.finish(running, want=0)
    promise(asking.has_ended(running, fence) is None, "nobody can know yet")
    worker.rollback()
    promise(
        asking.has_ended(running, fence) is False,
        "it was not known before, and then it had not ended",
    )
    promise(stage.drain() == [first], "it is done again")


@story(ANYBODY)
def test_the_end_of_the_next_attempt_is_not_taken_for_ones_own(stage: Stage) -> None:
    producer, zombie, other, rescuer = (
        stage.session(),
        stage.worker(),
        stage.worker(),
        stage.session(),
    )
    [first] = producer.defer("a")
    lost = zombie.claim_one()
    fence = fence_of(stage, first)
    stage.forget(zombie)
    rescuer.rescue()
    promise(zombie.has_ended(lost, fence) is False, "it waits for its next attempt")
    again = other.claim_one()
    promise(zombie.has_ended(lost, fence) is False, "it is done by somebody else")
    theirs = fence_of(stage, first)
    other.finish(again)
    promise(zombie.has_ended(lost, fence) is False, "and was finished by them")
    promise(other.has_ended(again, theirs) is True, "as they know")


def fence_of(stage: Stage, job: int) -> int:
    [(fence,)] = stage.control.execute("SELECT fence FROM jobs WHERE id = %s", [job]).fetchall()
    return int(fence)


# ---------------------------------------------------------------- the days of the history

READERS_GO_ON = Mutation(
    "only writers are locked out while a day is prepared",
    "prepare_history.sql",
    "IN ACCESS EXCLUSIVE MODE",
    "IN EXCLUSIVE MODE",
)


@pytest.mark.fresh_database
@story(READERS_GO_ON)
def test_a_job_is_found_in_the_history_while_its_day_is_prepared(stage: Stage) -> None:
    """It moves from the default partition to its own, which a reader may not know of yet."""
    producer, worker, reader, upkeep = (
        stage.session(),
        stage.worker(),
        stage.session(),
        stage.session(),
    )
    [first] = producer.defer("a")
    worker.finish(worker.claim_one())
    upkeep.begin()
    upkeep.run("SELECT prepare_history(1)")
    reader.start(reader.await_end, first)
    upkeep.commit()
    promise(reader.result() == "succeeded", "it is there")


@pytest.mark.fresh_database
@story(
    Mutation(
        "writers are not locked out while a day is prepared",
        "prepare_history.sql",
        "LOCK TABLE finished_jobs IN ACCESS EXCLUSIVE MODE;",
        "",
    )
)
def test_a_job_ends_while_its_day_is_prepared(stage: Stage) -> None:
    producer, worker, upkeep = stage.session(), stage.worker(), stage.session()
    [first] = producer.defer("a")
    running = worker.claim_one()
    upkeep.begin()
    upkeep.run("SELECT prepare_history(1)")
    worker.start(finished, worker, running)
    upkeep.commit()
    promise(worker.result(), "it ends, in its day")
    promise(
        stage.control.execute("SELECT count(*) FROM finished_jobs_default").fetchall() == [(0,)],
        "not beside it",
    )
    promise(stage.drain() == [] and first == running.id, "nothing is left")


@pytest.mark.fresh_database
@story(
    Mutation("a lock that is not available is an error", "prepare_history.sql",
             "EXCEPTION WHEN lock_not_available", "EXCEPTION WHEN division_by_zero"),
    Mutation("two callers prepare the same day at once", "prepare_history.sql", "IF NOT pg_try",
             "IF false AND NOT pg_try"),
)  # fmt: skip
def test_days_are_prepared_by_one_and_only_when_nobody_uses_the_history(stage: Stage) -> None:
    reader, one, two = stage.session(), stage.session(), stage.session()
    prepare: LiteralString = "SELECT prepare_history(3)"
    reader.begin()
    reader.run("SELECT FROM finished_jobs")
    promise(
        one.run(prepare) == [(None,)],
        "a dump may take hours, and those who finish jobs would wait behind us",
    )
    reader.commit()
    one.begin()
    promise(one.run(prepare) == [(4,)], "now there are today and three days more")
    one.rollback()
    one.begin()
    one.run("SELECT pg_advisory_xact_lock(hashtextextended('inturn history inturn', 0))")
    promise(two.run(prepare) == [(None,)], "somebody else asks already")
    one.commit()
    promise(two.run(prepare) == [(4,)] and two.run(prepare) == [(0,)], "once")


OLD = "-40 days"


def prepare_an_old_day(stage: Stage, *, halted: bool = False) -> int:
    """Return a job that failed long ago. The history has it in its day. It may halt its lane."""
    then, worker = stage.session(), stage.worker()
    for session in (then, worker):
        session.hasten(OLD)
    then.run("SELECT prepare_history(0)")
    stage.control.execute("SELECT prepare_history(1)")
    [old] = then.defer("old", on_failure="halt" if halted else "continue")
    worker.finish(worker.claim_one(), status="failed")
    promise(days(stage) == 3, "its day, today and tomorrow")
    return old


def days(stage: Stage) -> int:
    [(count,)] = stage.control.execute(
        "SELECT count(*) FROM pg_inherits WHERE inhparent = 'finished_jobs'::regclass"
        " AND inhrelid <> 'finished_jobs_default'::regclass"
    ).fetchall()
    return int(count)


def prune(session: Session) -> int | None:
    try:
        [(dropped,)] = session.run("SELECT prune_history('10 days')")
    except psycopg.errors.UndefinedTable as error:
        raise PromiseBroken(f"a day is dropped twice: {error}") from error
    return cast(int | None, dropped)


@pytest.mark.fresh_database
@story(
    Mutation(
        "today is dropped as well",
        "prune_history.sql",
        "date := clock() - keep_for(p_keep, p_is_default)",
        "date := 'tomorrow'::date + 3",  # even if it is not counted
    ),
)
def test_a_job_ends_while_old_days_are_dropped(stage: Stage) -> None:
    old = prepare_an_old_day(stage)
    producer, worker, upkeep = stage.session(), stage.worker(), stage.session()
    [first] = producer.defer("a")
    running = worker.claim_one()
    upkeep.begin()
    upkeep.run("SELECT prune_history('10 days')")
    worker.start(finished, worker, running)
    upkeep.commit()
    promise(worker.result(), "it ends")
    promise(days(stage) == 2, "the old day is gone")
    rows = stage.control.execute("SELECT id FROM finished_jobs").fetchall()
    promise(rows == [(first,)], f"and {old} with it, but nothing else")
    promise(
        stage.control.execute("SELECT FROM finished_jobs_default").fetchall() == [],
        "it lies in its day",
    )


@pytest.mark.fresh_database
@story(
    Mutation(
        "the days to drop are chosen before the lock is taken",
        "prune_history.sql",
        "    LOCK TABLE finished_jobs IN ACCESS EXCLUSIVE MODE;\n"
        "    IF is_moving() THEN\n        RETURN NULL;\n    END IF;\n"
        "    FOREACH v_day IN ARRAY history_days(v_before) LOOP",
        "    FOREACH v_day IN ARRAY history_days(v_before) LOOP LOCK TABLE finished_jobs IN ACCESS EXCLUSIVE MODE;",
    )
)
def test_two_workers_may_drop_old_days_at_once(stage: Stage) -> None:
    prepare_an_old_day(stage)
    one, two, reader = stage.session(), stage.session(), stage.session()
    stage.take_time("prune_history.sql", "SET lock_timeout = '50ms'")
    reader.begin()
    reader.run("SELECT FROM finished_jobs")
    for session in (one, two):
        session.start(prune, session)
    reader.commit()
    promise(
        one.result() == 1 and two.result() == 0,
        "the first one drops the day, and nothing is left to the second",
    )
    promise(days(stage) == 2, "only the old day")


@pytest.mark.fresh_database
@story(
    Mutation(
        "a reader of the history makes the pruning fail",
        "prune_history.sql",
        "lock_not_available",
        "division_by_zero",
    ),
)
def test_while_somebody_reads_the_history_nothing_is_dropped(stage: Stage) -> None:
    prepare_an_old_day(stage)
    reader, upkeep, worker = stage.session(), stage.session(), stage.worker()
    worker.defer(None)
    running = worker.claim_one()
    reader.begin()
    reader.run("SELECT FROM finished_jobs")
    promise(prune(upkeep) is None and days(stage) == 3, "it comes back later")
    promise(finished(worker, running), "and holds up nobody")
    reader.commit()
    promise(prune(upkeep) == 1 and days(stage) == 2, "now it is gone")


@pytest.mark.fresh_database
@story(
    Mutation(
        "a failed job that halts its lane is dropped with its day",
        "prune_history.sql",
        "WHERE id IN (SELECT failed_job_id",
        "WHERE false AND id IN (SELECT failed_job_id",
    ),
    Mutation(
        "a failed job that halts its lane is deleted beside the days",
        "prune_history.sql",
        " AND NOT EXISTS (SELECT FROM lanes WHERE failed_job_id = old.id)",
        "",
    ),
)
def test_a_job_that_halts_its_lane_outlives_its_day(stage: Stage) -> None:
    old = prepare_an_old_day(stage, halted=True)
    upkeep, operator = stage.session(), stage.session()
    promise(prune(upkeep) == 1 and prune(upkeep) == 0, "its day is gone")
    promise(operator.retry_head("old") == old, "it can still be tried again")
    promise(stage.drain() == [old], "and is done")


def finished(worker: Worker, job: Job) -> bool:
    try:
        return worker.finish(job).accepted == [job.id]
    except psycopg.errors.CheckViolation:
        return False
