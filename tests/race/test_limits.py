"""Limits: at most so many jobs of a key run, and no job that may start sleeps."""

import pytest

from tests.race.harness import Mutation, Stage, ids, promise, story

WAKE_AT_FINISH = Mutation(
    "a freed slot wakes nobody",
    "open_gates.sql",
    "WHERE jobs.id = ANY (ARRAY(SELECT unnest(best.ids) FROM best))",
    "WHERE jobs.id = ANY (ARRAY(SELECT unnest(best.ids) FROM best)) AND NOT p_frees",
)
NOT_PASSED_ON = Mutation(
    "a job that goes passes nothing on",
    "archive_jobs.sql",
    "THEN leave_looks(ARRAY[limit_gate(gone.limit_key)])",
    "THEN true",
)


@story(
    Mutation(
        "a claim counts no slots",
        "take_slots.sql",
        "SET used = gates.used + part.starts",
        "SET used = gates.used",
    ),
    Mutation(
        "a claim that continues ignores limits",
        "claim_further.sql",
        "IF v_limited THEN",
        "IF false THEN",
    ),
)
def test_no_more_jobs_of_a_key_run_than_its_limit_allows(stage: Stage) -> None:
    person, first, second = stage.session(), stage.worker(), stage.worker()
    person.set_limit("stripe", 2)
    jobs = person.defer(None, 0, 0, 0, limit="stripe")
    person.defer("a", limit="stripe")
    promise(ids(first.claim(1)) == jobs[:1], "the first one starts")
    second.claim_further(jobs[0])
    second.claim()
    first.claim()
    promise(stage.doing() == jobs[:2], f"not two of them run, but {stage.doing()}")


@story(
    Mutation(
        "changes of a limit do not wait for each other",
        "change_limit.sql",
        "LOCK TABLE limits IN SHARE ROW EXCLUSIVE MODE;",
        "",
    )
)
def test_two_who_change_parts_of_a_limit_at_once_both_change_it(stage: Stage) -> None:
    first, second, worker = stage.session(), stage.session(), stage.worker()
    [job] = first.defer(None, limit="stripe")
    first.begin()
    first.run("SELECT change_limit('stripe', 3)")
    second.start(second.run, "SELECT change_limit('stripe', NULL, 100, '1 min', 20)")
    promise(ids(worker.claim()) == [job], "a job waits for a person")
    first.commit()
    second.result()
    promise(
        first.run("SELECT slots, rate, burst FROM limits") == [(3, 100, 20)],
        "the second change forgot the first",
    )


@story(
    WAKE_AT_FINISH,
    Mutation(
        "a finish keeps the slot",
        "finish.sql",
        "PERFORM notify_workers(open_gates(v_done.gates, true));",
        "NULL;",
    ),
)
def test_the_end_of_a_job_lets_the_best_job_that_waits_for_its_slot_start(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", 1)
    first, later, better = person.defer(None, 5, 0, 1, limit="stripe")
    [running] = worker.claim()
    promise(running.id == first, "only one starts")
    promise(stage.statuses()[later] == stage.statuses()[better] == "limited", "the others wait")
    worker.finish(running, want=0)
    promise(ids(worker.claim()) == [better], "the better one starts next")


@story(
    Mutation(
        "a retry keeps its slot",
        "retry.sql",
        "PERFORM notify_workers(open_gates(v_again.gates, true));",
        "NULL;",
    )
)
def test_a_job_that_waits_for_its_next_attempt_has_no_slot(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", 1)
    _, other = person.defer(None, 0, 0, limit="stripe")
    [running] = worker.claim()
    worker.retry(running, delay="1 hour")
    promise(ids(worker.claim()) == [other], "the other one has the slot now")


@story(
    Mutation(
        "a job that is put back keeps its slot",
        "put_back.sql",
        "PERFORM notify_workers(open_gates(v_back.gates, true));",
        "NULL;",
    )
)
def test_a_job_that_is_put_back_has_no_slot(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", 1)
    first, _ = person.defer(None, 0, 0, limit="stripe")
    [running] = worker.claim()
    worker.put_back(running)
    promise(ids(worker.claim()) == [first], "it can be claimed again")


@pytest.mark.fresh_database
@story(
    Mutation(
        "a refused finish frees a slot",
        "finish.sql",
        "array_agg(limit_gate(b.limit_key)) FILTER (WHERE b.limit_key IS NOT NULL) AS gates",
        "(SELECT array_agg(limit_gate(j.limit_key)) FROM jobs AS j WHERE j.id = ANY (p_ids)) AS gates",
    )
)
def test_the_late_finish_of_an_attempt_that_was_overtaken_frees_no_slot(stage: Stage) -> None:
    person, dead, worker = stage.session(), stage.worker(), stage.worker()
    person.set_limit("stripe", 1)
    first, second = person.defer(None, 0, 0, limit="stripe")
    [lost] = dead.claim()
    stage.forget(dead)
    worker.rescue()
    promise(ids(worker.claim()) == [first], "the slot of the dead worker is free again")
    stage.control.execute("ALTER TABLE gates DROP CONSTRAINT gates_used")
    promise(dead.finish(lost).accepted == [], "its fence refuses it")
    worker.claim()
    promise(stage.doing() == [first], f"more than one runs: {stage.doing()}, {second}")


@story(
    Mutation(
        "a job becomes limited without the lock of its key",
        "try_lock_gates.sql",
        "LIMIT 1 FOR UPDATE SKIP LOCKED",
        "LIMIT 1",
    ),
)
def test_a_claim_during_a_finish_does_not_miss_the_slot_that_falls_free(stage: Stage) -> None:
    person, worker, other = stage.session(), stage.worker(), stage.worker()
    person.set_limit("stripe", 1)
    person.defer(None, limit="stripe")
    [running] = worker.claim()
    worker.begin()
    worker.finish(running)
    [late] = person.defer(None, limit="stripe")
    other.claim()  # it sees the slot taken, and the finish did not see the job
    worker.commit()
    promise(ids(other.claim()) == [late], "nobody would wake it any more")


@story(
    Mutation(
        "only one queue is woken",
        "gate_queues.sql",
        "AND next.queue > found.queue",
        "AND next.queue > found.queue AND false",
    )
)
def test_a_free_slot_wakes_a_job_in_each_queue(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker("b")
    person.set_limit("stripe", 1)
    person.defer(None, limit="stripe", queue="b")
    [running] = worker.claim()
    person.defer(None, limit="stripe", queue="a")
    [served] = person.defer(None, limit="stripe", queue="b")
    stage.worker("a", "b").claim()
    worker.hasten("0")  # its clock stands still: it does not look again
    worker.finish(running)
    promise(ids(worker.claim()) == [served], "queue a may have no worker")


@story(
    Mutation(
        "a job that lacks a slot keeps its lane",
        "pass_gates.sql",
        "array_agg(lock) FILTER (WHERE fits)",
        "array_agg(lock)",
    )
)
def test_a_lane_is_free_for_others_while_its_head_waits_for_a_slot(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", 1)
    person.defer(None, limit="stripe")
    person.defer("a", limit="stripe")
    [running] = worker.claim()
    promise(stage.lanes() == {}, "nobody holds the lane")
    [better] = person.defer("a", 1)
    promise(ids(worker.claim()) == [better], "a better job of the lane starts")
    worker.finish(running)
    stage.drain()


@story(
    Mutation(
        "the lane of a retry goes to others while it lacks a slot",
        "pass_gates.sql",
        "IF r.kept && r.retries THEN",
        "IF false THEN",
    )
)
def test_a_lane_stays_reserved_for_a_retry_that_waits_for_a_slot(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", 1)
    [first] = person.defer("a", limit="stripe")
    worker.retry(worker.claim_one())
    person.set_limit("stripe", 1)
    [other] = person.defer(None, 9, limit="stripe")
    [running] = worker.claim(1)
    promise(running.id == other, "the other job has the slot")
    person.defer("a", 5)
    promise(worker.claim() == [], "the lane waits for the retry")
    promise(stage.statuses()[first] == "limited", "which waits for the slot")
    promise(stage.lanes() == {"a": "retrying"}, "the lane is reserved")
    worker.finish(running)
    promise(ids(worker.claim()) == [first], "it goes first")


@story(
    Mutation(
        "a blocked job passes nothing on",
        "block_behind.sql",
        "PERFORM leave_looks(v_gates) WHERE v_gates IS NOT NULL;",
        "",
    ),
)
def test_a_slot_goes_to_the_next_job_if_the_lane_of_the_first_is_busy(stage: Stage) -> None:
    person, worker, other = stage.session(), stage.worker(), stage.worker()
    person.set_limit("stripe", 1)
    person.defer(None, 9, limit="stripe")
    [in_lane] = person.defer("a", 5, limit="stripe")
    [free] = person.defer(None, limit="stripe")
    [running] = worker.claim()
    person.defer("a", 6)
    [_] = worker.claim()
    worker.finish(running)
    promise(stage.statuses()[in_lane] == "todo", "it is woken, but its lane is held")
    person.begin()
    person.run("SELECT FROM gates FOR UPDATE")
    other.claim()
    person.commit()
    other.claim()
    other.claim()
    promise(stage.statuses()[free] == "doing", "the slot would stay free as long as the lane runs")
    promise(stage.statuses()[in_lane] == "blocked", "and nobody meets the first again")


@story(NOT_PASSED_ON)
def test_the_slot_of_a_woken_job_that_is_cancelled_goes_to_the_next(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", 1)
    _, second, third, last = person.defer(None, 0, 0, 0, 0, limit="stripe")
    [running] = worker.claim()
    worker.finish(running, want=0)
    promise(person.cancel(second) == "cancelled", "it waited")
    running = worker.claim_one()
    promise(running.id == third, "the next one starts")
    worker.finish(running, want=0)
    promise(person.delete(last), "it waited")


@story(NOT_PASSED_ON)
def test_the_slot_of_a_woken_head_that_is_skipped_goes_to_the_next(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", 1)
    person.defer(None, 9, limit="stripe")
    person.defer("a", 5, limit="stripe")
    [last] = person.defer(None, limit="stripe")
    [running] = worker.claim()
    worker.finish(running)
    person.skip_head("a")
    promise(ids(worker.claim()) == [last], "the last one starts")


@story(NOT_PASSED_ON)
def test_the_slot_of_a_woken_job_whose_lane_is_cleared_goes_to_the_next(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", 1)
    person.defer(None, 9, limit="stripe")
    person.defer("a", 5, limit="stripe")
    [last] = person.defer(None, limit="stripe")
    [running] = worker.claim()
    worker.finish(running)
    promise(person.cancel_waiting("a") == 1, "it is cancelled")
    promise(ids(worker.claim()) == [last], "the last one starts")


@story(
    Mutation(
        "a lane hands over a job with a limit",
        "handover_candidates.sql",
        "AND NOT head.limited",
        "",
    )
)
def test_a_lane_does_not_hand_over_a_job_without_a_slot(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", 1)
    [other] = person.defer(None, limit="stripe")
    [first] = person.defer("a")
    [second] = person.defer("a", limit="stripe")
    running = {job.id: job for job in worker.claim()}
    promise(sorted(running) == [other, first], "both start")
    worker.finish(running[first])
    worker.claim()
    promise(stage.doing() == [other], "the next of the lane waits for the slot")
    worker.finish(running[other])
    promise(ids(worker.claim()) == [second], "and starts then")


@story(
    Mutation(
        "a worker's own slots do not matter",
        "take_slots.sql",
        "WHERE is_dear AND place > p_slots",
        "WHERE is_dear AND place > 10",
    ),
    Mutation(
        "a worker claims ahead until no slot is left",
        "take_slots.sql",
        "room.free - rule.slots / 2",
        "room.free",
    ),
)
def test_a_worker_claims_ahead_at_most_half_of_the_slots_of_a_limit(stage: Stage) -> None:
    person, busy, idle = stage.session(), stage.worker(), stage.worker()
    person.set_limit("stripe", 5)
    jobs = person.defer(None, *[0] * 6, limit="stripe")
    promise(ids(busy.claim(10, slots=1)) == jobs[:3], "it can begin one, and takes two more")
    promise(busy.claim(10, slots=0) == [], "half of the slots are taken")
    promise(busy.claim_further(jobs[2]) == [], "also if it continues where it stopped")
    promise(ids(idle.claim(10)) == jobs[3:5], "the others are for other workers")


@story(
    Mutation(
        "a job that lacks a slot is passed over",
        "take_slots.sql",
        "WHERE key IS NULL AND (rank < early.rank) IS NOT FALSE",
        "WHERE key IS NULL",
    ),
    Mutation(
        "a job with two lanes passes it",
        "pass_gates.sql",
        "unnest(v_line[:v_end - 1]) AS id",
        "unnest(r.several) AS id",
    ),
)
def test_a_job_that_lacks_a_slot_is_not_passed_by_those_behind_it(stage: Stage) -> None:
    """Otherwise a worker with enough other jobs would never have a slot free for it."""
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", None, 60)
    before = person.defer(None, 0, 0)
    [limited] = person.defer(None, 0, limit="stripe")
    behind = [*person.defer(None, 0), *person.defer("lane", 0)]
    several = [person.defer_several("one", "two")]
    promise(ids(worker.claim(10, slots=0)) == before, "those in front may be claimed ahead")
    promise(worker.claim(10, slots=0) == [], "those behind may not")
    promise(worker.claim_further(before[-1]) == [], "nor if it continues where it stopped")
    started = ids(worker.claim(10, slots=1))
    promise(set(started) == {limited, *behind, *several}, "with a free slot, everything starts")


@story(
    Mutation(
        "a job with several lanes is not counted", "lane_tokens.sql",
        "t.locks IS NOT NULL AND t.limit_key IS NOT NULL", "false",
    ),
    Mutation(
        "it takes whatever slots there are", "pass_gates.sql",
        "place > v_left", "false",
    ),
    Mutation(
        "it keeps back those in front of it, too", "pass_gates.sql",
        "coalesce(v_end - 1, cardinality(v_line))", "0",
    ),
)  # fmt: skip
def test_a_job_with_several_lanes_that_lacks_a_slot_is_not_passed_either(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", 1)
    before = person.defer(None, 0, 0)
    limited = person.defer_several("one", "two", limit="stripe")
    behind = person.defer(None, 0, 0)
    promise(ids(worker.claim(10, slots=2)) == before, "those in front have the slots")
    promise(worker.claim(10, slots=0) == [], "those behind may not be claimed ahead")
    promise(
        set(ids(worker.claim(10, slots=1))) == {limited, *behind}, "with a free slot, all start"
    )


@story(
    Mutation(
        "jobs with several lanes wait for those behind them", "pass_gates.sql",
        "unnest(v_line[:v_end - 1])", "unnest(v_line[:0])",
    ),
    Mutation(
        "jobs with several lanes leave their slots to those behind them", "pass_gates.sql",
        "unnest(v_line[:v_left])", "unnest(v_line)",
    ),
)  # fmt: skip
def test_jobs_with_several_lanes_go_before_one_that_lacks_a_slot(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", None, rate=9, burst=9)
    before = [person.defer_several("one", "two"), person.defer_several("three", "four")]
    limited = person.defer(None, limit="stripe")
    person.defer_several("five", "six", limit="stripe")
    promise(ids(worker.claim(10, slots=2)) == before, "they have all slots of the worker")
    promise(worker.claim(10, slots=0) == [], "so the limit lets nothing start that would wait")
    promise(ids(worker.claim(10, slots=1)) == limited, "until there is a slot")


@story(
    Mutation(
        "a claim ahead takes tokens",
        "take_slots.sql",
        "CASE WHEN rule.rate IS NULL",
        "CASE WHEN true",
    )
)
def test_no_job_with_a_rate_is_claimed_ahead(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", None, rate=9, burst=9)
    person.defer(None, 0, limit="stripe")
    promise(worker.claim(10, slots=0) == [], "its token would be lost if it were put back")


@story(
    Mutation(
        "a limit makes claims small",
        "take_slots.sql",
        "least(free, greatest(best, spare))",
        "least(free, best)",
    )
)
def test_a_limit_with_room_does_not_make_claims_smaller(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", 1000)
    jobs = person.defer(None, *[0] * 200, limit="stripe")
    promise(ids(worker.claim(150, slots=1)) == jobs[:150], "it takes as many as without a limit")


@story(
    Mutation(
        "only the limits of the first jobs are tried",
        "take_slots.sql",
        "OR p_slots > 0 AND key IN (",
        "OR false AND key IN (",
    )
)
def test_many_limits_with_room_do_not_make_claims_smaller(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe:*", 2)
    jobs = [person.defer(None, 0, limit=f"stripe:{key}")[0] for key in range(60)]
    first = worker.claim(60, slots=1)
    promise(ids(first) == jobs[:21], "limits that have no row yet are tried as needed")
    worker.finish(*first, want=0)
    more = [person.defer(None, 0, limit=f"stripe:{key}")[0] for key in range(21)]
    rest = worker.claim(60, slots=1)
    promise(ids(rest) == jobs[21:42] + more, "those with one are all tried")


@story(
    Mutation(
        "more slots wake nobody",
        "set_limit.sql",
        "PERFORM leave_looks(gates_of(p_pattern));",
        "",
    )
)
def test_a_limit_that_is_raised_lets_more_jobs_start_and_a_lower_one_ends_none(
    stage: Stage,
) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", 1)
    jobs = person.defer(None, *[0] * 5, limit="stripe")
    [first] = worker.claim()
    person.set_limit("stripe", 3)
    started = worker.claim()
    promise(ids(started) == jobs[1:3], "two more start")
    second, third = started
    person.set_limit("stripe", 1)
    worker.finish(first)
    worker.finish(second)
    worker.claim()
    promise(stage.doing() == [third.id], "two ended, and none may start before the third ends")
    promise(ids(worker.finish(third).following) == [jobs[3]], "then one starts")


@story(
    Mutation(
        "no claim looks again",
        "take_slots.sql",
        "least(next_at, clock() + interval '5 s')",
        "next_at",
    )
)
def test_a_limit_that_is_raised_reaches_a_job_that_a_claim_is_just_making_wait(
    stage: Stage,
) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", 1)
    _, second = person.defer(None, 0, 0, limit="stripe")
    worker.begin()
    worker.claim()
    person.set_limit("stripe", 2)
    worker.commit()
    worker.hasten("6 seconds")
    promise(ids(worker.claim()) == [second], "it sleeps although there is a slot")


@story(
    Mutation(
        "no token wakes anybody", "check_gates.sql", "WHERE look_at <= clock()", "WHERE false"
    ),
    Mutation(
        "a start takes no token",
        "take_slots.sql",
        "tokens = part.tokens - part.starts",
        "tokens = part.tokens",
    ),
    Mutation(
        "nobody looks at the key again",
        "fold_key.sql",
        "IF free > 0 OR free IS NULL THEN",
        "IF false THEN",
    ),
)
def test_a_rate_lets_a_job_start_for_each_token(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", None, rate=1, burst=2)
    jobs = person.defer(None, 0, 0, 0, 0, limit="stripe")
    worker.finish(*worker.claim())
    promise(sorted(stage.statuses()) == jobs[2:], "the burst is spent")
    promise(worker.claim() == [], "the third one waits for a token")
    worker.hasten("30 seconds")
    promise(worker.claim() == [], "it still does")
    worker.hasten("61 seconds")
    promise(ids(worker.claim()) == [jobs[2]], "one token has come")
    worker.hasten("122 seconds")
    promise(ids(worker.claim()) == [jobs[3]], "and another one")


def test_a_worker_wakes_up_when_the_next_token_comes(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", None, rate=1)
    person.defer(None, 0, 0, limit="stripe")
    worker.claim()
    worker.hasten("6 seconds")
    promise(worker.claim() == [], "it looks once more, and not again")
    [(soon,)] = worker.run(
        "SELECT delay BETWEEN interval '40 s' AND interval '55 s' FROM next_wake(NULL)"
    )
    promise(soon, "it sleeps until the token comes")


@story(
    Mutation(
        "a put back refunds a token",
        "open_gates.sql",
        "look_at = NULL FROM",
        "look_at = NULL, tokens = tokens + p_frees::integer FROM",
    ),
    Mutation(
        "a put back refunds a token while jobs wait",
        "open_gates.sql",
        "tokens = judged.tokens",
        "tokens = judged.tokens + p_frees::integer",
    ),
)
def test_no_token_comes_back(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    for key, jobs in (("alone", [0]), ("with another", [0, 0])):
        person.set_limit(key, None, rate=1)
        person.defer(None, *jobs, limit=key)
        worker.put_back(*worker.claim())
        promise(worker.claim() == [], "its start counts, though it did not begin")


@story(
    Mutation(
        "a job that was left is forgotten",
        "open_gates.sql",
        "(SELECT true FROM gated_jobs WHERE gate = best.key OFFSET cardinality(best.ids) LIMIT 1)",
        "false",
    )
)
def test_a_job_that_a_user_has_locked_is_woken_later(stage: Stage) -> None:
    person, user, worker = stage.session(), stage.session(), stage.worker()
    person.set_limit("stripe", 1)
    _, second = person.defer(None, 0, 0, limit="stripe")
    [running] = worker.claim()
    user.begin()
    user.run("SELECT FROM jobs WHERE id = %s FOR UPDATE", second)
    worker.finish(running)
    user.commit()
    worker.hasten("1 second")
    promise(ids(worker.claim()) == [second], "nobody would wake it any more")


@story(
    Mutation(
        "reconcile trusts the count",
        "reconcile_gates.sql",
        "WHERE coalesce(known.used, 0) <> coalesce(running.count, 0)",
        "WHERE false",
    )
)
def test_reconcile_repairs_a_wrong_count_and_removes_keys_that_nobody_needs(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", 1)
    _, second = person.defer(None, 0, 0, limit="stripe")
    [running] = worker.claim()
    stage.control.execute("UPDATE gates SET used = 2")
    worker.finish(running)
    person.reconcile()
    promise(ids(worker.claim()) == [second], "the wrong count is repaired")
    promise(stage.audited() == [("set-limit", "stripe"), ("reconcile-limit", "stripe")], "recorded")
    promise(person.run("SELECT lock FROM repaired_lanes") == [], "it is no lane")
    stage.drain()
    person.reconcile()
    [(rows,)] = person.run("SELECT count(*) FROM gates")
    promise(rows == 0, "the key has a row that is not needed")


def test_each_key_of_a_pattern_has_its_own_slots(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("customer:*", 1)
    person.set_limit("customer:9", 2)
    [one, _] = person.defer(None, 0, 0, limit="customer:1")
    [two, _] = person.defer(None, 0, 0, limit="customer:2")
    nine = person.defer(None, 0, 0, limit="customer:9")
    promise(ids(worker.claim()) == [one, two, *nine], "one of each, two of the special one")


def test_a_burst_of_jobs_without_slots_delays_others_by_a_few_claims(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", 1)
    person.defer(None, *[0] * 500, limit="stripe")
    [other] = person.defer(None)
    claims = 0
    while other not in stage.doing():
        worker.claim(2)
        claims += 1
        promise(claims <= 5, "it waits behind all of the burst")
