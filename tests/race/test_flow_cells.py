"""What jobs and lanes go through, met by jobs with limits, jobs after others, and jobs that expire.

combinations.md is the table. Each story here is told for all things that can happen to a
job, so one story fills several cells.
"""

from collections.abc import Callable

import psycopg
import pytest

from tests.race.harness import Job, Mutation, Session, Stage, Worker, ids, promise, story
from tests.race.test_fences_after_failover import start_timeline
from tests.race.test_flow_combinations import status
from tests.race.test_retries_that_move import move, snooze

LATER = "2 hours"
POLICIES = ("cancel", "go", "hold")
Happening = Callable[[Stage, Worker, Job], object]


def lose(stage: Stage, worker: Worker, job: Job) -> None:
    """Let the worker die, let its jobs be rescued, and let another worker take its place."""
    stage.forget(worker)
    promise(stage.session().rescue() == [job.id], "it is taken over")
    worker.register()


# What ends an attempt, and not the job. The job may start again at once.
BETWEEN: dict[str, Happening] = {
    "retry": lambda stage, worker, job: worker.retry(job),
    "snooze": lambda stage, worker, job: snooze(worker, job, "0"),
    "rescue": lose,
    "put back": lambda stage, worker, job: worker.put_back(job),
    "another lane": lambda stage, worker, job: move(worker, job, "elsewhere"),
}
# What ends a job that runs.
ENDS: dict[str, Happening] = {
    "failure that halts": lambda stage, worker, job: worker.finish(job, status="failed", want=0),
    "abort": lambda stage, worker, job: (
        worker.run("SELECT cancel_job(%s, true)", job.id),
        worker.finish(job, status="aborted", want=0),
    ),
}
# What people do to the head of a lane that waits.
PEOPLE: dict[str, Callable[[Session, int, str], object]] = {
    "cancel": lambda person, job, lane: person.cancel(job),
    "delete": lambda person, job, lane: person.delete(job),
    "skip-head": lambda person, job, lane: person.skip_head(lane),
    "cancel waiting": lambda person, job, lane: person.cancel_waiting(lane),
}


def used(stage: Stage, key: str) -> int:
    [(count,)] = stage.control.execute(
        "SELECT coalesce((SELECT used FROM gates WHERE key = limit_gate(%s)), 0)", [key]
    ).fetchall()
    return int(count)


FREES = "PERFORM notify_workers(open_gates(v_{}.gates, true));"


# ---------------------------------------------------------------- limits


@story(
    Mutation("a retry keeps its slot", "retry.sql", FREES.format("again"), "NULL;"),
    Mutation("a put back keeps its slot", "put_back.sql", FREES.format("back"), "NULL;"),
    Mutation("an end keeps its slot", "finish.sql", FREES.format("done"), "NULL;"),
)
def test_whatever_ends_an_attempt_gives_its_slot_back_once(stage: Stage) -> None:
    producer = stage.session()
    for on_retry in ("hold", "release"):
        for name, happening in (BETWEEN | ENDS).items():
            key, worker = f"{on_retry} {name}", stage.worker()
            producer.set_limit(key, 1)
            producer.defer(key, limit=key, on_retry=on_retry, on_failure="halt")
            [second] = producer.defer(None, limit=key)
            [running] = worker.claim()
            happening(stage, worker, running)
            promise(used(stage, key) == 0, f"{key}: the slot is free")
            started = worker.claim()
            promise(len(started) == 1 and used(stage, key) == 1, f"{key}: for one of them")
            worker.finish(*started, want=0)
            worker.finish(*worker.claim(), want=0)
            promise(status(worker, second) == "succeeded", f"{key}: nobody sleeps")
            promise(used(stage, key) == 0, f"{key}: none is left taken")


@story(
    Mutation(
        "an attempt that ends gives its token back",
        "open_gates.sql",
        "tokens = judged.tokens,",
        "tokens = judged.tokens + 1,",
    ),
    Mutation(
        "a start takes no token",
        "take_slots.sql",
        "tokens = part.tokens - part.starts,",
        "tokens = part.tokens,",
    ),
)
def test_whatever_ends_an_attempt_gives_no_token_back(stage: Stage) -> None:
    producer = stage.session()
    for on_retry in ("hold", "release"):
        for name, happening in (BETWEEN | ENDS).items():
            key, worker = f"{on_retry} {name}", stage.worker()
            producer.set_limit(key, None, rate=1)
            producer.defer(key, limit=key, on_retry=on_retry, on_failure="halt")
            producer.defer(None, limit=key)
            [running] = worker.claim()
            happening(stage, worker, running)
            promise(worker.claim() == [], f"{key}: its start counts")
            worker.hasten("61 seconds")
            # The clock stood there before, so a job of an earlier key may start as well.
            started = producer.run(
                "SELECT id FROM jobs WHERE limit_key = %s AND id = ANY (%s)",
                key,
                ids(worker.claim()),
            )
            promise(len(started) == 1, f"{key}: then one starts")


@story(
    Mutation(
        "a job that goes passes nothing on",
        "archive_jobs.sql",
        "THEN leave_looks(ARRAY[limit_gate(gone.limit_key)])",
        "THEN true",
    ),
)
def test_a_job_that_ends_before_it_took_its_slot_leaves_it_to_the_next(stage: Stage) -> None:
    producer = stage.session()
    for is_woken in (False, True):
        for name, change in PEOPLE.items():
            key, worker = f"{name} {is_woken}", stage.worker()
            producer.set_limit(key, 1)
            producer.defer(None, 9, limit=key)
            [first] = producer.defer(key, 5, limit=key)
            [second] = producer.defer(None, limit=key)
            [running] = worker.claim()
            promise(status(worker, first) == "limited", f"{key}: it waits")
            if is_woken:
                worker.finish(running, want=0)
                promise(status(worker, first) == "todo", f"{key}: it is the next")
            change(producer, first, key)
            if not is_woken:
                worker.finish(running, want=0)
            promise(ids(worker.claim()) == [second], f"{key}: the slot goes on")


def test_a_job_that_ends_before_it_took_its_token_leaves_it_to_the_next(stage: Stage) -> None:
    producer = stage.session()
    for name, change in PEOPLE.items():
        worker = stage.worker()
        producer.set_limit(name, None, rate=1)
        producer.defer(None, 9, limit=name)
        [first], [second] = producer.defer(name, 5, limit=name), producer.defer(None, limit=name)
        worker.finish(*worker.claim())
        promise(worker.claim() == [], f"{name}: there is no token")
        change(producer, first, name)
        worker.hasten("61 seconds")
        promise(ids(worker.claim()) == [second], f"{name}: the next one has it")


@story(
    Mutation(
        "a blocked job passes nothing on",
        "block_behind.sql",
        "PERFORM leave_looks(v_gates) WHERE v_gates IS NOT NULL;",
        "",
    ),
)
def test_a_slot_or_token_does_not_wait_for_a_lane_that_is_stopped(stage: Stage) -> None:
    producer = stage.session()
    for rate in (None, 1):
        for stop in ("pause", "halt"):
            key, worker = f"{stop} {rate}", stage.worker()
            producer.set_limit(key, 1 if rate is None else None, rate)
            producer.defer(None, 9, limit=key)
            [first], [second] = producer.defer(key, 5, limit=key), producer.defer(None, limit=key)
            [running] = worker.claim()
            promise(status(worker, first) == "limited", f"{key}: it waits, and not for its lane")
            producer.defer(key, 9, on_failure="halt")
            [halting] = worker.claim()
            worker.finish(halting, status="failed" if stop == "halt" else "succeeded")
            if stop == "pause":
                producer.pause(key)
            worker.finish(running)
            worker.hasten("61 seconds")
            started = worker.claim() + worker.claim()
            promise(ids(started) == [second], f"{key}: the lane is stopped: {ids(started)}")
            producer.resume_lane(key)
            worker.finish(*started)
            worker.hasten("122 seconds")
            promise(ids(worker.claim() + worker.claim()) == [first], f"{key}: and goes on")


@story(
    Mutation("the timeline is not looked at", "start_jobs.sql", "<> timeline()", "<> 7"),
)
def test_a_failover_changes_no_count_and_frees_no_child(stage: Stage) -> None:
    """The new server has the rows of the old one, and only its fences are raised."""
    producer, worker = stage.session(), stage.worker()
    producer.set_limit("slots", 1)
    producer.set_limit("rate", None, rate=1)
    [parent], [other] = producer.defer(None, limit="slots"), producer.defer(None, limit="slots")
    [started], [token] = producer.defer(None, limit="rate"), producer.defer(None, limit="rate")
    [late] = producer.defer("late", expires_in="1 hour")
    producer.pause("late")
    children = [producer.defer_after(parent, on_parent=policy) for policy in POLICIES]
    running = worker.claim()
    promise(ids(running) == [parent, started], "one of each")
    fence = start_timeline(stage)
    after = stage.worker()
    promise(after.claim() == [], "the slot and the token are taken, and the parent runs")
    worker.finish(*running, want=0)
    freed = ids(after.claim())
    promise(freed == [other, *children], f"the end of an older fence counts: {freed}")
    [(lowest,)] = after.run("SELECT min(fence) FROM jobs WHERE status = 'doing'")
    promise(lowest > fence + (1 << 39), "with fences above all that the old server can have given")
    after.hasten(LATER)
    promise(ids(after.claim()) == [token] and status(after, late) == "cancelled", "times go on")


def test_a_job_that_waits_for_its_slot_or_token_is_replaced_and_keeps_waiting(
    stage: Stage,
) -> None:
    producer = stage.session()
    replace = (
        "SELECT defer('t', %s::jsonb, queueing_lock => %s, on_conflict => 'replace', "
        "limit_key => %s, priority => 5)"
    )
    for key, slots, rate in (("slot", 1, None), ("token", None, 1)):
        worker = stage.worker()
        producer.set_limit(key, slots, rate)
        producer.defer(None, 9, limit=key)
        [(job,)] = producer.run(replace, '{"n": 1}', key, key)
        [running] = worker.claim()
        promise(status(worker, job) == "limited", f"{key}: it waits")
        promise(producer.run(replace, '{"n": 2}', key, key) == [(job,)], f"{key}: it is the same")
        promise(worker.claim() == [], f"{key}: it waits still")
        worker.finish(running, want=0)
        promise(producer.run(replace, '{"n": 3}', key, key) == [(job,)], f"{key}: once more")
        worker.hasten("61 seconds")
        promise(ids(worker.claim()) == [job], f"{key}: it starts once there is one")
        [(args,)] = worker.run("SELECT args FROM jobs WHERE id = %s", job)
        promise(args == {"n": 3}, f"{key}: with what came last: {args}")


# ---------------------------------------------------------------- parents


def children_of(producer: Session, parent: int) -> dict[str, int]:
    return {policy: producer.defer_after(parent, on_parent=policy) for policy in POLICIES}


@story(
    Mutation(
        "the end of an attempt is an end",
        "retry.sql",
        "IF v_again.ids IS NOT NULL THEN",
        "IF v_again.ids IS NOT NULL THEN "
        "PERFORM tell_relatives(job, 'succeeded', true) FROM unnest(v_again.ids) AS job; "
        "DELETE FROM edges WHERE parent = ANY (v_again.ids); "
        "UPDATE jobs SET status = 'todo' WHERE status = 'pending';",
    ),
)
def test_the_end_of_an_attempt_frees_no_child_whatever_it_wants(stage: Stage) -> None:
    producer = stage.session()
    for on_retry in ("hold", "release"):
        for name, happening in BETWEEN.items():
            worker = stage.worker()
            [parent] = producer.defer(f"{name} {on_retry}", on_retry=on_retry)
            children = children_of(producer, parent)
            happening(stage, worker, worker.claim_one())
            promise(ids(running := worker.claim()) == [parent], f"{name}: it starts again")
            waiting = {status(worker, child) for child in children.values()}
            promise(waiting == {"pending"}, f"{name}: and they wait: {waiting}")
            worker.finish(*running)
            promise(ids(freed := worker.claim()) == [*children.values()], f"{name}: for its end")
            worker.finish(*freed)


@story(
    Mutation(
        "a parent that failed has succeeded", "settle_ends.sql",
        "PERFORM cut_edges(v_edges.parents, v_edges.children, v_edges.outcomes);",
        "PERFORM cut_edges(v_edges.parents, v_edges.children, "
        "array_fill('succeeded'::job_status, ARRAY[cardinality(v_edges.parents)]));",
    ),
)  # fmt: skip
def test_each_end_does_to_each_child_what_it_has_asked_for(stage: Stage) -> None:
    producer = stage.session()
    for name in (*ENDS, *PEOPLE, "expiry"):
        worker = stage.worker()
        [parent] = producer.defer(name, on_failure="halt", expires_in="1 hour")
        children = children_of(producer, parent)
        if name in ENDS:
            ENDS[name](stage, worker, worker.claim_one())
        else:
            producer.pause(name)
            promise(worker.claim() == [], f"{name}: it waits")
            if name in PEOPLE:
                PEOPLE[name](producer, parent, name)
            else:
                worker.hasten(LATER)
        freed = worker.claim()
        promise(ids(freed) == [children["go"]], f"{name}: it does not mind: {ids(freed)}")
        promise(status(worker, children["cancel"]) == "cancelled", f"{name}: it is over")
        promise(status(worker, children["hold"]) == "pending", f"{name}: it is held")
        promise("parent failed" in worker.reasons(children["hold"]), f"{name}: and says so")
        worker.finish(*freed)
        producer.resume_lane(name)
        producer.hasten(LATER if name == "expiry" else "0")
        producer.retry_job(children["hold"] if name == "delete" else parent)
        again = worker.claim()
        if name != "delete":
            promise(ids(again) == [parent], f"{name}: somebody has retried it")
            worker.finish(*again)
            again = worker.claim()
        promise(ids(again) == [children["hold"]], f"{name}: and the last one goes on")
        worker.finish(*again)


def test_a_parent_that_waits_for_anything_holds_its_children_up_and_explain_says_so(
    stage: Stage,
) -> None:
    producer = stage.session()
    producer.set_limit("slots", 1)
    producer.set_limit("rate", None, rate=1)
    worker = stage.worker()
    producer.defer(None, 9, limit="slots")
    producer.defer(None, 9, limit="rate")
    producer.pause("paused")
    parents = {
        "limited": producer.defer(None, limit="slots")[0],
        "token": producer.defer(None, limit="rate")[0],
        "paused": producer.defer("paused")[0],
        "scheduled": producer.defer(None, delay="1 hour")[0],
    }
    parents["pending"] = producer.defer_after(parents["limited"])
    children = {name: children_of(producer, parent) for name, parent in parents.items()}
    promise(len(worker.claim()) == 2, "those with the slot and the token")
    for name, wanted in children.items():
        for child in wanted.values():
            promise(status(worker, child) == "pending", f"{name}: it waits")
            promise(worker.reasons(child)[0] == "parent", f"{name}: {worker.reasons(child)}")


@story(
    Mutation(
        "explain knows no parent that waits for its limit",
        "explain_parents.sql",
        "status NOT IN ('succeeded', 'failed', 'cancelled', 'aborted')",
        "status NOT IN ('succeeded', 'failed', 'cancelled', 'aborted', 'limited')",
    ),
)
def test_explain_names_a_parent_that_waits_for_its_limit(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    producer.set_limit("slots", 1)
    producer.defer(None, 9, limit="slots")
    [parent] = producer.defer(None, limit="slots")
    child = producer.defer_after(parent)
    worker.claim()
    promise(worker.reasons(child)[:1] == ["parent"], f"{worker.reasons(child)}")


def test_a_child_takes_its_slot_when_its_parents_have_ended_and_not_before(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    producer.set_limit("slots", 1)
    [parent] = producer.defer(None, limit="slots")
    [(child,)] = producer.run(
        "SELECT defer('task', limit_key => 'slots', after => %s, expires_at => now() + interval "
        "'1 hour')", [parent],
    )  # fmt: skip
    running = worker.claim_one()
    [beside] = producer.defer(None, limit="slots")
    promise(worker.claim() == [] and used(stage, "slots") == 1, "the parent has the slot")
    worker.finish(running, want=0)
    promise(ids(started := worker.claim()) == [child], "as the older of two")
    promise(used(stage, "slots") == 1 and status(worker, beside) == "limited", "it has the slot")
    promise(ids(worker.finish(*started).following) == [beside], "and passes it on")


def test_a_parent_that_is_replaced_is_waited_for_as_the_job_that_it_becomes(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    replace = "SELECT defer('t', %s::jsonb, queueing_lock => 'k', on_conflict => 'replace')"
    [(parent,)] = producer.run(replace, '{"n": 1}')
    children = children_of(producer, parent)
    producer.pause("a")
    promise(producer.run(replace, '{"n": 2}') == [(parent,)], "it has the same id")
    promise(ids(running := worker.claim()) == [parent], "its children wait")
    worker.finish(*running)
    promise(ids(worker.claim()) == [*children.values()], "for what it does now")


# ---------------------------------------------------------------- expiry


@story(
    Mutation(
        "it expires at any attempt",
        "start_jobs.sql",
        "OR jobs.was_attempted",
        "",
    ),
    Mutation("a retry is no attempt", "retry.sql", "was_attempted = true,", ""),
)
def test_a_job_that_was_attempted_does_not_expire(stage: Stage) -> None:
    producer = stage.session()
    for on_retry in ("hold", "release"):
        for name in ("retry", "snooze", "rescue", "another lane"):
            worker = stage.worker()
            [job] = producer.defer(f"{name} {on_retry}", expires_in="1 hour", on_retry=on_retry)
            BETWEEN[name](stage, worker, worker.claim_one())
            worker.hasten(LATER)
            promise(ids(running := worker.claim()) == [job], f"{name}: it may be late")
            worker.finish(*running)


def test_a_job_that_was_put_back_before_it_began_expires(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [job] = producer.defer("a", expires_in="1 hour")
    worker.put_back(worker.claim_one())
    worker.hasten(LATER)
    promise(worker.claim() == [] and status(worker, job) == "cancelled", "it never began")
    promise(stage.lanes() == {}, "and its lane is free")


@story(
    Mutation("no claim looks for them", "settle_due.sql", "PERFORM expire_jobs(500, 50);", "NULL;"),
)
def test_a_job_expires_whatever_it_waits_for(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    producer.set_limit("slots", 1)
    producer.set_limit("rate", None, rate=1)
    producer.defer("halted", on_failure="halt")
    worker.finish(worker.claim_one(), status="failed")
    producer.defer(None, 9, limit="slots")
    [parent] = producer.defer(None, 9, limit="rate")
    producer.pause("paused")
    waiting = [
        *producer.defer("paused", expires_in="1 hour"),
        *producer.defer("halted", expires_in="1 hour"),
        *producer.defer(None, expires_in="1 hour", limit="slots"),
        *producer.defer("a", expires_in="1 hour", limit="rate"),
        *producer.defer(None, expires_in="1 hour", delay="10 hours"),
    ]
    for policy in POLICIES:
        child = producer.defer_after(parent, on_parent=policy)
        producer.run("UPDATE jobs SET expires_at = now() + interval '1 hour' WHERE id = %s", child)
        waiting.append(child)
    promise(len(worker.claim()) == 2, "they run")
    worker.hasten(LATER)
    promise(worker.claim() == [], "nothing else starts")
    over = {status(worker, job) for job in waiting}
    promise(over == {"cancelled"}, f"all of them are over: {over}")
    promise(stage.lanes() == {"paused": "paused", "halted": "halted"}, "lanes stay as they were")


def test_people_can_end_a_job_that_has_expired_before_a_claim_does(stage: Stage) -> None:
    producer = stage.session()
    for name, change in PEOPLE.items():
        [first], [second] = producer.defer(name, expires_in="1 hour"), producer.defer(name)
        worker = stage.worker()
        producer.hasten(LATER)
        worker.hasten(LATER)
        if name == "cancel waiting":
            promise(producer.cancel_waiting(name) == 2, "both of the lane")
            continue
        change(producer, first, name)
        producer.hasten("0")
        expected = None if name == "delete" else "cancelled"
        promise(status(producer, first) == expected, f"{name}: it has ended")
        promise(ids(running := worker.claim()) == [second], f"{name}: the lane goes on")
        worker.finish(*running)


def test_a_job_that_runs_can_be_aborted_after_its_expiry_and_one_that_moves_keeps_it(
    stage: Stage,
) -> None:
    producer, worker = stage.session(), stage.worker()
    [job] = producer.defer("a", expires_in="1 hour")
    running = worker.claim_one()
    worker.hasten(LATER)
    ENDS["abort"](stage, worker, running)
    promise(status(worker, job) == "aborted", "it was running")
    [moved] = producer.defer(None, delay="30 minutes", expires_in="1 hour")
    move = "SELECT retry_job_changed(%s, now() + %s::interval, p_lock => 'b')"
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="expires at"):
        producer.run(move, moved, "3 hours")
    producer.run(move, moved, "45 minutes")
    worker.hasten("4 hours")
    promise(worker.claim() == [], "its time is over")
    promise(status(worker, moved) == "cancelled", "in its new lane too")
