"""A person retries a job in another lane while others work, told as in test_operators."""

from tests.race.harness import Mutation, Session, Stage, promise, story

FILE = "retry_job_changed.sql"


def move(session: Session, job: int, lock: str) -> bool:
    [(done,)] = session.run("SELECT retry_job_changed(%s, p_lock => %s)", job, lock)
    return bool(done)


@story(
    Mutation(
        "the job takes another lock where it is",
        FILE,
        "PERFORM cancel_job(id) FROM jobs WHERE",
        "UPDATE jobs SET lock = p_lock WHERE",
    ),
    Mutation(
        "the history keeps the old lock",
        FILE,
        "SET lock = p_lock FROM old",
        "SET task = task FROM old",
    ),
)
def test_a_lane_does_not_wait_for_a_job_that_was_moved_to_another(stage: Stage) -> None:
    operator, worker = stage.session(), stage.worker()
    moved, behind = operator.defer("a", 0, 0)
    worker.retry(worker.claim_one(), delay="1 hour")
    promise(stage.lanes() == {"a": "retrying"}, "the lane waits for it")
    promise(move(operator, moved, "b"), "it is scheduled")
    promise(stage.lanes() == {}, "nobody waits for it any more")
    promise(sorted(job.id for job in worker.claim()) == [moved, behind], "two lanes go on")
    promise(stage.lanes() == {"a": "held", "b": "held"}, "one beside the other")


@story(
    Mutation(
        "a job is archived whatever its claim",
        "archive_jobs.sql",
        "AND jobs.claim_id IS NOT DISTINCT FROM ended.claim_id",
        "",
    )
)
def test_a_job_that_a_claim_is_starting_is_not_moved(stage: Stage) -> None:
    operator, worker = stage.session(), stage.worker()
    [job] = operator.defer("a")
    worker.retry(worker.claim_one(), delay="1 hour")
    worker.hasten("2 hours")
    worker.start_until("start_jobs", worker.claim)
    operator.start(move, operator, job, "b")
    promise([started.id for started in worker.resume()] == [job], "it was due")
    promise(operator.result() is False, "it is being done")
    promise(stage.lanes() == {"a": "held"} and stage.doing() == [job], "in its lane")


@story(
    Mutation(
        "retry does not check that the lane is still halted",
        FILE,
        ".failed_job_id = p_id THEN",
        ".lock IS NOT NULL THEN",
    )
)
def test_a_lane_that_was_paused_meanwhile_stays_paused_when_the_job_that_had_halted_it_is_moved(
    stage: Stage,
) -> None:
    one, two, worker = stage.session(), stage.session(), stage.worker()
    failed, behind = one.defer("a", 0, 0, on_failure="halt")
    worker.finish(worker.claim_one(), status="failed")
    two.begin()
    promise(two.resume_lane("a") and two.pause("a"), "it is stopped for another reason now")
    one.start(move, one, failed, "b")
    two.commit()
    promise(one.result() is True, "the job moves all the same")
    promise(stage.lanes() == {"a": "paused"}, "and the pause holds")
    promise([job.id for job in worker.claim()] == [failed], "only the moved one starts")
    promise(
        two.resume_lane("a") and [job.id for job in worker.claim()] == [behind],
        "until the lane is resumed",
    )


@story(Mutation("the halted lane is left as it is", FILE, "PERFORM clear_stop(v_halted);", ""))
def test_a_halted_lane_goes_on_when_the_job_that_halted_it_is_moved(stage: Stage) -> None:
    operator, worker = stage.session(), stage.worker()
    failed, behind = operator.defer("a", 0, 0, on_failure="halt")
    worker.finish(worker.claim_one(), status="failed")
    promise(move(operator, failed, "b") and stage.lanes() == {}, "nothing keeps others out of it")
    promise(sorted(job.id for job in worker.claim()) == [failed, behind], "both lanes go on")
