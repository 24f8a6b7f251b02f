"""The races of a lane as stories on real sessions, told on the SQL as shipped and on mutants.

Each `promise` holds as shipped. Each mutation takes away one protection, and the same story then
breaks a promise. Jobs of one lane are deferred one by one, so that each is a token, unless a story
says otherwise.
"""

from collections.abc import Callable
from functools import partial

from psycopg.errors import InvalidTransactionState, NoDataFound

from inturn.worker.claiming.claiming import MOST_LANES
from tests.race.harness import Mutation, Stage, ids, promise, story

# A session's clock stands still then, as if its statements took no time or a second had passed.
NOW = "SELECT set_config('inturn.clock', now()::text, false)"
LATER = "SELECT set_config('inturn.clock', (now() + interval '1 s')::text, false)"


UNFENCED_RETRY = Mutation(
    "a job is taken back whatever its claim",
    "retry.sql",
    "AND jobs.claim_id = ended.claim_id",
    "",
)
UNFENCED_FINISH = Mutation(
    "a job is finished whatever its claim",
    "archive_jobs.sql",
    "AND jobs.claim_id IS NOT DISTINCT FROM ended.claim_id",
    "",
)
RETRY_GIVES_THE_LANE_UP = Mutation(
    "a retry gives the lane up",
    "retry.sql",
    "CASE WHEN ended.lock <> ended.left_lock THEN 'release' ELSE jobs.on_retry END AS on_retry",
    "'release'::retry_policy AS on_retry",
)
SAYS_WHAT_IT_WANTED = Mutation(
    "a rescuer says what it wanted, not what it did",
    "rescue.sql",
    "    WITH judged AS (",
    "    RETURN QUERY SELECT unnest(v_seen.ids), unnest(v_seen.workers), 'failed'::job_status;\n    WITH judged AS (",
)
LOST_IS_WON = Mutation(
    "a lane that was lost counts as won",
    "acquire_lanes.sql",
    "GET DIAGNOSTICS",
    "RETURN QUERY SELECT wanted.lock, NULL::bigint FROM unnest(p_locks) AS wanted(lock);\n"
    "    GET DIAGNOSTICS",
)


# ---------------------------------------------------------------- one at a time


@story(LOST_IS_WON)
def test_two_claims_that_both_saw_the_lane_free_start_one_job(stage: Stage) -> None:
    producer, slow, quick = stage.session(), stage.worker(), stage.worker()
    [first], [second] = producer.defer("a"), producer.defer("a")
    slow.start_until("acquire_lanes", slow.claim)
    quick.claim()
    slow.resume()
    promise(stage.doing() == [first], f"of one lane run {stage.doing()}")
    promise(stage.drain() == [first, second], "in order")


@story(
    Mutation(
        "a claim starts all that it saw",
        "win_heads.sql",
        "r.ids := array_cat(r.ids, r.heads);",
        "r.ids := r.ids || r.heads || r.behind;",
    )
)
def test_a_claim_with_room_for_many_starts_one_job_of_a_lane(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    deferred = [id for _ in range(3) for id in producer.defer("a")]
    promise(ids(worker.claim(10)) == deferred[:1], "one job of the lane, the first")
    promise(stage.drain() == deferred, "in order")


@story(
    Mutation(
        "nothing filters out a lane that another claim is just inserting",
        "acquire_lanes.sql",
        "pg_try_advisory_xact_lock(lock_key('lane', wanted.lock))",
        "true",
        beneath=True,
    )
)
def test_a_claim_does_not_wait_for_another_one_that_has_not_committed(stage: Stage) -> None:
    producer, one, two = stage.session(), stage.worker(), stage.worker()
    [first], [second] = producer.defer("a"), producer.defer("a")
    one.begin()
    one.claim()
    promise(two.claim() == [], "the lane is taken")
    one.commit()
    promise(stage.doing() == [first], "one at a time")
    promise(stage.drain() == [first, second], "in order")


# ---------------------------------------------------------------- in order


@story(
    Mutation(
        "the head is taken from what the claim saw before it won the lane",
        "win_heads.sql",
        "lane_heads(ARRAY[won.lock], r.floors)",
        "(SELECT j.id, j.queue, false AS touched, NULL::timestamptz AS start_before, false AS limited, false AS several, false AS aside FROM jobs AS j WHERE j.id = ANY (r.seen || r.behind)"
        " AND j.lock = won.lock AND j.status IN ('todo', 'blocked') ORDER BY j.priority DESC, j.id LIMIT 1)",
    )
)
def test_a_claim_starts_the_head_as_it_is_when_the_lane_is_won(stage: Stage) -> None:
    """The claim sees the batch's token and a late job. Then the token ends: its sibling is next."""
    producer, slow, quick = stage.session(), stage.worker(), stage.worker()
    [token, sibling], [latecomer] = producer.defer("a", 1, 0), producer.defer("a")
    slow.start_until("acquire_lanes", slow.claim, 1)
    quick.finish(quick.claim_one(), want=0)
    promise(
        ids(slow.resume()) == [sibling], f"{sibling} was there before {latecomer}; {token} is over"
    )


@story(
    Mutation("claim runs in any transaction", "settle_due.sql", "PERFORM require_settings();", ""),
)
def test_a_claim_never_decides_on_a_snapshot_from_before_it_won_the_lane(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    producer.defer("a")
    worker.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    worker.run("SELECT FROM jobs")
    [better] = producer.defer("a", 1)
    promise(
        refused(worker.claim, by=InvalidTransactionState),
        f"it cannot see {better}, which goes first",
    )


@story(
    Mutation(
        "the next job of the lane is always handed over",
        "handover_candidates.sql",
        "AND (first.id IS NULL",
        "AND (true OR first.id IS NULL",
    )
)
def test_a_deep_lane_keeps_its_worker_from_an_older_job_for_its_slice_only(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    producer.defer("a")
    running = worker.claim_one()
    [older], [follower] = producer.defer(None), producer.defer("a")
    worker.run(LATER)
    promise(worker.finish(running).following == [], "another job comes first")
    promise([worker.claim_one().id, worker.claim_one().id] == [older, follower], "by id")


@story(
    Mutation(
        "a lane has no slice",
        "handover_candidates.sql",
        "clock() BETWEEN head.since AND head.since + interval '0.1 s'",
        "false",
    ),
)
def test_a_lane_that_was_just_won_is_handed_on_although_an_older_job_waits(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    worker.run(NOW)
    producer.defer("a")
    running = worker.claim_one()
    [_], [follower] = producer.defer(None), producer.defer("a")
    promise(ids(worker.finish(running).following) == [follower], "the lane has its slice")


@story(
    Mutation(
        "every lane gives way to one older job",
        "handover_candidates.sql",
        "head.place > (cardinality(p_locks) + 3) / 4",
        "false",
    ),
    Mutation(
        "no lane of many gives way",
        "handover_candidates.sql",
        "head.place > (cardinality(p_locks) + 3) / 4",
        "cardinality(p_locks) > 1",
    ),
    Mutation(
        "it does not matter how long a lane was held",
        "handover_candidates.sql",
        "ORDER BY own.since",
        "ORDER BY own.since DESC",
    ),
)
def test_of_many_lanes_in_hand_a_quarter_gives_way_to_older_jobs(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    worker.run(NOW)
    lanes = [f"lane {n}" for n in range(8)]
    for lane in lanes:
        producer.defer(lane)
    running = worker.claim(8)
    producer.defer(None)
    followers = [producer.defer(lane)[0] for lane in lanes]
    worker.run(LATER)
    for lane in lanes[2:]:
        stage.control.execute(
            "UPDATE inturn.lanes SET since = since + interval '1 ms' WHERE lock = %s", [lane]
        )
    following = ids(worker.finish(*running, want=8).following)
    promise(following == followers[2:], f"two lanes give way, those held longest: {following}")


@story(
    Mutation(
        "a worker keeps to itself what it leaves for others",
        "finish.sql",
        "        PERFORM notify_workers(release_lanes(",
        "        PERFORM (release_lanes(",
    )
)
def test_a_worker_is_woken_for_a_lane_that_gives_way_to_a_better_job(stage: Stage) -> None:
    producer, worker, _ = stage.session(), stage.worker("quick", "other"), stage.worker("quick")
    first, second = producer.defer("a", 0, 0, queue="quick")
    running = worker.claim_one()
    [better] = producer.defer(None, 9, queue="other")
    with stage.notifications() as notifications:
        promise(worker.finish(running, want=1).following == [], "the better one has the slot")
    promise(
        notifications == ["quick"], f"the next of the lane is for whoever sleeps: {notifications}"
    )
    promise(stage.drain() == [better, second], f"after {first}")


@story(
    Mutation(
        "the slice counts against a higher priority too",
        "handover_candidates.sql",
        "head.priority = first.priority",
        "true",
    )
)
def test_a_job_of_higher_priority_has_the_slot_at_once(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    worker.run(NOW)
    producer.defer("a")
    running = worker.claim_one()
    [urgent], _ = producer.defer(None, 9), producer.defer("a")
    promise(worker.finish(running).following == [], "something more urgent waits")
    promise(worker.claim_one().id == urgent, "and is next")


# ---------------------------------------------------------------- no wake-up is lost


@story(
    Mutation(
        "jobs are blocked without the lane row's lock",
        "block_behind.sql",
        "FOR UPDATE OF lanes SKIP LOCKED",
        "",
    ),
    Mutation(
        "blocking waits for the lane row",
        "block_behind.sql",
        "FOR UPDATE OF lanes SKIP LOCKED",
        "FOR UPDATE OF lanes",
    ),
)
def test_a_job_that_comes_while_its_lane_is_being_given_back_stays_a_token(stage: Stage) -> None:
    producer, holder, other = stage.session(), stage.worker(), stage.worker()
    producer.defer("a")
    running = holder.claim_one()
    holder.begin()
    holder.finish(running)
    [newcomer] = producer.defer("a")
    promise(
        other.claim() == [],
        "the lane is still held, as far as anybody can see; and no claim waits for a finish",
    )
    holder.commit()
    promise(ids(other.claim()) == [newcomer], "neither the holder nor the claim forgot it")


@story(
    Mutation(
        "finish looks before it locks the lane row",
        "lock_lanes.sql",
        "\n            FOR UPDATE SKIP LOCKED",
        "",
    )
)
def test_a_finish_sees_the_job_that_a_claim_is_just_blocking(stage: Stage) -> None:
    stage.let_wait()
    producer, holder, other = stage.session(), stage.worker(), stage.worker()
    producer.defer("a")
    running = holder.claim_one()
    [newcomer] = producer.defer("a")
    other.begin()
    promise(other.claim() == [], "the lane is held")
    holder.start(holder.finish, running, want=0)
    other.commit()
    holder.result()
    promise(ids(other.claim()) == [newcomer], "it was made a token again")


@story(
    Mutation(
        "a job is born blocked if its lane is held",
        "defer_jobs.sql",
        "OR r.place = 1 THEN",
        "OR r.place = 1 AND NOT EXISTS (SELECT FROM lanes WHERE lanes.lock = r.lock) THEN",
    ),
    Mutation(
        "a job is born blocked", "defer_jobs.sql", "OR r.place = 1 THEN", "OR r.place = 0 THEN"
    ),
)
def test_a_job_that_commits_after_the_lane_was_given_back_wakes_it_itself(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    worker.run(
        "INSERT INTO jobs (created_at, status, task, lock) VALUES (now(), 'todo', 'task', 'a')"
    )
    running = worker.claim_one()
    producer.begin()
    late = producer.defer("a", 0, 0)
    worker.finish(running)
    promise(worker.claim() == [], "nobody sees it yet")
    producer.commit()
    promise(stage.drain() == late, "all of the batch, in order")


@story(
    Mutation(
        "a producer locks the lane",
        "defer_jobs.sql",
        "PERFORM notify_workers(coalesce(p_queues, '{default}'));",
        "PERFORM notify_workers(coalesce(p_queues, '{default}')); PERFORM pg_advisory_xact_lock(hashtext(l)) FROM unnest(p_locks) AS l;",
    )
)
def test_producers_wait_for_nobody_and_nobody_waits_for_them(stage: Stage) -> None:
    one, two, worker = stage.session(), stage.session(), stage.worker()
    [first] = one.defer("a")
    one.begin()
    one.defer("a")
    two.begin()
    two.defer("a")
    running = worker.claim_one()
    promise(worker.finish(running).accepted == [first], "claim and finish do not wait either")
    two.commit()
    one.rollback()
    promise(len(stage.drain()) == 1, "a job that was rolled back never existed")


# ---------------------------------------------------------------- no waiting and no deadlocks


@story(
    Mutation(
        "a claim tries to insert a lane row that is there",
        "acquire_lanes.sql",
        "WHERE (SELECT lanes.lock FROM lanes WHERE lanes.lock = named.lock"
        " ORDER BY lanes.version DESC LIMIT 1) IS NULL",
        "",
    )
)
def test_a_claim_does_not_wait_for_a_finish_that_has_not_committed(stage: Stage) -> None:
    producer, slow, quick = stage.session(), stage.worker(), stage.worker()
    [first], [second] = producer.defer("a"), producer.defer("a")
    slow.start_until("acquire_lanes", slow.claim)
    running = quick.claim_one()
    quick.begin()
    promise(quick.finish(running, want=0).accepted == [first], "it ends")
    promise(slow.resume() == [], "the lane is still held, as far as anybody can see")
    quick.commit()
    promise(ids(slow.claim()) == [second], "now it is free")


@story(
    Mutation(
        "a claim locks the lane jobs that it looks at",
        "lane_tokens.sql",
        "LIMIT q.size\n",
        "LIMIT q.size FOR UPDATE\n",
    )
)
def test_a_claim_does_not_wait_for_jobs_that_another_claim_looks_at(stage: Stage) -> None:
    producer, one, two = stage.session(), stage.worker(), stage.worker()
    [a], [b] = producer.defer("a"), producer.defer("b")
    one.begin()
    promise(ids(one.claim(1)) == [a], "the oldest")
    promise(ids(two.claim(2)) == [b], "the lane that the first left")
    one.commit()


@story(
    Mutation(
        "lane rows are locked in the order in which jobs are given",
        "await_locks.sql",
        "ORDER BY lock FOR UPDATE",
        "ORDER BY array_position(p_locks, lock) FOR UPDATE",
    )
)
def test_two_finishes_of_the_same_lanes_do_not_deadlock(stage: Stage) -> None:
    """A finish is sent again because its reply is late. A lock on the lanes delays both."""
    stage.let_wait()
    producer, worker, again = stage.session(), stage.worker(), stage.worker()
    locks_a, locks_b = stage.session(), stage.session()
    for lock in ("a", "b"):
        producer.defer(lock)
    a, b = worker.claim()
    for lock, holder in (("a", locks_a), ("b", locks_b)):
        holder.begin()
        holder.run("SELECT FROM lanes WHERE lock = %s FOR UPDATE", lock)
    worker.start(worker.finish, a, b, want=0)
    again.start(again.finish, b, a, want=0)
    locks_a.commit()
    worker.moves_on_from(locks_a)
    locks_b.commit()
    accepted = worker.result().accepted + again.result().accepted
    promise(sorted(accepted) == [a.id, b.id], f"each is accepted once: {accepted}")


@story(
    Mutation(
        "ended jobs are locked in the order in which they are given",
        "archive_jobs.sql",
        " ORDER BY e.id\n",
        "\n",
    ),
)
def test_two_finishes_of_the_same_free_jobs_do_not_deadlock(stage: Stage) -> None:
    producer, worker, again = stage.session(), stage.worker(), stage.worker()
    locks_a, locks_b = stage.session(), stage.session()
    producer.defer(None, 0, 0)
    a, b = worker.claim()
    worker.start_until("archive_jobs", worker.finish, a, b)
    again.start_until("archive_jobs", again.finish, b, a)
    for job, session in ((a, locks_a), (b, locks_b)):
        session.begin()
        session.run("SELECT FROM jobs WHERE id = %s FOR UPDATE", job.id)
    worker.resume_to_wait()
    again.resume_to_wait()
    locks_a.commit()
    worker.moves_on_from(locks_a)
    locks_b.commit()
    accepted = worker.result().accepted + again.result().accepted
    promise(sorted(accepted) == [a.id, b.id], f"each is accepted once: {accepted}")


# ------------------------------------------------------ a worker that lost a job can do it no harm


@story(
    UNFENCED_FINISH,
    UNFENCED_RETRY,
    Mutation(
        "a retry reserves the lane of a job that it did not get",
        "retry.sql",
        "FROM again WHERE lanes.ctid = ("
        " SELECT newest.ctid FROM lanes AS newest WHERE newest.lock = again.lock"
        " ORDER BY newest.version DESC LIMIT 1)",
        "FROM (SELECT unnest(p_ids) AS id, 'hold'::retry_policy AS on_retry) AS again"
        " WHERE lanes.lock IN (SELECT lock FROM all_jobs WHERE all_jobs.id = again.id)",
    ),
)
def test_a_worker_that_was_taken_for_dead_can_end_its_job_no_more(stage: Stage) -> None:
    producer, zombie, other, rescuer = (
        stage.session(),
        stage.worker(),
        stage.worker(),
        stage.session(),
    )
    [first], [second] = producer.defer("a"), producer.defer("a")
    lost = zombie.claim_one()
    stage.forget(zombie)
    promise(rescuer.rescue() == [first], "it waits for its next attempt")
    promise(
        zombie.finish(lost).accepted == [] and zombie.retry(lost, delay="1 hour") == [],
        "not its job any more",
    )
    taken = other.claim_one()
    promise(taken.id == first, "the next attempt goes first")
    promise(zombie.finish(lost).accepted == [] and zombie.retry(lost) == [], "somebody else's job")
    promise(
        stage.doing() == [first] and stage.lanes() == {"a": "held"}, "nothing of it was touched"
    )
    promise(other.finish(taken, want=0).accepted == [first], "its own")
    promise(stage.drain() == [second], "the lane goes on")


@story(
    UNFENCED_FINISH,
    Mutation(
        "a job is finished by whoever does it, whatever the claim",
        "finish.sql",
        "archive_jobs(p_ids, p_claims,",
        "archive_jobs(p_ids, ARRAY(SELECT j.claim_id FROM jobs AS j WHERE j.id = ANY (p_ids) AND j.worker_id = p_worker),",
    ),
)
def test_an_old_claim_of_the_same_worker_is_refused(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    producer.defer("a")
    before = worker.claim_one()
    worker.retry(before)
    now = worker.claim_one()
    promise(
        now.id == before.id and worker.finish(before).accepted == [],
        "a message from the first attempt comes late",
    )
    promise(worker.finish(now).accepted == [now.id], "the second attempt is accepted")


@story(
    Mutation(
        "claim asks nobody whether the worker lives",
        "settle_due.sql",
        "PERFORM require_registered(p_worker);",
        "",
    ),
    Mutation(
        "claim_further asks nobody whether the worker lives",
        "begin_further.sql",
        "PERFORM require_registered(p_worker);",
        "",
    ),
)
def test_a_worker_that_was_taken_for_dead_cannot_claim(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    producer.defer("a")
    stage.forget(worker)
    promise(refused(worker.claim, by=NoDataFound), "it must register again")
    promise(
        refused(partial(worker.claim_further, 0), by=NoDataFound),
        "also when it goes on with free jobs",
    )


@story(
    Mutation(
        "jobs are taken back only from a worker that is named",
        "rescue.sql",
        "CASE WHEN p_worker IS NULL THEN NOT EXISTS (SELECT FROM workers WHERE workers.id = owner.worker_id)",
        "CASE WHEN p_worker IS NULL THEN false",
    )
)
def test_jobs_that_a_worker_claims_while_it_is_declared_dead_are_rescued_later(
    stage: Stage,
) -> None:
    producer, worker, rescuer = stage.session(), stage.worker(), stage.session()
    [first] = producer.defer("a")
    worker.start_until("acquire_lanes", worker.claim)
    stage.silence(worker)
    promise(rescuer.rescue("1 minute") == [], "it does nothing yet")
    promise(ids(worker.resume()) == [first], "the claim had asked before")
    promise(rescuer.rescue("1 minute") == [first], "its worker has no row")


@story(
    Mutation(
        "finish does not check that the worker is registered",
        "handover_candidates.sql",
        "EXISTS (SELECT FROM workers WHERE workers.id = p_worker)",
        "true",
    )
)
def test_a_worker_that_was_taken_for_dead_is_handed_nothing(stage: Stage) -> None:
    producer, worker, other = stage.session(), stage.worker(), stage.worker()
    [first], [second] = producer.defer("a"), producer.defer("a")
    running = worker.claim_one()
    stage.forget(worker)
    finished = worker.finish(running)
    promise(finished.accepted == [first], "it is faster than the rescuer")
    promise(finished.following == [], "a rescuer would take the next job from it at once")
    promise(ids(other.claim()) == [second] and stage.audited() == [], "the lane goes on")


@story(
    Mutation(
        "a lane is handed over that is held under another name",
        "handover_candidates.sql",
        "WHERE own.worker_id = p_worker",
        "",
    )
)
def test_a_worker_that_registered_again_ends_its_job_and_gives_the_lane_back(stage: Stage) -> None:
    """It was declared dead and is faster than the rescuer. The lane's row names its old id."""
    producer, worker, reconciler = stage.session(), stage.worker(), stage.session()
    [first], [second] = producer.defer("a"), producer.defer("a")
    running = worker.claim_one()
    stage.forget(worker)
    worker.register()
    promise(worker.finish(running).accepted == [first], "its claim is still good")
    promise(ids(worker.claim()) in ([], [second]), "the next one runs")
    reconciler.reconcile()
    promise(
        stage.audited() == [] and stage.lanes() == {"a": "held"},
        "and the lane is held by who runs it",
    )
    promise(stage.doing() == [second] and stage.drain() == [second], "in order")


# ---------------------------------------------------- rescue against finish, rescue against rescue


@story(SAYS_WHAT_IT_WANTED)
def test_a_rescue_leaves_alone_a_job_that_is_being_finished(stage: Stage) -> None:
    stage.let_wait()
    producer, worker, rescuer = stage.session(), stage.worker(), stage.session()
    [first], [second] = producer.defer("a"), producer.defer("a")
    running = worker.claim_one()
    worker.begin()
    promise(
        ids(worker.finish(running).following) == [second],
        "handed over in the same claim of the lane",
    )
    stage.forget(worker)
    rescuer.start(rescuer.rescue)
    worker.commit()
    promise(
        rescuer.result() == [],
        f"{first} is over, and {second} was not yet begun when the rescue looked",
    )
    promise(
        stage.lanes() == {"a": "held"} and stage.doing() == [second], "the lane is the second job's"
    )
    promise(rescuer.rescue() == [second], "the next rescue finds it")
    promise(stage.drain() == [second], "and it is done")


@story(UNFENCED_FINISH)
def test_a_finish_is_refused_if_a_rescue_came_first(stage: Stage) -> None:
    stage.let_wait()
    producer, worker, rescuer = stage.session(), stage.worker(), stage.session()
    [first], [second] = producer.defer("a"), producer.defer("a")
    running = worker.claim_one()
    stage.forget(worker)
    rescuer.begin()
    promise(rescuer.rescue() == [first], "its worker has no row")
    worker.start(worker.finish, running)
    rescuer.commit()
    promise(worker.result() == ([], [], []), "nothing accepted, nothing handed over")
    promise(stage.drain() == [first, second], "in order")


@story(UNFENCED_RETRY)
def test_two_rescuers_at_once_take_a_job_back_once(stage: Stage) -> None:
    stage.let_wait()
    producer, worker, one, two = stage.session(), stage.worker(), stage.session(), stage.session()
    [first] = producer.defer("a")
    worker.claim()
    stage.forget(worker)
    one.begin()
    promise(one.rescue() == [first], "its worker has no row")
    two.start(two.rescue)
    one.commit()
    promise(two.result() == [], "it was taken back already")


@story(UNFENCED_RETRY)
def test_a_slow_rescuer_leaves_alone_the_next_attempt(stage: Stage) -> None:
    producer, worker, other = stage.session(), stage.worker(), stage.worker()
    slow, quick = stage.session(), stage.session()
    [first] = producer.defer("a")
    worker.claim()
    stage.forget(worker)
    slow.start_until("lock_lanes", slow.rescue)
    promise(quick.rescue() == [first], "its worker has no row")
    promise(ids(other.claim()) == [first], "the next attempt")
    promise(
        slow.resume() == [] and stage.doing() == [first],
        "another claim than the one it wanted to end",
    )


@story(
    Mutation(
        "a rescuer waits for the heartbeat",
        "declare_dead.sql",
        "        FOR UPDATE OF workers SKIP LOCKED\n",
        "",
    )
)
def test_a_heartbeat_in_the_last_moment_saves_the_worker(stage: Stage) -> None:
    producer, worker, rescuer = stage.session(), stage.worker(), stage.session()
    [first] = producer.defer("a")
    worker.claim()
    stage.silence(worker)
    worker.begin()
    promise(
        worker.run("SELECT heartbeat(%s)", worker.id) == [(True,)], "the worker is still registered"
    )
    promise(rescuer.rescue("1 minute") == [], "somebody has its row, itself perhaps")
    worker.commit()
    promise(rescuer.rescue("1 minute") == [] and stage.doing() == [first], "it lives, and goes on")


# ---------------------------------------------------------------- a retry keeps the lane


@story(
    RETRY_GIVES_THE_LANE_UP,
    Mutation(
        "a claim ignores for whom the lane is reserved",
        "win_heads.sql",
        "unnest(r.won, r.retries) AS won(lock, job_id)",
        "unnest(r.won, NULL::bigint[]) AS won(lock, job_id)",
    ),
)
def test_a_retry_goes_before_a_better_newcomer(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [first] = producer.defer("a")
    running = worker.claim_one()
    [better] = producer.defer("a", 9)
    promise(worker.retry(running) == [first], "its own")
    running = worker.claim_one()
    promise(running.id == first, f"{better} waits for the end of what has begun")
    promise(ids(worker.finish(running).following) == [better], "then it goes")


@story(RETRY_GIVES_THE_LANE_UP)
def test_a_lane_waits_for_a_retry_that_is_not_due(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [first], [second] = producer.defer("a"), producer.defer("a")
    worker.retry(worker.claim_one(), delay="1 hour")
    [better] = producer.defer("a", 9)
    promise(worker.claim() == [], "nothing of the lane starts")
    promise(stage.drain() == [first, better, second], "when it is due, it goes first")


@story(
    Mutation(
        "a claim blocks the job for which the lane is reserved",
        "block_behind.sql",
        "held.job_id IS NOT NULL AND held.stopped IS NULL",
        "false",
    )
)
def test_a_claim_that_could_not_take_a_retry_over_leaves_it_its_token(stage: Stage) -> None:
    producer, worker, operator = stage.session(), stage.worker(), stage.session()
    [first], [second] = producer.defer("a"), producer.defer("a")
    worker.retry(worker.claim_one())
    operator.begin()
    operator.run("SELECT FROM lanes FOR UPDATE")
    worker.start_until("block_behind", worker.claim)  # it did not win the lane, whose row is locked
    operator.commit()
    worker.resume()
    promise(stage.drain() == [first, second], "the retry is found again")


AT_IT = "lock_key('block_behind', p_queues::text)"
TRY = f"IF NOT pg_try_advisory_xact_lock({AT_IT})"
WAIT = f"PERFORM pg_advisory_xact_lock({AT_IT}); IF false"


@story(
    Mutation("two claims put jobs behind", "block_behind.sql", TRY, "IF false"),
    Mutation("a claim waits for the other", "block_behind.sql", TRY, WAIT),
    Mutation(
        "a patient claim looks on",
        "may_find_more.sql",
        "r.blocked IS NULL AND (p_patient OR ",
        "r.blocked IS NULL AND (",
    ),
)
def test_one_claim_at_a_time_puts_jobs_behind_and_the_others_let_it(stage: Stage) -> None:
    producer, holder, one, two = stage.session(), stage.worker(), stage.worker(), stage.worker()
    producer.defer("a")
    running = holder.claim_one()
    behind = [id for _ in range(30) for id in producer.defer("a")]
    one.begin()
    promise(one.claim() == [], "the lane is held")
    two.run("SET track_functions = 'all'")
    two.begin()
    promise(two.claim(patient=True) == [], "the lane is held")
    looks = two.run(
        "SELECT calls FROM pg_stat_xact_user_functions WHERE funcname = 'claim_candidates'"
    )
    promise(looks == [(1,)], f"it looked {looks} times through what another was at")
    two.commit()
    one.rollback()
    promise(two.claim() == [], "the lane is held")
    promise(
        [stage.statuses()[job] for job in behind] == ["blocked"] * 30,
        "the next claim blocks the jobs that were left",
    )
    promise(ids(holder.finish(running, want=1).following) == behind[:1], "and nothing sleeps")


@story(
    Mutation(
        "a claim is patient for ever",
        "may_find_more.sql",
        "(p_patient OR r.wanted < r.asked)",
        "true",
    ),
    Mutation(
        "a claim never widens its window",
        "may_find_more.sql",
        " OR r.more AND r.reach < r.widest",
        "",
    ),
)
def test_a_claim_looks_past_another_that_is_stuck_at_the_front(stage: Stage) -> None:
    """Its client may have stopped, or it waits for a user's transaction."""
    producer, holder, stuck, worker = (
        stage.session(),
        stage.worker(),
        stage.worker(),
        stage.worker(),
    )
    producer.defer("a")
    holder.claim_one()
    for _ in range(30):
        producer.defer("a")
    stuck.begin()
    promise(stuck.claim() == [], "the lane is held")
    [free] = producer.defer("b")
    promise(worker.claim(1, patient=True) == [], "the other is about to clear the front")
    promise(ids(worker.claim(1)) == [free], "nobody waits for ever")
    stuck.rollback()


@story(
    Mutation(
        "a claim clears the whole front before it commits",
        "may_find_more.sql",
        "r.blocked >= r.asked AND r.wanted < r.asked",
        "false",
    ),
    Mutation(
        "a claim that blocks jobs comes back without any",
        "may_find_more.sql",
        "r.blocked >= r.asked AND r.wanted < r.asked",
        "r.blocked >= r.asked",
    ),
)
def test_a_claim_that_has_found_jobs_keeps_few_lanes_locked(stage: Stage) -> None:
    """The finishes in those lanes wait for it."""
    producer, holder, worker = stage.session(), stage.worker(), stage.worker()
    [first] = producer.defer("a", 1)
    producer.defer("held", 2)
    holder.claim_one()
    behind = [id for _ in range(30) for id in producer.defer("held")]
    [last] = producer.defer("b")
    promise(ids(worker.claim(4)) == [first], "it has found a job")
    blocked = [id for id in behind if stage.statuses()[id] == "blocked"]
    promise(blocked == behind[:7], "and blocks no more than it has read")
    promise(ids(worker.claim(4)) == [last], "one that finds nothing reads on")


@story(Mutation("a claim takes all lanes", "claim.sql", "r.lanes_left := 512", "r.lanes_left := 5120"))  # fmt: skip
def test_a_claim_takes_no_more_lanes_than_fit_into_the_lock_table(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    for number in range(600):
        producer.defer(f"lane {number}")
    promise(len(worker.claim(1000)) == MOST_LANES, "as many as the worker expects")
    promise(len(worker.claim(1000)) == 88, "and then the rest")


@story(
    Mutation(
        "only lanes that it wins count",
        "win_heads.sql",
        "r.lanes_left := r.lanes_left - cardinality(r.lanes);",
        "r.lanes_left := r.lanes_left - cardinality(r.won);",
    )
)
def test_the_names_of_lanes_that_a_claim_loses_count_too(stage: Stage) -> None:
    producer, slow, quick = stage.session(), stage.worker(), stage.worker()
    for number in range(1200):
        producer.defer(f"lane {number}")
    slow.begin()
    slow.start_until("acquire_lanes", slow.claim, 1000)
    promise(len(quick.claim(1000)) == MOST_LANES, "it takes all that the slow one has seen")
    slow.resume()
    [(locks,)] = stage.control.execute(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = %s", [slow.pid]
    )
    promise(locks < 1.2 * MOST_LANES, f"it keeps {locks} locks")
    slow.commit()


@story(
    Mutation(
        "lost lanes are tried again",
        "lane_tokens.sql",
        "            AND t.lock NOT IN (SELECT unnest(p_lost))\n",
        "",
        True,
    ),
    Mutation(
        "a lane lost is the end",
        "may_find_more.sql",
        "OR r.wanted = r.asked AND cardinality(r.used) < cardinality(r.lanes)",
        "",
        True,
    ),
)
def test_a_claim_that_loses_all_its_lanes_takes_another(stage: Stage) -> None:
    producer, stuck, worker = stage.session(), stage.worker(), stage.worker()
    lanes = [id for number in range(14) for id in producer.defer(f"lane {number}")]
    stuck.begin()
    promise(ids(stuck.claim(13)) == lanes[:13], "the oldest")
    promise(ids(worker.claim(2)) == lanes[13:], "the lane that the first left")
    stuck.rollback()
    promise(stage.doing() == lanes[13:], "and the others are free again")


@story(
    Mutation(
        "a claim tries no more lanes than it wants",
        "win_heads.sql",
        "IF v_spare.locks IS NOT NULL THEN",
        "IF false THEN",
        True,
    ),
    Mutation(
        "a claim takes all lanes that it tries",
        "acquire_lanes.sql",
        "LIMIT p_limit);",
        ");",
        True,
    ),
)
def test_many_claims_at_once_find_lanes_while_none_has_committed(stage: Stage) -> None:
    """As when commits are slow, because a standby must confirm them."""
    producer = stage.session()
    for number in range(40):
        producer.defer(f"lane {number}")
    workers = [stage.worker() for _ in range(12)]
    found = []
    for worker in workers:
        worker.begin()
        found.append(len(worker.claim(2)))
    promise(found == [2] * 12, f"each its share: {found}")


@story(
    Mutation(
        "a lane goes before a free job that is older",
        "spare_lanes.sql",
        "WHERE left_over.id IS NULL OR",
        "WHERE true OR",
        beneath=True,
    )
)
def test_a_claim_that_loses_lanes_takes_no_younger_ones_while_an_older_free_job_waits(
    stage: Stage,
) -> None:
    producer, stuck, worker = stage.session(), stage.worker(), stage.worker()
    producer.defer("a")
    stuck.begin()
    promise(len(stuck.claim(1)) == 1, "the first")
    [free], _ = producer.defer(None), producer.defer("b")
    promise(ids(worker.claim(1)) == [free], "the oldest that is left")


@story(
    Mutation(
        "a claim locks every job that it looks at",
        "look_ahead.sql",
        "CASE WHEN r.short THEN",
        "CASE WHEN true THEN",
    ),
    Mutation(
        "jobs that another claim has locked are taken",
        "claim_candidates.sql",
        "LIMIT q.share\n            FOR UPDATE SKIP LOCKED",
        "LIMIT q.share",
    ),
)
def test_a_claim_of_many_queues_keeps_no_more_jobs_from_others_than_it_takes(stage: Stage) -> None:
    producer, one, two = stage.session(), stage.worker(), stage.worker()
    deferred = [
        id for _ in range(4) for queue in ("q", "r") for id in producer.defer(None, queue=queue)
    ]
    one.begin()
    promise(ids(one.claim(4)) == deferred[:4], "the oldest of all queues")
    promise(
        ids(two.claim(4)) == deferred[4:], "another claim finds the jobs that the first one left"
    )
    one.rollback()
    promise(ids(one.claim(4)) == deferred[:4], "and this again")


@story(
    Mutation(
        "it locks every job that it looks at",
        "claim_further.sql",
        "CASE WHEN cardinality(p_queues) > 1",
        "CASE WHEN false",
    ),
    Mutation(
        "the shares ignore the marks", "claim_further.sql", "false, p_priorities, p_after", "false"
    ),
)
def test_a_claim_that_goes_on_in_many_queues_keeps_no_more_jobs_than_it_takes(stage: Stage) -> None:
    producer, one, two = stage.session(), stage.worker(), stage.worker()
    before = [id for _ in range(4) for id in producer.defer(None, queue="q")]
    behind = [
        id for _ in range(4) for queue in ("q", "r") for id in producer.defer(None, queue=queue)
    ]
    one.begin()
    promise(
        ids(one.claim_further(before[-1], 4, "qr")) == behind[:4], "the oldest behind the marks"
    )
    promise(ids(two.claim_further(before[-1], 4, "qr")) == behind[4:], "another one finds the rest")
    one.rollback()


@story(
    Mutation(
        "jobs lost to other claims are not replaced by others",
        "may_find_more.sql",
        "OR r.short",
        "",
    )
)
def test_a_claim_of_many_queues_looks_again_where_others_were_faster(stage: Stage) -> None:
    producer, one, two = stage.session(), stage.worker(), stage.worker()
    older = [id for _ in range(2) for id in producer.defer(None, queue="q")]
    younger = [id for _ in range(4) for id in producer.defer(None, queue="r")]
    one.begin()
    promise(ids(one.claim(2)) == older, "the oldest, all of one queue")
    promise(ids(two.claim(2)) == younger[:2], "the next jobs, of the other queue")


@story(
    Mutation(
        "claims of other queues share one lock for blocking jobs",
        "block_behind.sql",
        ", p_queues::text)",
        ")",
    )
)
def test_claims_of_other_queues_put_their_own_behind(stage: Stage) -> None:
    """Jobs that one claim leaves to the other must be jobs that the other looks at."""
    producer, holder = stage.session(), stage.worker("q", "r")
    one, two = stage.worker("q"), stage.worker("r")
    producer.defer("a", queue="q")
    producer.defer("b", queue="r")
    promise(len(holder.claim()) == 2, "the lanes are held")
    for _ in range(30):
        producer.defer("a", queue="q")
    behind = [id for _ in range(30) for id in producer.defer("b", queue="r")]
    [free] = producer.defer("c", queue="r")
    one.begin()
    promise(one.claim() == [], "its lane is held")
    promise(ids(two.claim(1)) == [free], "a job after those of a held lane is found")
    promise([stage.statuses()[job] for job in behind] == ["blocked"] * 30, "they are put behind")
    one.rollback()


@story(
    Mutation(
        "a claim waits for one that takes the lane over",
        "acquire_lanes.sql",
        "pg_try_advisory_xact_lock(lock_key('lane', wanted.lock))",
        "(SELECT true FROM pg_advisory_xact_lock(lock_key('lane', wanted.lock)))",
        True,
    )
)
def test_a_claim_does_not_wait_for_another_one_that_takes_a_reserved_lane_over(
    stage: Stage,
) -> None:
    producer, one, two = stage.session(), stage.worker(), stage.worker()
    [first], [second] = producer.defer("a"), producer.defer("a")
    one.retry(one.claim_one())
    one.begin()
    promise(ids(one.claim()) == [first], "the retry")
    promise(two.claim() == [], "somebody is at work on the lane")
    one.commit()
    promise(stage.doing() == [first], "one at a time")
    promise(stage.drain() == [first, second], "in order")


@story(
    LOST_IS_WON,
    Mutation(
        "a claim takes over any row of a lane that it saw reserved",
        "acquire_lanes.sql",
        "FROM reserved;",
        "FROM (SELECT unnest(v_named) AS lock, NULL::bigint AS job_id) AS reserved;",
    ),
)
def test_two_claims_that_both_saw_the_lane_reserved_start_one_job(stage: Stage) -> None:
    producer, slow, quick = stage.session(), stage.worker(), stage.worker()
    [first], [second] = producer.defer("a"), producer.defer("a")
    quick.retry(quick.claim_one())
    slow.start_until("acquire_lanes", slow.claim)
    promise(ids(quick.claim()) == [first], "the retry")
    slow.resume()
    promise(stage.doing() == [first], f"of one lane run {stage.doing()}")
    promise(stage.drain() == [first, second], "in order")


# ---------------------------------------------------------------- going on with free jobs


@story(
    Mutation(
        "jobs of lanes are taken as if they were free",
        "claim_further.sql",
        "AND jobs.lock IS NULL\n",
        "\n",
    ),
    Mutation(
        "a further claim begins at the front", "claim_further.sql", "AND jobs.id > mark.id", ""
    ),
)
def test_a_claim_that_goes_on_takes_free_jobs_only_from_where_it_left_off(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    free = [id for _ in range(4) for id in producer.defer(None)]
    producer.defer("a")
    [later] = producer.defer(None)
    producer.defer(None, 5)
    promise(
        ids(worker.claim_further(free[1], 3)) == [*free[2:], later],
        "the next three, of this priority",
    )
    promise(worker.claim_further(later) == [], "there are no more")


@story(
    Mutation("two claims take the same job", "claim_further.sql", "FOR UPDATE SKIP LOCKED", ""),
    Mutation(
        "one waits for the other", "claim_further.sql", "FOR UPDATE SKIP LOCKED", "FOR UPDATE"
    ),
)
def test_two_claims_that_go_on_share_the_jobs(stage: Stage) -> None:
    producer, one, two = stage.session(), stage.worker(), stage.worker()
    free = [id for _ in range(4) for id in producer.defer(None)]
    one.begin()
    promise(ids(one.claim_further(0, 2)) == free[:2], "the first two")
    promise(ids(two.claim_further(0, 2)) == free[2:], "the next two, without waiting")
    one.commit()


# ---------------------------------------------------------------- several queues


@story(
    Mutation(
        "a claim starts the head of a queue that it does not serve",
        "win_heads.sql",
        "WHERE (next.queue = ANY (r.queues) OR r.served IS NULL)",
        "WHERE true",
    ),
    Mutation(
        "a claim keeps a lane that it cannot use",
        "tidy_up.sql",
        "IF cardinality(r.used) < cardinality(r.won) THEN",
        "IF false THEN",
    ),
    Mutation(
        "a claim gives a lane back and wakes nobody",
        "tidy_up.sql",
        "EXCEPT SELECT unnest(r.used)), p_floors => r.floors));",
        "EXCEPT SELECT unnest(r.used)), p_floors => r.floors)) WHERE false;",
    ),
)
def test_a_claim_gives_a_lane_back_whose_head_is_for_others(stage: Stage) -> None:
    producer, mine, theirs = stage.session(), stage.worker("mine"), stage.worker("theirs")
    [head], [second] = producer.defer("a", queue="theirs"), producer.defer("a", queue="mine")
    with stage.notifications() as notifications:
        promise(mine.claim() == [], f"{second} waits for {head}")
    promise(notifications == ["theirs"], f"those who serve the head are woken: {notifications}")
    promise(
        stage.lanes() == {} and stage.statuses() == {head: "todo", second: "blocked"},
        "the head is the token",
    )
    promise(ids(theirs.claim()) == [head], "those who serve it find it")


@story(
    Mutation(
        "finish hands over a job of a queue that the worker does not serve",
        "handover_candidates.sql",
        "AND (p_queues IS NULL OR next.queue = ANY (p_queues))",
        "",
    ),
    Mutation(
        "finish wakes nobody",
        "finish.sql",
        "PERFORM notify_workers(release_lanes(",
        "PERFORM (release_lanes(",
    ),
    Mutation(
        "the head is made no token", "release_lanes.sql", "AND jobs.status = 'blocked'", "AND false"
    ),
)
def test_a_finish_gives_a_lane_back_whose_next_job_is_for_others(stage: Stage) -> None:
    producer, mine, theirs = stage.session(), stage.worker("mine"), stage.worker("theirs")
    [first], [second] = producer.defer("a", queue="theirs"), producer.defer("a", queue="mine")
    running = theirs.claim_one()
    promise(mine.claim() == [] and stage.statuses()[second] == "blocked", "the lane is held")
    with stage.notifications() as notifications:
        promise(theirs.finish(running) == ([first], [], []), "nothing for this worker")
    promise(notifications == ["mine"], f"those who serve the next job are woken: {notifications}")
    promise(ids(mine.claim()) == [second], "they find it")


@story(
    Mutation(
        "a claim starts the best of each queue",
        "lane_candidates.sql",
        "ORDER BY priority DESC, id\n        LIMIT r.wanted\n    ), chosen",
        "ORDER BY priority DESC, id\n    ), chosen",
    )
)
def test_a_claim_never_starts_more_jobs_than_asked(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker("x", "y", "z")
    for queue in ("z", "y", "x"):
        producer.defer(None, 0, 0, 0, queue=queue)
        for lock in "abc":
            producer.defer(queue + lock, queue=queue)
    expected = sorted(stage.statuses())
    for place in range(0, len(expected), 4):
        started = ids(worker.claim(4))
        promise(
            started == expected[place : place + 4],
            f"the four oldest of all three queues: {started}",
        )
    promise(
        len(expected) == 18 and stage.doing() == expected,
        "all of them in the end, the last call with two",
    )


# ---------------------------------------------------------------- scheduled jobs


@story(
    Mutation(
        "promote waits for another one", "promote.sql", "FOR UPDATE SKIP LOCKED", "FOR UPDATE"
    ),
    Mutation("promote locks nothing", "promote.sql", "\n        FOR UPDATE SKIP LOCKED", ""),
)
def test_scheduled_jobs_are_promoted_by_one_of_two_claims(stage: Stage) -> None:
    producer, one, two = stage.session(), stage.worker(), stage.worker()
    [first], [second], [free] = (producer.defer(lock, delay="1 hour") for lock in ("a", "a", None))
    for worker in (one, two):
        worker.hasten("1 day")
    one.begin()
    promise(ids(one.claim(1)) == [first], "all are due, this is the oldest")
    promise(two.claim() == [], "another claim is at work on them, and nobody waits")
    one.commit()
    promise(ids(two.claim()) == [free], "the lane is held")
    promise(stage.doing() == [first, free], "each is started once")
    promise(
        stage.drain() == [first, second, free], "in order, also after the death of both workers"
    )


# ---------------------------------------------------------------- helpers


def refused(step: Callable[[], object], by: type[Exception]) -> bool:
    try:
        step()
    except by:
        return True
    return False


# ---------------------------------------------------------------- found by the model of the lane


NOT_DUE = Mutation(
    "a lane is taken over for a job that is not due",
    "acquire_lanes.sql",
    " AND jobs.status = 'todo'",
    "",
)


@story(NOT_DUE)
def test_a_claim_from_before_a_delayed_retry_leaves_the_lane_reserved(stage: Stage) -> None:
    """It saw the jobs as tokens. Now they are scheduled, and their lanes wait for them."""
    producer, slow, quick = stage.session(), stage.worker(), stage.worker()
    [first], [second], [alone] = producer.defer("a"), producer.defer("a"), producer.defer("b")
    slow.start_until("acquire_lanes", slow.claim)
    quick.retry(*quick.claim(), delay="1 hour")
    promise(slow.resume() == [], f"{second} waits for the end of {first}, which has begun")
    promise(
        stage.lanes() == {"a": "retrying", "b": "retrying"}, f"both still reserved: {stage.lanes()}"
    )
    promise(stage.drain() == [first, second, alone], "in order")


@story(
    Mutation(
        "a claim takes lanes over without their names",
        "acquire_lanes.sql",
        "WHERE pg_try_advisory_xact_lock(lock_key('lane', wanted.lock))",
        "",
    ),
)
def test_while_a_claim_looks_at_a_reservation_no_other_can_take_the_lane(stage: Stage) -> None:
    """Its snapshot shows a due retry, which could run and wait again before it locks the row."""
    producer, slow, quick = stage.session(), stage.worker(), stage.worker()
    [first], [second] = producer.defer("a"), producer.defer("a")
    quick.retry(quick.claim_one())
    stage.make_gate("acquire_lanes.sql", "lanes.job_id = ANY (p_seen)")
    slow.start_until("gate", slow.claim)
    promise(quick.claim() == [], "its name is locked")
    promise(ids(slow.resume()) == [first], "the retry")
    promise(stage.drain() == [first, second], "in order")
