"""People change lanes and jobs while workers run: stories told as in test_interleavings.

An operation locks the lane (lock_lane.sql), changes it, and leaves it in order (reopen_lane.sql).
A worker that ends a job of the lane waits for it. A claim never does.
"""

from tests.race.harness import Mutation, Stage, ids, promise, story

UNFENCED = Mutation(
    "a job is archived whatever its claim",
    "archive_jobs.sql",
    "AND jobs.claim_id IS NOT DISTINCT FROM ended.claim_id",
    "",
)
NEXT_UNLOCKED = Mutation(
    "the lane of the next job is not taken", "lock_next_job.sql", "PERFORM lock_lane(wanted.lock)",
    "PERFORM wanted.lock",
)  # fmt: skip
CANCEL_TAKES_NO_LANE = Mutation(
    "cancel does not take the lane",
    "cancel_job.sql",
    "PERFORM lock_lane(lane) FROM unnest(v_locks) AS lane;",
    "NULL;",
)
TAKEN_UNLOCKED = Mutation(
    "a lane is taken without its row's lock", "lock_lane.sql", " FOR UPDATE;", ";"
)
TAKEN_UNANNOUNCED = Mutation(
    "the advisory lock that announces the taking of a lane is left out",
    "lock_lane.sql",
    "PERFORM pg_advisory_xact_lock(lock_key('lane', p_lock));",
    "",
    beneath=True,
)
FINISH_LOCKS_NOTHING = Mutation(
    "finish does not lock the lane row",
    "lock_lanes.sql",
    "\n            FOR UPDATE SKIP LOCKED",
    "",
)
NO_TOKEN = Mutation(
    "the head is made no token", "release_lanes.sql", "AND jobs.status = 'blocked'", "AND false"
)


# ---------------------------------------------------------------- cancel


@story(
    NO_TOKEN,
    Mutation(
        "cancel forgets the siblings",
        "cancel_job.sql",
        "PERFORM reopen_lanes(v_lanes, v_kept);",
        "DELETE FROM lanes WHERE lock = ANY (v_locks) AND state IS NULL;",
    ),
    Mutation(
        "cancel keeps the lane", "cancel_job.sql", "PERFORM reopen_lanes(v_lanes, v_kept);", "NULL;"
    ),
)
def test_a_cancelled_token_leaves_its_place_to_a_sibling(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    token, sibling, last = producer.defer("a", 0, 0, 0)
    promise(producer.cancel(token) == "cancelled", "it waits")
    promise(
        stage.lanes() == {} and stage.statuses() == {sibling: "todo", last: "blocked"},
        "the next is the token",
    )
    promise(ids(worker.claim()) == [sibling], "it is found")
    promise(producer.cancel(sibling) == "doing", "too late")
    promise(stage.drain() == [sibling, last], "in order")


@story(
    Mutation(
        "the head is taken from what the claim saw before it won the lane",
        "win_heads.sql",
        "lane_heads(ARRAY[won.lock], r.floors)",
        "(SELECT j.id, j.queue, false AS touched, NULL::timestamptz AS start_before, false AS limited, false AS several, false AS aside FROM jobs AS j WHERE j.id = ANY (r.seen) AND j.lock = won.lock)",
    )
)
def test_a_token_may_be_cancelled_between_the_look_and_the_win_of_a_claim(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    token, sibling = producer.defer("a", 0, 0)
    worker.start_until("acquire_lanes", worker.claim)
    promise(producer.cancel(token) == "cancelled", "nobody has it yet")
    promise(ids(worker.resume()) == [sibling], "the lane is won, and this is its head now")
    promise(stage.drain() == [sibling], "nothing is left")


@story(CANCEL_TAKES_NO_LANE)
def test_a_cancel_waits_for_a_claim_that_has_won_the_lane(stage: Stage) -> None:
    producer, worker, operator = stage.session(), stage.worker(), stage.session()
    head, sibling = producer.defer("a", 0, 0)
    worker.start_until("start_jobs", worker.claim)
    operator.start(operator.cancel, head)
    promise(ids(worker.resume()) == [head], "it has won the lane, and knows its head")
    promise(operator.result() == "doing", "too late")
    promise(stage.drain() == [head, sibling], "in order")


@story(UNFENCED)
def test_a_cancel_leaves_alone_the_head_that_a_claim_has_started(stage: Stage) -> None:
    producer, worker, operator = stage.session(), stage.worker(), stage.session()
    [head], [free] = producer.defer("a"), producer.defer(None)
    for job in (head, free):
        worker.begin()
        promise(ids(worker.claim(1)) == [job], "the oldest")
        operator.start(operator.cancel, job)
        worker.commit()
        promise(operator.result() == "doing", "too late")
    promise(stage.doing() == [head, free], "nothing of them was touched")


@story(CANCEL_TAKES_NO_LANE, TAKEN_UNLOCKED, FINISH_LOCKS_NOTHING)
def test_a_cancel_waits_for_a_finish_that_has_looked_for_the_next_job(stage: Stage) -> None:
    producer, worker, operator = stage.session(), stage.worker(), stage.session()
    first, second, third = producer.defer("a", 0, 0, 0)
    running = worker.claim_one()
    worker.start_until("start_jobs", worker.finish, running)
    operator.start(operator.cancel, second)
    accepted, following, _ = worker.resume()
    promise(
        accepted == [first] and ids(following) == [second],
        "it has the lane, and knows its next job",
    )
    promise(operator.result() == "doing", "too late")
    promise(stage.drain() == [second, third], "in order")


@story(TAKEN_UNANNOUNCED)
def test_claims_do_not_wait_for_a_cancel_that_has_not_committed(stage: Stage) -> None:
    producer, worker, operator = stage.session(), stage.worker(), stage.session()
    (token, sibling), [other] = producer.defer("a", 0, 0), producer.defer("b")
    operator.begin()
    operator.cancel(token)
    promise(ids(worker.claim()) == [other], "somebody is at work on the first lane")
    operator.commit()
    promise(ids(worker.claim()) == [sibling], "now it has a new token")


@story(
    Mutation(
        "a lane stays reserved for a job that was cancelled",
        "reopen_lanes.sql",
        "UPDATE lanes SET job_id = NULL WHERE lock = ANY (p_job.locks) AND job_id = p_job.id;",
        "",
    )
)
def test_a_lane_does_not_wait_for_a_retry_that_was_cancelled(stage: Stage) -> None:
    producer, worker, slow = stage.session(), stage.worker(), stage.worker()
    first, second, third, fourth = producer.defer("a", 0, 0, 0, 0)
    worker.retry(worker.claim_one(), delay="1 hour")
    promise(producer.cancel(first) == "cancelled" and stage.lanes() == {}, "nobody waits for it")
    worker.retry(worker.claim_one())
    slow.start_until("acquire_lanes", slow.claim)
    promise(producer.cancel(second) == "cancelled", "also when a claim has seen that it is due")
    promise(ids(slow.resume()) == [third], "the lane goes on")
    promise(stage.drain() == [third, fourth], "in order")


@story(
    Mutation(
        "delete checks nothing",
        "delete_job.sql",
        "PERFORM cancel_job(p_id);",
        "DELETE FROM jobs WHERE id = p_id;",
    ),
    Mutation("delete leaves waiting jobs", "delete_job.sql", "PERFORM cancel_job(p_id);", ""),
)
def test_a_job_can_be_deleted_whatever_its_status_except_while_it_is_done(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker("q", "x")
    doing, blocked, behind = producer.defer("busy", 0, 0, 0, queue="q")
    [retrying], [after_it] = producer.defer("again", queue="q"), producer.defer("again")
    [finished] = producer.defer(None, queue="q")
    todo, sibling = producer.defer("a", 0, 0)
    [scheduled] = producer.defer("a", delay="1 hour")
    [free] = producer.defer(None)
    mine = {job.id: job for job in worker.claim()}
    worker.retry(mine[retrying], delay="1 hour")
    worker.finish(mine[finished])
    for job in (blocked, retrying, finished, todo, scheduled, free):
        promise(producer.delete(job), f"{job} is not being done")
        promise(not producer.delete(job), f"{job} is gone")
    promise(not producer.delete(doing), "it is being done")
    gone = stage.control.execute("SELECT id FROM all_jobs ORDER BY id").fetchall()
    promise(gone == [(doing,), (behind,), (after_it,), (sibling,)], f"nothing else is gone: {gone}")
    promise(stage.drain() == [doing, behind, after_it, sibling], "in order")


@story(
    Mutation(
        "the reserved job is not cancelled",
        "cancel_waiting.sql",
        "SELECT id FROM jobs WHERE id = v_lane.job_id AND locks IS NULL UNION ALL",
        "",
    ),
    Mutation(
        "the lane stays reserved for a cancelled job",
        "cancel_waiting.sql",
        "UPDATE lanes SET job_id = NULL WHERE lock = p_lock AND job_id IN (SELECT unnest(v_ids));",
        "",
    ),
)
def test_cancel_waiting_leaves_what_runs_and_what_comes_later(stage: Stage) -> None:
    producer, worker, operator = stage.session(), stage.worker(), stage.session()
    first, *_ = producer.defer("a", 0, 0, 0)
    running = worker.claim_one()
    producer.begin()
    [late] = producer.defer("a")
    promise(
        operator.cancel_waiting("a") == 2 and stage.statuses() == {first: "doing"},
        "all that waits is cancelled",
    )
    producer.commit()
    worker.retry(running, delay="1 hour")
    promise(operator.cancel_waiting("a") == 2 and stage.statuses() == {}, f"the retry, and {late}")
    [last] = producer.defer("a")
    promise(ids(worker.claim()) == [last], "the lane is free")


@story(
    Mutation(
        "cancel ends a job whose lane it has not taken",
        "cancel_job.sql",
        "archive_jobs(v_ids)",
        "archive_jobs(ARRAY[p_id])",
    )
)
def test_a_failed_job_cannot_be_cancelled_in_the_moment_in_which_it_is_brought_back(
    stage: Stage,
) -> None:
    producer, one, two, worker = stage.session(), stage.session(), stage.session(), stage.worker()
    [first] = producer.defer("a", on_failure="halt")
    worker.finish(worker.claim_one(), status="failed")
    one.start_until("archive_jobs", one.cancel, first)
    promise(two.retry_head("a") == first, "it is tried again")
    promise(one.resume() == "todo", "it was over when the cancel began")
    promise(stage.drain() == [first], "the lane waits for a job that is there")


@story(
    Mutation(
        "the history is read before it is locked for writing",
        "cancel_job.sql",
        "v_locks FROM jobs WHERE",
        "v_locks FROM all_jobs WHERE",
    )
)
def test_a_new_day_of_the_history_is_prepared_while_somebody_deletes_a_job_of_it(
    stage: Stage,
) -> None:
    """Like a person: lock writers out of the table, then readers out of the default partition."""
    producer, worker, operator, upkeep = (
        stage.session(),
        stage.worker(),
        stage.session(),
        stage.session(),
    )
    [first] = producer.defer("a")
    worker.finish(worker.claim_one())
    upkeep.begin()
    upkeep.run("LOCK TABLE finished_jobs IN EXCLUSIVE MODE")
    operator.start(operator.delete, first)
    upkeep.run("LOCK TABLE finished_jobs_default IN ACCESS EXCLUSIVE MODE")
    upkeep.commit()
    promise(operator.result(), "it was there, and is gone")


# ---------------------------------------------------------------- pause and resume


@story(
    Mutation("finish hands a stopped lane over", "handover_candidates.sql", "WHERE own.worker_id = p_worker", ""),
    Mutation(
        "finish does not let go of a stopped lane", "finish.sql", "IF v_stopped <> '{}' OR v_done.halts", "IF v_done.halts"
    ),
    Mutation("finish gives a stopped lane back", "finish.sql", "SELECT unnest(v_held.stopped)", "SELECT unnest('{}'::text[])"),
)  # fmt: skip
def test_a_pause_takes_effect_when_the_running_job_ends(stage: Stage) -> None:
    """Whether the claim or an earlier attempt's take-over has just made it run."""
    producer, worker, operator = stage.session(), stage.worker(), stage.session()
    first, second = producer.defer("a", 0, 0)
    worker.retry(worker.claim_one())
    worker.begin()
    running = worker.claim_one()
    operator.start(operator.pause, "a")
    worker.commit()
    promise(operator.result() and stage.lanes() == {"a": "held"}, "the job may end")
    promise(worker.finish(running) == ([first], [], []), "nothing is handed over")
    promise(stage.lanes() == {"a": "paused"} and worker.claim() == [], "nothing starts")
    promise(operator.resume_lane("a") and ids(worker.claim()) == [second], "until it is resumed")


@story(
    Mutation(
        "finish lets go of a lane that it does not have any more",
        "finish.sql",
        "v_stopped := ARRAY(SELECT unnest(v_held.stopped) INTERSECT SELECT unnest(v_done.lanes));",
        "v_stopped := v_held.stopped;",
    )
)
def test_a_finish_leaves_alone_a_paused_lane_that_another_worker_has_by_now(stage: Stage) -> None:
    """It reports two jobs. Meanwhile one was taken back, started again, and its lane paused."""
    stage.let_wait()
    producer, worker, other = stage.session(), stage.worker(), stage.worker()
    [taken], [kept] = producer.defer("a"), producer.defer("b")
    mine = worker.claim()
    other.begin()
    other.retry(mine[0])
    [again] = other.claim()
    other.pause("a")
    worker.start(worker.finish, *mine)
    other.commit()
    promise(worker.result() == ([kept], [], []), f"{taken} belongs to the other one")
    promise(stage.lanes() == {"a": "held"} and stage.doing() == [taken], "and so does its lane")
    promise(
        other.finish(again).accepted == [taken] and stage.lanes() == {"a": "paused"},
        "now the pause takes effect",
    )


@story(TAKEN_UNANNOUNCED)
def test_a_claim_does_not_wait_for_a_pause_that_has_not_committed(stage: Stage) -> None:
    producer, worker, operator = stage.session(), stage.worker(), stage.session()
    [first], [other] = producer.defer("a"), producer.defer("b")
    operator.begin()
    operator.pause("a")
    promise(ids(worker.claim()) == [other], "somebody is at work on the first lane")
    operator.commit()
    promise(worker.claim() == [] and stage.statuses()[first] == "blocked", "it is paused")
    operator.begin()
    promise(operator.resume_lane("a") and worker.claim() == [], "nor for the end of the pause")
    operator.commit()
    promise(ids(worker.claim()) == [first], "it goes on")


@story(
    Mutation(
        "a claim takes over a lane that is stopped",
        "acquire_lanes.sql",
        "AND lanes.stopped IS NULL",
        "",
    )
)
def test_a_pause_between_the_look_and_the_win_of_a_claim_keeps_it_out(stage: Stage) -> None:
    producer, slow, quick, operator = (
        stage.session(),
        stage.worker(),
        stage.worker(),
        stage.session(),
    )
    [retried], [fresh] = producer.defer("a"), producer.defer("b")
    quick.retry(quick.claim_one())
    slow.start_until("acquire_lanes", slow.claim)
    promise(operator.pause("a") and operator.pause("b"), "both were free to start")
    promise(
        slow.resume() == [] and stage.lanes() == {"a": "paused", "b": "paused"}, "nothing starts"
    )
    promise(operator.resume_lane("a") and operator.resume_lane("b"), "both were paused")
    promise(stage.drain() == [retried, fresh], "nothing is lost")


@story(
    NO_TOKEN,
    Mutation("resume makes no token", "clear_stop.sql", "PERFORM reopen_lane(p_lock);",
             "DELETE FROM lanes WHERE lock = p_lock;"),
    Mutation(
        "resume forgets the retry",
        "reopen_lane.sql",
        "UPDATE jobs SET status = 'todo' WHERE id = v_lane.job_id AND status = 'blocked';",
        "",
    ),
    Mutation("a paused retry keeps workers awake", "block_behind.sql", " AND held.stopped IS NULL", ""),
)  # fmt: skip
def test_resume_makes_the_next_job_of_a_paused_lane_a_token(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    retried, behind = producer.defer("retried", 0, 0)
    fresh, later = producer.defer("fresh", 0, 0)
    worker.retry(worker.claim_one())
    promise(producer.pause("retried") and producer.pause("fresh"), "nobody runs")
    promise(
        worker.claim() == [] and worker.next_wake() is None, "nothing starts, and workers may sleep"
    )
    promise(set(stage.statuses().values()) == {"blocked"}, "no job is a token")
    promise(
        producer.pause("fresh")
        and stage.audited() == [("pause", "retried"), ("pause", "fresh"), ("pause", "fresh")],
        "a pause replaces another, and each is audited",
    )
    promise(producer.resume_lane("retried") and producer.resume_lane("fresh"), "both were paused")
    promise(ids(worker.claim()) == [retried, fresh], "the heads")
    promise(stage.drain() == [retried, behind, fresh, later], "in order")


@story(
    Mutation("no claim ends a pause", "settle_due.sql", "PERFORM resume_lanes(100);", ""),
    Mutation("a claim waits for another one that ends a pause", "resume_lanes.sql",
             "FOR UPDATE SKIP LOCKED", "FOR UPDATE"),
    Mutation("the lane of a pause that ends is not locked", "resume_lanes.sql",
             " FOR UPDATE SKIP LOCKED", ""),
    Mutation("a pause ends at once", "resume_lanes.sql",
             "coalesce(look_at, stopped_until) <= clock()", "stopped_until IS NOT NULL"),
)  # fmt: skip
def test_a_pause_that_is_over_is_ended_by_one_of_two_claims(stage: Stage) -> None:
    stage.adjust("begin_claim.sql", "coalesce(look_at, stopped_until) <= r.now", "true")
    producer, one, two = stage.session(), stage.worker(), stage.worker()
    first, second = producer.defer("a", 0, 0)
    producer.pause("a", until="1 hour")
    promise(
        one.claim() == [] and one.next_wake() is not None,
        "until then nothing starts, and workers know when",
    )
    one.hasten("2 hours")
    two.hasten("2 hours")
    one.begin()
    promise(ids(one.claim()) == [first], "the pause is over")
    promise(two.claim() == [], "another claim is at work on the lane, and nobody waits")
    one.commit()
    promise(two.claim() == [] and stage.doing() == [first], "one at a time")
    promise(stage.drain() == [first, second], "in order")


# ---------------------------------------------------------------- halted lanes, and heads


@story(
    Mutation("a failure halts no lane", "finish.sql", "OR v_done.halts IS NOT NULL THEN", "THEN"),
    Mutation(
        "any end halts the lane",
        "finish.sql",
        "b.status = 'failed' AND b.on_failure",
        "b.on_failure",
    ),
    Mutation("every failure halts the lane", "finish.sql", " AND b.on_failure = 'halt'", ""),
)
def test_a_lane_halts_when_a_job_has_failed_whose_policy_says_so(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [_], [fails] = producer.defer("a", on_failure="halt"), producer.defer("a")
    [halts], [behind] = producer.defer("a", on_failure="halt"), producer.defer("a")
    following = worker.finish(worker.claim_one()).following
    promise(ids(following) == [fails], "a job that succeeded halts nothing")
    following = worker.finish(*following, status="failed").following
    promise(ids(following) == [halts], "this one's policy is to go on")
    promise(worker.finish(*following, status="failed").following == [], "this one's is not")
    promise(stage.lanes() == {"a": "halted"} and worker.claim() == [], "nothing starts")
    promise(producer.resume_lane("a") and ids(worker.claim()) == [behind], "until it is resumed")


@story(
    Mutation("skip leaves the lane halted", "skip_head.sql", "PERFORM clear_stop(p_lock);", ""),
    Mutation(
        "skip cancels a job that waits behind the failed one",
        "skip_head.sql",
        "(v_next.lane).stopped = 'halted'",
        "false",
    ),
)
def test_skipping_the_job_that_halted_a_lane_lets_the_others_go_on(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    first, second, third = producer.defer("a", 0, 0, 0, on_failure="halt")
    worker.finish(worker.claim_one(), status="failed")
    promise(producer.skip_head("a") == first and stage.lanes() == {}, "it is left behind")
    promise(stage.drain() == [second, third], "the others go on")


@story(
    Mutation(
        "the failed job is not brought back", "retry_head.sql", "PERFORM restore_job(v_id);", ""
    ),
    Mutation(
        "the failed job has no precedence",
        "retry_head.sql",
        "clear_stop(p_lock, v_id)",
        "clear_stop(p_lock)",
    ),
    Mutation(
        "a retry waits until it is due",
        "retry_head.sql",
        "UPDATE jobs SET status = 'todo', scheduled_at = clock(), abort = false WHERE id = v_id AND status = 'scheduled';",
        "NULL;",
    ),
)
def test_the_head_can_be_tried_again_at_once_and_goes_first(stage: Stage) -> None:
    """The job that halted the lane, and the one that the lane waits for."""
    producer, worker = stage.session(), stage.worker()
    [first] = producer.defer("a", on_failure="halt")
    worker.finish(worker.claim_one(), status="failed")
    [better] = producer.defer("a", 9)
    promise(
        worker.claim() == [] and producer.retry_head("a") == first,
        "the job that had begun goes first",
    )
    running = worker.claim_one()
    promise(running.id == first and running.attempts == 2, "its second attempt")
    worker.retry(running, delay="1 hour")
    promise(
        worker.claim() == [] and producer.retry_head("a") == first,
        "it need not wait until it is due",
    )
    running = worker.claim_one()
    promise(
        running.id == first and ids(worker.finish(running).following) == [better],
        "then the lane goes on",
    )
    promise(producer.retry_head("a") is None, "this lane waits for no job")


@story(
    Mutation("the head keeps the request", "retry_head.sql", ", abort = false", ""),
    Mutation("a job keeps the request", "retry_at_its_place.sql", ", abort = false", ""),
)
def test_a_job_that_a_person_retries_is_not_aborted_for_an_earlier_request(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    abort = "SELECT cancel_job(%s, true)"
    for lock in ("a", None):
        [job] = producer.defer(lock)
        running = worker.claim_one()
        producer.run(abort, job)
        worker.retry(running, delay="1 hour")
        retried = producer.retry_head(lock) if lock else producer.retry_job(job)
        promise(bool(retried), "it runs again")
        running = worker.claim_one()
        requests = worker.run("SELECT id FROM abort_requests(%s, %s)", worker.id, [running.id])
        promise(requests == [], "nobody has asked to abort this attempt")
        worker.finish(running)


@story(
    Mutation(
        "retry does not check that the failed job still exists",
        "retry_head.sql",
        "v_live.id IS NULL AND (v_id IS NULL OR (v_next.lane).failed_job_id IS NOT NULL)",
        "v_id IS NULL",
    )
)
def test_a_halted_lane_whose_failed_job_was_deleted_can_still_go_on(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    first, second = producer.defer("a", 0, 0, on_failure="halt")
    worker.finish(worker.claim_one(), status="failed")
    promise(producer.delete(first), "it is over")
    promise(
        producer.retry_head("a") is None and stage.lanes() == {"a": "halted"},
        "there is nothing to try again",
    )
    promise(producer.resume_lane("a") and stage.drain() == [second], "the others go on")


@story(
    NEXT_UNLOCKED,
)
def test_two_operators_who_skip_the_head_at_once_skip_two_jobs(stage: Stage) -> None:
    producer, one, two, worker = stage.session(), stage.session(), stage.session(), stage.worker()
    first, second, third = producer.defer("a", 0, 0, 0)
    one.begin()
    promise(one.skip_head("a") == first, "the first")
    two.start(two.skip_head, "a")
    one.commit()
    promise(two.result() == second, "the next one, not the same again")
    promise(ids(worker.claim()) == [third], "the lane goes on")


@story(Mutation("retry does not check that the lane is still halted", "retry_job.sql",
                "(v_locks) AND failed_job_id = p_id);", "(v_locks));"))  # fmt: skip
def test_a_job_is_tried_again_also_when_somebody_has_just_resumed_the_lane_that_it_halted(
    stage: Stage,
) -> None:
    producer, one, two, worker = stage.session(), stage.session(), stage.session(), stage.worker()
    first, second = producer.defer("a", 0, 0, on_failure="halt")
    worker.finish(worker.claim_one(), status="failed")
    one.start_until("lock_lane", one.retry_job, first)
    promise(two.resume_lane("a"), "it was halted")
    promise(one.resume() is True, "it failed, and is tried again")
    promise(stage.drain() == [first, second], "in its old place")


@story(NEXT_UNLOCKED)
def test_if_one_operator_skips_the_job_that_another_retries_both_know(
    stage: Stage,
) -> None:
    producer, one, two, worker = stage.session(), stage.session(), stage.session(), stage.worker()
    first, second = producer.defer("a", 0, 0, on_failure="halt")
    worker.finish(worker.claim_one(), status="failed")
    one.begin()
    promise(one.skip_head("a") == first, "it is left behind")
    two.start(two.retry_head, "a")
    one.commit()
    promise(two.result() is None, "the lane goes on, it waits for no job any more")
    promise(
        stage.statuses() == {second: "todo"} and stage.lanes() == {},
        "the skipped job stays behind",
    )
    promise(stage.drain() == [second], "the lane goes on")


# ---------------------------------------------------------------- a retry that releases the lane


@story(
    Mutation(
        "every retry holds the lane",
        "retry.sql",
        "CASE WHEN ended.lock <> ended.left_lock THEN 'release' ELSE jobs.on_retry END AS on_retry",
        "'hold'::retry_policy AS on_retry",
    ),
    Mutation(
        "the lane that a retry leaves is not given back",
        "retry.sql",
        "again.on_retry = 'release' AND",
        "false AND",
    ),
    NO_TOKEN,
)
def test_a_lane_goes_on_while_a_job_waits_whose_policy_is_to_release_it(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    first, second, third = producer.defer("a", 0, 0, 0, on_retry="release")
    promise(worker.retry(worker.claim_one(), delay="1 hour") == [first], "it leaves the lane")
    running = worker.claim()
    promise(ids(running) == [second], "the lane goes on")
    worker.hasten("2 hours")
    promise(
        worker.claim() == [] and stage.statuses()[first] == "blocked",
        "it is back, and waits in turn",
    )
    promise(ids(worker.finish(*running).following) == [first], f"by its id it goes before {third}")
    promise(stage.drain() == [first, third], "in order")


@story(
    Mutation(
        "a retry ends the pause of its lane",
        "retry.sql",
        " AND again.lock NOT IN (SELECT unnest(v_held.stopped))",
        "",
    )
)
def test_a_retry_that_releases_a_paused_lane_leaves_it_paused(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    first, second = producer.defer("a", 0, 0, on_retry="release")
    running = worker.claim_one()
    producer.pause("a")
    worker.retry(running)
    promise(worker.claim() == [] and stage.lanes() == {"a": "paused"}, "nothing starts")
    promise(producer.resume_lane("a") and stage.drain() == [first, second], "until it is resumed")


# ---------------------------------------------------------------- claimed ahead, and put back


@story(
    Mutation("a lane is not given back", "put_back.sql", "|| release_lanes(v_back.lanes)", ""),
    Mutation("a lane forgets that it waited for a retry", "put_back.sql",
             "jobs.was_attempted AND jobs.on_retry = 'hold' AS was_attempted",
             "false AS was_attempted"),
    Mutation("an attempt is charged", "put_back.sql", ", attempts = attempts - 1", ""),
    Mutation("a pause ends", "put_back.sql", "NOT was_attempted AND lock NOT IN (SELECT unnest(v_held.stopped))", "NOT was_attempted"),
)  # fmt: skip
def test_a_job_that_is_put_back_is_as_if_it_had_not_been_claimed(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [retried], [fresh], [paused] = (
        producer.defer("retried"),
        producer.defer("fresh"),
        producer.defer("paused"),
    )
    worker.retry(worker.claim_one())
    jobs = worker.claim()
    producer.pause("paused")
    [better], [best] = producer.defer("retried", 9), producer.defer("fresh", 9)
    worker.put_back(*jobs)
    promise(
        stage.lanes() == {"retried": "retrying", "paused": "paused"}, f"as before: {stage.lanes()}"
    )
    jobs = worker.claim()
    promise(ids(jobs) == [retried, best], f"{better} waits for what has begun")
    promise([job.attempts for job in jobs] == [2, 1], "no attempt was charged")
    promise(producer.resume_lane("paused") and ids(worker.claim()) == [paused], "it was paused")
    promise(sorted(stage.drain()) == [retried, fresh, paused, better, best], "nothing is lost")


# ---------------------------------------------------------------- the reconciler


@story(
    Mutation(
        "a lane that waits for a retry counts as asleep",
        "lane_is_stranded.sql",
        "IN ('todo', 'scheduled', 'limited', 'paused')",
        "IN ('todo', 'limited', 'paused')",
    )
)
def test_the_reconciler_waits_for_nobody_and_finds_nothing_while_lanes_are_at_work(
    stage: Stage,
) -> None:
    producer, claiming, finishing, operator = (
        stage.session(),
        stage.worker(),
        stage.worker(),
        stage.session(),
    )
    reconciler = stage.session()
    producer.defer("finishing", 0, 0)
    running = finishing.claim_one()
    producer.defer("retrying", 0, 0)
    claiming.retry(claiming.claim_one(), delay="1 hour")
    producer.defer("paused", 0, 0)
    producer.pause("paused")
    claiming.claim()
    for lock in ("claiming", "operated on"):
        producer.defer(lock, 0, 0)
    for session in (claiming, finishing, operator):
        session.begin()
    claiming.claim(1)
    finishing.finish(running)
    operator.skip_head("operated on")
    reconciler.reconcile()
    for session in (claiming, finishing, operator):
        session.commit()
    reconciler.reconcile()
    promise(
        [lock for operation, lock in stage.audited() if operation == "reconcile"] == [],
        "it found nothing",
    )


@story(
    Mutation(
        "the reconciler does not look again",
        "repair_lane.sql",
        "v_found := lane_is_stranded(p_lock);",
        "v_found := true;",
    ),
)
def test_the_reconciler_leaves_alone_a_lane_that_went_on_meanwhile(stage: Stage) -> None:
    producer, worker, reconciler = stage.session(), stage.worker(), stage.session()
    [first] = producer.defer("a")
    producer.run("UPDATE jobs SET status = 'blocked'")
    reconciler.start_until("repair_lane", reconciler.reconcile)
    [second] = producer.defer("a")
    promise(ids(worker.claim()) == [first], "a new token woke the lane")
    reconciler.resume()
    promise(stage.audited() == [] and stage.lanes() == {"a": "held"}, "it is the worker's")
    promise(stage.drain() == [first, second], "in order")


@story(
    Mutation("a lane without a token does not count as stranded", "lane_is_stranded.sql",
             "ELSE EXISTS (", "ELSE false AND EXISTS ("),
    Mutation("a worker's lane without a job does not count as stranded", "lane_is_stranded.sql",
             "WHEN lane.worker_id IS NOT NULL THEN NOT EXISTS (",
             "WHEN lane.worker_id IS NOT NULL THEN false AND NOT EXISTS ("),
    Mutation("a lane that waits for a missing job does not count as stranded",
             "lane_is_stranded.sql",
             "WHEN lane.job_id IS NOT NULL THEN NOT EXISTS (",
             "WHEN lane.job_id IS NOT NULL THEN false AND NOT EXISTS ("),
    Mutation("the reconciler leaves the worker and the job of the lane in place", "repair_lane.sql",
             "SET worker_id = NULL, job_id = NULL,", "SET"),
    Mutation("the lane is made no token", "repair_lane.sql", "PERFORM reopen_lane(p_lock);", ""),
    Mutation("the repair is not written to the audit log", "repair_lane.sql",
             "PERFORM audit('reconcile', p_lock, 1, 'inturn', coalesce(",
             "PERFORM concat('reconcile', p_lock, 1, 'inturn', coalesce("),
)  # fmt: skip
def test_the_reconciler_repairs_changes_by_hand_and_reports_them(stage: Stage) -> None:
    producer, worker, reconciler = stage.session(), stage.worker(), stage.session()
    for lock in ("no job", "no retry", "no token"):
        producer.defer(lock, 0, 0)
    taken = {job.id: job for job in worker.claim(2)}
    gone, unclaimed, retried, second, third, fourth = stage.statuses()
    worker.retry(taken[retried], delay="1 hour")
    producer.run("DELETE FROM jobs WHERE id = ANY (%s)", [gone, retried])
    producer.run("UPDATE jobs SET status = 'blocked' WHERE status = 'todo'")
    promise(worker.claim() == [], "all three sleep")
    reconciler.reconcile()
    found = [("reconcile", "no job"), ("reconcile", "no retry"), ("reconcile", "no token")]
    promise(stage.audited() == found, f"it says what it found: {stage.audited()}")
    promise(stage.drain() == [unclaimed, second, third, fourth], "all go on")


# ---------------------------------------------------------------- a head that no worker serves


@story(
    Mutation("a claim passes by a head of a queue that no worker serves", "line_of.sql",
             "WHERE jobs.lock::text = p_lock", "WHERE jobs.queue <> 'theirs' AND jobs.lock::text = p_lock"),
    Mutation("explain does not name the head's queue and task", "explain_lane.sql",
             "WHERE (v_first.queue, v_first.task) <> (p_job.queue, p_job.task);", "WHERE false;"),
    Mutation("skip forgets the others", "skip_head.sql",
             "PERFORM reopen_lanes(v_next.job, v_kept);", "DELETE FROM lanes WHERE lock = p_lock;"),
)  # fmt: skip
def test_a_head_that_no_worker_serves_holds_its_lane_until_it_is_skipped(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker("mine")
    [head], [second] = producer.defer("a", queue="theirs"), producer.defer("a", queue="mine")
    promise(worker.claim() == [], f"{head} goes first")
    promise(
        producer.reasons(second) == ["lane head waits", "queue unserved"],
        "and explain gives the reason",
    )
    promise(producer.skip_head("a") == head, "a person may decide otherwise")
    promise(
        producer.reasons(second) == ["ready"] and ids(worker.claim()) == [second], "then it goes on"
    )


@story(
    Mutation(
        "it resumes the lane", "retry_head.sql",
        "(v_next.lane).stopped IS DISTINCT FROM 'paused'", "true",
    )
)  # fmt: skip
def test_a_head_that_is_to_be_tried_again_leaves_its_lane_paused(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    [head] = person.defer("lane")
    worker.retry(worker.claim_one(), delay="1 hour")
    person.pause("lane")
    promise(person.retry_head("lane") == head, "it is due now")
    promise(worker.claim() == [], "but its lane is still paused")
    person.resume_lane("lane")
    promise(ids(worker.claim()) == [head], "it starts once the lane is resumed")
