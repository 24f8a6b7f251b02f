"""Waiting jobs get another priority or queue while workers run: stories as in test_interleavings.

A step of a move holds the lanes of its jobs (change_jobs.sql), changes the jobs (move_waiting.sql),
and puts each lane in order: the job that is now the first becomes a token.
"""

import pytest

from tests.race.harness import Mutation, Session, Stage, ids, promise, story

LANES_STAY = Mutation(
    "lanes are not left in order",
    "change_jobs.sql",
    "PERFORM reopen_lane(lane) FROM unnest(v_held) AS lane;",
    "NULL;",
)
LANES_NOT_TAKEN = Mutation(
    "lanes that it did not get do not matter",
    "change_jobs.sql",
    "AND coalesce(lanes_of(jobs.lock, jobs.locks), '{}') <@ v_held",
    "",
)
KEPT_MOVES = Mutation(
    "a job that its lane waits for is moved too",
    "judge_change.sql",
    "WHEN p_action = 'move' AND v_kept THEN 'retrying'",
    "",
)
NO_NOTIFICATION = Mutation(
    "workers of the new queue are not told",
    "move_waiting.sql",
    "PERFORM notify_workers(ARRAY[p_queue]) WHERE p_queue IS NOT NULL AND p_ids <> '{}';",
    "",
)
STAYS_IN_LINE = Mutation(
    "a job keeps its old place in the line of its other lanes",
    "move_waiting.sql",
    "PERFORM leave_line(id, priority, locks) FROM jobs WHERE id = ANY (p_ids) AND locks IS NOT NULL;",
    "",
)
NOT_IN_LINE = Mutation(
    "a job gets no new place in the line of its other lanes",
    "move_waiting.sql",
    "PERFORM join_lanes(p_ids);",
    "",
)
NO_LOOKS = Mutation(
    "nobody looks at the limit of a job that leaves its queue",
    "move_waiting.sql",
    "PERFORM leave_looks(v_gates) WHERE v_gates IS NOT NULL;",
    "",
)


def move(
    session: Session,
    *jobs: int,
    priority: int | None = None,
    queue: str | None = None,
    only_in: str | None = None,
) -> dict[int, str]:
    """Make a step of a move, of jobs in the queue `only_in`. Return what became of each job."""
    rows = session.run(
        "SELECT id, outcome FROM change_jobs('move', %s, jobs_where(statuses => "
        "'{todo,blocked,limited,scheduled,pending}', queue => %s), "
        "p_priority => %s, p_queue => %s)",
        *(list(jobs), only_in, priority, queue),
    )
    return dict(rows)


@story(LANES_STAY)
def test_a_job_that_moves_to_the_head_of_its_lane_wakes_the_workers_of_its_queue(
    stage: Stage,
) -> None:
    producer, one, two, operator = (
        stage.session(),
        stage.worker("a"),
        stage.worker("b"),
        stage.session(),
    )
    [running], [first], [last] = (producer.defer("x", queue=queue) for queue in ("a", "a", "b"))
    held = one.claim_one()
    promise(held.id == running and two.claim() == [], "the others wait for it")
    one.claim()
    promise(stage.statuses()[last] == "blocked", "and sleep")
    one.finish(held, want=0)
    with stage.notifications() as heard:
        promise(move(operator, last, priority=9) == {last: "done"}, "it waits")
    promise("b" in heard, f"its workers are told, and not only those of {first}: {heard}")
    promise(one.claim() == [], f"{first} waits behind it")
    promise(ids(two.claim()) == [last], "it is a token")
    promise(stage.drain() == [last, first], "in the new order")


@story(LANES_STAY)
def test_the_job_behind_a_head_that_moves_to_the_end_becomes_the_token(stage: Stage) -> None:
    producer, worker, operator = stage.session(), stage.worker(), stage.session()
    jobs = producer.defer("x", 0, 0, 0, 0)
    held = worker.claim_one()
    worker.claim()
    worker.finish(held, want=0)
    promise(list(stage.statuses().values()) == ["todo", "blocked", "blocked"], "one token")
    promise(move(operator, jobs[1], priority=-1, queue="nobody")[jobs[1]] == "done", "it waits")
    other = stage.worker("default")
    promise(ids(other.claim(1)) == [jobs[2]], "the next one is not asleep")
    promise(stage.drain() == [jobs[2], jobs[3], jobs[1]], "in the new order")


@story(LANES_NOT_TAKEN)
def test_a_move_leaves_a_lane_that_a_claim_is_starting(stage: Stage) -> None:
    producer, slow, operator = stage.session(), stage.worker("a"), stage.session()
    first, last = producer.defer("x", 0, 0, queue="a")
    slow.start_until("start_jobs", slow.claim, 1)
    promise(
        move(operator, first, last, queue="b") == {first: "busy", last: "busy"},
        "the claim has the lane",
    )
    promise(ids(slow.resume()) == [first], "it starts what it has found")
    promise(
        move(operator, first, last, queue="b") == {first: "running", last: "done"}, "then one moves"
    )
    promise(stage.drain() == [first, last], "both run")


@story(
    Mutation(
        "free jobs are not locked while they are looked at",
        "claim_candidates.sql",
        "            FOR UPDATE SKIP LOCKED\n",
        "",
    )
)
def test_a_move_leaves_a_free_job_that_a_claim_is_starting(stage: Stage) -> None:
    producer, slow, operator = stage.session(), stage.worker("a"), stage.session()
    [job] = producer.defer(None, queue="a")
    slow.start_until("start_jobs", slow.claim)
    promise(move(operator, job, queue="b") == {job: "busy"}, "the claim has it")
    promise(ids(slow.resume()) == [job], "it starts in the queue in which it was found")
    promise(move(operator, job, queue="b") == {job: "running"}, "and stays there")


@story(
    Mutation(
        "the head that a claim starts is the one that it saw",
        "win_heads.sql",
        "LATERAL lane_heads(ARRAY[won.lock], r.floors)",
        "LATERAL (SELECT seen AS id, r.queues[1] AS queue, false AS touched, "
        "NULL::timestamptz AS start_before, false AS limited, false AS several, false AS aside "
        "FROM unnest(r.lanes, r.seen) AS s(lane, seen) WHERE s.lane = won.lock)",
    ),
    Mutation(
        "a token that is not the head stays in front",
        "claim.sql",
        " AND array_eq(r.heads, r.seen)",
        "",
    ),
)
def test_a_claim_that_saw_the_old_head_starts_the_new_one(stage: Stage) -> None:
    producer, slow, operator = stage.session(), stage.worker(), stage.session()
    first, last = producer.defer("x", 0, 0)
    slow.start_until("acquire_lanes", slow.claim, 1)
    promise(move(operator, last, priority=5) == {last: "done"}, "the lane is still free")
    promise(ids(slow.resume()) == [last], "the order of the lane is the promise")
    promise(stage.statuses()[first] == "blocked", "the next claim does not meet it")
    promise(stage.drain() == [last, first], "nothing is lost")


@story(
    Mutation("lanes are not locked", "try_lock_lanes.sql", "ANY (v_named) FOR UPDATE SKIP LOCKED",
             "ANY (v_named)")
)  # fmt: skip
def test_a_worker_ends_its_job_while_a_move_has_its_lane(stage: Stage) -> None:
    producer, worker, operator = stage.session(), stage.worker(), stage.session()
    running, first, last = producer.defer("x", 0, 0, 0)
    held = worker.claim_one()
    worker.claim()
    operator.begin()
    promise(move(operator, last, priority=5) == {last: "done"}, "it waits")
    promise(worker.finish(held).busy == [running], "the end waits in the worker")
    operator.commit()
    promise(ids(worker.finish(held, want=1).following) == [last], "the new head is handed over")
    promise(stage.drain() == [last, first], "nothing is asleep")


@story(LANES_NOT_TAKEN)
def test_a_move_leaves_a_lane_whose_job_is_just_ending(stage: Stage) -> None:
    producer, worker, operator = stage.session(), stage.worker(), stage.session()
    running, first, last = producer.defer("x", 0, 0, 0)
    held = worker.claim_one()
    worker.claim()
    worker.begin()
    promise(ids(worker.finish(held, want=1).following) == [first], f"{running} is over")
    promise(move(operator, last, priority=5) == {last: "busy"}, "nobody waits")
    worker.commit()
    promise(move(operator, last, priority=5) == {last: "done"}, "later")
    promise(stage.drain() == [first, last], "nothing is lost")


@story(KEPT_MOVES)
def test_a_job_that_its_lane_waits_for_is_not_moved(stage: Stage) -> None:
    producer, worker, operator = stage.session(), stage.worker(), stage.session()
    [first], [last] = producer.defer("x"), producer.defer("x")
    worker.retry(worker.claim_one(), delay="1 hour")
    promise(
        move(operator, first, last, queue="b") == {first: "retrying", last: "done"},
        "only the one behind it",
    )
    promise(stage.drain() == [first, last], "in order")


@story(KEPT_MOVES)
def test_a_job_that_keeps_a_shared_lane_is_not_moved(stage: Stage) -> None:
    producer, worker, operator = stage.session(), stage.worker(), stage.session()
    job = producer.defer_several("x", "y", shared=["x"])
    worker.retry(worker.claim_one(), delay="1 hour")
    promise(move(operator, job, priority=-5) == {job: "retrying"}, "its lanes wait for it")
    promise(stage.drain() == [job], "nothing is lost")


@story(
    Mutation(
        "running jobs are not looked for",
        "judge_change.sql",
        "WHEN v_status = 'doing' THEN 'running'",
        "",
    )
)
def test_a_running_job_and_an_ended_one_are_not_moved(stage: Stage) -> None:
    producer, worker, operator = stage.session(), stage.worker(), stage.session()
    ended, running = producer.defer(None)[0], producer.defer(None)[0]
    worker.finish(worker.claim_one(), want=0)
    worker.claim_one()
    promise(
        move(operator, ended, running, queue="b") == {ended: "ended", running: "running"},
        "neither waits",
    )


@story(NO_NOTIFICATION)
def test_the_sleeping_workers_of_the_new_queue_are_woken(stage: Stage) -> None:
    producer, sleeper, operator = stage.session(), stage.worker("b"), stage.session()
    [job] = producer.defer(None, queue="a")
    promise(sleeper.claim() == [], "there is nothing in its queue")
    with stage.notifications() as heard:
        promise(move(operator, job, queue="b") == {job: "done"}, "it waits")
    promise(heard == ["b"], f"heard: {heard}")
    promise(ids(sleeper.claim()) == [job], "and starts it")


@story(NOT_IN_LINE, LANES_STAY)
def test_a_job_with_several_lanes_moves_to_the_front_of_each(stage: Stage) -> None:
    producer, worker, operator = stage.session(), stage.worker("default"), stage.session()
    holder = producer.defer_several("x", "y")
    [single] = producer.defer("y", queue="b")
    several = producer.defer_several("x", "y")
    held = worker.claim_one()
    worker.finish(held, want=0)
    promise(worker.claim() == [], "nobody serves the queue of the next one")
    promise(held.id == holder and stage.statuses()[several] == "blocked", f"behind {single}")
    promise(move(operator, several, priority=3) == {several: "done"}, "it waits")
    promise(ids(worker.claim(1)) == [several], "it is the first in both")
    promise(stage.drain() == [several, single], "in the new order")


@story(STAYS_IN_LINE)
def test_a_job_with_several_lanes_moves_to_the_end_of_each(stage: Stage) -> None:
    producer, operator = stage.session(), stage.session()
    several = producer.defer_several("x", "y")
    [single] = producer.defer("y")
    promise(move(operator, several, priority=-3) == {several: "done"}, "it waits")
    promise(stage.drain() == [single, several], "in the new order")


@story(NO_LOOKS)
def test_a_slot_is_not_lost_with_a_token_that_leaves_for_a_queue_without_workers(
    stage: Stage,
) -> None:
    producer, worker, operator = stage.session(), stage.worker("a"), stage.session()
    producer.set_limit("k", 1)
    jobs = [producer.defer(None, queue="a", limit="k")[0] for _ in range(3)]
    held = worker.claim_one()
    worker.claim()
    promise(stage.statuses()[jobs[2]] == "limited", "the others wait for a slot")
    worker.finish(held, want=0)
    promise(stage.statuses()[jobs[1]] == "todo", "one is woken for it")
    promise(move(operator, jobs[1], queue="b") == {jobs[1]: "done"}, "it leaves")
    promise(ids(worker.claim()) == [jobs[2]], "the slot passes to the next one")
    promise(sorted(stage.drain()) == jobs[1:], "nothing is lost")


@story(
    Mutation(
        "the queue is not looked at again",
        "judge_change.sql",
        "WHEN v_queue <> (p_filter).queue THEN 'changed'",
        "",
    )
)
def test_of_two_moves_out_of_a_queue_one_gets_the_job(stage: Stage) -> None:
    producer, first, second = stage.session(), stage.session(), stage.session()
    [job] = producer.defer("x", queue="a")
    first.begin()
    promise(move(first, job, queue="b", only_in="a") == {job: "done"}, "it waits")
    promise(move(second, job, queue="c", only_in="a") == {job: "busy"}, "nobody waits")
    first.commit()
    promise(move(second, job, queue="c", only_in="a") == {job: "changed"}, "it has left")
    promise(ids(stage.worker("b").claim()) == [job], "it is where the first has put it")


@pytest.mark.parametrize("state", ["scheduled", "pending", "limited", "paused", "lane paused"])
def test_a_job_keeps_its_status_when_it_moves(stage: Stage, state: str) -> None:
    producer, worker, operator = stage.session(), stage.worker(), stage.session()
    [parent] = producer.defer("z")
    if state == "pending":
        job = producer.defer_after(parent)
    elif state == "limited":
        producer.set_limit("k", 1)
        producer.defer(None, 9, limit="k")
        [job] = producer.defer("x", limit="k")
    else:
        [job] = producer.defer("x", delay="1 hour" if state == "scheduled" else None)
    if state == "paused":
        producer.run("SELECT pause_task('task', 'a reason')")
    elif state == "lane paused":
        producer.pause("x")
    worker.claim()
    before = stage.statuses()[job]
    promise(before == {"lane paused": "blocked"}.get(state, state), f"it is {before}")
    promise(move(operator, job, priority=4, queue="b") == {job: "done"}, "it moves")
    promise(stage.statuses()[job] == before, "and waits for the same as before")
    producer.run("SELECT resume_task('task'), resume_lane('x')")
    promise(job in stage.drain(), "and runs")
