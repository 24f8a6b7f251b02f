"""What becomes of a job that has ended: who waits for its end, and the days of the history. Told as in test_interleavings."""

import psycopg

from tests.race.harness import Job, Mutation, Stage, Worker, promise, story

TOLD = "inturn ended"

NOT_MARKED = Mutation(
    "who waits leaves no mark",
    "await_end.sql",
    "UPDATE jobs SET awaited = true WHERE id = p_id AND NOT awaited;",
    "PERFORM FROM jobs WHERE id = p_id FOR UPDATE;",
)


@story(
    NOT_MARKED,
    Mutation("nobody is told", "tell_ended.sql", "PERFORM pg_notify('inturn ended', p_id::text);", ""),
    Mutation(
        "whether somebody waits is read from before the finish could lock the job",
        "bury.sql",
        "NOT gone.awaited OR",
        "NOT (SELECT j.awaited FROM jobs AS j WHERE j.id = gone.id) OR",
    ),
)
def test_who_begins_to_wait_just_before_a_finish_is_told(stage: Stage) -> None:
    producer, worker, waiter = stage.session(), stage.worker(), stage.session()
    [first] = producer.defer("a")
    running = worker.claim_one()
    with stage.notifications(TOLD) as heard:
        waiter.begin()
        promise(waiter.await_end(first) == "doing", "it runs")
        worker.start(worker.finish, running)
        waiter.commit()
        promise(worker.result().accepted == [first], "it ends")
    promise(heard == [str(first)], f"who waits is told, once: {heard}")
    promise(waiter.await_end(first) == "succeeded", "and sees it")


@story(
    Mutation(
        "who waits looks without waiting for a finish",
        "await_end.sql",
        "UPDATE jobs SET awaited = true WHERE id = p_id AND NOT awaited;",
        "UPDATE jobs SET awaited = true WHERE id = (SELECT id FROM jobs WHERE id = p_id FOR UPDATE SKIP LOCKED);",
    ),
    Mutation(
        "who waits looks in the statement that marks",
        "await_end.sql",
        "UPDATE jobs SET awaited = true WHERE id = p_id AND NOT awaited;\n"
        "    -- One statement for both tables: a job that is just brought back to life is in one of them.\n"
        "    RETURN QUERY\n",
        "RETURN QUERY WITH marked AS (UPDATE jobs SET awaited = true WHERE id = p_id AND NOT awaited)\n",
    ),
)
def test_who_begins_to_wait_during_a_finish_sees_the_end(stage: Stage) -> None:
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
    with stage.notifications(TOLD) as heard:
        worker.finish(worker.claim_one())
    promise(heard == [str(first)], f"who waits is told: {heard}")


# ---------------------------------------------------------------- the reply to a task's own COMMIT was lost


HURRY = Mutation("what is still being committed is not waited for", "has_ended.sql", " FOR UPDATE;", ";")
ANYBODY = Mutation(
    "a job that anybody has finished counts as finished by this attempt", "has_ended.sql", " AND fence = p_fence", ""
)


@story(HURRY)
def test_a_commit_that_is_still_under_way_is_waited_for(stage: Stage) -> None:
    producer, worker, asking = stage.session(), stage.worker(), stage.session()
    [first] = producer.defer("a")
    running = worker.claim_one()
    fence = fence_of(stage, first)
    worker.begin()
    worker.finish(running, want=0)
    asking.start(asking.has_ended, running, fence)
    worker.commit()
    promise(asking.result(), "it has committed, so nothing is to be done again")


@story(HURRY)
def test_a_commit_that_did_not_come_through_is_no_end(stage: Stage) -> None:
    producer, worker, asking = stage.session(), stage.worker(), stage.session()
    [first] = producer.defer("a")
    running = worker.claim_one()
    fence = fence_of(stage, first)
    worker.begin()
    worker.finish(running, want=0)
    asking.start(asking.has_ended, running, fence)
    waited = bool(stage.waits_of(asking))
    worker.rollback()
    promise(waited and not asking.result(), "it was not known before, and then it had not ended")
    promise(stage.drain() == [first], "it is done again")


@story(ANYBODY)
def test_the_end_of_the_next_attempt_is_not_taken_for_ones_own(stage: Stage) -> None:
    producer, zombie, other, rescuer = stage.session(), stage.worker(), stage.worker(), stage.session()
    [first] = producer.defer("a")
    lost = zombie.claim_one()
    fence = fence_of(stage, first)
    stage.forget(zombie)
    rescuer.rescue()
    promise(not zombie.has_ended(lost, fence), "it waits for its next attempt")
    again = other.claim_one()
    promise(not zombie.has_ended(lost, fence), "it is done by somebody else")
    theirs = fence_of(stage, first)
    other.finish(again)
    promise(not zombie.has_ended(lost, fence), "and was finished by them")
    promise(other.has_ended(again, theirs), "as they know")


def fence_of(stage: Stage, job: int) -> int:
    [(fence,)] = stage.control.execute("SELECT fence FROM jobs WHERE id = %s", [job]).fetchall()
    return int(fence)


# ---------------------------------------------------------------- the days of the history

READERS_GO_ON = Mutation(
    "only writers are shut out while a day is prepared",
    "prepare_history.sql",
    "IN ACCESS EXCLUSIVE MODE",
    "IN EXCLUSIVE MODE",
)


@story(READERS_GO_ON)
def test_a_job_is_found_in_the_history_while_its_day_is_prepared(stage: Stage) -> None:
    """It moves from the default partition to its own, which a reader may not know of yet."""
    producer, worker, reader, upkeep = stage.session(), stage.worker(), stage.session(), stage.session()
    [first] = producer.defer("a")
    worker.finish(worker.claim_one())
    upkeep.begin()
    upkeep.run("SELECT prepare_history(1)")
    reader.start(reader.await_end, first)
    upkeep.commit()
    promise(reader.result() == "succeeded", "it is there")


@story(
    Mutation(
        "nobody is shut out while a day is prepared",
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
    promise(stage.control.execute("SELECT count(*) FROM finished_jobs_default").fetchall() == [(0,)], "not beside it")
    promise(stage.drain() == [] and first == running.id, "nothing is left")


def finished(worker: Worker, job: Job) -> bool:
    try:
        return worker.finish(job).accepted == [job.id]
    except psycopg.errors.CheckViolation:
        return False
