"""What is due at once in large numbers is settled beside the claims."""

from tests.race.harness import Mutation, Stage, ids, promise, story

HOUR = "1 hour"


@story(
    Mutation(
        "two settle the same",
        "settle.sql",
        "NOT pg_try_advisory_xact_lock(lock_key('settle'))",
        "false",
    ),
    Mutation(
        "a claim settles beside it", "begin_claim.sql", "v_is_due := NOT is_settling();", "NULL;"
    ),
    Mutation(
        "a job that is due stays",
        "settle.sql",
        "RETURN settle_due(p_limit, true,",
        "RETURN settle_due(p_limit, false,",
    ),
)
def test_claims_and_other_workers_leave_what_is_due_to_the_one_that_settles_it(
    stage: Stage,
) -> None:
    producer, settler, worker = stage.session(), stage.worker(), stage.worker()
    due = producer.defer(None, 0, 0, delay=HOUR)
    [ready] = producer.defer(None)
    settler.hasten("2 hours")
    settler.begin()
    promise(settler.run("SELECT settle(1)") == [(1,)], "it settles the first")
    worker.hasten("2 hours")
    promise(ids(worker.claim()) == [ready], "a claim goes on beside it, with what is ready")
    promise(worker.run("SELECT settle(1)") == [(None,)], "another worker is told to try again")
    settler.commit()
    promise(ids(worker.claim()) == due, "now nobody settles")
    promise(worker.run("SELECT settle(1)") == [(0,)], "and nothing is left")


@story(
    Mutation(
        "a claim keeps others from settling",
        "is_settling.sql",
        "OR NOT pg_advisory_unlock_shared(lock_key('settle'))",
        "",
    ),
    Mutation(
        "an idle worker does not settle",
        "next_wake.sql",
        "coalesce(due.at <= clock(), false)",
        "false",
    ),
)
def test_an_idle_worker_settles_what_its_claim_has_left(stage: Stage) -> None:
    producer, worker, other = stage.session(), stage.worker("default"), stage.worker("default")
    producer.run("SELECT defer('t', queue => 'other', expires_at => now() + interval '1 hour') "
                 "FROM generate_series(1, 60)")  # fmt: skip
    settles = "SELECT settles FROM next_wake('{default}')"
    promise(worker.run(settles) == [(False,)], "nothing is due")
    worker.hasten("2 hours")
    other.hasten("2 hours")
    promise(worker.claim() == [] and len(stage.statuses()) >= 59, "one has ended at most")
    promise(worker.run(settles) == [(True,)], "it is told")
    [(count,)] = other.run("SELECT settle(1000)")
    promise(count is not None and stage.statuses() == {}, "any worker can")
    promise(worker.run(settles) == [(False,)], "nothing is left")
