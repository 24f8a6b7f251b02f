"""A worker never waits for a user's open transaction, and goes on with everything else.

Each story is told twice: the transaction commits in the end, or it is rolled back.
"""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import cast

import pytest

from tests.race import harness
from tests.race.harness import Mutation, Session, Stage, Worker, ids, promise
from tests.race.test_queueing_locks import enqueue
from tests.waiting import wait_until

End = Callable[[Session], None]
WAITS_FOR_LANES = Mutation(
    "lane rows are waited for",
    "lock_lanes.sql",
    "LIMIT 1\n                FOR UPDATE SKIP LOCKED",
    "LIMIT 1\n                FOR UPDATE",
)
WAITS_FOR_JOBS = Mutation(
    "jobs that a user has touched are not checked",
    "lock_lanes.sql",
    "IF v_ours.touched OR ",
    "IF ",
)
GIVES_UP = Mutation(
    "busy jobs are not told apart from lost ones",
    "lock_contended_lanes.sql",
    "    busy := ARRAY(",
    "    busy := '{}'; v_got := ARRAY(",
)


def commits(user: Session) -> None:
    user.commit()


def rolls_back(user: Session) -> None:
    user.rollback()


ENDS = [commits, pytest.param(rolls_back, marks=pytest.mark.landing)]


def story(*mutations: Mutation) -> Callable[[Callable[[Stage, End], None]], Callable[..., None]]:
    """Like the harness's `story`, for both ends of the transaction."""

    def tell(script: Callable[[Stage, End], None]) -> Callable[..., None]:
        told = pytest.mark.parametrize("end", ENDS)(harness.story(*mutations)(script))
        return cast(Callable[..., None], told)

    return tell


def replace(user: Session, key: str) -> None:
    """The job that waits under the key gets other arguments, when the transaction commits."""
    user.begin()
    [(_, is_new)] = enqueue(user, key, lock="a", args='{"n": 2}', on_conflict="replace")
    assert is_new is False


def begin_and(user: Session, step: Callable[..., object], *arguments: object) -> None:
    user.begin()
    step(*arguments)


def next_look(stage: Stage) -> datetime:
    [(moment,)] = stage.control.execute("SELECT look_at FROM lanes").fetchall()
    promise(moment is not None, "the lane is to be looked at again")
    return cast(datetime, moment)


def later(worker: Worker) -> Worker:
    worker.hasten("1 minute")
    return worker


# ---------------------------------------------------------------- the next job of a lane


@story(
    Mutation("is_touched overlooks the user's lock", "is_touched.sql", "p_xmax <> '0'::xid AND",
             "false AND"),
)  # fmt: skip
def test_a_claim_beside_a_replace_takes_everything_else(stage: Stage, end: End) -> None:
    user, producer, one, two = stage.session(), stage.session(), stage.worker(), stage.worker()
    [(head, _)] = enqueue(producer, "k", lock="a")
    [behind] = producer.defer("a")
    others = [id for lock in ("b", "c", None, None) for id in producer.defer(lock)]
    replace(user, "k")
    promise(
        ids(one.claim(3)) == others[:3] and ids(two.claim()) == others[3:],
        "nothing else is held up",
    )
    promise(one.claim() == [] and stage.doing() == others, "and nothing overtakes it in its lane")
    end(user)
    promise(ids(later(two).claim()) == [head], "now it can start")
    promise([id for id in stage.drain() if id in (head, behind)] == [head, behind], "in order")


@story(
    Mutation(
        "locked jobs keep their place in the window",
        "lane_candidates.sql",
        "2000 + 8 * count(*) FILTER",
        "2000 + 0 * count(*) FILTER",
    )
)
def test_more_locked_heads_than_a_claim_looks_at_hide_no_lane_behind_them(
    stage: Stage, end: End
) -> None:
    user, producer, worker = stage.session(), stage.session(), stage.worker()
    producer.run(
        "SELECT count(*) FROM defer_jobs(array_fill('t'::text, ARRAY[2500]), array_fill(jsonb '{}', ARRAY[2500]), "
        "array_fill('default'::text, ARRAY[2500]), (SELECT array_agg('lane ' || n) FROM generate_series(1, 2500) AS n), "
        "array_fill(0, ARRAY[2500]), NULL, NULL)"
    )
    user.begin()
    user.run("SELECT FROM jobs FOR UPDATE")
    behind = [id for lock in ("a", "b", "c") for id in producer.defer(lock)]
    promise(ids(worker.claim(1)) == behind[:1], "a claim for one job")
    promise(ids(worker.claim()) == behind[1:], "and one for many")
    end(user)
    promise(len(worker.claim(1)) == 1, "then they can start")


@story(
    Mutation("a finish waits for the next job", "handover_candidates.sql", "AND (NOT head.touched OR try_lock_job(head.id))", ""),
    Mutation(
        "a finish waits to make it a token", "release_lanes.sql",
        "asleep AND touched AND NOT try_lock_job(id) AS busy", "false AS busy"
    ),
    Mutation(
        "a lane without a token stays with its worker", "release_lanes.sql", "lanes.lock = ANY (ARRAY(SELECT head.lock FROM head WHERE busy))", "false"
    ),
    Mutation("a delayed lane is never looked at again", "resume_lanes.sql",
             "WHERE coalesce(look_at, stopped_until)", "WHERE stopped_until"),
    Mutation("a worker does not know when to look again", "next_wake.sql",
             "WHERE coalesce(look_at, stopped_until)", "WHERE stopped_until"),
)  # fmt: skip
def test_a_finish_does_not_wait_for_a_replace_of_the_next_job(stage: Stage, end: End) -> None:
    user, producer, worker, other = stage.session(), stage.session(), stage.worker(), stage.worker()
    [first] = producer.defer("a")
    running = worker.claim_one()
    [(second, _)] = enqueue(producer, "k", lock="a")
    [third] = producer.defer("a")
    promise(other.claim() == [], "both are put behind")
    replace(user, "k")
    promise(worker.finish(running) == ([first], [], []), "it ends, and nothing is handed over")
    promise(stage.lanes() == {"a": "delayed"}, "the next one can be made no token")
    promise(
        other.claim() == [] and other.next_wake() is not None, "workers know when to look again"
    )
    end(user)
    promise(ids(later(other).claim()) == [second], "when it is free it starts")
    promise(stage.drain() == [second, third], "in order")


LOCKED_FREE = """AND jobs.lock IS NULL AND jobs.group_key IS NULL AND jobs.queue = q.queue
               AND (NOT is_touched(jobs.xmin, jobs.xmax) OR try_lock_job(jobs.id))"""
LOCKED_TOKEN = LOCKED_FREE.replace("lock IS NULL", "lock IS NOT NULL")


@story(
    Mutation(
        "a locked free job ends each hand-over",
        "handover_candidates.sql",
        LOCKED_FREE,
        LOCKED_FREE.split("\n")[0],
    ),
    Mutation(
        "a locked head ends each hand-over",
        "handover_candidates.sql",
        LOCKED_TOKEN,
        LOCKED_TOKEN.split("\n")[0],
    ),
)
def test_a_lane_does_not_give_way_to_jobs_that_a_user_has_locked(stage: Stage, end: End) -> None:
    user, producer, worker = stage.session(), stage.session(), stage.worker()
    [first], [second] = producer.defer("a"), producer.defer("a")
    running = worker.claim_one()
    [urgent], [alone] = producer.defer("b", 9), producer.defer(None, 9)
    user.begin()
    user.run("SELECT FROM jobs WHERE id = ANY (%s) FOR UPDATE", [urgent, alone])
    promise(
        ids(worker.finish(running).following) == [second], "the next of the lane is handed over"
    )
    end(user)
    promise(ids(later(worker).claim()) == [urgent, alone], "the locked job starts when it is free")
    promise(stage.drain() == [urgent, alone, second], f"and {first} is over")


@story(
    Mutation(
        "the look at a delayed lane waits for the lock",
        "release_lanes.sql",
        "asleep AND touched AND NOT try_lock_job(id) AS busy",
        "false AS busy",
    ),
    Mutation(
        "each look at a delayed lane notifies all workers",
        "release_lanes.sql",
        "WHERE NOT busy OR lock IN (SELECT delayed.lock FROM delayed WHERE delayed.since = v_now);",
        ";",
    ),
    Mutation(
        "sleeping workers are not notified of a delayed lane",
        "release_lanes.sql",
        " OR lock IN (SELECT delayed.lock FROM delayed WHERE delayed.since = v_now);",
        ";",
    ),
    Mutation(
        "the looks stay as frequent",
        "next_look_at.sql",
        "greatest(clock() - p_since, interval '20 ms')",
        "interval '20 ms'",
    ),
    Mutation(
        "the looks become too rare", "next_look_at.sql", ", interval '1 s')", ", interval '1 day')"
    ),
    Mutation(
        "the reconciler meddles",
        "lane_is_stranded.sql",
        "WHEN lane.look_at IS NOT NULL THEN false",
        "",
    ),
)
def test_a_delayed_lane_is_looked_at_less_and_less_often_and_goes_on_in_the_end(
    stage: Stage, end: End
) -> None:
    user, producer, worker, other = stage.session(), stage.session(), stage.worker(), stage.worker()
    producer.defer("a")
    running = worker.claim_one()
    [(second, _)] = enqueue(producer, "k", lock="a")
    promise(other.claim() == [], "it is put behind")
    replace(user, "k")
    with stage.notifications() as notifications:
        worker.finish(running)
    promise(notifications == ["default"], f"somebody must look again: {notifications}")
    waits = []
    with stage.notifications() as notifications:
        for _ in range(8):
            then = next_look(stage)
            other.run("SELECT set_config('inturn.clock', %s, false)", str(then))
            promise(other.claim() == [], "it is still locked")
            waits.append((next_look(stage) - then).total_seconds())
    promise(notifications == [], f"no more notifications: {notifications}")
    promise(
        waits == [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1, 1],
        f"twice as long each time, up to a second: {waits}",
    )
    other.reconcile()
    promise(stage.audited() == [], "nothing is wrong with it")
    end(user)
    promise(ids(later(other).claim()) == [second] and stage.drain() == [second], "it goes on")


@story(
    Mutation("a resumed lane waits for its next job", "reopen_lane.sql",
             " AND NOT try_lock_job(id)", " AND false"),
    Mutation("the resumed lane is never looked at again", "reopen_lane.sql",
             "SET look_at = next_look_at(since)", "SET look_at = NULL"),
    Mutation("the resumed lane is looked at for ever", "reopen_lane.sql",
             "UPDATE lanes SET look_at = NULL WHERE lock = p_lock AND look_at IS NOT NULL; "
             "PERFORM notify_workers(NULL);", "PERFORM notify_workers(NULL);"),
)  # fmt: skip
def test_a_pause_ends_in_time_although_the_retry_that_goes_next_is_being_replaced(
    stage: Stage, end: End
) -> None:
    user, producer, worker, other = (
        stage.session(),
        stage.session(),
        stage.worker(),
        stage.worker("elsewhere"),
    )
    [(first, _)] = enqueue(producer, "k", lock="a")
    worker.retry(worker.claim_one())
    producer.pause("a", until="20 seconds")
    promise(
        worker.claim() == [] and stage.statuses() == {first: "blocked"},
        "it is put behind the pause",
    )
    replace(user, "k")
    worker.hasten("30 seconds")
    promise(
        worker.claim() == [] and stage.lanes() == {"a": "retrying"},
        "the pause is over, and nobody waits",
    )
    end(user)
    promise(
        later(other).claim() == [] and stage.statuses() == {first: "todo"}, "it is a token again"
    )
    promise(other.next_wake() is None, "and nothing is left to look at")
    promise(ids(worker.claim()) == [first], "it starts")


@story(
    Mutation(
        "a claim waits for a retry that is being replaced",
        "try_lock_job.sql",
        "FOR UPDATE SKIP LOCKED",
        "FOR UPDATE",
    )
)
def test_a_claim_beside_a_replace_of_a_retry_takes_everything_else(stage: Stage, end: End) -> None:
    user, producer, worker = stage.session(), stage.session(), stage.worker()
    [(first, _)] = enqueue(producer, "k", lock="a")
    worker.retry(worker.claim_one())
    [other] = producer.defer("b")
    replace(user, "k")
    promise(
        ids(worker.claim()) == [other] and stage.lanes()["a"] == "retrying",
        "nothing overtakes the retry",
    )
    end(user)
    promise(ids(worker.claim()) == [first], "now it starts")


@story(
    Mutation("a claim waits for what is due", "promote.sql", "FOR UPDATE SKIP LOCKED", "FOR UPDATE")
)
def test_a_claim_beside_a_replace_of_a_scheduled_job_that_is_due_takes_everything_else(
    stage: Stage, end: End
) -> None:
    user, producer, worker = stage.session(), stage.session(), stage.worker()
    [(first, _)] = enqueue(producer, "k", lock="a", delay="1 second")
    [other] = producer.defer("b")
    replace(user, "k")
    promise(ids(later(worker).claim()) == [other], "nothing else is held up")
    end(user)
    promise(ids(worker.claim()) == [first], "now it starts")


# ---------------------------------------------------------------- jobs that have ended


@story(WAITS_FOR_LANES, GIVES_UP)
def test_a_finish_beside_a_pause_reports_everything_else(stage: Stage, end: End) -> None:
    user, producer, worker = stage.session(), stage.session(), stage.worker()
    deferred = [id for lock in ("a", "b", None) for id in producer.defer(lock)]
    [second] = producer.defer("a")
    running = worker.claim()
    begin_and(user, user.pause, "a")
    first, *others = deferred
    promise(
        worker.finish(*running) == (others, [], [first]),
        "its own end is to be reported again, and nothing is lost",
    )
    promise(
        worker.finish(running[0]) == ([], [], [first]) and stage.doing() == [first],
        "again and again",
    )
    end(user)
    done = worker.finish(running[0])
    is_paused = stage.lanes() == {"a": "paused"}
    promise(done.accepted == [first] and done.busy == [], "in the end it is accepted")
    promise(
        is_paused if end is commits else ids(done.following) == [second],
        "and the person's change holds",
    )


@story(WAITS_FOR_JOBS, GIVES_UP)
def test_a_finish_beside_an_abort_reports_everything_else(stage: Stage, end: End) -> None:
    user, producer, worker = stage.session(), stage.session(), stage.worker()
    first, *others = (id for _ in range(3) for id in producer.defer(None))
    running = worker.claim()
    begin_and(user, user.run, "SELECT cancel_job(%s, true)", first)
    promise(worker.finish(*running) == (others, [], [first]), "its own end is to be reported again")
    end(user)
    promise(worker.finish(running[0]) == ([first], [], []), "in the end it is accepted")


@story(
    WAITS_FOR_LANES,
    GIVES_UP,
    Mutation(
        "a busy job is tried again all the same",
        "mask_ids.sql",
        "CASE WHEN id NOT IN (SELECT unnest(p_busy)) THEN id END",
        "id",
    ),
)
def test_a_retry_beside_a_pause_takes_back_everything_else(stage: Stage, end: End) -> None:
    user, producer, worker = stage.session(), stage.session(), stage.worker()
    first, *others = (id for lock in ("a", "b") for id in producer.defer(lock))
    running = worker.claim()
    begin_and(user, user.pause, "a")
    promise(
        worker.retry(*running) == others and stage.doing() == [first],
        "the other waits for its next attempt",
    )
    promise(worker.busy == [first], "and this one is ours still")
    end(user)
    promise(worker.retry(running[0]) == [first] and worker.busy == [], "in the end it is accepted")


@story(WAITS_FOR_LANES, GIVES_UP)
def test_a_job_that_a_pause_keeps_from_being_put_back_is_put_back_later(
    stage: Stage, end: End
) -> None:
    user, producer, worker = stage.session(), stage.session(), stage.worker()
    first, other = (id for lock in ("a", "b") for id in producer.defer(lock))
    running = worker.claim()
    begin_and(user, user.pause, "a")
    promise(
        worker.put_back(*running) == [first]
        and stage.statuses() == {first: "doing", other: "todo"},
        "only that one",
    )
    end(user)
    promise(worker.put_back(running[0]) == [] and stage.doing() == [], "in the end it is put back")


@story(WAITS_FOR_LANES)
def test_a_rescue_beside_a_pause_takes_back_everything_else(stage: Stage, end: End) -> None:
    user, producer, dead, rescuer = (
        stage.session(),
        stage.session(),
        stage.worker(),
        stage.session(),
    )
    first, other = (id for lock in ("a", "b") for id in producer.defer(lock))
    dead.claim()
    stage.forget(dead)
    begin_and(user, user.pause, "a")
    promise(rescuer.rescue() == [other] and rescuer.rescue() == [], "the busy job stays for later")
    end(user)
    promise(rescuer.rescue() == [first], "and is rescued then")


@story(
    Mutation(
        "a rescuer waits for what a user has touched",
        "rescue.sql",
        "WHERE jobs.id = ANY (v_ours) ORDER BY jobs.id FOR UPDATE SKIP LOCKED",
        "WHERE jobs.id = ANY (v_seen.ids) ORDER BY jobs.id FOR UPDATE",
    )
)
def test_a_rescue_beside_an_abort_takes_back_everything_else(stage: Stage, end: End) -> None:
    user, producer, dead, rescuer = (
        stage.session(),
        stage.session(),
        stage.worker(),
        stage.session(),
    )
    first, other = (id for _ in range(2) for id in producer.defer(None))
    dead.claim()
    stage.forget(dead)
    begin_and(user, user.run, "SELECT cancel_job(%s, true)", first)
    promise(rescuer.rescue("1 minute") == [other], "the busy job stays for later")
    end(user)
    promise(rescuer.rescue("1 minute") == [first], "and is rescued then")


@story(
    Mutation(
        "a locked head takes a place",
        "lane_tokens.sql",
        "CASE WHEN is_touched(t.xmin, t.xmax) THEN try_lock_job(t.id) ELSE true END",
        "true",
    )
)
def test_however_many_heads_a_user_has_locked_the_rest_is_claimed(stage: Stage, end: End) -> None:
    user, producer, worker = stage.session(), stage.session(), stage.worker()
    keyed = "SELECT defer('task', lock => %s, queueing_lock => %s, on_conflict => 'replace')"
    for n in range(8):
        producer.run(keyed, f"lane {n}", f"key {n}")
    [free], [other] = producer.defer(None), producer.defer("other")
    user.begin()
    for n in range(8):
        user.run(keyed, f"lane {n}", f"key {n}")
    promise(ids(worker.claim(1)) == [free], "the oldest that nobody has locked")
    promise(ids(worker.claim(1)) == [other], "and the next")
    end(user)
    promise(len(ids(worker.claim(20))) == 8, "then those")


# ---------------------------------------------------------------- workers, and the net


@story(
    Mutation("a heartbeat fails", "await_worker.sql",
             "EXCEPTION WHEN lock_not_available THEN\n    RETURN false;\n", ""),
    Mutation("a worker that cannot write its heartbeat counts as dead", "heartbeat.sql",
             "RETURN EXISTS", "RETURN false AND EXISTS"),
    Mutation("a rescuer waits", "declare_dead.sql", "        FOR UPDATE OF workers SKIP LOCKED\n",
             ""),
    Mutation("a worker that leaves waits", "unregister_worker.sql", " FOR UPDATE SKIP LOCKED", ""),
    Mutation("jobs of a worker that has left stay with it as long as its row exists", "rescue.sql", "ELSE owner.worker_id = p_worker END",
             "ELSE NOT EXISTS (SELECT FROM workers WHERE workers.id = p_worker) END"),
    Mutation("a worker sleeps although its awake flag could not be cleared", "set_awake.sql",
             "RETURN NOT EXISTS", "RETURN true OR NOT EXISTS"),
)  # fmt: skip
def test_a_worker_whose_row_somebody_has_locked_lives_and_can_leave(stage: Stage, end: End) -> None:
    user, producer, worker, other = stage.session(), stage.session(), stage.worker(), stage.worker()
    [first] = producer.defer("a")
    promise(worker.set_awake(True), "it says so")
    worker.claim_one()
    stage.silence(worker)
    begin_and(user, user.run, "SELECT FROM workers WHERE id = %s FOR UPDATE", worker.id)
    promise(worker.run("SELECT heartbeat(%s)", worker.id) == [(True,)], "it lives")
    promise(
        other.rescue("1 minute") == [] and stage.doing() == [first], "and so it seems to others"
    )
    promise(not worker.set_awake(False), "it must not sleep: nobody would wake it")
    promise(
        worker.run("SELECT unregister_worker(%s)", worker.id) == [(1,)], "it gives back what it has"
    )
    promise(ids(other.claim()) == [first], "at once")
    end(user)


@story(
    Mutation("the reconciler waits for a lane", "repair_lane.sql",
             "IF NOT pg_try_advisory_xact_lock(lock_key('lane', p_lock))", "IF false"),
    Mutation("the reconciler waits for a lane's row", "repair_lane.sql", "IF NOT FOUND AND EXISTS",
             "IF false AND EXISTS"),
)  # fmt: skip
def test_the_reconciler_leaves_lanes_at_which_a_person_is_at_work_for_the_next_time(
    stage: Stage, end: End
) -> None:
    person, user, producer = stage.session(), stage.session(), stage.session()
    for lock in ("a", "b", "c"):
        producer.defer(lock)
    producer.run("INSERT INTO lanes (lock, since, job_id) VALUES ('b', now(), 0)")
    producer.run("UPDATE jobs SET status = 'blocked'")
    begin_and(person, person.pause, "a")
    begin_and(user, user.run, "SELECT FROM lanes WHERE lock = 'b' FOR UPDATE")
    producer.reconcile()
    promise(stage.audited() == [("reconcile", "c")], "the others are set right")
    end(user)
    end(person)
    producer.reconcile()
    found = sorted(lock for operation, lock in stage.audited() if operation == "reconcile")
    promise(
        found == ["b", "c"] if end is commits else found == ["a", "b", "c"],
        f"now these too: {found}",
    )


def names_of_lockers(session: Session, job: int | None) -> list[tuple[str, ...]]:
    """Return what explain says about transactions that somebody may have to end."""
    return session.run(
        "SELECT detail FROM explain(%s) WHERE reason = 'busy' AND unblock IS NOT NULL "
        "ORDER BY detail",
        job,
    )


def await_blame(*users: Session) -> None:
    """Wait until these transactions are so old that explain names them."""
    for user in users:
        wait_until(partial(user.run, "SELECT 1 WHERE clock_timestamp() - now() > '2 s'"))


@story(
    Mutation(
        "a young transaction is blamed",
        "locking_processes.sql",
        "> clock_timestamp() - interval '2 s'",
        "IS NULL",
    ),
)
def test_explain_blames_no_transaction_that_has_just_begun(stage: Stage, end: End) -> None:
    user, producer = stage.session(), stage.session()
    [job], [running] = producer.defer(None), producer.defer(None, 1)
    promise(ids(stage.worker().claim(1)) == [running], "one of them runs")
    user.begin()
    user.run("SELECT FROM jobs FOR UPDATE")
    found = producer.run("SELECT reason, detail, unblock FROM explain(%s)", job)
    young = user.run("SELECT clock_timestamp() - now() < '2 s'")[0][0]
    promise(
        not young
        or found[0]
        == (
            "busy",
            f"an open transaction has job {job} locked: it should end within seconds",
            None,
        ),
        f"it has neither name nor remedy: {found}",
    )
    await_blame(user)
    promise(f"process {user.pid} " in names_of_lockers(producer, job)[0][0], "later it has both")
    promise(len(names_of_lockers(producer, running)) == 1, "and so beside a job that runs")
    end(user)


@story(
    Mutation(
        "a worker's session is blamed",
        "locking_processes.sql",
        "'inturn worker', 'inturn task'",
        "'inturn task'",
    ),
    Mutation(
        "a report about a running job is a reason",
        "explain.sql",
        "explain_busy(p_id) AS busy WHERE busy.unblock IS NOT NULL",
        "explain_busy(p_id)",
    ),
)
def test_explain_never_blames_the_session_of_a_worker(stage: Stage, end: End) -> None:
    session, producer = stage.session(), stage.session()
    [job], [running] = producer.defer(None), producer.defer(None, 1)
    promise(ids(stage.worker().claim(1)) == [running], "one of them runs")
    session.run("SET application_name = 'inturn worker'")
    session.begin()
    session.run("SELECT FROM jobs FOR UPDATE")
    await_blame(session)
    found = producer.run("SELECT detail, unblock FROM explain(%s) WHERE reason = 'busy'", job)
    promise(len(found) == 1 and found[0][1] is None, f"it ends by itself: {found}")
    promise(producer.reasons(running) == ["running"], "and is nothing beside a job that runs")
    end(session)


@story(
    Mutation(
        "explain names none of several transactions",
        "locking_transactions.sql",
        "    RETURN QUERY",
        "    RETURN; RETURN QUERY",
    )
)
def test_explain_names_all_transactions_that_rely_on_a_job(stage: Stage, end: End) -> None:
    one, other, producer = stage.session(), stage.session(), stage.session()
    [(job, _)] = enqueue(producer, "k")
    [unrelated] = producer.defer(None)
    for user in (one, other):
        user.begin()
        enqueue(user, "k", on_conflict="skip")
    await_blame(one, other)
    found = names_of_lockers(producer, job)
    named = sorted(
        pid for pid in (one.pid, other.pid) for (detail,) in found if f"process {pid} of" in detail
    )
    promise(named == sorted([one.pid, other.pid]) and len(found) == 2, f"both are named: {found}")
    promise("busy" not in producer.reasons(unrelated), "they are not named for another job")
    end(one)
    found = names_of_lockers(producer, job)
    promise(
        len(found) == 1 and f"process {other.pid} of" in found[0][0],
        f"then the one that is left: {found}",
    )
    end(other)
    promise("busy" not in producer.reasons(job), "and then nobody")


@story(
    Mutation(
        "explain does not ask for transactions",
        "explain.sql",
        "RETURN QUERY SELECT * FROM explain_busy(p_id);\n    v_waits := v_waits OR FOUND;\n",
        "",
    ),
    Mutation(
        "explain ignores transactions on earlier jobs",
        "explain_lane.sql",
        "RETURN QUERY SELECT * FROM explain_busy(v_first.id);",
        "",
    ),
    Mutation(
        "explain does not mention that the lane is delayed",
        "explain_lane.sql",
        "IF v_lane.look_at > clock() AND v_lane.readers IS NULL THEN",
        "IF false THEN",
    ),
)
def test_explain_names_the_transaction_that_is_in_the_way(stage: Stage, end: End) -> None:
    user, producer, worker = stage.session(), stage.session(), stage.worker()
    producer.defer("a")
    running = worker.claim_one()
    [(second, _)] = enqueue(producer, "k", lock="a")
    [third], [free] = producer.defer("a"), producer.defer(None)
    worker.claim_one()
    replace(user, "k")
    worker.finish(running)
    await_blame(user)
    found = names_of_lockers(producer, second)
    promise(len(found) == 1 and f"process {user.pid} " in found[0][0], f"because of whom: {found}")
    promise(
        "busy" in producer.reasons(third), f"nor can what is behind it: {producer.reasons(third)}"
    )
    worker.run("UPDATE lanes SET look_at = '2040-01-01'")
    end(user)
    promise(producer.reasons(second) == ["lane delayed"], "workers have not looked again yet")
    producer.run("UPDATE lanes SET look_at = now()")
    promise(
        producer.reasons(second) == ["ready"] and ids(later(worker).claim()) == [second],
        "now they do",
    )
    promise(free in stage.doing(), "nothing else was held up")
