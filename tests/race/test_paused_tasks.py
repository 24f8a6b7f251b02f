"""A paused task starts nothing: stories told as in test_interleavings.

A claim that meets a job of a paused task makes it wait at the gate of the task. The end of the
pause leaves a look, and the next claims open the gate.
"""

from typing import Any

import pytest

from tests.race.harness import Mutation, Session, Stage, ids, promise, story
from tests.race.test_paused_queues import KEPT_FOR_EVER, NO_WAKE

CLAIM_KNOWS_NO_PAUSE = Mutation(
    "a claim does not look for pauses of tasks",
    "heed_pauses.sql",
    "r.paused := ARRAY(SELECT task FROM paused_tasks);",
    "r.paused := '{}';",
)

LOOK_ONLY_FOR_SEEN = Mutation(
    "the end of a pause leaves a look only for jobs that it sees",
    "resume.sql",
    "INSERT INTO gate_looks (key, left_at) "
    "SELECT task_gate(p_name), clock() WHERE p_kind = 'task';",
    "PERFORM leave_looks(ARRAY[task_gate(p_name)]);",
)


def pause(session: Session, task: str = "mail", until: Any = None) -> None:
    session.run("SELECT pause_task(%s, NULL, clock() + %s::interval)", task, until)


def resume(session: Session, task: str = "mail") -> bool:
    ((done,),) = session.run("SELECT resume_task(%s)", task)
    return bool(done)


def left(session: Session) -> int:
    """Return how many pauses have a row, also those that are over."""
    ((count,),) = session.run("SELECT count(*) FROM pauses")
    return int(count)


@story(
    CLAIM_KNOWS_NO_PAUSE,
    Mutation("a resume notifies no worker", "resume.sql", "PERFORM notify_workers(NULL);", "NULL;"),
    Mutation("no task counts as paused", "paused_tasks.sql", "kind = 'task'", "false"),
)
def test_a_claim_starts_no_job_of_a_paused_task(stage: Stage) -> None:
    session, worker = stage.session(), stage.worker()
    mails = session.defer(None, 0, 0, task="mail")
    (other,) = session.defer(None)
    (high,) = session.defer(None, 1, task="mail")
    pause(session)
    promise(ids(worker.claim()) == [other], "jobs of other tasks go on")
    promise(worker.claim() == [] and worker.next_wake() is None, "and it can sleep")
    promise(session.reasons(high) == ["task paused"], "it is said why")
    with stage.notifications() as told:
        promise(resume(session) and not resume(session), "once")
    promise(told != [], "sleeping workers learn of it")
    order = [job.id for _ in range(3) for job in worker.claim(1)]
    promise(order == [high, *mails], "they start in their order")
    promise(left(session) == 0, "and the pause costs nothing any more")


@story(CLAIM_KNOWS_NO_PAUSE)
def test_a_task_without_jobs_can_be_paused_and_one_in_a_paused_queue(stage: Stage) -> None:
    session, worker = stage.session(), stage.worker()
    pause(session)
    session.run("SELECT pause_queue('default')")
    (job,) = session.defer(None, task="mail")
    promise(worker.claim() == [], "both pauses hold it")
    promise(session.reasons(job) == ["queue paused", "task paused"], "and both are named")
    session.run("SELECT resume_queue('default')")
    promise(worker.claim() == [], "the pause of the task is left")
    resume(session)
    promise(ids(worker.claim()) == [job], "then it goes")


@story(
    Mutation(
        "a finish does not look for pauses of tasks",
        "finish.sql",
        "v_paused := ARRAY(SELECT task FROM paused_tasks);",
        "",
    ),
    Mutation(
        "a head of a paused task is handed over",
        "handover_candidates.sql",
        "AND head.task NOT IN (SELECT unnest(p_paused))",
        "",
    ),
    Mutation(
        "a claim keeps the lanes of jobs that it sets aside",
        "pass_gates.sql",
        "array_agg(lock) FILTER (WHERE fits)",
        "array_agg(lock)",
    ),
)
def test_a_lane_waits_for_its_head_of_a_paused_task(stage: Stage) -> None:
    session, worker = stage.session(), stage.worker()
    (first,), (second,), (third,) = (
        session.defer("a"), session.defer("a", task="mail"), session.defer("a")
    )  # fmt: skip
    running = worker.claim(1)
    worker.claim()
    pause(session)
    done = worker.finish(*running, want=1)
    promise(done.accepted == [first] and done.following == [], "what runs may end")
    promise(worker.claim() == [] and worker.claim() == [], "the order is the promise")
    promise(stage.lanes() == {}, "nobody holds the lane")
    promise(session.reasons(second) == ["task paused"], "the head says why")
    promise(session.reasons(third) == ["lane head waits", "task paused"], "those behind, too")
    resume(session)
    promise(stage.drain() == [second, third], "in order")


@story(
    Mutation(
        "a head that is aside is handed over",
        "handover_candidates.sql",
        "AND NOT head.aside",
        "",
    )
)
def test_a_head_that_is_aside_is_not_handed_over_after_the_pause(stage: Stage) -> None:
    session, worker = stage.session(), stage.worker()
    (aside,) = session.defer("a", task="mail")
    pause(session)
    promise(worker.claim() == [], "it is set aside")
    session.defer("a", 1)
    running = worker.claim_one()
    resume(session)
    promise(worker.finish(running).following == [], "a claim must wake it first")
    promise(stage.drain() == [aside], "and does")


@story(
    Mutation(
        "a claim takes the lane of a job that is aside",
        "win_heads.sql",
        "AND NOT next.several AND NOT next.aside",
        "AND NOT next.several",
    )
)
def test_a_lane_whose_head_is_aside_goes_back_while_nobody_can_wake_it(stage: Stage) -> None:
    session, worker, user = stage.session(), stage.worker(), stage.session()
    (aside,) = session.defer("a", task="mail")
    pause(session)
    worker.claim()
    resume(session)
    user.begin()
    user.run("SELECT FROM gates FOR UPDATE")
    (behind,) = session.defer("a")
    promise(worker.claim() == [], "the order is the promise")
    promise(stage.lanes() == {}, "the lane is free")
    user.rollback()
    promise(stage.drain() == [aside, behind], "in order")


@story(
    LOOK_ONLY_FOR_SEEN,
    Mutation(
        "a claim takes the look without the gate",
        "check_gates.sql",
        "IF try_lock_gates(ARRAY[v_gate]) <> '{}' THEN",
        "IF true THEN",
    ),
)
def test_a_job_that_is_being_set_aside_when_the_pause_ends_is_woken(stage: Stage) -> None:
    session, slow, worker = stage.session(), stage.worker(), stage.worker()
    (job,) = session.defer(None, task="mail")
    pause(session)
    slow.begin()
    slow.claim()  # sets it aside, and has not committed
    promise(resume(session), "a resume does not wait for it")
    promise(worker.claim() == [], "it cannot see the job yet")
    slow.commit()
    promise(ids(worker.claim()) == [job], "nobody would wake it any more")


@story(
    Mutation(
        "a gate is closed by the pause that was seen before it was locked",
        "gate_rule.sql",
        "FROM paused_tasks WHERE task = gate_name(p_gate) AND p_gate >= 'task:'",
        "WHERE p_gate >= 'task:'",
    )
)
def test_a_claim_sets_no_job_aside_after_the_gate_was_opened(stage: Stage) -> None:
    session, slow, worker = stage.session(), stage.worker(), stage.worker()
    (job,) = session.defer(None, task="mail")
    pause(session)
    slow.start_until("take_slots", slow.claim)
    resume(session)
    worker.claim()
    promise(slow.resume() == [], "it goes by the pause that it has seen")
    promise(ids(worker.claim()) == [job], "nobody would wake it any more")


@story(
    Mutation(
        "a gate is forgotten although a job is left",
        "open_gates.sql",
        "(SELECT true FROM gated_jobs WHERE gate = best.key OFFSET cardinality(best.ids) LIMIT 1)",
        "false",
    ),
)
def test_a_job_that_is_locked_when_the_pause_ends_is_woken_later(stage: Stage) -> None:
    session, user, worker = stage.session(), stage.session(), stage.worker()
    (job,) = session.defer(None, task="mail")
    pause(session)
    worker.claim()
    user.begin()
    user.run("SELECT FROM jobs WHERE id = %s FOR UPDATE", job)
    resume(session)
    promise(worker.claim() == [], "somebody has it locked")
    delay = worker.next_wake()
    promise(delay is not None and delay.total_seconds() > 0, f"it looks after {delay}")  # type: ignore[attr-defined]
    user.rollback()
    worker.hasten("1 second")
    promise(ids(worker.claim()) == [job], "nobody would wake it any more")


@story(
    Mutation(
        "a claim gives the lane of a retry to others",
        "pass_gates.sql",
        "IF r.kept && r.retries THEN",
        "IF false THEN",
    )
)
def test_a_lane_goes_on_waiting_for_a_retry_of_a_paused_task(stage: Stage) -> None:
    session, worker = stage.session(), stage.worker()
    (first,), (second,) = session.defer("a", task="mail"), session.defer("a")
    worker.retry(worker.claim_one())
    (high,) = session.defer("a", 1)
    pause(session)
    promise(worker.claim() == [], "the lane waits for its retry")
    promise(stage.lanes() == {"a": "retrying"}, "and nothing else")
    session.reconcile()
    promise(("reconcile", "a") not in stage.audited(), "as it should")
    resume(session)
    promise(stage.drain() == [first, high, second], "it goes first")


@story(
    Mutation(
        "a job of a paused task takes a slot",
        "next_gate.sql",
        "CASE WHEN p_is_paused THEN task_gate(p_task)",
        "CASE WHEN p_is_paused AND p_limit_key IS NULL THEN task_gate(p_task)",
    )
)
def test_a_job_of_a_paused_task_takes_no_slot(stage: Stage) -> None:
    session, user, worker = stage.session(), stage.session(), stage.worker()
    session.set_limit("bank", 1)
    session.defer("a", task="mail", limit="bank")
    session.defer(None, task="mail", limit="bank")
    (other,) = session.defer(None, limit="bank")
    pause(session)
    session.run("INSERT INTO gates (key) VALUES ('task:mail')")
    user.begin()
    user.run("SELECT FROM gates FOR UPDATE")
    promise(worker.claim(1) == [], "they are in front, and nobody can set them aside")
    user.rollback()
    promise(ids(worker.claim()) == [other], "the slot is for the other task")
    ((used,),) = session.run("SELECT sum(used) FROM gates")
    promise(used == 1, "as many as run")


@story(
    Mutation(
        "a wake-up for a slot is not passed on",
        "close_gates.sql",
        "PERFORM leave_looks(v_gates) WHERE v_gates IS NOT NULL;",
        "",
    )
)
def test_a_slot_for_which_a_job_was_woken_goes_to_the_next(stage: Stage) -> None:
    session, worker = stage.session(), stage.worker()
    session.set_limit("bank", 1)
    session.defer(None, limit="bank")
    session.defer(None, task="mail", limit="bank")
    (other,) = session.defer(None, limit="bank")
    running = worker.claim_one()
    promise(worker.claim() == [], "they wait for the slot")
    pause(session)
    worker.finish(running)  # wakes the one of the paused task
    started = [job.id for _ in range(2) for job in worker.claim()]
    promise(started == [other], "the next claims give the slot to the other")


@pytest.mark.landing
@story(
    Mutation(
        "a claim sets only those aside that it looks at",
        "pass_gates.sql",
        "IF r.marked AND v_slots.ids = '{}' AND r.since IS NULL THEN",
        "IF false THEN",
    ),
)
def test_a_few_claims_get_past_a_burst_of_a_paused_task(stage: Stage) -> None:
    session, worker = stage.session(), stage.worker()
    session.set_limit("bank", 1)
    session.defer(None, *[0] * 3000, task="mail")
    session.defer(None, *[0] * 100, task="mail", limit="bank")
    for lane in range(150):
        session.defer(f"lane {lane}", task="mail")
    (other,), (in_lane,) = session.defer(None), session.defer("other")
    pause(session)
    started = [job.id for _ in range(6) for job in worker.claim(1)]
    promise(sorted(started) == [other, in_lane], "the others start soon")
    promise(stage.lanes() == {"other": "held"}, "and every other lane is free")
    resume(session)
    order = stage.drain()
    promise(len(order) == 3252, "all of them run in the end")


@story(
    Mutation(
        "jobs that wait for a limit stay in front of others",
        "clear_front.sql",
        "WHERE job.task IN (SELECT unnest(r.paused))), r.paused)",
        "WHERE false), r.paused)",
    )
)
def test_jobs_that_wait_for_a_limit_do_not_hold_up_other_tasks_of_it(stage: Stage) -> None:
    session, worker = stage.session(), stage.worker()
    session.set_limit("bank", 1)
    session.defer(None, limit="bank")
    session.defer(None, *[0] * 50, task="mail", limit="bank")
    (other,) = session.defer(None, limit="bank")
    running = worker.claim_one()
    worker.claim(60)
    pause(session)
    worker.finish(running)
    started = [job.id for _ in range(4) for job in worker.claim()]
    promise(started == [other], "the next claims give the slot to the other task")


@story(
    Mutation(
        "a job with several locks starts in spite of a pause",
        "start_in_lanes.sql",
        "v_seen.limit_key IS NULL AND v_seen.task NOT IN (SELECT unnest(p_paused))",
        "v_seen.limit_key IS NULL",
    )
)
def test_a_job_with_several_locks_waits_for_the_end_of_a_pause(stage: Stage) -> None:
    session, worker = stage.session(), stage.worker()
    mail = session.defer_several("a", "b", task="mail")
    reader = session.defer_several("c", shared=["c"], task="mail")
    (behind,) = session.defer("b")
    pause(session)
    promise(worker.claim() == [] and worker.claim() == [], "the order is the promise")
    promise(stage.lanes() == {}, "nobody holds the lanes")
    promise("task paused" in session.reasons(behind), "it is said why")
    resume(session)
    promise(stage.drain() == [mail, reader, behind], "in order")


@story(
    Mutation(
        "jobs of a paused task are claimed ahead",
        "begin_further.sql",
        "THEN ARRAY(SELECT task FROM paused_tasks) END",
        "THEN '{}'::text[] END",
    )
)
def test_a_further_claim_starts_no_job_of_a_paused_task(stage: Stage) -> None:
    session, worker = stage.session(), stage.worker()
    (first,), (_,), (third,) = (
        session.defer(None), session.defer(None, task="mail"), session.defer(None)
    )  # fmt: skip
    worker.claim(1)
    pause(session)
    promise(ids(worker.claim_further(first)) == [third], "only others")


@story(
    NO_WAKE,
    KEPT_FOR_EVER,
)
def test_a_pause_that_ends_by_itself_tells_its_workers_when(stage: Stage) -> None:
    session, worker = stage.session(), stage.worker()
    session.defer(None, task="mail")
    with stage.notifications() as told:
        pause(session, "mail", "1 hour")
    promise(told != [], "sleeping workers learn of it")
    promise(worker.claim() == [], "nothing starts")
    delay = worker.next_wake()
    promise(delay is not None and 3000 < delay.total_seconds() <= 3600, f"it sleeps for {delay}")  # type: ignore[attr-defined]
    worker.hasten("2 hours")
    promise(len(worker.claim()) == 1, "it is over")
    promise(left(session) == 0, "and costs nothing any more")


@story(
    Mutation(
        "a new pause leaves the end of the earlier one",
        "pause.sql",
        "until = excluded.until, paused_by",
        "until = old.until, paused_by",
    )
)
def test_a_pause_replaces_an_earlier_one_and_nothing_starts_in_between(stage: Stage) -> None:
    session, other, worker = stage.session(), stage.session(), stage.worker()
    jobs = session.defer(None, 0, 0, task="mail")
    pause(session, "mail", "1 hour")
    worker.claim()
    other.begin()
    pause(other, "mail")
    promise(worker.claim() == [], "before it is committed")
    session.defer(None, task="mail")
    promise(worker.claim() == [], "also what comes then")
    other.commit()
    worker.hasten("2 hours")
    promise(worker.claim() == [], "the earlier end is no end any more")
    promise(left(session) == 1 and resume(session), "there is one pause")
    promise(ids(worker.claim())[:2] == jobs, "it ends at once")


@story(
    Mutation(
        "a job that is aside gets another task and stays there",
        "replace_waiting.sql",
        "SET status = CASE WHEN status = 'paused' THEN 'todo' ELSE status END,",
        "SET",
    )
)
def test_a_job_that_is_replaced_by_one_of_another_task_starts(stage: Stage) -> None:
    session, worker = stage.session(), stage.worker()
    defer = "SELECT defer(%s, queueing_lock => 'q', on_conflict => 'replace')"
    ((job,),) = session.run(defer, "mail")
    pause(session)
    promise(worker.claim() == [], "it is set aside")
    promise(session.run(defer, "other") == [(job,)], "and replaced")
    promise(ids(worker.claim()) == [job], "its new task is not paused")


@story(
    Mutation(
        "a burst of a group is not cleared",
        "far_front.sql",
        "WHERE jobs.id = ANY (p_seen) AND jobs.group_key IS NOT NULL",
        "WHERE false AND jobs.group_key IS NOT NULL",
    )
)
def test_groups_go_on_taking_turns_past_a_paused_task(stage: Stage) -> None:
    session, worker = stage.session(), stage.worker()
    session.defer(None, *[0] * 300, task="mail", group="x")
    others = [*session.defer(None, group="x"), *session.defer(None, group="y")]
    in_lane = session.defer("a", task="mail", group="y")
    pause(session)
    started = [job.id for _ in range(5) for job in worker.claim(2)]
    promise(sorted(started) == sorted(others), "the others start")
    resume(session)
    promise(set(in_lane) < set(stage.drain()), "and these when the pause is over")


@story(
    Mutation(
        "a job that is aside without a pause is not found",
        "reconcile.sql",
        "PERFORM reconcile_gates(1000);",
        "",
    )
)
def test_a_pause_that_was_deleted_by_hand_is_found(stage: Stage) -> None:
    session, worker = stage.session(), stage.worker()
    (job,) = session.defer(None, task="mail")
    pause(session)
    worker.claim()
    session.reconcile()
    promise(stage.audited() == [("pause-task", "mail")], "all is well")
    session.run("DELETE FROM pauses")
    session.reconcile()
    promise(("reconcile-task", "mail") in stage.audited(), "it is recorded")
    promise(ids(worker.claim()) == [job], "it goes on")


@story(
    Mutation(
        "a lane does not go on when its head is cancelled",
        "lane_heads.sql",
        "has_status(head.status, 'blocked'),\n        is_touched(head.xmin, head.xmax),\n        CASE WHEN NOT "
        "head.was_attempted THEN head.expires_at END, head.limit_key IS NOT NULL,\n        "
        "head.group_key IS NOT NULL, head.locks IS NOT NULL",
        "false, is_touched(head.xmin, head.xmax), CASE WHEN NOT head.was_attempted THEN "
        "head.expires_at END, head.limit_key IS NOT NULL, head.group_key IS NOT NULL, "
        "head.locks IS NOT NULL",
    )
)
def test_a_lane_goes_on_when_the_job_that_is_aside_is_gone(stage: Stage) -> None:
    session, worker = stage.session(), stage.worker()
    heads = [
        *session.defer("a", task="mail"),
        *session.defer("b", task="mail"),
        *session.defer("c", task="mail", expires_in="1 hour"),
    ]
    behind = [session.defer(lane)[0] for lane in "abc"]
    pause(session)
    for _ in range(3):
        promise(worker.claim() == [], "they wait")
    promise(session.cancel(heads[0]) == "cancelled" and session.delete(heads[1]), "by hand")
    worker.hasten("2 hours")
    promise(sorted(ids(worker.claim())) == behind, "each lane goes on")


@story(LOOK_ONLY_FOR_SEEN)
def test_a_job_that_is_set_aside_while_its_task_is_resumed_is_woken(stage: Stage) -> None:
    person, worker, other = stage.session(), stage.worker(), stage.worker()
    pause(person)
    [job] = person.defer(None, task="mail")
    worker.begin()
    promise(worker.claim() == [], "the task is paused")
    resume(person)
    other.claim()  # the first that sees the end of the pause
    worker.commit()
    promise(ids(other.claim()) == [job], "the job is woken")


@story(
    Mutation("a job that is aside is handed over", "handover_candidates.sql",
             "AND NOT head.aside", ""),
)  # fmt: skip
def test_the_end_of_a_job_leaves_the_lane_to_a_claim_if_the_next_one_is_aside(stage: Stage) -> None:
    person, worker, other = stage.session(), stage.worker(), stage.worker()
    pause(person)
    [aside] = person.defer("a", task="mail")
    promise(worker.claim() == [], "the task is paused")
    person.defer("a", 1)
    urgent = worker.claim_one()
    resume(person)
    promise(worker.finish(urgent).following == [], "it has yet to be woken")
    promise("a" not in stage.lanes(), "the lane is free")
    promise(ids(other.claim()) == [aside], "the job is woken")


@story(
    Mutation("limits are looked at before tasks", "check_gates.sql",
             "SELECT key FROM gate_looks ORDER BY key DESC LIMIT 1",
             "SELECT key FROM gate_looks ORDER BY key LIMIT 1"),
)  # fmt: skip
def test_a_resumed_task_does_not_wait_for_the_looks_at_many_limits(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    pause(person)
    [job] = person.defer(None, task="mail")
    promise(worker.claim() == [], "it is set aside")
    person.run(
        "INSERT INTO gate_looks (key, left_at) "
        "SELECT limit_gate('k' || i), clock() FROM generate_series(1, 50) AS i"
    )
    resume(person)
    promise(ids(worker.claim()) == [job], "the next claim starts it")


@story(
    Mutation("one claim at a time closes the gate of a task", "take_slots.sql",
             "try_lock_gates(v_asked, true)", "try_lock_gates(v_asked)"),
)  # fmt: skip
def test_claims_close_the_gate_of_a_task_side_by_side(stage: Stage) -> None:
    person, one, two = stage.session(), stage.worker(), stage.worker()
    pause(person)
    person.defer(None, task="mail")
    promise(one.claim() == [], "the gate has its row")
    person.defer(None, task="mail")
    one.begin()
    promise(one.claim() == [], "it closes the gate, and has not committed")
    person.defer(None, task="mail")
    [other] = person.defer(None)
    promise(ids(two.claim(1)) == [other], "the other sets its job aside and goes on")
    one.commit()
    resume(person)
    promise(len(two.claim()) == 3, "all of them are woken")


@story(
    Mutation(
        "a pause that is over is not ended first",
        "reconcile_gates.sql",
        "PERFORM end_pauses();",
        "",
    )
)
def test_a_pause_that_has_just_ended_is_no_finding(stage: Stage) -> None:
    session, worker = stage.session(), stage.worker()
    (job,) = session.defer(None, task="mail")
    session.run("SELECT pause_task('mail', NULL, clock() + interval '1 minute')")
    worker.claim()
    for each in (session, worker):
        each.hasten("2 minutes")
    session.reconcile()
    promise(stage.audited() == [("pause-task", "mail")], "the next claim opens the gate")
    promise(ids(worker.claim()) == [job], "it does")
