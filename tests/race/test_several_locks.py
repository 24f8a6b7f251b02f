"""Jobs with several lanes: each is alone in all of them, in order in each, and none sleeps."""

from tests.race.harness import Mutation, Stage, ids, promise, story

UNSORTED = Mutation(
    "the rows at hand are taken, then the others are waited for",
    "lock_lanes.sql",
    "IF v_ours.locks IS NOT NULL AND NOT v_ours.several THEN",
    "PERFORM FROM lanes WHERE lanes.lock IN (SELECT unnest(j.locks) FROM jobs AS j "
    "WHERE j.id = ANY (p_ids)) FOR UPDATE SKIP LOCKED; IF false THEN",
)
RESERVE = Mutation(
    "a claim reserves the lanes that it has won for a job that waits for another",
    "start_in_lanes.sql",
    "PERFORM notify_workers(release_lanes(v_won.new_lanes, p_id));",
    "UPDATE lanes SET worker_id = NULL, readers = NULL, job_id = v_seen.id "
    "WHERE lanes.lock = ANY (v_won.new_lanes);",
)


@story(
    Mutation(
        "only the first lane is won",
        "win_lanes.sql",
        "FOREACH v_lock IN ARRAY p_job.locks LOOP",
        "FOREACH v_lock IN ARRAY p_job.locks[:1] LOOP",
    )
)
def test_a_job_runs_alone_in_each_of_its_lanes(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    both = person.defer_several("b", "a")
    person.defer("a")
    person.defer("b")
    [third] = person.defer("c")
    promise(ids(worker.claim()) == [both, third], "the others wait for their lanes")
    promise(stage.lanes() == dict.fromkeys("abc", "held"), f"it holds both: {stage.lanes()}")
    promise(worker.claim() == [], "nobody else starts")


@story(
    Mutation(
        "the head of its first lane is enough",
        "start_in_lanes.sql",
        "WHERE head.id <> p_id",
        "WHERE head.id <> p_id AND head.lock = v_seen.lock",
    ),
    Mutation(
        "the line of its second lane does not count",
        "line_of.sql",
        "FROM waits WHERE waits.lock::text = p_lock",
        "FROM waits WHERE false",
    ),
)
def test_jobs_start_in_order_in_each_of_their_lanes(stage: Stage) -> None:
    person, worker, slow = stage.session(), stage.worker("default"), stage.worker("x")
    person.defer("b", queue="x")
    both = person.defer_several("a", "b")
    person.defer("b")
    person.defer("a")
    promise(worker.claim() == [], "the first one of b has not started yet")
    slow.finish(*slow.claim(), want=0)
    order = []
    while jobs := worker.claim(1):
        order += ids(jobs)
        worker.finish(*jobs, want=0)
    promise(order == sorted(order) and order[0] == both, f"out of order: {order}")


@story(RESERVE)
def test_a_job_that_waits_for_one_lane_reserves_no_other(stage: Stage) -> None:
    """An older job commits late. It is first where the reserved lane would keep it out."""
    late, person, worker = stage.session(), stage.session(), stage.worker()
    other = stage.session()
    late.begin()
    older = late.defer_several("a", "b")
    newer = person.defer_several("a", "b")
    other.begin()
    other.run("SELECT pg_advisory_xact_lock(lock_key('lane', 'b'))")
    promise(worker.claim() == [], "it wins a, and somebody else is just taking b")
    other.rollback()
    late.commit()
    order = []
    while jobs := worker.claim(1):
        order += ids(jobs)
        worker.finish(*jobs, want=0)
    promise(order == [older, newer], f"not both of them: {order}")


@story(
    Mutation(
        "a claim waits for the lanes",
        "win_lanes.sql",
        "FOR UPDATE SKIP LOCKED;",
        "FOR UPDATE;",
    ),
    Mutation(
        "a claim waits for the row that another one inserts",
        "win_lanes.sql",
        "pg_try_advisory_xact_lock(lock_key('lane', v_lock))",
        "true",
    ),
)
def test_a_claim_waits_for_nobody_who_is_at_one_of_the_lanes(stage: Stage) -> None:
    person, worker, other = stage.session(), stage.worker(), stage.worker()
    person.pause("b")
    person.resume_lane("b")
    first = person.defer_several("a", "b")
    other.begin()
    promise(ids(other.claim()) == [first], "it starts")
    person.defer_several("b", "c")
    promise(worker.claim() == [], "b is taken")
    other.commit()
    promise(worker.claim() == [], "b is held")
    retried = person.defer_several("d", "e")
    [job] = worker.claim()
    worker.retry(job)
    holder = stage.session()
    holder.begin()
    holder.run("SELECT FROM lanes WHERE lock = 'e' FOR UPDATE")
    promise(worker.claim() == [], f"{retried} waits for its lane")


@story(UNSORTED)
def test_a_worker_and_a_rescuer_of_the_same_job_do_not_block_each_other(stage: Stage) -> None:
    """Each waits for the lanes in order, so one of them has all."""
    stage.let_wait()
    person, worker, rescuer = stage.session(), stage.worker(), stage.worker()
    holder = stage.session()
    person.defer_several("a", "b")
    [job] = worker.claim()
    holder.begin()
    holder.run("SELECT FROM lanes WHERE lock = 'a' FOR UPDATE")
    worker.start(worker.finish, job)
    # If the worker already has b, nobody else can lock it.
    other = stage.session()
    free = other.run("SELECT lock FROM lanes WHERE lock = 'b' FOR UPDATE SKIP LOCKED")
    promise(free == [("b",)], "it waits for a and has b")
    holder.commit()
    promise(worker.result().accepted == [job.id], "it ends")
    promise(rescuer.rescue() == [], "nothing is left")


@story(
    Mutation(
        "a job with some of its lanes is not busy",
        "lock_contended_lanes.sql",
        "SELECT j.id, lanes_of(j.lock, j.locks) AS locks FROM jobs AS j "
        "WHERE j.id = ours.id AND j.claim_id = ours.claim_id LIMIT 1 ) AS jobs WHERE EXISTS",
        "SELECT j.id, ARRAY[j.lock::text] AS locks FROM jobs AS j "
        "WHERE j.id = ours.id AND j.claim_id = ours.claim_id LIMIT 1 ) AS jobs WHERE EXISTS",
    )
)
def test_a_job_whose_second_lane_is_locked_is_busy(stage: Stage) -> None:
    person, worker, holder = stage.session(), stage.worker(), stage.session()
    person.defer_several("a", "b")
    [job] = worker.claim()
    holder.begin()
    holder.run("SELECT FROM lanes WHERE lock = 'b' FOR UPDATE")
    promise(worker.finish(job).busy == [job.id], "it is to be reported again")
    holder.commit()
    promise(worker.finish(job).accepted == [job.id], "it ends")


@story(
    Mutation(
        "the lanes are locked in any order",
        "cancel_job.sql",
        "PERFORM lock_lane(lane) FROM unnest(v_locks) AS lane;",
        "PERFORM lock_lane(lane) FROM (SELECT unnest(v_locks) AS lane ORDER BY 1 DESC) AS l;",
    )
)
def test_two_people_who_cancel_jobs_of_the_same_lanes_do_not_deadlock(stage: Stage) -> None:
    one, two, holder = stage.session(), stage.session(), stage.session()
    first = one.defer_several("a", "b")
    second = one.defer_several("b", "a")
    holder.begin()
    holder.pause("a")
    one.start(one.cancel, first)
    two.begin()
    two.pause("b")  # it is free, as the other person waits for a
    holder.commit()
    one.moves_on_from(holder)
    two.commit()
    promise(one.result() == "cancelled", "it goes on")
    promise(two.cancel(second) == "cancelled", "so does the other one")


@story(
    Mutation(
        "only its first lane goes on",
        "reopen_lanes.sql",
        "PERFORM reopen_lane(lane) FROM unnest(p_job.locks) AS lane;",
        "PERFORM reopen_lane(lane) FROM unnest(p_job.locks[:1]) AS lane; "
        "DELETE FROM lanes WHERE lock = ANY (p_job.locks) AND state IS NULL;",
    )
)
def test_the_cancel_of_a_head_lets_all_of_its_lanes_go_on(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.defer("a")
    [running] = worker.claim()
    head = person.defer_several("a", "b")
    [behind] = person.defer("b")
    worker.claim()
    promise(stage.statuses()[behind] == "blocked", "b is the lane of a better job")
    person.cancel(head)
    promise(ids(worker.claim()) == [behind], "b goes on")
    worker.finish(running)


@story(
    Mutation(
        "it keeps only its first lane",
        "keep_or_leave.sql",
        "CROSS JOIN LATERAL unnest(job.locks) AS lane",
        "CROSS JOIN LATERAL unnest(job.locks[:1]) AS lane",
    )
)
def test_a_job_keeps_all_of_its_lanes_for_its_retry(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    both = person.defer_several("a", "b")
    [job] = worker.claim()
    person.defer("a")
    person.defer("b", 9)
    worker.retry(job, delay="1 hour")
    promise(worker.claim() == [], "both lanes wait for it")
    promise(stage.lanes() == {"a": "retrying", "b": "retrying"}, f"{stage.lanes()}")
    worker.hasten("2 hours")
    promise(ids(worker.claim()) == [both], "then it goes first in both")


@story(
    Mutation(
        "the lanes stay its own",
        "retry.sql",
        "CASE WHEN jobs.locks IS NOT NULL AND jobs.on_retry = 'hold' THEN true END",
        "CASE WHEN jobs.locks IS NOT NULL THEN true END",
    )
)
def test_a_job_that_releases_leaves_all_of_its_lanes_for_its_retry(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    both = person.defer_several("a", "b", on_retry="release")
    [a], [b] = person.defer("a"), person.defer("b")
    [job] = worker.claim()
    worker.retry(job, delay="1 hour")
    jobs = worker.claim()
    promise(ids(jobs) == [a, b], "both lanes go on")
    worker.hasten("2 hours")
    promise(worker.claim() == [], "it waits in line")
    worker.finish(*jobs)
    promise(ids(worker.claim()) == [both], "in both lanes")


@story(
    Mutation(
        "a lane that is paused does not count",
        "lets_start.sql",
        "p_lane.stopped IS NULL AND",
        "",
    ),
    Mutation(
        "nobody wakes it",
        "reopen_lane.sql",
        "UPDATE jobs SET status = 'todo' WHERE id = v_lane.job_id AND status = 'blocked';",
        "NULL;",
    ),
)
def test_a_retry_with_a_paused_lane_starts_when_it_is_resumed(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    both = person.defer_several("a", "b")
    [job] = worker.claim()
    person.pause("b")
    worker.retry(job)
    promise(worker.claim() == [], "b is paused")
    promise(worker.next_wake() is None, "it is not looked at again and again")
    person.resume_lane("b")
    promise(ids(worker.claim()) == [both], "it starts")


@story(
    Mutation(
        "it does not matter what became of its lanes",
        "bring_back.sql",
        "< cardinality(p_job.locks)",
        "< 1",
    )
)
def test_a_failed_job_goes_first_only_if_all_of_its_lanes_still_wait_for_it(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    both = person.defer_several("a", "b", on_failure="halt")
    person.defer("a")
    [b] = person.defer("b")
    [job] = worker.claim()
    worker.finish(job, status="failed")
    promise(stage.lanes() == {"a": "halted", "b": "halted"}, "both stop")
    person.resume_lane("b")
    [other] = worker.claim()
    promise(other.id == b, "b goes on")
    worker.retry(other, delay="1 hour")
    person.retry_head("a")
    promise(worker.claim() == [], "b waits for another job's retry")
    worker.hasten("2 hours")
    [other] = worker.claim()
    promise(other.id == b, "which goes first")
    worker.finish(other, want=0)
    promise(ids(worker.claim()) == [both], "it goes first in its lanes")


@story(
    Mutation(
        "it goes back in line",
        "bring_back.sql",
        "PERFORM clear_stop(lane, CASE WHEN",
        "PERFORM clear_stop(lane, CASE WHEN false AND",
    )
)
def test_a_failed_job_is_brought_back_into_all_of_its_lanes_at_once(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    both = person.defer_several("a", "b", on_failure="halt")
    [job] = worker.claim()
    person.defer("a", 9)
    person.defer("b", 9)
    worker.finish(job, status="failed")
    promise(person.retry_head("b") == both, "somebody tries it again")
    promise(ids(worker.claim()) == [both], "it goes first, whatever its priority")


@story(
    Mutation(
        "a lane that the claim is giving back is a reason",
        "block_in_lanes.sql",
        "AND lanes.lock <> ALL (p_new)",
        "",
    )
)
def test_a_claim_blocks_no_job_that_nobody_would_wake(stage: Stage) -> None:
    """Another claim is just winning b, and finds a better job to start elsewhere."""
    person, worker, other = stage.session(), stage.worker(), stage.worker()
    both = person.defer_several("a", "b")
    other.begin()
    other.run("SELECT pg_advisory_xact_lock(lock_key('lane', 'b'))")
    promise(worker.claim() == [], "b is not to be had")
    other.rollback()
    promise(ids(worker.claim()) == [both], "it is still its own token")


@story(
    Mutation(
        "it is blocked although the lane's row is locked",
        "block_in_lanes.sql",
        "WHERE lanes.lock = ANY (v_wanted) AND lanes.lock <> ALL (p_new) FOR UPDATE SKIP LOCKED);",
        "WHERE lanes.lock = ANY (v_wanted) AND lanes.lock <> ALL (p_new));",
    )
)
def test_a_job_is_not_blocked_in_a_lane_that_is_just_given_back(stage: Stage) -> None:
    person, worker, other = stage.session(), stage.worker(), stage.worker()
    person.defer("b")
    [running] = other.claim()
    other.begin()
    other.finish(running)
    both = person.defer_several("a", "b")
    worker.claim()
    other.commit()
    promise(ids(worker.claim()) == [both], "nobody would wake it any more")


@story(
    Mutation(
        "the head that a user has locked is forgotten",
        "release_lanes.sql",
        "asleep AND touched AND NOT try_lock_job(id) AS busy",
        "false AS busy",
    )
)
def test_a_lane_whose_head_is_locked_by_a_user_is_looked_at_again(stage: Stage) -> None:
    person, user, worker = stage.session(), stage.session(), stage.worker()
    person.defer("a")
    [running] = worker.claim()
    both = person.defer_several("a", "b")
    worker.claim()
    promise(stage.statuses()[both] == "blocked", "it waits")
    user.begin()
    user.run("SELECT FROM jobs WHERE id = %s FOR UPDATE", both)
    worker.finish(running)
    user.rollback()
    worker.hasten("2 seconds")
    promise(ids(worker.claim()) == [both], "it starts")


@story(
    Mutation(
        "the other lanes are not locked",
        "lock_next_job.sql",
        "FROM unnest(p_lock || job.locks) AS lock",
        "FROM unnest(ARRAY[p_lock]) AS lock",
    )
)
def test_skip_head_waits_for_a_claim_that_has_won_the_other_lane(stage: Stage) -> None:
    """The claim blocks the next job of that lane, behind the one that is skipped."""
    person, worker = stage.session(), stage.worker("default")
    both = person.defer_several("a", "b", queue="x")
    [behind] = person.defer("a")
    skipper = stage.session()
    worker.begin()
    promise(worker.claim() == [], "it is not the head of a")
    skipper.start(skipper.skip_head, "b")
    worker.commit()
    promise(skipper.result() == both, "it is skipped")
    promise(ids(worker.claim()) == [behind], "nobody would wake it any more")


@story(
    Mutation(
        "all jobs are cancelled, whoever is at their other lanes",
        "cancel_in_lanes.sql",
        "WHERE lane NOT IN (SELECT unnest(v_held)));",
        "WHERE false);",
    )
)
def test_cancel_waiting_leaves_jobs_whose_other_lane_somebody_has_locked(stage: Stage) -> None:
    person, other, worker = stage.session(), stage.session(), stage.worker()
    left = person.defer_several("a", "b")
    gone = person.defer_several("a", "c")
    [single] = person.defer("a")
    other.begin()
    other.pause("b")
    promise(person.cancel_waiting("a") == 2, f"{gone} and {single}")
    promise(list(stage.statuses()) == [left], f"{stage.statuses()}")
    other.rollback()
    promise(ids(worker.claim()) == [left], "it starts")


@story(
    Mutation(
        "it joins one lane when it is due",
        "promote.sql",
        "PERFORM join_lanes(v_joining);",
        "NULL;",
    )
)
def test_a_scheduled_job_joins_all_of_its_lanes_when_it_is_due(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    [running_a] = person.defer("a")
    [first] = worker.claim()
    both = person.defer_several("a", "b", at="1 hour")
    worker.hasten("2 hours")
    worker.claim()
    [later] = person.defer("b")
    worker.claim()
    promise(stage.statuses()[later] == "blocked", "the older one goes first in b")
    worker.finish(first)
    promise(ids(worker.claim()) == [both], f"after {running_a}")


@story(
    Mutation(
        "a job with a limit keeps the lanes that it has won",
        "start_in_lanes.sql",
        "PERFORM notify_workers(release_lanes(v_won.new_lanes, p_id));",
        "",
    )
)
def test_a_job_that_waits_for_its_limit_holds_none_of_its_lanes(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("k", 1)
    person.defer(None, limit="k")
    [running] = worker.claim()
    both = person.defer_several("a", "b", limit="k")
    promise(worker.claim() == [], "no slot is left")
    promise(stage.statuses()[both] == "limited" and not stage.lanes(), f"{stage.lanes()}")
    worker.finish(running)
    promise(ids(worker.claim()) == [both], "now there is one")


@story(
    Mutation(
        "a wake-up is not passed on",
        "block_in_lanes.sql",
        "PERFORM leave_looks(v_gates) WHERE v_gates IS NOT NULL;",
        "",
    )
)
def test_a_job_that_loses_its_lane_passes_its_slot_on(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("k", 1)
    person.defer(None, limit="k")
    [running] = worker.claim()
    both = person.defer_several("a", "b", limit="k")
    [next_one] = person.defer(None, limit="k")
    worker.claim()
    person.defer("b", 9)
    worker.claim()
    worker.finish(running)  # it wakes `both`, which cannot start
    started = ids(worker.claim()) + ids(worker.claim())
    promise(started == [next_one], f"the slot goes to the next one, not {started}, {both}")


@story(
    Mutation(
        "the heads are read before all lanes are won",
        "start_in_lanes.sql",
        "SELECT * INTO v_won FROM win_lanes(p_worker, v_lanes); IF v_won.lost IS NULL THEN "
        "-- New statements, so they read what was committed before we got the lanes. "
        "IF v_seen.keeps_lanes IS NULL THEN v_other := ARRAY( "
        "SELECT head.lock FROM lane_heads(v_seen.locks) AS head WHERE head.id <> p_id); END IF;",
        "v_other := ARRAY(SELECT head.lock FROM lane_heads(v_seen.locks) AS head "
        "WHERE head.id <> p_id); SELECT * INTO v_won FROM win_lanes(p_worker, v_lanes); "
        "IF v_won.lost IS NULL THEN",
    )
)
def test_a_better_job_that_comes_while_the_lanes_are_won_goes_first(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    both = person.defer_several("a", "b")
    worker.start_until("win_lanes", worker.claim)
    [better] = person.defer("b", 9)
    started = ids(worker.resume())
    promise(both not in started, f"{better} was there before the lanes were won")


@story(
    Mutation(
        "a job that has several lanes never counts as asleep",
        "lane_is_stranded.sql",
        "WHERE head.asleep AND (jobs.locks IS NULL OR may_start_next(jobs, p_lock))",
        "WHERE head.asleep AND jobs.locks IS NULL",
    )
)
def test_the_reconciler_wakes_a_job_that_nobody_would_wake(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    both = person.defer_several("a", "b")
    stage.control.execute("UPDATE jobs SET status = 'blocked'")
    person.reconcile()
    promise(stage.audited() == [("reconcile", "a")], f"it is recorded: {stage.audited()}")
    promise(ids(worker.claim()) == [both], "it starts")


@story(
    Mutation(
        "a head that waits for another lane counts as asleep",
        "lane_is_stranded.sql",
        "(jobs.locks IS NULL OR may_start_next(jobs, p_lock))",
        "true",
    )
)
def test_the_reconciler_leaves_a_lane_alone_whose_head_waits_for_another_lane(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.defer("b")
    worker.claim()
    person.defer_several("a", "b")
    worker.claim()
    person.reconcile()
    promise(stage.audited() == [], f"it is in order: {stage.audited()}")
