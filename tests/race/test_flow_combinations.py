"""Jobs that come after others, that expire or that have a limit, with all that jobs and lanes do."""

from tests.race.harness import Mutation, Session, Stage, Worker, ids, promise, story

LATER = "2 hours"


def status(session: Session, job: int) -> str | None:
    rows = session.run(
        "SELECT status::text FROM all_jobs WHERE id = %s ORDER BY finished_at DESC NULLS FIRST", job
    )
    return str(rows[0][0]) if rows else None


def wait_for_running(stage: Stage, **parent: str) -> tuple[Session, Worker, int, int]:
    """A parent that runs, and a child that waits for it in a lane of its own."""
    producer, worker = stage.session(), stage.worker()
    [first] = producer.defer("parent", **parent)
    child = producer.defer_after(first, lock="child")
    return producer, worker, first, child


@story()
def test_a_pending_job_expires_and_leaves_nothing(stage: Stage) -> None:
    producer, worker, _, child = wait_for_running(stage)
    producer.run("UPDATE jobs SET expires_at = now() + interval '1 hour' WHERE id = %s", child)
    running = worker.claim_one()
    worker.claim()
    promise(status(worker, child) == "pending", "it waits")
    worker.hasten(LATER)
    worker.claim()
    promise(status(worker, child) == "cancelled", "for an hour")
    worker.finish(running)
    worker.claim()
    promise(worker.run("SELECT child FROM edges UNION ALL SELECT seq FROM ends") == [], "no trace")


@story()
def test_a_parent_that_expires_has_not_succeeded(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [parent] = producer.defer("a", expires_in="1 hour")
    child = producer.defer_after(parent)
    producer.pause("a")
    worker.claim()
    worker.hasten(LATER)
    promise(worker.claim() == [], "nothing starts")
    promise([status(worker, job) for job in (parent, child)] == ["cancelled"] * 2, "at all")


@story()
def test_a_parent_that_was_aborted_has_not_succeeded(stage: Stage) -> None:
    producer, worker, parent, child = wait_for_running(stage)
    running = worker.claim_one()
    worker.claim()
    producer.run("SELECT cancel_job(%s, true)", parent)
    worker.finish(running, status="aborted")
    promise(worker.claim() == [] and status(worker, child) == "cancelled", "it was aborted")


@story()
def test_a_parent_that_halts_its_lane_frees_its_child_when_the_head_was_retried(
    stage: Stage,
) -> None:
    producer, worker = stage.session(), stage.worker()
    [parent] = producer.defer("a", on_failure="halt")
    child = producer.defer_after(parent, on_parent="hold")
    worker.finish(worker.claim_one(), status="failed")
    promise(worker.claim() == [] and status(worker, child) == "pending", "it is held")
    promise(producer.retry_head("a") == parent, "somebody has repaired it")
    worker.finish(worker.claim_one())
    promise(ids(worker.claim()) == [child], "and the child goes on")


@story()
def test_a_parent_that_leaves_its_lane_between_attempts_has_not_ended(stage: Stage) -> None:
    _, worker, parent, child = wait_for_running(stage, on_retry="release")
    worker.retry(worker.claim_one(), delay="1 hour")
    promise(worker.claim() == [], "it waits for its retry")
    worker.hasten(LATER)
    promise(ids(running := worker.claim()) == [parent], "the child waits for the next attempt")
    worker.finish(*running)
    promise(ids(worker.claim()) == [child], "which ends it")


@story()
def test_a_pending_job_is_not_in_its_lane(stage: Stage) -> None:
    producer, worker, _, child = wait_for_running(stage)
    running = worker.claim_one()
    [other] = producer.defer("child")
    promise(producer.cancel_waiting("child") == 1, "the one in the lane")
    promise(status(worker, other) == "cancelled" and producer.skip_head("child") is None, "only")
    [next_job] = producer.defer("child")
    promise(ids(held := worker.claim()) == [next_job], "the lane does not wait for it")
    worker.finish(running)
    promise(worker.claim() == [] and status(worker, child) == "blocked", "now it is in the lane")
    producer.pause("child")
    promise(worker.finish(*held).following == [], "which is paused")
    producer.resume_lane("child")
    promise(ids(worker.claim()) == [child], "and resumed")


@story()
def test_a_pending_job_can_move_to_another_lane_and_keeps_its_parents(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [parent] = producer.defer("a")
    child = producer.defer_after(parent, lock="b", at="1 hour")
    running = worker.claim_one()
    producer.run("SELECT retry_job_changed(%s, p_lock => 'c')", child)
    promise(worker.claim() == [], "its parent runs")
    worker.finish(running)
    promise(ids(worker.claim()) == [child], "it is due now")
    promise(worker.run("SELECT lock::text FROM jobs") == [("c",)], "in its new lane")


@story()
def test_a_put_back_parent_has_not_ended(stage: Stage) -> None:
    _, worker, parent, child = wait_for_running(stage)
    worker.put_back(worker.claim_one())
    promise(ids(running := worker.claim()) == [parent], "it starts again")
    worker.finish(*running)
    promise(ids(worker.claim()) == [child], "and ends")


@story()
def test_an_expired_parent_that_is_retried_is_waited_for(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [parent] = producer.defer(None, expires_in="1 hour")
    child = producer.defer_after(parent, on_parent="hold")
    worker.hasten(LATER)
    promise(worker.claim() == [], "it has expired")
    promise(status(worker, child) == "pending", "and holds up its child")
    producer.hasten(LATER)
    producer.retry_job(parent)
    worker.finish(worker.claim_one())
    promise(ids(worker.claim()) == [child], "until it was retried")


def wait_for_slot(stage: Stage) -> tuple[Session, Worker, int, int]:
    """The best job of a limit was woken for a slot and has expired, and the next one sleeps."""
    producer, worker = stage.session(), stage.worker()
    producer.set_limit("stripe", 1)
    producer.defer(None, 1, limit="stripe")
    running = worker.claim_one()
    [best] = producer.defer(None, limit="stripe", expires_in="1 hour")
    [behind] = producer.defer(None, limit="stripe")
    worker.claim()
    promise([status(worker, job) for job in (best, behind)] == ["limited"] * 2, "both wait")
    worker.finish(running, want=0)
    promise(status(worker, best) == "todo", "the first one is woken")
    producer.run("UPDATE gates SET look_at = NULL")  # the passing of time alone opens no gate
    worker.hasten(LATER)
    return producer, worker, best, behind


@story(
    Mutation(
        "a job that expires passes nothing on",
        "archive_jobs.sql",
        "THEN leave_looks(ARRAY[limit_gate(gone.limit_key)])",
        "THEN true",
    )
)
def test_a_job_that_was_woken_for_a_slot_and_expires_wakes_the_next_one(stage: Stage) -> None:
    _, worker, best, behind = wait_for_slot(stage)
    promise(ids(worker.claim()) == [behind], "the slot is free")
    promise(status(worker, best) == "cancelled", "and the first one is over")


@story(
    Mutation(
        "what was left is deleted though the key is locked",
        "check_gates.sql",
        "IF try_lock_gates(ARRAY[v_gate]) <> '{}' THEN",
        "IF true THEN",
    )
)
def test_a_job_that_expires_while_its_key_is_locked_passes_its_slot_on_later(stage: Stage) -> None:
    producer, worker, best, behind = wait_for_slot(stage)
    producer.begin()
    producer.run("SELECT FROM gates FOR UPDATE")
    promise(worker.claim() == [], "somebody has the key")
    promise(status(worker, best) == "cancelled", "which is in nobody's way")
    producer.rollback()
    promise(ids(worker.claim()) == [behind], "and leaves it")


@story(
    Mutation(
        "a job that has expired takes a slot",
        "take_slots.sql",
        "OR expires_at > clock())",
        "OR true)",
    )
)
def test_an_expired_job_that_a_claim_cannot_end_takes_no_slot(stage: Stage) -> None:
    producer, worker, best, behind = wait_for_slot(stage)
    producer.begin()
    producer.run("SELECT FROM jobs WHERE id = %s FOR UPDATE", best)
    worker.start_until("ready_queues", worker.claim)
    producer.rollback()
    started = ids(worker.resume()) + ids(worker.claim())
    promise(started == [behind], f"it has the only slot: {started}")
