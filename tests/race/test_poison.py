"""Jobs that kill their workers again and again fail in the end.

The jobs that were only at hand beside them do not fail.
"""

from typing import Any

from inturn.worker.claiming.claiming import MOST_AHEAD
from tests.race.harness import Job, Mutation, Stage, Worker, promise, story
from tests.race.test_interleavings import SAYS_WHAT_IT_WANTED

LATE = "1 minute"
WITHOUT_A_LIMIT = Mutation(
    "without a limit", "rescue.sql", "coalesce(times > p_max_lost, false)", "false"
)
GOES_ON = Mutation(
    "a job that was asked to abort waits for its next attempt",
    "rescue.sql",
    "WHEN orphan.id IN (SELECT unnest(v_mine.aborted)) THEN",
    "WHEN false THEN",
)


def die(stage: Stage, worker: Worker) -> list[int]:
    """Let a worker die of its job and return under a new id. Return the jobs taken from it."""
    stage.silence(worker)
    taken = stage.session().rescue(LATE)
    worker.register()
    return taken


def lose(stage: Stage, worker: Worker, times: int) -> None:
    for _ in range(times):
        worker.claim_one()
        die(stage, worker)


def history(stage: Stage) -> dict[int, str]:
    rows = stage.control.execute(
        "SELECT id, status::text FROM finished_jobs ORDER BY id"
    ).fetchall()
    return {id: status for id, status in rows}


def last_errors(stage: Stage) -> list[Any]:
    return [
        text
        for (text,) in stage.control.execute(
            "SELECT errors -> -1 ->> 'error' FROM finished_jobs"
        ).fetchall()
    ]


@story(WITHOUT_A_LIMIT)
def test_a_job_that_is_lost_once_more_than_five_times_fails_and_its_lane_goes_on(
    stage: Stage,
) -> None:
    producer, worker = stage.session(), stage.worker()
    [first], [second] = producer.defer("a"), producer.defer("a")
    lose(stage, worker, 5)
    promise(
        worker.claim_one().id == first and history(stage) == {},
        "five times it comes back, before the others",
    )
    promise(
        die(stage, worker) == [first] and history(stage) == {first: "failed"},
        "the sixth time it does not",
    )
    promise(
        last_errors(stage) == ["lost 6 times: its workers died"],
        f"it says why: {last_errors(stage)}",
    )
    promise(stage.statuses() == {second: "todo"} and stage.lanes() == {}, "the next is a token")
    promise(stage.drain() == [second], "and runs")


@story(
    WITHOUT_A_LIMIT,
    Mutation(
        "jobs that a worker gives back count as lost",
        "rescue.sql",
        "CASE WHEN p_lost THEN 1 +",
        "CASE WHEN true THEN 1 +",
    ),
)
def test_jobs_that_a_worker_gives_back_when_it_ends_do_not_count_as_lost(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [first] = producer.defer("a")
    for _ in range(7):
        worker.claim_one()
        worker.run("SELECT unregister_worker(%s)", worker.id)
        worker.register()
    promise(stage.statuses() == {first: "todo"}, "as often as it likes")
    lose(stage, worker, 6)
    promise(history(stage) == {first: "failed"}, "the worker did not unregister")


@story(WITHOUT_A_LIMIT)
def test_a_lane_that_halts_after_a_failure_halts_after_this_one(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    producer.defer("a", on_failure="halt")
    producer.defer("a")
    lose(stage, worker, 6)
    promise(stage.lanes() == {"a": "halted"} and worker.claim() == [], "until a person looks at it")


@story(
    Mutation(
        "jobs lost for the second time come back together",
        "rescue.sql",
        "WHEN times > 1 THEN (row",
        "WHEN false THEN (row",
    )
)
def test_jobs_that_were_only_at_hand_when_another_killed_the_worker_do_not_fail_with_it(
    stage: Stage,
) -> None:
    """A worker with the culprit dies at once, with as many other jobs as it may claim ahead."""
    jobs = stage.session().defer(None, *[0] * (MOST_AHEAD + 1))
    bad, rescuer = jobs[77], stage.session()
    while bad in stage.statuses():
        alive, dying = stage.worker(), None
        for seconds in range(12):
            alive.hasten(f"{seconds} seconds")
            batch = alive.claim(len(jobs))
            if bad in [job.id for job in batch]:
                dying, alive = alive, stage.worker()
            elif batch:
                alive.finish(*batch, want=0)
        promise(dying is not None, "the bad one has its turn")
        assert dying is not None
        stage.silence(dying)
        rescuer.rescue(LATE)
    promise(
        history(stage) == {id: "failed" if id == bad else "succeeded" for id in jobs},
        "only that one fails",
    )


@story(
    Mutation(
        "a rescuer gives up a job by its id alone",
        "rescue.sql",
        "0, v_lost.ended_ids, v_lost.ended_claims,",
        "0, v_lost.ended_ids, ARRAY(SELECT j.claim_id FROM jobs AS j WHERE j.id = ANY (v_lost.ended_ids)),",
    )
)
def test_a_slow_rescuer_does_not_fail_the_next_attempt(stage: Stage) -> None:
    """Its worker was only asleep, and asks for another attempt meanwhile."""
    producer, zombie, other, rescuer = (
        stage.session(),
        stage.worker(),
        stage.worker(),
        stage.session(),
    )
    [first] = producer.defer("a")
    lose(stage, zombie, 5)
    running = zombie.claim_one()
    stage.silence(zombie)
    rescuer.start_until("lock_lanes", rescuer.rescue, LATE)
    promise(zombie.retry(running) == [first], "it is faster")
    promise(other.claim_one().id == first, "the next attempt")
    promise(rescuer.resume() == [] and stage.doing() == [first], "goes on")


@story(SAYS_WHAT_IT_WANTED)
def test_a_job_that_its_worker_finishes_meanwhile_has_not_failed(stage: Stage) -> None:
    stage.let_wait()
    producer, zombie, rescuer = stage.session(), stage.worker(), stage.session()
    [first] = producer.defer("a")
    lose(stage, zombie, 5)
    running = zombie.claim_one()
    stage.silence(zombie)
    zombie.begin()
    zombie.finish(running)
    rescuer.start(rescuer.rescue, LATE)
    zombie.commit()
    promise(rescuer.result() == [] and history(stage) == {first: "succeeded"}, "it was in time")


@story(
    Mutation(
        "a job is archived by its id alone",
        "archive_jobs.sql",
        "AND jobs.claim_id IS NOT DISTINCT FROM ended.claim_id",
        "",
    )
)
def test_the_slow_one_of_two_rescuers_leaves_alone_a_job_that_a_person_has_retried(
    stage: Stage,
) -> None:
    worker, slow, quick, person = stage.worker(), stage.session(), stage.session(), stage.session()
    [first] = person.defer("a")
    lose(stage, worker, 5)
    worker.claim_one()
    stage.forget(worker)
    slow.start_until("lock_lanes", slow.rescue, LATE)
    promise(
        quick.rescue(LATE) == [first] and history(stage) == {first: "failed"},
        "a lock that is not available is an error",
    )
    promise(person.retry_job(first), "and has another chance")
    promise(stage.worker().claim_one().id == first, "now")
    promise(
        slow.resume() == [] and stage.doing() == [first],
        "another claim than the one it wanted to end",
    )


@story(SAYS_WHAT_IT_WANTED)
def test_two_rescuers_at_once_fail_a_job_once(stage: Stage) -> None:
    stage.let_wait()
    worker, one, two = stage.worker(), stage.session(), stage.session()
    [first] = one.defer("a")
    lose(stage, worker, 5)
    worker.claim_one()
    stage.forget(worker)
    one.begin()
    promise(one.rescue(LATE) == [first], "its worker has no row")
    two.start(two.rescue, LATE)
    one.commit()
    promise(two.result() == [] and history(stage) == {first: "failed"}, "it has failed already")


@story(
    Mutation(
        "job rows are locked in no fixed order",
        "rescue.sql",
        "ORDER BY jobs.id FOR UPDATE SKIP LOCKED) AS locked;",
        "ORDER BY jobs.id) AS locked;",
    ),
)
def test_failing_some_jobs_and_taking_back_others_does_not_deadlock_with_their_finish(
    stage: Stage,
) -> None:
    stage.let_wait()
    producer, zombie, rescuer = stage.session(), stage.worker(), stage.session()
    [young], [old] = producer.defer(None), producer.defer(None, 9)
    lose(stage, zombie, 5)
    running: list[Job] = zombie.claim(2)
    stage.silence(zombie)
    stage.make_gate("retry.sql", "jobs.claim_id = ended.claim_id")
    zombie.start_until("archive_jobs", zombie.finish, *running)
    rescuer.start_until("gate", rescuer.rescue, LATE)
    promise(history(stage) == {}, "it has not committed")
    zombie.resume_to_wait()
    promise(sorted(rescuer.resume()) == [young, old], "one is taken back, one fails")
    promise(zombie.result() == ([], [], []), "it came too late")
    promise(history(stage) == {old: "failed"} and stage.statuses() == {young: "todo"}, "each once")


@story(
    Mutation(
        "lane rows are locked in no fixed order",
        "rescue.sql",
        "(SELECT busy FROM lock_lanes(v_seen.ids, v_seen.claims))",
        "'{}'",
    ),
)
def test_nor_over_lanes(stage: Stage) -> None:
    stage.let_wait()
    producer, zombie, rescuer = stage.session(), stage.worker(), stage.session()
    [young], [old] = producer.defer("a"), producer.defer("b", 9)
    lose(stage, zombie, 5)
    running: list[Job] = zombie.claim(2)
    stage.silence(zombie)
    rescuer.start_until("retry", rescuer.rescue, LATE)
    zombie.start(zombie.finish, *running)
    promise(sorted(rescuer.resume()) == [young, old], "one is taken back, one fails")
    promise(zombie.result() == ([], [], []), "it came too late")


@story(GOES_ON)
def test_a_job_that_was_asked_to_abort_does_not_start_again_elsewhere(stage: Stage) -> None:
    producer, person, worker = stage.session(), stage.session(), stage.worker()
    [hangs, behind] = producer.defer("a", 0, 0)
    [other] = producer.defer("b")
    worker.claim(2)
    promise(person.run("SELECT cancel_job(%s, true)::text", hangs) == [("doing",)], "it is asked")
    gone = worker.id
    promise(die(stage, worker) == [hangs, other], "somebody ends the process")
    promise(history(stage) == {hangs: "aborted"}, "so that it does not hang elsewhere")
    promise(
        last_errors(stage) == [f"aborted: worker {gone} is gone"],
        f"it says why: {last_errors(stage)}",
    )
    promise(stage.statuses() == {behind: "todo", other: "todo"}, "the others are not aborted")
    promise(stage.drain() == [behind, other], "and run")


@story(GOES_ON)
def test_a_request_to_abort_that_comes_with_the_death_of_the_worker_is_not_missed(
    stage: Stage,
) -> None:
    producer, person, worker = stage.session(), stage.session(), stage.worker()
    [job] = producer.defer("a")
    worker.claim_one()
    person.begin()
    person.run("SELECT cancel_job(%s, true)", job)
    promise(die(stage, worker) == [], "the request is not committed yet, so it waits")
    person.commit()
    promise(stage.session().rescue(LATE) == [job], "and is rescued then")
    promise(history(stage) == {job: "aborted"}, "as the person wants")
