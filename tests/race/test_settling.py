"""Claims with jobs to start leave to `settle` what is due in large numbers."""

from tests.race.harness import Mutation, Session, Stage, ids, promise, story

IDLE_CLAIM_LEAVES = Mutation(
    "a claim that finds nothing leaves it, too",
    "claim.sql",
    "IF r.leaves_due AND r.wanted = r.asked THEN",
    "IF false THEN",
)
MANY = 60
A_FEW = 20  # that a claim settles now and then


def let_expire(session: Session) -> None:
    session.run(
        "SELECT count(defer('t', queue => 'other', expires_at => clock() + interval '1 hour')) "
        "FROM generate_series(1, %s)",
        MANY,
    )


@story(
    Mutation(
        "a claim settles all of it",
        "begin_claim.sql",
        "r.leaves_due IS NULL AND r.asked > 0",
        "false",
    ),
    Mutation(
        "two settle the same",
        "settle.sql",
        "NOT pg_try_advisory_xact_lock(lock_key('settle'))",
        "false",
    ),
    Mutation(
        "what has expired stays",
        "settle.sql",
        "RETURN settle_due(p_limit, true, true,",
        "RETURN settle_due(p_limit, true, false,",
    ),
    IDLE_CLAIM_LEAVES,
)
def test_a_claim_with_a_job_to_start_leaves_what_is_due_in_numbers(stage: Stage) -> None:
    producer, settler, worker = stage.session(), stage.worker("default"), stage.worker("default")
    let_expire(producer)
    [ready] = producer.defer(None)
    settler.hasten("2 hours")
    worker.hasten("2 hours")
    [(found, told)] = worker.run(
        "SELECT id, current_setting('inturn.much_is_due', true) FROM claim(%s, '{default}', 1)",
        worker.id,
    )
    promise(found == ready and told == "yes", "it starts the job, and tells the worker to settle")
    left = len(stage.statuses()) - 1
    promise(left >= MANY - A_FEW, f"it leaves the others: {left}")
    settler.begin()
    [(count,)] = settler.run("SELECT settle(10)")
    promise(count == 10, f"ten have ended: {count}")
    promise(worker.run("SELECT settle(1000)") == [(0,)], "one settles at a time")
    promise(worker.claim() == [], "nothing is ready")
    left = len(stage.statuses()) - 1
    promise(left == 10, f"a claim that finds nothing settles all that nobody has locked: {left}")
    settler.commit()
    promise(
        len(stage.statuses()) == 1 and settler.run("SELECT settle(10)") == [(0,)], "all is done"
    )


@story(IDLE_CLAIM_LEAVES)
def test_many_jobs_of_a_task_that_is_resumed_keep_no_idle_worker_waiting(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.run("SELECT pause_task('mail')")
    mails = person.defer(None, *[0] * MANY, task="mail")
    worker.claim(MANY)
    promise(set(stage.statuses().values()) == {"paused"}, "they wait at the gate")
    person.run("SELECT resume_task('mail')")
    promise(ids(worker.claim(1)) == mails[:1], "the next claim of one job starts the first")


@story(
    Mutation(
        "the jobs that wait count, not those that may start",
        "much_is_due.sql",
        "coalesce(now.free > p_little, true)",
        "true",
    )
)
def test_a_token_opens_its_limit_however_many_jobs_wait_there(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("api", None, 1, 1)
    first, second, *_ = person.defer(None, *[5] * MANY, limit="api")
    worker.claim(MANY)
    promise(stage.doing() == [first], "the others wait for a token")
    person.defer(None, 0, 0)
    worker.hasten("61 seconds")
    promise(ids(worker.claim(1)) == [second], "it goes before the jobs that need none")
