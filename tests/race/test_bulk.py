"""A bulk meets workers, people and a second bulk: stories told as in test_interleavings.

A step takes the lanes of its jobs and then the jobs, without waiting (change_jobs.sql), and looks at
each job again before it changes it (judge_change.sql).
"""

from collections.abc import Sequence
from typing import Any

from psycopg.errors import InvalidParameterValue

from tests.race.harness import Mutation, Session, Stage, ids, promise, story


def change(
    session: Session, action: str, jobs: Sequence[int], statuses: str, before: Any = None
) -> dict[int, str]:
    """Make a step of a bulk, and return what became of each job."""
    rows = session.run(
        "SELECT id, outcome FROM change_jobs(%s, %s, ROW(%s::job_status[], NULL, NULL, NULL, NULL, "
        "NULL, NULL, NULL, NULL, NULL, %s::timestamptz, NULL)::job_filter)",
        *(action, list(jobs), statuses, before),
    )
    return dict(rows)


def change_lanes(session: Session, action: str, *locks: str) -> dict[str, str]:
    rows = session.run(
        "SELECT lock, outcome FROM change_lanes(%s, %s, '{halted,paused}')", action, list(locks)
    )
    return dict(rows)


def fail(stage: Stage, lock: str | None, *, halts: bool = True) -> int:
    """Let a job fail for good. It halts its lane."""
    (job,) = stage.session().defer(lock, on_failure="halt" if halts else "continue")
    worker = stage.worker()
    worker.finish(worker.claim_one(), want=0, status="failed")
    return job


NO_SECOND_LOOK = Mutation(
    "a job is not looked at again under its lock",
    "judge_change.sql",
    "OR v_at >= (p_filter).before",
    "",
)


@story(
    Mutation(
        "finished jobs are not locked",
        "change_jobs.sql",
        "lanes.lock NOT IN (SELECT unnest(v_held)))\n        ORDER BY job.id FOR UPDATE SKIP LOCKED",
        "lanes.lock NOT IN (SELECT unnest(v_held)))\n        ORDER BY job.id",
    )
)
def test_two_bulks_at_once_retry_a_job_once_and_do_not_wait(stage: Stage) -> None:
    free, halting = fail(stage, None), fail(stage, "a")
    first, second = stage.session(), stage.session()
    first.begin()
    promise(set(change(first, "retry", [free, halting], "{failed}").values()) == {"done"}, "free")
    promise(
        change(second, "retry", [free, halting], "{failed}") == {free: "busy", halting: "busy"},
        "the second leaves them",
    )
    first.commit()
    promise(
        set(change(second, "retry", [free, halting], "{failed}").values()) == {"waiting"},
        "and finds them done",
    )
    promise(stage.drain() == [free, halting], "each ran once")


@story(NO_SECOND_LOOK)
def test_a_job_that_has_run_again_since_it_was_found_is_left(stage: Stage) -> None:
    job = fail(stage, "a")
    bulk, person, worker = stage.session(), stage.session(), stage.worker()
    ((begun,),) = bulk.run("SELECT clock()")
    promise(person.retry_job(job), "somebody was faster")
    worker.finish(worker.claim_one(), want=0, status="failed")
    promise(change(bulk, "retry", [job], "{failed}", begun) == {job: "changed"}, "once is enough")
    promise(stage.lanes() == {"a": "halted"}, "and its lane stays halted")


@story(
    Mutation(
        "running jobs are not looked for",
        "judge_change.sql",
        "WHEN v_status = 'doing' THEN 'running'",
        "",
    )
)
def test_a_job_that_has_started_since_it_was_found_is_not_cancelled(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    jobs = producer.defer("a", 0, 0)
    job = worker.claim_one()
    promise(
        change(producer, "cancel", jobs, "{todo,blocked}") == {jobs[0]: "running", jobs[1]: "done"},
        "one runs",
    )
    promise(worker.finish(job).accepted == [jobs[0]], "and ends well")
    promise(change(producer, "cancel", jobs, "{todo}") == dict.fromkeys(jobs, "ended"), "both")
    promise(stage.drain() == [], "nothing is left")


@story(
    Mutation(
        "lanes that it did not get do not matter",
        "change_jobs.sql",
        "AND coalesce(lanes_of(jobs.lock, jobs.locks), '{}') <@ v_held",
        "",
    )
)
def test_a_lane_in_an_open_transaction_is_left_and_the_others_go_on(stage: Stage) -> None:
    producer, user, bulk = stage.session(), stage.session(), stage.session()
    (taken,), (other,) = producer.defer("a"), producer.defer("b")
    user.begin()
    promise(user.pause("a"), "somebody changes the lane, and does not commit")
    promise(
        change(bulk, "cancel", [taken, other], "{todo}") == {taken: "busy", other: "done"},
        "nobody waits",
    )
    user.rollback()
    promise(change(bulk, "cancel", [taken], "{todo}") == {taken: "done"}, "later")
    promise(stage.drain() == [], "no lane is left")


@story(
    Mutation(
        "only the rows of lanes are locked",
        "try_lock_lanes.sql",
        "WHERE pg_try_advisory_xact_lock(lock_key('lane', lock))",
        "",
    )
)
def test_a_person_who_is_about_to_lock_a_lane_does_not_stop_the_step(stage: Stage) -> None:
    failed = fail(stage, "a")
    person, bulk = stage.session(), stage.session()
    person.begin()
    person.run("SELECT pg_advisory_xact_lock(lock_key('lane', 'a'))")  # lock_lane's first step
    promise(change(bulk, "retry", [failed], "{failed}") == {failed: "busy"}, "nobody waits")
    promise(person.retry_head("a") == failed, "the person goes on")
    person.commit()
    promise(change(bulk, "retry", [failed], "{failed}") == {failed: "waiting"}, "and it is done")
    promise(stage.drain() == [failed], "once")


@story(
    Mutation("lanes are not left in order", "change_jobs.sql",
             "PERFORM reopen_lane(lane) FROM unnest(v_held) AS lane;", "NULL;")
)  # fmt: skip
def test_a_worker_ends_its_job_while_a_step_has_its_lane(stage: Stage) -> None:
    producer, worker, bulk = stage.session(), stage.worker(), stage.session()
    jobs = producer.defer("a", 0, 0, 0)
    (alone, rest) = producer.defer("b", 0, 0)
    first = worker.claim(1)
    bulk.begin()
    promise(
        change(bulk, "cancel", [jobs[1], alone], "{todo,blocked}")
        == {jobs[1]: "done", alone: "done"},
        "two wait",
    )
    promise(worker.finish(*first).busy == ids(first), "the end waits in the worker")
    bulk.commit()
    done = worker.finish(*first, want=1)
    promise(done.accepted == [jobs[0]], "and is stored then")
    worker.finish(*done.following, want=0)
    promise(set(ids(done.following) + stage.drain()) == {jobs[2], rest}, "the others go on")


@story(
    Mutation(
        "a job that halted its lane always goes first",
        "retry_in_bulk.sql",
        "WHERE lock = v_lock AND job_id = p_id AND worker_id IS NULL",
        "WHERE false",
    )
)
def test_a_step_keeps_the_order_of_a_halted_lane(stage: Stage) -> None:
    older, halting = fail(stage, "a", halts=False), fail(stage, "a")
    session = stage.session()
    (later,) = session.defer("a")
    change(session, "retry", [halting, older], "{failed}")
    promise(stage.drain() == [older, halting, later], "in the order in which they were deferred")


@story(
    Mutation(
        "the state of a lane is not looked at again",
        "change_lane.sql",
        "RETURN 'changed';",
        "NULL;",
    )
)
def test_a_lane_that_is_halted_no_more_is_left(stage: Stage) -> None:
    failed = fail(stage, "a")
    first, second = stage.session(), stage.session()
    first.begin()
    promise(change_lanes(first, "resume", "a") == {"a": "done"}, "it goes on")
    promise(change_lanes(second, "retry-head", "a") == {"a": "busy"}, "nobody waits")
    first.commit()
    promise(change_lanes(second, "retry-head", "a") == {"a": "changed"}, "it is not halted")
    promise(stage.drain() == [] and stage.lanes() == {}, f"{failed} stays failed")


@story(
    Mutation(
        "no action is an action on jobs",
        "change_jobs.sql",
        "coalesce(p_action, '') <> ALL",
        "p_action <> ALL",
    ),
    Mutation(
        "no action is an action on lanes",
        "change_lanes.sql",
        "coalesce(p_action, '') <> ALL",
        "p_action <> ALL",
    ),
)
def test_a_step_without_an_action_changes_nothing(stage: Stage) -> None:
    session = stage.session()
    (job,) = session.defer("a")
    for statement, target in (
        ("SELECT outcome FROM change_jobs(NULL, %s, ROW('{todo}', NULL, NULL, NULL, NULL, NULL, "
         "NULL, NULL, NULL, NULL, NULL, NULL)::job_filter)", [job]),
        ("SELECT outcome FROM change_lanes(NULL, %s, NULL)", ["a"]),
    ):  # fmt: skip
        try:
            session.run(statement, target)
        except InvalidParameterValue:
            continue
        promise(False, "it is refused")
