"""A retry that changes its job: another lane, another queue, or an attempt that does not count."""

from tests.race.harness import Job, Mutation, Stage, Worker, promise, story

GIVES_BACK_THE_WRONG_LANE = Mutation(
    "the lane that it joins is given up instead of the one that it leaves",
    "retry.sql",
    "WHEN ended.lock IS NULL THEN jobs.lock ELSE ended.left_lock END AS lock",
    "ELSE jobs.lock END AS lock",
)
STILL_AWAITED = Mutation(
    "the lane that it leaves waits for it",
    "retry.sql",
    "CASE WHEN ended.lock <> ended.left_lock THEN 'release' ELSE jobs.on_retry END AS on_retry",
    "jobs.on_retry",
)


def move(
    worker: Worker, job: Job, lock: str, delay: str = "0", queue: str | None = None
) -> list[int]:
    """Tried again in another lane."""
    rows = worker.run(
        "SELECT id FROM retry(%s, %s, %s::interval[], '{NULL}', NULL, NULL, %s::text[], %s::text[])",
        [job.id], [job.claim_id], [delay], [queue], [lock],
    )  # fmt: skip
    return [id for (id,) in rows]


def reroute(worker: Worker, job: Job, queue: str) -> list[int]:
    """Tried again at once, in another queue."""
    rows = worker.run(
        "SELECT id FROM retry(%s, %s, '{0}', '{NULL}', NULL, NULL, %s::text[])",
        [job.id],
        [job.claim_id],
        [queue],
    )
    return [id for (id,) in rows]


def snooze(worker: Worker, job: Job, delay: str) -> None:
    """The attempt does not count."""
    worker.run(
        "SELECT id FROM retry(%s, %s, %s::interval[], '{NULL}', NULL, NULL, NULL, NULL, '{true}')",
        [job.id], [job.claim_id], [delay],
    )  # fmt: skip


@story(GIVES_BACK_THE_WRONG_LANE, STILL_AWAITED)
def test_a_job_that_moves_into_a_busy_lane_waits_there_and_its_old_lane_goes_on(
    stage: Stage,
) -> None:
    producer, one, two = stage.session(), stage.worker("a"), stage.worker("b")
    [first], [second] = producer.defer("a", queue="a"), producer.defer("a", queue="a")
    [holding], [behind] = producer.defer("b", queue="b"), producer.defer("b", queue="b")
    running, other = one.claim_one(), two.claim_one()
    promise(move(one, running, "b", queue="b") == [first], "it was ours")
    promise(sorted(stage.doing()) == [holding], "the lane that it joins is held, and goes on so")
    promise([job.id for job in one.claim()] == [second], "the lane that it left is free")
    promise(
        [job.id for job in two.finish(other).following] == [first],
        "by its id it goes next, in its new lane",
    )
    promise(stage.drain() == [first, second, behind], "nothing is lost")


@story(GIVES_BACK_THE_WRONG_LANE)
def test_a_job_moves_into_a_lane_that_somebody_is_just_giving_back(stage: Stage) -> None:
    producer, one, two = stage.session(), stage.worker("a"), stage.worker("b")
    [first], [holding] = producer.defer("a", queue="a"), producer.defer("b", queue="b")
    running, other = one.claim_one(), two.claim_one()
    one.begin()
    move(one, running, "b", queue="b")
    two.finish(other)
    promise(stage.lanes() == {"a": "held"}, "nobody waits in it as far as its worker can see")
    one.commit()
    promise([job.id for job in two.claim()] == [first], f"it is its own token, {holding} is over")
    promise(stage.lanes() == {"b": "held"} and stage.drain() == [first], "its old lane is gone")


@story(
    Mutation(
        "a lane is taken over for a job of any queue",
        "acquire_lanes.sql",
        " AND (p_queues IS NULL OR jobs.queue::text = ANY (p_queues))",
        "",
    )
)
def test_a_claim_that_looked_before_a_retry_changed_its_queue_leaves_the_lane_to_it(
    stage: Stage,
) -> None:
    producer, slow, quick = stage.session(), stage.worker("a"), stage.worker("a")
    [first] = producer.defer("a", queue="a")
    quick.retry(quick.claim_one())
    [urgent] = producer.defer("a", 9, queue="a")
    slow.start_until("acquire_lanes", slow.claim)
    promise(reroute(quick, quick.claim_one(), "b") == [first], "it was ours")
    promise(slow.resume() == [], f"{urgent} waits for the end of {first}, which has begun")
    promise(stage.lanes() == {"a": "retrying"}, f"still reserved: {stage.lanes()}")
    promise(slow.claim() == [] and quick.claim() == [], "neither serves its queue now")
    promise(stage.drain() == [first, urgent], "in order")


@story(
    Mutation(
        "free jobs are not locked while they are looked at",
        "claim_candidates.sql",
        "            FOR UPDATE SKIP LOCKED\n",
        "",
    )
)
def test_a_free_job_that_a_claim_has_looked_at_moves_into_no_lane_before_it_starts(
    stage: Stage,
) -> None:
    producer, slow, quick, holder = (
        stage.session(),
        stage.worker("a"),
        stage.worker("a"),
        stage.worker("b"),
    )
    [free], [holding] = producer.defer(None, queue="a"), producer.defer("b", queue="b")
    promise(holder.claim_one().id == holding, "the lane is busy")
    slow.start_until("start_jobs", slow.claim)
    for job in quick.claim():
        move(quick, job, "b", queue="a")
    promise([job.id for job in slow.resume()] == [free], "it starts as the free job that it was")
    running = stage.control.execute(
        "SELECT lock FROM jobs WHERE status = 'doing' AND lock IS NOT NULL"
    ).fetchall()
    promise(running == [("b",)], f"one job runs in the lane: {running}")
    promise(stage.drain() == sorted([free, holding]), "nothing is lost")


@story(
    Mutation(
        "a lane that is left goes on although it is paused",
        "retry.sql",
        " AND again.lock NOT IN (SELECT unnest(v_held.stopped))",
        "",
    )
)
def test_a_job_that_leaves_a_paused_lane_leaves_it_paused(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [first], [second] = producer.defer("a"), producer.defer("a")
    running = worker.claim_one()
    producer.pause("a")
    move(worker, running, "b", delay="1 hour")
    promise(stage.lanes() == {"a": "paused"} and worker.claim() == [], "nothing of it starts")
    worker.hasten("2 hours")
    promise([job.id for job in worker.claim()] == [first], "the job that left is free of the pause")
    promise(
        producer.resume_lane("a") and stage.drain() == [first, second],
        "the rest is when it is resumed",
    )


@story(
    Mutation(
        "cancel does not look whether the job is still in the lane that it took",
        "cancel_job.sql",
        "EXIT WHEN FOUND OR NOT EXISTS",
        "EXIT WHEN true OR NOT EXISTS",
    )
)
def test_a_cancel_follows_a_job_that_is_moved_to_another_lane_meanwhile(stage: Stage) -> None:
    producer, worker, other, operator = (
        stage.session(),
        stage.worker("a"),
        stage.worker("b"),
        stage.session(),
    )
    [first] = producer.defer("a", queue="a")
    running = worker.claim_one()
    holding, behind = producer.defer("b", 0, 0, queue="b")
    held = other.claim_one()
    operator.start_until("lock_lane", operator.cancel, first)
    move(worker, running, "b", queue="b")
    other.finish(held, want=0)
    promise(
        stage.statuses() == {first: "todo", behind: "blocked"},
        f"it is the token of its new lane: {holding} is over",
    )
    promise(operator.resume() == "cancelled", "it waits, so it can be")
    promise(stage.drain() == [behind], "the lane has another token")


@story(
    Mutation("a snooze is charged", "retry.sql", "attempts = jobs.attempts - coalesce(ended.uncharged, false)::integer,", ""),
    Mutation("a snooze gives the lane up", "retry.sql",
             "CASE WHEN ended.lock <> ended.left_lock THEN 'release' ELSE jobs.on_retry END AS on_retry",
             "'release'::retry_policy AS on_retry"),
)  # fmt: skip
def test_a_snoozed_job_keeps_its_place_and_its_attempts(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [first] = producer.defer("a")
    snooze(worker, worker.claim_one(), "5 minutes")
    [urgent] = producer.defer("a", 9)
    promise(worker.claim() == [] and stage.lanes() == {"a": "retrying"}, "its lane waits")
    worker.hasten("10 minutes")
    again = worker.claim_one()
    promise(
        (again.id, again.attempts) == (first, 1),
        f"it goes before {urgent}, and it is its first attempt: {again}",
    )
    promise(stage.drain() == [first, urgent], "in order")


@story(Mutation("a snooze is forgotten", "retry.sql", "            was_attempted = true,\n", ""))
def test_a_snoozed_job_that_is_put_back_keeps_its_place_too(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [first] = producer.defer("a")
    snooze(worker, worker.claim_one(), "0")
    again = worker.claim_one()
    [urgent] = producer.defer("a", 9)
    worker.put_back(again)
    promise(stage.lanes() == {"a": "retrying"}, f"its lane waits for it again: {stage.lanes()}")
    promise(stage.drain() == [first, urgent], "nothing starts between two runs of one job")


@story(
    Mutation(
        "a job is put behind the lane in which it was seen",
        "block_behind.sql",
        "        AND coalesce(jobs.lock IN (SELECT unnest(v_lanes)), false)\n        AND NOT",
        "        AND NOT",
    )
)
def test_a_job_that_left_its_lane_since_a_claim_saw_it_stays_the_token_of_its_new_lane(
    stage: Stage,
) -> None:
    producer, holder, slow = stage.session(), stage.worker(), stage.worker()
    [running] = producer.defer("a")
    promise(holder.claim_one().id == running, "the lane is busy")
    [behind] = producer.defer("a")
    slow.start_until("block_behind", slow.claim)
    producer.run("SELECT cancel_job(%s)", behind)
    producer.run("SELECT retry_job_changed(%s, p_lock => 'b')", behind)
    promise(slow.resume() == [], "it saw the job behind another one")
    promise([job.id for job in slow.claim()] == [behind], "nobody runs in its new lane")
