"""The row of a free lane, which is kept while an open snapshot makes a search long (release_lanes).

It says no more than no row. Stories told as in test_interleavings; `lane_model.py` has it, too.
"""

import pytest

from tests.race.harness import Job, Mutation, Stage, Worker, ids, promise, story

FLOORS = {"a": [(0, 0, 0)]}
NO_NAMES = Mutation(
    "a claim locks no name",
    "acquire_lanes.sql",
    "WHERE pg_try_advisory_xact_lock(lock_key('lane', wanted.lock))",
    "",
)
LOOK_FOR_ROW = (
    "(SELECT lanes.lock FROM lanes WHERE lanes.lock = named.lock"
    " ORDER BY lanes.version DESC LIMIT 1) IS NULL"
)


def keep_row(stage: Stage) -> Worker:
    """Run a job, and leave the row of its lane free."""
    worker = stage.worker()
    worker.final_ids()
    worker.defer("a")
    end(worker, worker.claim_one())
    promise(stage.lanes() == {"a": None}, f"a free row: {stage.lanes()}")
    return worker


def end(worker: Worker, job: Job) -> None:
    promise(worker.finish(job, want=0, floors=FLOORS).accepted == [job.id], "it was ours")


@story(
    Mutation(
        "a free row closes the lane to claims",
        "lane_tokens.sql",
        "CASE WHEN lane.state IS NULL",
        "CASE WHEN (SELECT true FROM lanes WHERE lanes.lock = t.lock LIMIT 1) IS NULL",
    ),
    Mutation("a claim takes no free row", "acquire_lanes.sql", "lanes.state IS NULL OR", ""),
    Mutation(
        "a free row is taken only for a retry",
        "acquire_lanes.sql",
        "waiting.job_id IS NULL OR job.is_ours",
        "job.is_ours",
    ),
)
def test_a_claim_takes_a_free_row(stage: Stage) -> None:
    worker = keep_row(stage)
    first, second = worker.defer("a", 0, 0)
    promise(ids(worker.claim()) == [first], "one at a time")
    promise(stage.lanes() == {"a": "held"}, f"it is held: {stage.lanes()}")
    promise(stage.drain() == [first, second], "in order")


@story(
    Mutation("a lane that has a row gets another", "acquire_lanes.sql", f"WHERE {LOOK_FOR_ROW}", "")
)
def test_a_lane_never_has_two_rows(stage: Stage) -> None:
    worker = keep_row(stage)
    [job] = worker.defer("a")
    promise(ids(worker.claim()) == [job], "it starts")
    [(rows,)] = worker.run("SELECT count(*) FROM lanes")
    promise(rows == 1, f"{rows} rows")


@story(NO_NAMES)
def test_no_row_comes_while_a_claim_is_about_to_insert_one(stage: Stage) -> None:
    """The key would not tell: once the lane's new row is updated, it has another version."""
    producer, slow, quick = stage.session(), stage.worker(), stage.worker()
    first, second = producer.defer("a", 0, 0)
    stage.make_gate("acquire_lanes.sql", LOOK_FOR_ROW)
    slow.start_until("gate", slow.claim)
    for job in quick.claim():
        quick.retry(job)
        quick.claim()
    slow.resume()
    promise(stage.doing() == [first], f"of one lane run {stage.doing()}")
    promise(stage.drain() == [first, second], "in order")


@story(
    Mutation(
        "jobs sleep behind a free row",
        "block_behind.sql",
        "AND lanes.state IS NOT NULL",
        "",
    )
)
def test_a_claim_that_lost_a_lane_blocks_nothing_behind_a_free_row(stage: Stage) -> None:
    """The holder has given the lane back before the loser looks. Nobody would wake its jobs."""
    quick, slow = keep_row(stage), stage.worker()
    _, second = quick.defer("a", 0, 0)
    quick.run("UPDATE jobs SET status = 'todo' WHERE id = %s", second)  # as if deferred by another
    quick.begin()
    held = quick.claim_one()
    slow.start_until("block_behind", slow.claim)
    quick.commit()
    end(quick, held)
    slow.resume()
    promise(stage.statuses()[second] == "todo", "it is the token")
    promise(stage.drain() == [second], "it runs")


@story(
    Mutation(
        "a free row is closed to jobs with several lanes",
        "lets_start.sql",
        "p_lane.state IS NULL OR",
        "",
    ),
    Mutation(
        "a free row lets it start, but stays free",
        "win_lanes.sql",
        "SET worker_id = CASE WHEN NOT v_shared THEN p_worker END,",
        "SET worker_id = NULL,",
    ),
)
def test_a_job_with_several_lanes_takes_a_free_row(stage: Stage) -> None:
    worker = keep_row(stage)
    job = worker.defer_several("a", "b")
    [behind] = worker.defer("a")
    promise(ids(worker.claim()) == [job], "it starts")
    promise(stage.lanes() == {"a": "held", "b": "held"}, f"both are held: {stage.lanes()}")
    promise(stage.drain() == [job, behind], "in order")


@story(
    Mutation(
        "a claim that starts nothing deletes the row",
        "tidy_up.sql",
        ", p_floors => r.floors",
        "",
    )
)
def test_a_claim_that_starts_nothing_leaves_the_row_free(stage: Stage) -> None:
    producer, mine = keep_row(stage), stage.worker("mine")
    mine.final_ids()
    for queue in "theirs", "mine":
        producer.defer("a", queue=queue)
    promise(mine.claim(floors=FLOORS) == [], "the next job is for others")
    promise(stage.lanes() == {"a": None}, f"the row is free again: {stage.lanes()}")


@story(
    Mutation(
        "a row is deleted that was free a moment ago",
        "reconcile.sql",
        "AND since < clock() - interval '1 min'\n        FOR UPDATE SKIP LOCKED",
        "AND since < clock() - interval '1 min'",
    ),
    Mutation(
        "only a long free row is deleted",
        "reconcile.sql",
        "AND state IS NULL AND since",
        "AND since",
    ),
)
def test_a_row_that_a_claim_is_taking_is_not_deleted(stage: Stage) -> None:
    worker, other = keep_row(stage), stage.worker()
    other.hasten("2 min")
    first, second = worker.defer("a", 0, 0)
    worker.begin()
    promise(ids(worker.claim()) == [first], "it has begun")
    other.reconcile()
    worker.commit()
    other.reconcile()
    promise(stage.lanes() == {"a": "held"}, f"it is still held: {stage.lanes()}")
    promise(other.claim() == [], f"{second} waits")


@story(
    Mutation(
        "free rows stay for ever",
        "reconcile.sql",
        "DELETE FROM lanes WHERE lock = ANY (ARRAY(",
        "PERFORM FROM lanes WHERE lock = ANY (ARRAY(",
    ),
    Mutation(
        "free rows are deleted at once",
        "reconcile.sql",
        "AND since < clock() - interval '1 min'",
        "",
    ),
)
def test_a_row_that_has_been_free_for_a_while_is_deleted(stage: Stage) -> None:
    worker = keep_row(stage)
    worker.reconcile()
    promise(stage.lanes() == {"a": None}, "not yet")
    worker.hasten("2 min")
    worker.reconcile()
    promise(stage.lanes() == {}, "it is gone")


@pytest.mark.parametrize("change", ["pause", "cancel"])
def test_a_person_may_change_a_lane_with_a_free_row(stage: Stage, change: str) -> None:
    worker = keep_row(stage)
    [job] = worker.defer("a")
    if change == "pause":
        worker.pause("a")
        promise(worker.claim() == [], "it is paused")
        worker.resume_lane("a")
        promise(stage.drain() == [job], "and goes on")
    else:
        worker.cancel(job)
    promise(stage.lanes() == {}, "like any other")
