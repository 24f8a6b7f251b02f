"""Races for a queueing lock: at most one job waits under it.

This holds for any mix of producers, retries and rollbacks.
"""

from collections.abc import Callable
from typing import Any, LiteralString

from psycopg.errors import SerializationFailure, UniqueViolation

from tests.race.harness import Mutation, PromiseBroken, Session, Stage, promise, story

Answer = list[tuple[int | None, bool | None]]

LOOKS_ONCE = Mutation(
    "the loser of the race does not look again",
    "defer_unless_waiting.sql",
    "EXIT WHEN v_id IS NOT NULL;\n        END LOOP;",
    "EXIT;\n        END LOOP;",
)
RAISES = Mutation(
    "a conflict is an error",
    "defer_unless_waiting.sql",
    "ON CONFLICT (queueing_lock) WHERE queueing_lock IS NOT NULL AND status <> 'doing' AND NOT lost_queueing_lock DO NOTHING",
    "",
)


def enqueue(
    session: Session,
    *keys: str | None,
    on_conflict: str = "skip",
    lock: str | None = None,
    delay: str | None = None,
    args: str = "{}",
    priority: int = 0,
) -> Answer:
    """One call with a job for each queueing lock."""
    n = len(keys)
    answer: Answer = unbroken(
        session.run,
        "SELECT id, is_new FROM defer_jobs(%s, %s::jsonb[], %s, %s::text[], %s::int[], NULL, %s::interval[], NULL, NULL, "
        "p_queueing_locks => %s, p_on_conflict => %s)",
        ["task"] * n, [args] * n, ["default"] * n, [lock] * n, [priority] * n, [delay] * n,
        list(keys), on_conflict,
    )  # fmt: skip
    return answer


def unbroken(step: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return step(*arguments)
    except UniqueViolation as error:
        raise PromiseBroken(f"somebody fails by a queueing lock: {error}") from error


def keys(stage: Stage) -> dict[int, str | None]:
    """Of the live jobs, as far as they count."""
    return dict(
        stage.control.execute(
            "SELECT id, CASE WHEN NOT lost_queueing_lock THEN queueing_lock END FROM jobs ORDER BY id"
        ).fetchall()
    )


# ---------------------------------------------------------------- defer against defer


@story(LOOKS_ONCE, RAISES)
def test_the_second_of_two_producers_with_one_key_gets_the_job_of_the_first(
    stage: Stage,
) -> None:
    one, two = stage.session(), stage.session()
    one.begin()
    [(first, is_new)] = enqueue(one, "k")
    promise(is_new is True, "nobody was there")
    two.start(enqueue, two, "k")
    one.commit()
    promise(two.result() == [(first, False)], "it stands for both")
    promise(list(stage.statuses()) == [first], "one job waits")


@story(
    Mutation(
        "uniqueness is decided by the lock of a transaction that may roll back",
        "defer_unless_waiting.sql",
        "            EXIT WHEN v_id IS NOT NULL AND (\n",
        "            EXIT WHEN v_id IS NULL AND NOT pg_try_advisory_xact_lock(hashtext(v_job.queueing_lock));\n"
        "            EXIT WHEN v_id IS NOT NULL AND (\n",
    )
)
def test_the_job_of_the_second_comes_into_being_when_the_first_rolls_back(stage: Stage) -> None:
    one, two = stage.session(), stage.session()
    one.begin()
    enqueue(one, "k")
    two.start(enqueue, two, "k")
    one.rollback()
    [(second, is_new)] = two.result()
    promise(
        is_new is True and list(stage.statuses()) == [second],
        "every id that is returned is the id of an existing job",
    )


@story(
    Mutation(
        "a producer that finds a job waits for a transaction that changes it",
        "defer_unless_waiting.sql",
        "status <> 'doing' AND NOT lost_queueing_lock;",
        "status <> 'doing' AND NOT lost_queueing_lock FOR UPDATE;",
    )
)
def test_a_waiting_job_is_found_without_waiting_for_a_transaction_that_changes_it(
    stage: Stage,
) -> None:
    one, two, worker = stage.session(), stage.session(), stage.worker()
    [(first, _)] = enqueue(one, "k")
    worker.begin()
    worker.claim_one()
    promise(
        enqueue(two, "k", on_conflict="raise") == [(first, False)],
        "as far as anybody can see it waits",
    )
    worker.commit()
    [(second, is_new)] = enqueue(two, "k")
    promise(
        is_new is True and (first, "doing") in stage.statuses().items(),
        f"a job that runs is no obstacle to {second}",
    )


SKIP: LiteralString = "OR p_on_conflict = 'skip' AND rely_on_waiting(v_id, v_job.queueing_lock)"
RELIES_ON_NOTHING = Mutation(
    "`skip` does not look again", "defer_unless_waiting.sql", SKIP, "OR p_on_conflict = 'skip'"
)


@story(
    RELIES_ON_NOTHING,
    Mutation("`skip` does not lock the job", "rely_on_waiting.sql", " FOR SHARE", ""),
)
def test_a_job_does_not_start_before_the_transactions_that_rely_on_it_commit(stage: Stage) -> None:
    """Otherwise neither it nor any other job would see their writes."""
    one, two, worker = stage.session(), stage.session(), stage.worker()
    [(first, _)] = enqueue(one, "k", lock="a")
    [other] = one.defer("b")
    for session in (one, two):
        session.begin()
        promise(
            enqueue(session, "k", lock="a") == [(first, False)],
            "it waits, and nobody waits for anybody",
        )
    promise([job.id for job in worker.claim()] == [other], "not yet")
    one.commit()
    promise(worker.claim() == [], "nor yet")
    two.rollback()
    promise([job.id for job in worker.claim()] == [first], "now it sees all")


@story(
    RELIES_ON_NOTHING,
    Mutation(
        "a job is found in any state",
        "rely_on_waiting.sql",
        " AND status <> 'doing' AND NOT lost_queueing_lock",
        "",
    ),
)
def test_skip_beside_a_claim_relies_on_no_job_that_has_started(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [(first, _)] = enqueue(producer, "k")
    worker.begin()
    worker.claim_one()
    producer.start(enqueue, producer, "k")
    worker.commit()
    [(second, is_new)] = producer.result()
    promise(is_new is True and second != first, "the second producer gets a job of its own")


@story(RELIES_ON_NOTHING)
def test_skip_with_an_old_snapshot_relies_on_no_job_that_is_over(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    enqueue(producer, "k")
    producer.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    producer.run("SELECT FROM jobs")
    worker.finish(worker.claim_one())
    try:
        enqueue(producer, "k")
    except SerializationFailure:
        return
    promise(False, "skip returned a job that has ended")


@story(
    Mutation(
        "keys are taken in the order given",
        "defer_unless_waiting.sql",
        "FROM given ORDER BY queueing_lock, position",
        "FROM given ORDER BY position",
    )
)
def test_two_calls_with_the_same_keys_in_another_order_do_not_deadlock(stage: Stage) -> None:
    one, two = stage.session(), stage.session()
    one.begin()
    enqueue(one, "a")
    two.start(enqueue, two, "b", "a")
    promise(enqueue(one, "b")[0][1] is True, "nobody has it yet")
    one.commit()
    promise([is_new for _, is_new in two.result()] == [False, False], "both were there")


@story(
    Mutation(
        "ids in the order of the keys",
        "defer_unless_waiting.sql",
        "SELECT id, task, args, position, queueing_lock",
        "SELECT nextval('jobs_id_seq') AS id, task, args, position, queueing_lock",
    )
)
def test_jobs_with_keys_have_their_places_in_the_order_given(stage: Stage) -> None:
    answer = enqueue(stage.session(), "b", None, "a", lock="lane")
    promise([id for id, _ in answer] == sorted(id for id, _ in answer if id), f"by id: {answer}")
    promise(stage.drain() == [id for id, _ in answer], "and so they run")


@story(
    Mutation(
        "a sibling waits for a job that is not new",
        "defer_unless_waiting.sql",
        "ELSE 'todo' END,",
        "WHEN v_options.lock IS NULL OR v_job.position = 1 THEN 'todo' ELSE 'blocked' END,",
    )
)
def test_siblings_of_a_job_that_is_not_new_are_not_left_asleep(stage: Stage) -> None:
    producer = stage.session()
    [(elsewhere, _)] = enqueue(producer, "k")
    answer = enqueue(producer, "k", None, None, lock="lane")
    promise(answer[0] == (elsewhere, False), "it is in no lane")
    promise(stage.drain() == [id for id, _ in answer], "nobody sleeps")


@story(
    Mutation(
        "jobs inserted before the conflict stay",
        "defer_unless_waiting.sql",
        "DELETE FROM jobs WHERE jobs.id = ANY (v_ids);",
        "",
    )
)
def test_a_conflict_under_raise_defers_nothing_and_leaves_the_transaction_alone(
    stage: Stage,
) -> None:
    producer, rival = stage.session(), stage.session()
    rival.begin()
    [(first, _)] = enqueue(rival, "k")
    producer.begin()
    producer.start(lambda: enqueue(producer, "a", "k", "x", None, on_conflict="raise"))
    rival.commit()
    promise(
        producer.result() == [(None, None), (first, False), (None, None), (None, None)],
        "which one, and whose job",
    )
    producer.commit()
    promise(list(stage.statuses()) == [first], "all or none")
    twins = enqueue(producer, "y", "y", on_conflict="raise")
    promise(
        twins == [(None, None), (None, False)], f"also when the other is of the same call: {twins}"
    )
    promise(list(stage.statuses()) == [first], "all or none")


# ---------------------------------------------------------------- replace


@story(
    Mutation("a job is replaced while it runs", "replace_waiting.sql",
             " AND status <> 'doing' AND NOT lost_queueing_lock", ""),
    Mutation(
        "replace does not look again", "replace_waiting.sql",
        "IF NOT FOUND THEN\n        RETURN false;",
        "IF NOT FOUND THEN\n        RETURN true;"
    ),
)  # fmt: skip
def test_a_job_that_starts_before_it_is_replaced_makes_room_for_a_new_one(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [(first, _)] = enqueue(producer, "k", args='{"n": 1}')
    producer.start_until(
        "replace_waiting", lambda: enqueue(producer, "k", args='{"n": 2}', on_conflict="replace")
    )
    worker.claim_one()
    [(second, is_new)] = producer.resume()
    promise(is_new is True and second != first, "the one that runs is past changing")
    rows = stage.control.execute("SELECT id, args ->> 'n' FROM jobs ORDER BY id").fetchall()
    promise(rows == [(first, "1"), (second, "2")], f"each has its own arguments: {rows}")


@story(
    Mutation(
        "a retry is rescheduled",
        "replace_waiting.sql",
        "AND NOT EXISTS (SELECT FROM lanes WHERE lock = v_job.lock AND job_id = p_id)",
        "",
    )
)
def test_replacing_a_job_between_two_attempts_changes_what_it_does_and_nothing_else(
    stage: Stage,
) -> None:
    producer, worker = stage.session(), stage.worker()
    [(first, _)] = enqueue(producer, "k", lock="a")
    worker.retry(worker.claim_one(), delay="1 hour")
    promise(
        enqueue(producer, "k", lock="a", args='{"n": 2}', priority=5, on_conflict="replace")
        == [(first, False)],
        "it stands",
    )
    [(status, priority, args)] = stage.control.execute(
        "SELECT status::text, priority, args FROM jobs"
    ).fetchall()
    promise(
        (status, priority, args) == ("scheduled", 0, {"n": 2}),
        f"its back-off and place stay: {status}",
    )
    promise(
        stage.lanes() == {"a": "retrying"} and stage.drain() == [first], "its lane waits for it"
    )


@story(
    Mutation("a claim waits to put a job behind others", "block_behind.sql",
             "AND NOT is_touched(jobs.xmin, jobs.xmax)",
             ""),
    Mutation("a claim locks a job that is being replaced", "block_behind.sql", "FOR UPDATE OF jobs SKIP LOCKED", "FOR UPDATE OF jobs"),
)  # fmt: skip
def test_claims_do_not_wait_for_a_job_of_a_busy_lane_that_a_user_is_replacing(stage: Stage) -> None:
    producer, holder, passer = stage.session(), stage.worker(), stage.worker()
    producer.defer("a")
    running = holder.claim_one()
    [(waiting, _)] = enqueue(producer, "k", lock="a")
    producer.begin()
    enqueue(producer, "k", lock="a", args='{"n": 2}', on_conflict="replace")
    [free] = producer.defer(None)
    promise(passer.claim() == [], "there is nothing else that it could see")
    producer.commit()
    promise([job.id for job in passer.claim()] == [free], "the lane is busy")
    holder.finish(running, want=0)
    promise(stage.drain() == [waiting, free], "nothing is lost")


@story(
    Mutation(
        "replace does not change the work",
        "replace_waiting.sql",
        "task = p_task, args = p_args,",
        "",
    ),
    Mutation(
        "a claim waits for a head that is being replaced",
        "win_heads.sql",
        " AND (NOT next.touched OR try_lock_job(next.id))",
        "",
        beneath=True,
    ),
)
def test_while_a_replacement_is_not_committed_a_claim_passes_over_the_job_and_takes_the_others(
    stage: Stage,
) -> None:
    producer, worker = stage.session(), stage.worker()
    unbroken(
        producer.run,
        "SELECT id FROM defer_jobs('{t,t}', ARRAY[jsonb '{}', '{}'], '{default,default}', '{NULL,a}', '{0,0}', NULL, NULL, NULL,"
        " NULL, p_queueing_locks => '{f,l}', p_on_conflict => 'raise')",
    )
    others = [*producer.defer("b"), *producer.defer(None)]
    producer.begin()
    enqueue(producer, "f", "l", args='{"n": 2}', on_conflict="replace")
    promise([job.id for job in worker.claim()] == others, "others run meanwhile")
    producer.commit()
    promise(len(worker.claim()) == 2, "then both run")
    rows = stage.control.execute(
        "SELECT args ->> 'n' FROM jobs WHERE NOT id = ANY (%s)", [others]
    ).fetchall()
    promise(rows == [("2",), ("2",)], f"with what they were given: {rows}")


# ----------------------------------------------------------- the way back to the queue never fails

LETS_GO = "lost_queueing_lock = jobs.queueing_lock IS NOT NULL,"
IGNORES_OPEN = Mutation(
    "a rival that has not committed is waited for",
    "retake_queueing_locks.sql",
    "unique_violation OR lock_not_available",
    "unique_violation",
)


@story(
    IGNORES_OPEN,
    Mutation("a job goes back with its key", "retry.sql", LETS_GO, ""),
    Mutation(
        "a job never gets its key back",
        "retry.sql",
        "PERFORM retake_queueing_locks(",
        "PERFORM num_nonnulls(",
    ),
)
def test_a_retry_waits_for_no_user_who_defers_its_key_and_goes_on_without_it(stage: Stage) -> None:
    one, two, worker = stage.session(), stage.session(), stage.worker()
    [(alone, _)] = enqueue(one, "alone")
    [(first, _)] = enqueue(one, "k", lock="a")
    [second] = one.defer("a")
    jobs = {job.id: job for job in worker.claim()}
    two.begin()
    [(rival, is_new)] = enqueue(two, "k")
    promise(is_new is True, "a job that runs is no obstacle")
    retried = unbroken(worker.retry, *jobs.values())
    promise(retried == [alone, first], "nobody waits, nothing fails")
    promise(
        stage.doing() == [] and keys(stage) == {alone: "alone", first: None, second: None},
        f"{keys(stage)}",
    )
    two.commit()
    promise(
        (rival, "k") in keys(stage).items() and set(stage.drain()) == {alone, first, second, rival},
        "all work is done",
    )


@story(
    Mutation(
        "a rival that committed just now is an error",
        "retake_queueing_locks.sql",
        "unique_violation OR lock_not_available",
        "lock_not_available",
    )
)
def test_a_retry_survives_a_rival_that_commits_after_it_has_looked(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [(first, _)] = enqueue(producer, "k")
    running = worker.claim_one()
    stage.make_gate("retake_queueing_locks.sql", "again.id = ANY (p_ids)")
    worker.start_until("gate", worker.retry, running)
    [(rival, is_new)] = enqueue(producer, "k")
    promise(is_new is True, "it still runs, as far as anybody can see")
    promise(unbroken(worker.resume) == [first], "it is tried again")
    promise(
        keys(stage) == {first: None, rival: "k"} and stage.drain() == [first, rival],
        "both are done",
    )


@story(
    Mutation(
        "each key is tried for itself",
        "retake_queueing_locks.sql",
        "AND clock_timestamp() < p_until THEN",
        "THEN",
    ),
    IGNORES_OPEN,
)
def test_many_jobs_go_back_at_once_although_a_user_is_about_to_defer_all_their_keys(
    stage: Stage,
) -> None:
    user, worker = stage.session(), stage.worker()
    names = [f"k{number}" for number in range(200)]
    enqueue(user, *names)
    jobs = worker.claim(200)
    user.begin()
    enqueue(user, *names)
    worker.run("SET track_functions = 'all'")
    worker.begin()
    unbroken(worker.put_back, *jobs)
    [(calls,)] = worker.run(
        "SELECT calls FROM pg_stat_xact_user_functions WHERE funcname = 'retake_queueing_locks'"
    )
    worker.commit()
    promise(
        calls < 100 and list(keys(stage).values()) == [None] * 200,
        f"without their keys, in {calls} attempts",
    )


@story(
    Mutation("all go without a key because of one", "retake_queueing_locks.sql",
             "IF v_half > 0 AND", "IF false AND"),
)  # fmt: skip
def test_of_many_jobs_that_go_back_only_that_goes_without_its_key_which_a_user_is_about_to_defer(
    stage: Stage,
) -> None:
    user, worker = stage.session(), stage.worker()
    stage.adjust("retake_queueing_locks.sql", "interval '50 ms'", "interval '1 hour'")
    (first, _), *rest = enqueue(user, *"abcdef")
    running = worker.claim()
    [(twin, _)] = enqueue(user, "b")
    running += worker.claim()
    user.begin()
    enqueue(user, "a")
    unbroken(worker.put_back, *running)
    ours = {id: key for id, key in zip([id for id, _ in rest], "bcdef", strict=True)}
    promise(keys(stage) == {first: None, **ours, twin: None}, f"each key once: {keys(stage)}")


@story(LOOKS_ONCE, RAISES)
def test_a_producer_gets_the_job_whose_key_a_retry_is_bringing_back(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [(first, _)] = enqueue(producer, "k")
    running = worker.claim_one()
    worker.begin()
    worker.retry(running)
    producer.start(enqueue, producer, "k")
    worker.commit()
    promise(producer.result() == [(first, False)], "it waits again, under its key")


@story(
    Mutation("a job goes back with its key", "put_back.sql",
             "lost_queueing_lock = jobs.queueing_lock IS NOT NULL", "fence = jobs.fence"),
    Mutation("a job never gets its key back", "put_back.sql", "PERFORM retake_queueing_locks(", "PERFORM num_nonnulls("),
)  # fmt: skip
def test_a_job_that_is_put_back_gives_way_to_a_job_that_waits_under_its_key(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [(alone, _)], [(first, _)] = enqueue(producer, "alone"), enqueue(producer, "k", lock="a")
    jobs = worker.claim()
    [(rival, _)] = enqueue(producer, "k")
    unbroken(worker.put_back, *jobs)
    promise(keys(stage) == {alone: "alone", first: None, rival: "k"}, f"{keys(stage)}")
    promise(stage.doing() == [] and set(stage.drain()) == {alone, first, rival}, "all work is done")


@story(Mutation("a job goes back with its key", "retry.sql", LETS_GO, ""))
def test_a_rescue_succeeds_although_another_job_waits_under_the_key(stage: Stage) -> None:
    producer, worker, rescuer = stage.session(), stage.worker(), stage.session()
    [(first, _)] = enqueue(producer, "k", lock="a")
    worker.claim_one()
    [(rival, _)] = enqueue(producer, "k", lock="a")
    stage.forget(worker)
    promise(unbroken(rescuer.rescue) == [first], "it is taken back")
    promise(
        keys(stage) == {first: None, rival: "k"} and stage.drain() == [first, rival],
        "both are done, in order",
    )


@story(
    Mutation(
        "a job comes back with its key although another job has it",
        "restore_job.sql",
        "queueing_lock IS NOT NULL, args",
        "false, args",
    ),
    Mutation("a job never gets its key back", "restore_job.sql", "PERFORM retake_queueing_locks(",
             "PERFORM num_nonnulls("),
)  # fmt: skip
def test_a_finished_job_is_run_again_although_another_waits_under_its_key(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    (first, _), (alone, _) = enqueue(producer, "k", "alone")
    worker.finish(*worker.claim(), status="failed")
    [(rival, _)] = enqueue(producer, "k")
    promise(all(unbroken(producer.retry_job, id) for id in (first, alone)), "both are back")
    promise(keys(stage) == {first: None, alone: "alone", rival: "k"}, f"{keys(stage)}")
    promise(set(stage.drain()) == {first, alone, rival}, "all work is done")
