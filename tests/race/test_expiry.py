"""Jobs that must have started by a given time, in races with claims, finishes and people."""

from tests.race.harness import Mutation, Session, Stage, Worker, ids, promise, story

HOUR = "1 hour"
LATER = "2 hours"


def status(session: Session, job: int) -> str | None:
    rows = session.run("SELECT status::text FROM all_jobs WHERE id = %s", job)
    return str(rows[0][0]) if rows else None


def later(worker: Worker) -> Worker:
    worker.hasten(LATER)
    return worker


def start_late(session: Session) -> list[int]:
    """Return the jobs whose first attempt began after they had expired."""
    rows = session.run("SELECT id FROM all_jobs WHERE started_at >= expires_at AND attempts = 1")
    return [id for (id,) in rows]


@story(
    Mutation("no claim looks for them", "settle_due.sql", "PERFORM expire_jobs(500, 50);", "NULL;"),
    Mutation(
        "the lane is left without a token",
        "expire_jobs.sql",
        "PERFORM reopen_lane(lock) FROM unnest(v_held) AS lock;",
        "DELETE FROM lanes WHERE lock IN (SELECT unnest(v_held)) AND worker_id IS NULL;",
    ),
)
def test_a_lane_goes_on_without_a_job_that_has_expired(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [free], [first, second] = producer.defer(None, expires_in=HOUR), producer.defer("a", 0, 0)
    producer.run("UPDATE jobs SET expires_at = now() + interval '1 hour' WHERE id = %s", first)
    promise(ids(later(worker).claim()) == [second], "the first is over")
    promise([status(worker, job) for job in (free, first)] == ["cancelled"] * 2, "and says so")
    errors = worker.run("SELECT errors -> 0 ->> 'error' FROM finished_jobs WHERE id = %s", first)
    promise("expired: it had not started by" in errors[0][0], f"it says why: {errors}")


@story(
    Mutation(
        "an expired job starts",
        "start_jobs.sql",
        "OR jobs.expires_at::timestamptz > p_now",
        "OR jobs.expires_at <= p_now OR true",
    ),
    Mutation(
        "a lane is held for it",
        "win_heads.sql",
        "AND (next.start_before IS NULL OR next.start_before > r.now)",
        "",
    ),
)
def test_an_expired_job_that_a_claim_cannot_end_does_not_start_either(stage: Stage) -> None:
    """A person has its lane when the claim looks for expired jobs, and leaves it a moment later."""
    producer, person, worker = stage.session(), stage.session(), stage.worker()
    [free], [job] = producer.defer(None, expires_in=HOUR), producer.defer("a", expires_in=HOUR)
    [behind] = producer.defer("a")
    person.begin()
    person.pause("a")
    person.run("SELECT FROM jobs WHERE id = %s FOR UPDATE", free)
    later(worker).start_until("ready_queues", worker.claim)
    person.rollback()
    started = ids(worker.resume())
    promise(start_late(worker) == [], f"it is too late: {started}")
    started += ids(worker.claim())
    promise(behind in started, "the lane goes on")
    promise([status(worker, each) for each in (free, job)] == ["cancelled"] * 2, "and they ended")


@story(
    Mutation(
        "a claim goes on from the last one as if nothing expired",
        "start_jobs.sql",
        "OR jobs.expires_at::timestamptz > p_now",
        "OR jobs.expires_at <= p_now OR true",
    ),
)
def test_claiming_further_starts_no_expired_job(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    producer.defer(None, expires_in=HOUR)
    promise(later(worker).claim_further(0) == [], "it has expired")


@story(
    Mutation(
        "an expired job is handed over",
        "handover_candidates.sql",
        "(head.start_before IS NULL OR head.start_before > clock())",
        "true",
    ),
)
def test_a_finish_hands_no_expired_job_over(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    producer.defer("a")
    running = worker.claim_one()
    [late], [behind] = producer.defer("a", expires_in=HOUR), producer.defer("a")
    later(worker)
    promise(worker.finish(running).following == [], "its time is over")
    promise(ids(worker.claim()) == [behind], "the lane goes on")
    promise(status(worker, late) == "cancelled", "without it")


@story(
    Mutation(
        "it does not matter who has the lane",
        "expire_jobs.sql",
        "lock IN (SELECT unnest(v_held))",
        "true",
    ),
)
def test_a_job_does_not_expire_while_a_finish_hands_it_over(stage: Stage) -> None:
    producer, worker, other = stage.session(), stage.worker(), stage.worker()
    producer.defer("a")
    running = worker.claim_one()
    [job] = producer.defer("a", expires_in=HOUR)
    worker.start_until("start_jobs", worker.finish, running)
    later(other).claim()
    promise(ids(worker.resume().following) == [job], "the finish has chosen it")
    promise(status(other, job) == "doing", "and it runs")


@story(
    Mutation(
        "it waits for the row", "expire_jobs.sql", "FOR UPDATE SKIP LOCKED ) AS late;", ") AS late;"
    ),
)
def test_a_claim_does_not_wait_for_an_expired_job_that_somebody_has_locked(stage: Stage) -> None:
    stage.adjust("expire_jobs.sql", "WHERE NOT touched OR try_lock_job(id)", "")
    producer, worker = stage.session(), stage.worker()
    [locked], [other] = producer.defer(None, expires_in=HOUR), producer.defer(None, expires_in=HOUR)
    producer.begin()
    producer.run("SELECT FROM jobs WHERE id = %s FOR UPDATE", locked)
    promise(later(worker).claim() == [], "nothing starts")
    promise([status(worker, job) for job in (locked, other)] == ["todo", "cancelled"], "for now")
    promise(worker.reasons(locked) == ["expired", "busy"], f"{worker.reasons(locked)}")
    producer.rollback()
    promise(worker.claim() == [] and status(worker, locked) == "cancelled", "it ends later")


@story(
    Mutation(
        "it waits for the lane",
        "try_lock_lanes.sql",
        "FOR UPDATE SKIP LOCKED ), created",
        "), created",
    ),
)
def test_a_claim_does_not_wait_for_the_lane_of_an_expired_job(stage: Stage) -> None:
    producer, person, worker = stage.session(), stage.session(), stage.worker()
    [job] = producer.defer("a", expires_in=HOUR)
    person.pause("a")
    person.begin()
    person.run("SELECT FROM lanes FOR UPDATE")  # as at the end of a job, without its name
    promise(later(worker).claim() == [], "the lane is not ours")
    promise(status(person, job) == "blocked", "so nothing happens to its job")
    person.commit()
    promise(worker.claim() == [] and status(person, job) == "cancelled", "it ends later")


@story(
    Mutation(
        "an expired job stands for a new one",
        "defer_unless_waiting.sql",
        "coalesce(expires_at <= clock(), false)",
        "false",
    ),
    Mutation(
        "a job that was tried loses its queueing lock",
        "defer_unless_waiting.sql",
        "AND expires_at <= clock() AND NOT was_attempted;",
        "AND expires_at <= clock();",
    ),
)
def test_an_expired_job_does_not_stand_for_a_new_one(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    defer = (
        "SELECT defer('t', lock => %s, queueing_lock => 'k', on_conflict => %s, expires_at => %s)"
    )
    past = "2020-01-01 00:00:00+00"
    late = [producer.run(defer, "a", policy, past)[0][0] for policy in ("raise", "skip", "replace")]
    promise(len({*late}) == 3, "each is a job of its own")
    [(job,)] = producer.run(defer, "b", "raise", None)
    [started] = worker.claim()
    promise(started.id == job and [*stage.lanes()] == ["b"], "which runs in its own lane")
    promise({status(producer, id) for id in late} == {"cancelled"}, "and the others have expired")
    worker.retry(started)
    producer.run("UPDATE jobs SET expires_at = %s", past)
    promise(producer.run(defer, "a", "skip", None) == [(job,)], "one that was tried still waits")


@story(
    Mutation(
        "what it has seen is still so",
        "defer_unless_waiting.sql",
        "AND expires_at <= clock() AND NOT was_attempted;",
        "AND NOT was_attempted;",
    ),
)
def test_a_job_that_is_replaced_before_it_has_expired_keeps_its_queueing_lock(
    stage: Stage,
) -> None:
    """The other caller sees it expired, and waits for the one that gives it new work."""
    producer, late = stage.session(), stage.session()
    defer = "SELECT defer('t', queueing_lock => 'k', on_conflict => %s)"
    [job] = producer.defer(None, expires_in=HOUR)
    producer.run("UPDATE jobs SET queueing_lock = 'k'")
    late.hasten("2 hours")
    producer.begin()
    producer.run(defer, "replace")
    late.start(late.run, defer, "skip")
    producer.commit()
    promise(late.result() == [(job,)], "it waits under the lock again")
    promise([*stage.statuses()] == [job], "and no other job does")


@story(
    Mutation(
        "only a job that waits loses its queueing lock",
        "defer_unless_waiting.sql",
        "WHERE jobs.id = v_id AND status <> 'doing'\n                    AND",
        "WHERE jobs.id = v_id AND",
    ),
)
def test_a_job_that_starts_just_before_it_expires_keeps_its_queueing_lock(stage: Stage) -> None:
    """The other caller sees it waiting and expired, and the claim has looked a moment before."""
    producer, worker, late = stage.session(), stage.worker(), stage.session()
    [job] = producer.defer(None, expires_in=HOUR)
    producer.run("UPDATE jobs SET queueing_lock = 'k'")
    late.hasten("2 hours")
    worker.begin()
    promise(ids(worker.claim()) == [job], "it starts in time")
    late.start(late.run, "SELECT defer('t', queueing_lock => 'k', on_conflict => 'skip')")
    worker.commit()
    promise(late.result() != [(job,)], "a job that runs stands for no other")
    lost = producer.run("SELECT lost_queueing_lock FROM jobs WHERE id = %s", job)
    promise(lost == [(False,)], "and waits under its lock again if it comes back")


@story(
    Mutation(
        "it expires at any attempt",
        "start_jobs.sql",
        "OR jobs.was_attempted",
        "",
    ),
    Mutation(
        "a claim ends it",
        "expire_jobs.sql",
        "AND NOT was_attempted AND (lock IS NULL",
        "AND (lock IS NULL",
    ),
)
def test_a_job_that_was_tried_once_does_not_expire(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [job] = producer.defer("a", expires_in=HOUR)
    # As it is for a call that saw the job before it was tried.
    stage.adjust("begin_claim.sql", "AND NOT was_attempted LIMIT 1", "LIMIT 1")
    stage.adjust("expire_jobs.sql", "AND NOT was_attempted ORDER BY", "ORDER BY")
    worker.retry(worker.claim_one())
    promise(ids(later(worker).claim()) == [job], "its second attempt may be late")


@story(
    Mutation(
        "a restored job keeps its expiry",
        "restore_job.sql",
        "CASE WHEN expires_at > clock() THEN expires_at END",
        "expires_at",
    ),
)
def test_a_person_can_run_an_expired_job_all_the_same(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [job] = producer.defer("a", expires_in=HOUR)
    promise(later(worker).claim() == [], "it has expired")
    worker.retry_job(job)
    promise(ids(worker.claim()) == [job], "somebody wants it to run")


@story(
    Mutation(
        "an idle worker sleeps on",
        "next_wake.sql",
        "(SELECT expires_at FROM jobs",
        "(SELECT NULL::timestamptz FROM jobs",
    ),
)
def test_an_idle_worker_wakes_up_to_end_a_job_that_expires(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    producer.defer(None, delay="3 hours", expires_in=HOUR)
    [(soon,)] = worker.run("SELECT delay <= interval '1 hour' FROM next_wake(NULL)")
    promise(bool(soon), "it does not sleep until the job is due")


@story(
    Mutation(
        "a claim ends as many as there are",
        "settle_due.sql",
        "PERFORM expire_jobs(500, 50);",
        "PERFORM expire_jobs(10000, 500);",
    ),
)
def test_a_claim_ends_a_few_of_many_jobs_that_expire(stage: Stage) -> None:
    """Or each claim of any queue would stand still for them."""
    producer, worker = stage.session(), stage.worker("default")
    producer.run("SELECT defer('t', queue => 'other', expires_at => now() + interval '1 hour') "
                 "FROM generate_series(1, 600)")  # fmt: skip
    [job] = producer.defer(None)
    promise(ids(later(worker).claim()) == [job], "another queue goes on")
    promise(len(stage.statuses()) == 101, f"500 have ended: {len(stage.statuses())} are left")
    worker.claim()
    promise(len(stage.statuses()) == 1, f"all have ended: {len(stage.statuses())} are left")


@story(
    Mutation(
        "a lane waits for a head that is over",
        "first_in_lane.sql",
        "head.lock IS NOT NULL AND head.keeps_lanes IS NULL "
        "AND (head.expires_at IS NULL OR head.was_attempted OR head.expires_at > clock())",
        "head.lock IS NOT NULL AND head.keeps_lanes IS NULL",
    ),
)
def test_explain_looks_past_an_expired_head_as_a_claim_does(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [first], [second] = producer.defer("a", expires_in=HOUR), producer.defer("a")
    later(worker)
    promise(worker.reasons(first) == ["expired"], "the next claim cancels it")
    promise("lane head waits" not in worker.reasons(second), f"{worker.reasons(second)}")
    promise(ids(worker.claim()) == [second], "and starts the one behind")


@story(
    Mutation(
        "locked jobs keep others from it", "expire_jobs.sql",
        "WHERE NOT touched OR try_lock_job(id)", "",
    )
)  # fmt: skip
def test_jobs_that_a_transaction_has_locked_do_not_keep_others_from_expiring(stage: Stage) -> None:
    producer, person, worker = stage.session(), stage.session(), stage.worker()
    producer.defer(None, *[0] * 500, expires_in=HOUR, queue="other")
    [expired] = producer.defer(None, expires_in="90 minutes")
    [behind] = producer.defer(None)
    person.begin()
    person.run("SELECT FROM jobs WHERE queue = 'other' FOR UPDATE")
    promise(ids(later(worker).claim(1) or worker.claim(1)) == [behind], "the healthy one starts")
    promise(status(worker, expired) == "cancelled", "and the one in front of it is over")
