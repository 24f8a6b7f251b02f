"""Limits and those who are in the way: open transactions, jobs that cannot start, wrong rows."""

import pytest

from tests.race.harness import Mutation, Session, Stage, Worker, ids, promise, story

TOKEN = 61  # seconds in which a token comes, at one a minute


def lock_key(stage: Stage, key: str) -> Session:
    """A session that has a key locked for as long as it likes."""
    user = stage.session()
    user.begin()
    user.run("SELECT FROM gates WHERE key = limit_gate(%s) FOR UPDATE", key)
    return user


def use_key(person: Session, worker: Worker, key: str) -> None:
    """Make the row of a key."""
    person.defer(None, limit=key)
    worker.finish(*worker.claim())


LEFT_ALONE = Mutation(
    "jobs of a locked key stay in front",
    "take_slots.sql",
    "WHEN line.key IN (SELECT unnest(v_stuck)) THEN 0 END",
    "END",
)
NOT_ASKED = Mutation(
    "a claim that does not get a key leaves no row with its job",
    "note_busy_gates.sql",
    "WHERE busy IN (SELECT unnest(stuck)) OR",
    "WHERE",
)


@story(
    Mutation("a key that stays locked is not noticed", "take_slots.sql",
        "IF cardinality(v_gates) < cardinality(v_asked) THEN", "IF false THEN"),
    Mutation("a key that is locked by one after the other counts as locked for good",
        "note_busy_gates.sql", "THEN interval '1 s' ELSE", "THEN interval '0.1 s' ELSE"),
    LEFT_ALONE,
)  # fmt: skip
def test_jobs_of_a_locked_key_do_not_keep_others_from_starting(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", 5)
    use_key(person, worker, "stripe")
    jobs = person.defer(None, *[0] * 12, limit="stripe")
    [other] = person.defer(None)
    user = lock_key(stage, "stripe")
    for moment in ("0 seconds", "0.5 seconds"):
        worker.hasten(moment)
        promise(worker.claim(2) == [], "the key is locked")
        promise("limited" not in stage.statuses().values(), "it may be over in a moment")
    worker.hasten("1.5 seconds")
    started = [*worker.claim(2), *worker.claim(2)]
    promise(ids(started) == [other], "the other job starts")
    user.rollback()
    promise(ids(worker.claim()) == jobs[:5], "and these as soon as the key is free")


@story(LEFT_ALONE)
def test_lanes_of_a_locked_key_do_not_keep_others_from_starting(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", 5)
    use_key(person, worker, "stripe")
    for lane in range(20):
        person.defer(f"lane {lane}", limit="stripe")
    [other] = person.defer("other")
    user = lock_key(stage, "stripe")
    worker.claim(2)
    worker.hasten("1 second")
    started = [job for _ in range(4) for job in worker.claim(2)]
    promise(ids(started) == [other], "the other job starts")
    user.rollback()
    stage.drain()


@story(
    Mutation(
        "a key that is locked ends the look at keys",
        "check_gates.sql",
        "v_left := v_left - 1; EXIT WHEN v_left = 0; END IF;",
        "END IF; v_left := v_left - 1; EXIT WHEN v_left = 0;",
    )
)
def test_keys_that_are_locked_do_not_keep_claims_from_others(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("k*", 1)
    for key in range(12):
        use_key(person, worker, f"k{key:02}")
    for key in range(12):
        person.defer(None, limit=f"k{key:02}")
    user = lock_key(stage, "k11")
    user.run("SELECT FROM gates WHERE key <> 'limit:k00' FOR UPDATE")
    blocker = lock_key(stage, "k00")  # the last that is looked at
    worker.claim(20)
    worker.hasten("1 second")
    worker.claim(20)
    promise(set(stage.statuses().values()) == {"limited"}, "all keys are locked")
    blocker.rollback()
    promise(len(worker.claim()) == 1, "the one whose key is free starts")


@story(
    Mutation("a claim that can start nothing gives up at once", "note_busy_gates.sql",
        "IF p_waits AND", "IF false AND")
)  # fmt: skip
def test_claims_of_one_limit_start_its_jobs_one_after_the_other(stage: Stage) -> None:
    person, first, second = stage.session(), stage.worker(), stage.worker()
    stage.take_time("await_gates.sql", "SET lock_timeout = '50ms'")
    person.set_limit("stripe", 100)
    use_key(person, first, "stripe")
    jobs = person.defer(None, *[0] * 4, limit="stripe")
    first.begin()
    started = first.claim(2)
    second.start(second.claim, 2)
    first.commit()
    promise(ids([*started, *second.result()]) == jobs, "it starts the rest when the key is free")


@story(
    Mutation("claims wait for a key that stays locked, one after the other", "note_busy_gates.sql",
        "AND (SELECT true FROM gate_looks WHERE key = ANY (p_asked) LIMIT 1) IS NULL", ""),
    Mutation("a claim waits that may have locked keys", "pass_gates.sql", "r.holds_none AND", ""),
    Mutation("a claim waits for one job although it can start others", "take_slots.sql",
        "AND array_position(v_keys, NULL) IS NULL", ""),
    Mutation("a claim waits for a key with few slots", "note_busy_gates.sql",
        "WHERE rule.slots - rule.slots / 2 - gate.used > p_jobs AND rule.rate IS NULL",
        ""),
)  # fmt: skip
def test_claims_do_not_wait_for_a_key_that_stays_locked(stage: Stage) -> None:
    person, worker, other = stage.session(), stage.worker(), stage.worker()
    person.set_limit("stripe", 100)
    use_key(person, worker, "stripe")
    person.defer(None, limit="stripe")
    [free] = person.defer(None)
    user = lock_key(stage, "stripe")
    promise(worker.claim(1) == [], "it has waited for a moment")
    stage.take_time("await_gates.sql", "SET lock_timeout = '50ms'")
    promise(not worker.comes_to_wait(worker.claim_further, 0, 1), "the next has no reason to")
    promise(worker.result() == [], "the key is still locked")
    stage.control.execute("DELETE FROM gate_looks")
    person.defer("lane", delay="1 minute")
    worker.hasten("2 minutes")
    promise(not worker.comes_to_wait(worker.claim, 1), "making jobs due, it may lock keys")
    promise(worker.result() == [], "it is left for the next claim")
    stage.control.execute("DELETE FROM gate_looks")
    promise(not other.comes_to_wait(other.claim_further, 0), "it can start the free job")
    promise(ids(other.result()) == [free], "and does")
    person.set_limit("stripe", 1)
    stage.control.execute("DELETE FROM gate_looks")
    promise(not worker.comes_to_wait(worker.claim, 1), "there may soon be no slot")
    promise(worker.result() == [], "it is left for the next claim")
    user.rollback()
    stage.drain()


@story(
    Mutation("a claim waits for one key after the other", "note_busy_gates.sql",
        "AND cardinality(p_asked) = 1", "")
)  # fmt: skip
def test_claims_do_not_wait_for_several_keys(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("k*", 100)
    for key in ("k1", "k2"):
        use_key(person, worker, key)
    person.defer(None, limit="k1")
    person.defer(None, limit="k2")
    users = [lock_key(stage, key) for key in ("k1", "k2")]
    promise(not worker.comes_to_wait(worker.claim, 2), "each of them could take a moment")
    promise(worker.result() == [], "they are left for the next claim")
    for user in users:
        user.rollback()
    stage.drain()


@story(
    Mutation("a claim that has locked a key waits for another", "pass_gates.sql",
        "r.holds_none := false;", "")
)  # fmt: skip
def test_a_claim_that_has_closed_a_key_waits_for_no_other(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", 100)
    person.set_limit("spent", None, rate=1)
    use_key(person, worker, "stripe")
    use_key(person, worker, "spent")
    person.defer(None, 1, limit="spent")
    [job] = person.defer(None, limit="stripe")
    user = lock_key(stage, "stripe")
    promise(not worker.comes_to_wait(worker.claim, 1), "others may wait for the spent key")
    promise(worker.result() == [], "it is left for the next claim")
    user.rollback()
    promise(ids(worker.claim()) == [job], "which starts it")


@story(
    Mutation("a claim keeps jobs that it has started from running", "pass_gates.sql",
        "AND r.wanted = r.asked", "")
)  # fmt: skip
def test_a_claim_that_has_started_jobs_waits_for_no_key(stage: Stage) -> None:
    person, user, worker = stage.session(), stage.session(), stage.worker()
    person.set_limit("stripe", 100)
    use_key(person, worker, "stripe")
    hidden, free = person.defer(None, 2, 1, queue="a")
    person.defer(None, limit="stripe", queue="b")
    key = lock_key(stage, "stripe")
    user.begin()
    user.run("SELECT FROM jobs WHERE id = %s FOR UPDATE", hidden)
    promise(not worker.comes_to_wait(worker.claim, 2), "its first round has started a job")
    promise(ids(worker.result()) == [free], "which can run")
    key.rollback()
    user.rollback()
    stage.drain()


@story(
    Mutation("a claim waits although it can start a job of several lanes", "pass_gates.sql",
        "AND v_line IS NULL", "")
)  # fmt: skip
def test_a_claim_that_can_start_a_job_of_several_lanes_waits_for_no_key(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", 100)
    use_key(person, worker, "stripe")
    person.defer("c", limit="stripe")
    several = person.defer_several("a", "b")
    user = lock_key(stage, "stripe")
    promise(not worker.comes_to_wait(worker.claim, 2), "there is another job")
    promise(ids(worker.result()) == [several], "which starts")
    user.rollback()
    stage.drain()


@story(
    Mutation(
        "an end does not ask whether it has the gate",
        "lock_lanes.sql",
        "IF v_shut <> '{}' THEN",
        "IF false THEN",
    ),
    Mutation(
        "an end that waits for one gate makes the others wait",
        "await_gates.sql",
        "EXCEPT SELECT unnest(try_lock_gates(v_gates))",
        "",
    ),
)
def test_the_end_of_a_job_whose_gate_stays_locked_comes_later(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("k*", 1)
    [free], [shut] = person.defer(None, limit="k1"), person.defer(None, limit="k2")
    jobs = worker.claim()
    user = lock_key(stage, "k2")
    finished = worker.finish(*jobs)
    promise(finished.accepted == [free] and finished.busy == [shut], "it is still ours")
    user.rollback()
    again = [job for job in jobs if job.id == shut]
    promise(worker.finish(*again).accepted == [shut], "it ends with the next report")


@story(
    Mutation(
        "an end does not miss the row of its gate",
        "await_gates.sql",
        "IF v_held = cardinality(v_gates) THEN",
        "IF v_held >= 0 THEN",
    )
)
def test_the_end_of_a_job_wakes_others_although_its_gate_had_no_row(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", 1)
    [first], [second] = person.defer(None, limit="stripe"), person.defer(None, limit="stripe")
    [running] = worker.claim()
    promise(stage.statuses()[second] == "limited", "it waits for the slot")
    stage.control.execute("DELETE FROM gates")
    promise(worker.finish(running).accepted == [first], "it ends")
    promise(ids(worker.claim()) == [second], "and the next one has its slot")


@story(NOT_ASKED)
def test_a_job_that_waits_for_a_locked_key_is_woken_though_a_claim_looks_meanwhile(
    stage: Stage,
) -> None:
    person, worker, other = stage.session(), stage.worker(), stage.worker()
    person.set_limit("stripe", 1)
    use_key(person, worker, "stripe")
    [job] = person.defer(None, limit="stripe")
    user = lock_key(stage, "stripe")
    worker.claim()
    worker.hasten("1 second")
    worker.begin()
    worker.claim()
    user.rollback()
    other.claim()  # the key is free, and it cannot see the job yet
    worker.commit()
    promise(ids(other.claim()) == [job], "nobody would wake it any more")


@story(
    Mutation(
        "a cancel locks the key",
        "archive_jobs.sql",
        "THEN leave_looks(ARRAY[limit_gate(gone.limit_key)])",
        "THEN try_lock_gates(ARRAY[limit_gate(gone.limit_key)]) IS NOT NULL",
    )
)
def test_an_open_cancel_holds_up_no_start_and_no_end(stage: Stage) -> None:
    person, user, worker = stage.session(), stage.session(), stage.worker()
    person.set_limit("stripe", 2)
    first, _, token, *_ = person.defer(None, 2, 1, 0, 0, limit="stripe")
    [running, _] = worker.claim()
    worker.put_back(running)
    [running] = worker.claim(1)
    promise(running.id == first, "it has its slot again")
    worker.finish(running)
    user.begin()
    promise(user.cancel(token) == "cancelled", "it was woken")
    [next_job] = person.defer(None, 9, limit="stripe")
    running = worker.claim_one()
    promise(running.id == next_job, "another one starts meanwhile")
    promise(worker.finish(running).busy == [], "and ends")
    user.commit()
    stage.drain()


@story(
    Mutation(
        "a limit is changed under the locks of its keys",
        "set_limit.sql",
        "PERFORM leave_looks(gates_of(p_pattern));",
        "PERFORM try_lock_gates(gates_of(p_pattern));",
    )
)
def test_a_limit_that_is_being_changed_holds_up_no_start_and_no_end(stage: Stage) -> None:
    person, user, worker = stage.session(), stage.session(), stage.worker()
    person.set_limit("stripe", 1)
    _, second, third = person.defer(None, 0, 0, 0, limit="stripe")
    [running] = worker.claim()
    user.begin()
    user.set_limit("stripe", 2)
    promise(worker.finish(running, want=0).busy == [], "it ends")
    promise(ids(worker.claim()) == [second], "the next one starts, under the old limit")
    user.commit()
    promise(ids(worker.claim()) == [third], "and another one under the new limit")


@story(
    Mutation(
        "jobs wait though a slot is left",
        "take_slots.sql",
        "starts >= free AND late",
        "starts >= 0 AND late",
    )
)
def test_a_job_does_not_wait_for_a_slot_that_its_claim_leaves(stage: Stage) -> None:
    person, busy, worker = stage.session(), stage.worker(), stage.worker("x")
    person.set_limit("stripe", 1, 60)
    [first] = person.defer(None, 9, limit="other")
    person.defer(None, limit="stripe")
    [elsewhere] = person.defer(None, limit="stripe", queue="x")
    promise(ids(busy.claim(10, slots=1)) == [first], "it could begin one")
    promise(ids(worker.claim()) == [elsewhere], "the slot is for anybody")


@story(
    Mutation(
        "a token that nobody takes keeps the slot",
        "open_gates.sql",
        "ELSE interval '5 s' END",
        "END",
    )
)
def test_a_slot_does_not_wait_for_a_job_that_cannot_start(stage: Stage) -> None:
    person, user, worker = stage.session(), stage.session(), stage.worker()
    person.set_limit("stripe", 1)
    person.defer(None, 9, limit="stripe")
    person.defer("a", 5, limit="stripe")
    [last] = person.defer(None, limit="stripe")
    [running] = worker.claim()
    user.begin()
    user.pause("a")
    worker.finish(running)
    promise(worker.claim() == [], "the job in the lane was woken")
    worker.hasten("6 seconds")
    promise(ids(worker.claim()) == [last], "and another one goes instead")


@story(
    Mutation(
        "a claim forgets a look that was planned",
        "take_slots.sql",
        "look_at = least(gates.look_at, part.look_at)",
        "look_at = NULL",
    )
)
def test_a_claim_does_not_forget_a_locked_job_of_another_queue(stage: Stage) -> None:
    person, user = stage.session(), stage.session()
    worker, other = stage.worker("b"), stage.worker("a")
    person.set_limit("stripe", None, rate=1)
    _, job = person.defer(None, 0, 0, limit="stripe", queue="b")
    worker.finish(*worker.claim())
    user.begin()
    user.run("SELECT FROM jobs WHERE id = %s FOR UPDATE", job)
    worker.hasten(f"{TOKEN} seconds")
    other.hasten(f"{TOKEN} seconds")
    worker.claim()
    person.defer(None, 0, 0, limit="stripe", queue="a")
    promise(len(other.claim()) == 1, "the token goes to the other queue")
    user.commit()
    worker.hasten(f"{2 * TOKEN + 5} seconds")
    promise(ids(worker.claim()) == [job], "nobody would look at it any more")


@story(
    Mutation(
        "only jobs that are woken are notified of",
        "open_gates.sql",
        "WHERE free > 0 OR next_look < coalesce(look_at, 'infinity')",
        "WHERE free > 0",
    )
)
def test_an_end_that_plans_a_look_notifies_workers(stage: Stage) -> None:
    person, worker, idle = stage.session(), stage.worker(), stage.worker()
    person.set_limit("stripe", 1, rate=1)
    person.defer(None, 0, 0, limit="stripe")
    [running] = worker.claim()
    idle.hasten("6 seconds")
    idle.claim()
    promise(idle.next_wake() is None, "only an end can help")
    with stage.notifications() as notified:
        worker.finish(running)
    promise(notified == ["default"], "now a token can")


@story(
    Mutation(
        "a statement that waited counts time twice",
        "fold_key.sql",
        "greatest(v_now, clock_timestamp()) + interval '5 s'",
        "v_now + interval '5 s'",
    )
)
def test_a_statement_that_has_waited_takes_no_token_twice(stage: Stage) -> None:
    person, worker, late = stage.session(), stage.worker(), stage.worker()
    person.set_limit("stripe", None, rate=1, burst=30)
    person.defer(None, *[0] * 40, limit="stripe")
    late.hasten("-1 hour")
    promise(len(worker.claim(30)) == 30, "the burst is spent")
    late.claim(100)
    worker.claim(100)
    promise(len(stage.doing()) == 30, f"{len(stage.doing())} started at once")


@story(
    Mutation(
        "a key without a row is forgotten",
        "reconcile_gates.sql",
        "AND known.look_at IS NULL",
        "AND (known.room).free IS NOT NULL AND known.look_at IS NULL",
    )
)
def test_reconcile_wakes_jobs_whose_key_has_lost_its_row(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", 1)
    _, second = person.defer(None, 0, 0, limit="stripe")
    running = worker.claim_one()
    worker.claim()
    stage.control.execute("ALTER TABLE jobs DISABLE TRIGGER ALL")
    stage.control.execute("DELETE FROM jobs WHERE id = %s", [running.id])
    stage.control.execute("DELETE FROM gates")
    promise(worker.claim() == [], "nobody knows of it")
    person.reconcile()
    promise(ids(worker.claim()) == [second], "it starts")


@story(
    Mutation(
        "only the first keys are looked at", "reconcile_gates.sql", "LIMIT 10000) AS first",
        "LIMIT 1000) AS first",
    )
)  # fmt: skip
def test_many_keys_that_are_in_order_keep_reconcile_from_no_other(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("c*", None, rate=1)
    person.set_limit("a", 1)  # the last that is looked at
    stage.control.execute(
        "INSERT INTO gates (key, tokens, refilled_at, look_at) "
        "SELECT 'limit:c' || i, 0, clock(), clock() + interval '1 min' FROM generate_series(1, 1100) AS i"
    )
    stage.control.execute(
        "INSERT INTO jobs (created_at, status, task, limit_key) "
        "SELECT now(), 'limited', 't', gate_name(key) FROM gates"
    )
    [job] = person.defer(None, limit="a")
    stage.control.execute("UPDATE jobs SET status = 'limited' WHERE id = %s", [job])
    promise(worker.claim() == [], "nobody would wake it")
    person.reconcile()
    promise(ids(worker.claim()) == [job], "it starts")


@story(
    Mutation(
        "reconcile looks at keys that are in order",
        "reconcile_gates.sql",
        "WHERE (coalesce((known.room).free, 1) > 0 OR (known.room).next_at IS NOT NULL) AND",
        "WHERE",
    )
)
def test_reconcile_locks_no_key_that_is_in_order(stage: Stage) -> None:
    person, worker, chores = stage.session(), stage.worker(), stage.session()
    person.set_limit("stripe", 1)
    person.defer(None, 0, 0, limit="stripe")
    [running] = worker.claim()
    worker.hasten("6 seconds")
    worker.claim()
    chores.begin()
    chores.reconcile()
    promise(worker.finish(running).busy == [], "it ends while reconcile is under way")
    chores.commit()


@story(
    Mutation(
        "keys that were used a moment ago are looked at for ever",
        "reconcile_gates.sql",
        "(fold_key(gates, rule)).tokens >= rule.burst AND",
        "",
    )
)
def test_a_key_keeps_its_row_until_its_tokens_are_back(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.run("SELECT set_limit('stripe', NULL, 1, interval '1 h')")
    worker.hasten("-10 minutes")
    use_key(person, worker, "stripe")
    person.reconcile()
    person.defer(None, limit="stripe")
    worker.hasten("0")
    promise(worker.claim() == [], "its token is spent")


def in_each_second(stage: Stage) -> list[int]:
    """Return how many jobs started in each second, by their own times."""
    seconds = "SELECT count(*) FROM jobs WHERE started_at IS NOT NULL GROUP BY started_at"
    return [int(count) for (count,) in stage.control.execute(f"{seconds} ORDER BY started_at")]


@story(
    Mutation(
        "a start counts from when its claim began",
        "start_jobs.sql",
        "IF p_ahead THEN",
        "IF false THEN",
    ),
    Mutation(
        "take_slots reports no later token",
        "take_slots.sql",
        "refilled_at > clock() LIMIT 1",
        "false LIMIT 1",
    ),
    Mutation(
        "a claim forgets that some take later tokens",
        "claim.sql",
        "r.ids, r.ahead,",
        "r.ids, false,",
    ),
)
def test_a_start_counts_when_its_token_was_there(stage: Stage) -> None:
    person, worker, late = stage.session(), stage.worker(), stage.worker()
    person.set_limit("stripe", None, rate=60, burst=2)
    person.defer(None, *[0] * 5, limit="stripe")
    worker.hasten("-20 seconds")
    late.hasten("-20 seconds")
    promise(len(worker.claim(2)) == 2, "the burst is spent")
    worker.hasten("-10 seconds")
    promise(len(worker.claim(1)) == 1, "one of the next tokens")
    promise(len(late.claim(2)) == 1, "and the other one, for a claim that began with the first")
    promise(in_each_second(stage) == [2, 2], f"started at once: {in_each_second(stage)}")


@story(
    Mutation(
        "it forgets that a job in several lanes has a limit",
        "start_in_lanes.sql",
        "v_seen.limit_key IS NOT NULL);",
        "false);",
    )
)
def test_a_start_in_several_lanes_counts_when_its_token_was_there(stage: Stage) -> None:
    person, worker, late = stage.session(), stage.worker(), stage.worker()
    person.set_limit("stripe", None, rate=60, burst=2)
    person.defer(None, *[0] * 3, limit="stripe")
    worker.hasten("-20 seconds")
    late.hasten("-20 seconds")
    promise(len(worker.claim(2)) == 2, "the burst is spent")
    worker.hasten("-10 seconds")
    promise(len(worker.claim(1)) == 1, "one of the next tokens")
    person.defer_several("a", "b", limit="stripe")
    promise(len(late.claim(1)) == 1, "and the other one, for a claim that began with the first")
    promise(in_each_second(stage) == [2, 2], f"started at once: {in_each_second(stage)}")


@story(
    Mutation(
        "a key that has all tokens again is forgotten at once",
        "reconcile_gates.sql",
        "AND refilled_at < clock() - interval '1 min' FROM",
        "FROM",
    )
)
def test_a_claim_that_began_before_the_tokens_were_back_gets_none(stage: Stage) -> None:
    person, worker, late = stage.session(), stage.worker(), stage.worker()
    person.set_limit("stripe", None, rate=60, burst=1)
    late.hasten("-20 seconds")  # first, or its token might be back by then
    worker.hasten("-20 seconds")
    use_key(person, worker, "stripe")
    person.reconcile()
    person.defer(None, limit="stripe")
    promise(late.claim() == [], "its token is spent")


@pytest.mark.fresh_database
@story(
    Mutation(
        "a count below zero",
        "open_gates.sql",
        "greatest(used - named.times, 0) ELSE",
        "used - named.times ELSE",
    ),
    Mutation(
        "a count below zero while jobs wait",
        "open_gates.sql",
        "greatest(used - named.times, 0)::integer",
        "(used - named.times)::integer",
    ),
)
def test_a_count_that_is_too_low_keeps_no_job_from_ending(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    [job] = person.defer(None, limit="stripe")
    [other] = person.defer(None)
    running = worker.claim()
    stage.control.execute("UPDATE gates SET used = 0")
    stage.control.execute("ALTER TABLE gates DROP CONSTRAINT gates_used")
    promise(worker.finish(*running).accepted == [job, other], "both end")
    promise(person.run("SELECT used FROM gates") == [(0,)], "no job runs")
    person.set_limit("stripe", 1)
    person.defer(None, 0, 0, limit="stripe")
    running = worker.claim()
    stage.control.execute("UPDATE gates SET used = 0")
    worker.finish(*running)
    promise(person.run("SELECT used FROM gates") == [(0,)], "one waits, and none runs")


@story(
    Mutation(
        "explain knows the tokens of the last start",
        "explain_limit.sql",
        "WHERE p_job.status = 'limited' OR room.free <= 0",
        "WHERE p_job.status = 'limited'",
    ),
    Mutation(
        "explain does not see who has the key",
        "explain_limit.sql",
        "WHERE own.key = limit_gate(p_job.limit_key)",
        "WHERE false",
    ),
)
def test_explain_says_that_a_limit_lets_a_job_wait_before_a_claim_has_met_it(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", None, rate=1)
    use_key(person, worker, "stripe")
    [job] = person.defer(None, limit="stripe")
    promise(person.reasons(job) == ["limited"], "its token is spent")
    person.hasten(f"{TOKEN} seconds")
    promise("limited" not in person.reasons(job), "its token has come")
    lock_key(stage, "stripe")
    promise("limited" in person.reasons(job), "somebody has the key")


@story(
    Mutation(
        "the details are unknown",
        "explain_limit.sql",
        "WHEN room.free <= 0 THEN 'limit '",
        "WHEN own.used < 9 THEN 'limit '",
    )
)
def test_explain_always_says_why_a_job_with_a_limit_waits(stage: Stage) -> None:
    person, user, worker = stage.session(), stage.session(), stage.worker()
    person.set_limit("stripe", 1)
    _, job = person.defer(None, 0, 0, limit="stripe")
    [running] = worker.claim()
    user.begin()
    user.run("SELECT FROM jobs WHERE id = %s FOR UPDATE", job)
    worker.finish(running)
    details = person.run("SELECT detail FROM explain(%s)", job)
    promise(all(detail for (detail,) in details), f"it says nothing: {details}")


@story(
    Mutation("a day has 23 hours", "fold_key.sql", "v_pace * interval '1 s'",
        "(p_limit.period / p_limit.rate)"),
)  # fmt: skip
def test_a_period_is_a_time_and_not_a_date(stage: Stage) -> None:
    worker = stage.worker()
    worker.run("SET timezone = 'Europe/Berlin'")
    worker.run("SELECT set_config('inturn.clock', '2026-10-24 12:00+02', false)")
    worker.run("SELECT set_limit('stripe', NULL, 1, interval '1 day')")
    worker.defer(None, 0, 0, limit="stripe")
    worker.finish(*worker.claim())
    [(late,)] = worker.run(
        "SELECT (fold_key(k, rule)).next_at > timestamptz '2026-10-25 11:00:01+01' "
        "FROM gates AS k CROSS JOIN find_limit('stripe') AS rule"
    )
    promise(not late, "the night has an hour more, and the token comes after 24 hours")
