"""A paused queue starts nothing: stories told as in test_interleavings.

To a claim, a paused queue is one that its worker does not serve (leave_out_paused.sql).
"""

from typing import Any

from tests.race.harness import Mutation, Session, Stage, ids, promise, story

CLAIM_KNOWS_NO_PAUSE = Mutation(
    "a claim does not look for pauses", "begin_claim.sql", "IF v_due.pauses THEN", "IF false THEN"
)

NO_WAKE = Mutation(
    "a worker does not wake for the end of a pause",
    "next_wake.sql",
    "FROM pauses WHERE until IS NOT NULL",
    "FROM pauses WHERE false",
)
KEPT_FOR_EVER = Mutation(
    "a pause that is over is kept",
    "end_pauses.sql",
    "FROM pauses WHERE until <= clock() FOR",
    "FROM pauses WHERE false FOR",
)


def pause(session: Session, queue: str | None, until: Any = None) -> None:
    session.run("SELECT pause_queue(%s, NULL, clock() + %s::interval)", queue, until)


def resume(session: Session, queue: str | None) -> bool:
    ((done,),) = session.run("SELECT resume_queue(%s)", queue)
    return bool(done)


@story(CLAIM_KNOWS_NO_PAUSE)
def test_a_claim_starts_no_job_of_a_paused_queue(stage: Stage) -> None:
    session, every, named = stage.session(), stage.worker(), stage.worker("mail", "other")
    (mail,) = session.defer(None, queue="mail")
    (other,) = session.defer(None, queue="other")
    pause(session, "mail")
    promise(ids(named.claim()) == [other], "a worker of both queues leaves the paused one")
    promise(every.claim() == [], "a worker of all queues too")
    promise(session.reasons(mail) == ["queue paused"], "and it is said why")
    promise(resume(session, "mail") and not resume(session, "mail"), "once")
    promise(ids(every.claim()) == [mail], "it goes on")


@story(CLAIM_KNOWS_NO_PAUSE)
def test_nothing_starts_while_all_queues_are_paused(stage: Stage) -> None:
    session, worker = stage.session(), stage.worker()
    jobs = [*session.defer(None), *session.defer("a", queue="mail")]
    pause(session, None)
    pause(session, "mail")
    promise(worker.claim() == [], "nothing")
    promise(resume(session, None), "one of the two pauses")
    promise(ids(worker.claim()) == jobs[:1], "the pause of the one queue stays")
    promise(resume(session, "mail") and ids(worker.claim()) == jobs[1:], "then it goes, too")


@story(
    Mutation(
        "a finish does not look for pauses",
        "finish.sql",
        "IF EXISTS (SELECT FROM paused_queues) THEN",
        "IF false THEN",
    )
)
def test_a_lane_waits_for_its_head_in_a_paused_queue(stage: Stage) -> None:
    session, worker = stage.session(), stage.worker()
    (first,), (second,), (third,) = (
        session.defer("a"), session.defer("a", queue="mail"), session.defer("a")
    )  # fmt: skip
    running = worker.claim(1)
    pause(session, "mail")
    done = worker.finish(*running, want=1)
    promise(done.accepted == [first] and done.following == [], "what runs may end")
    promise(worker.claim() == [], "the order is the promise")
    promise("queue paused" in session.reasons(second), "the head says why")
    resume(session, "mail")
    promise(stage.drain() == [second, third], "in order")


@story(
    Mutation(
        "jobs are claimed ahead although a queue is paused",
        "begin_further.sql",
        "CASE WHEN NOT EXISTS (SELECT FROM paused_queues)",
        "CASE WHEN true",
    )
)
def test_a_further_claim_starts_nothing_during_a_pause(stage: Stage) -> None:
    session, worker = stage.session(), stage.worker()
    jobs = session.defer(None, 0, 0)
    promise(ids(worker.claim(1)) == jobs[:1], "the first")
    pause(session, "default")
    promise(worker.claim_further(jobs[0]) == [], "and no other")


@story(CLAIM_KNOWS_NO_PAUSE)
def test_a_pause_is_changed_without_a_moment_of_running(stage: Stage) -> None:
    session, other, worker = stage.session(), stage.session(), stage.worker()
    (job,) = session.defer(None)
    pause(session, "default", "1 hour")
    other.begin()
    pause(other, "default", "2 hours")
    promise(worker.claim() == [], "before it is committed")
    other.commit()
    promise(worker.claim() == [], "and after")
    ((count,),) = session.run("SELECT count(*) FROM paused_queues")
    promise(count == 1 and resume(session, "default"), "there is one pause")
    promise(ids(worker.claim()) == [job], "it ends at once")


@story(
    NO_WAKE,
    Mutation(
        "a worker that waits for a pause looks again and again",
        "next_wake.sql",
        "unnest(leave_out_paused(coalesce(p_queues, ready_queues())))",
        "unnest(coalesce(p_queues, ready_queues()))",
    ),
    KEPT_FOR_EVER,
)
def test_a_pause_that_ends_by_itself_tells_its_workers_when(stage: Stage) -> None:
    session, worker = stage.session(), stage.worker()
    session.defer(None)
    with stage.notifications() as told:
        pause(session, "default", "1 hour")
    promise(told != [], "sleeping workers learn of it")
    promise(worker.claim() == [], "nothing starts")
    delay = worker.next_wake()
    promise(delay is not None and 3000 < delay.total_seconds() <= 3600, f"it sleeps for {delay}")  # type: ignore[attr-defined]
    worker.hasten("2 hours")
    promise(len(worker.claim()) == 1, "it is over")
    ((left,),) = session.run("SELECT count(*) FROM pauses")
    promise(left == 0, "and costs nothing any more")


@story(
    Mutation(
        "during a pause, a queue counts only if it has a token",
        "finish.sql",
        "ready_queues() || ARRAY(SELECT queue FROM lane_heads(v_done.lanes, p_floors))",
        "ready_queues()",
    )
)
def test_a_lane_is_handed_over_while_another_queue_is_paused(stage: Stage) -> None:
    session, worker = stage.session(), stage.worker()
    first, second = session.defer("a", 0, 0)
    pause(session, "mail")
    job = worker.claim_one()
    promise(job.id == first and worker.claim() == [], "the next one waits behind it")
    promise(ids(worker.finish(job).following) == [second], "and follows at once")


@story(
    Mutation(
        "explain knows the job's own pause only",
        "explain_lane.sql",
        "SELECT * FROM explain_pause(v_first.queue, v_first.task)",
        "SELECT * FROM explain_pause(p_job.queue, p_job.task)",
    )
)
def test_a_job_behind_one_of_a_paused_queue_says_so(stage: Stage) -> None:
    session, _ = stage.session(), stage.worker()
    session.defer("a", queue="mail")
    (behind,) = session.defer("a")
    pause(session, "mail")
    promise(session.reasons(behind) == ["lane head waits", "queue paused"], "it says why")
    pause(session, None)
    promise(
        sorted(session.reasons(behind)) == ["lane head waits", "queue paused", "queue paused"],
        "each pause is named once",
    )
