"""A hand-over that begins at the floor of its lane: stories told as in test_interleavings.

Late commits and jobs that come back behind the floor must be found. `floor_model.py` explores the
order of the steps.
"""

from collections.abc import Callable, Iterator
from typing import cast

import pytest

from tests.race.harness import Job, Mutation, Session, Stage, promise, story

Return = Iterator[int]  # yields the job that will come back, and then brings it back
NO_LOOK_BACK = Mutation(
    "nothing is looked for behind the floor", "line_from.sql", "HAVING count(*) > 0", "HAVING false"
)
FINAL_AT_ONCE = Mutation(
    "ids are final at once",
    "final_ids.sql",
    "pg_snapshot_xmin(pg_current_snapshot()) < v_horizon",
    "false",
)


class Chain:
    """A worker that hands over the jobs of lane `a`, and raises its floor as `Floors` does."""

    def __init__(self, stage: Stage) -> None:
        self.worker = stage.worker()
        self.job: Job | None = None
        self.final = 0
        self.floor = (0, 0, 0)

    def learn(self, patient: bool = False) -> int | None:
        """Ask which ids are final, twice, as a worker does between many jobs."""
        self.worker.final_ids(patient)
        final = self.worker.final_ids(patient)
        self.final = final or self.final
        return final

    def claim(self) -> int:
        self.job = self.worker.claim_one()
        return self.job.id

    def hand_over(self, priority: int = 0) -> int | None:
        """End the job, and return the next one, which must have this priority."""
        assert self.job is not None
        final = self.final
        following = self.worker.finish(self.job, floors={"a": [self.floor]}).following
        self.job = following[0] if following else None
        if self.job is None:
            return None
        self.floor = priority, min(self.job.id, final + 1), final
        return self.job.id

    def run(self, count: int) -> None:
        """Defer and run jobs, so that the floor is behind all of them."""
        producer = self.worker
        for _ in range(count):
            producer.defer("a")
        self.claim()
        self.learn()
        for _ in range(count - 1):
            self.hand_over()
        assert self.job is not None
        promise(self.floor[:2] == (0, self.job.id), "all is final")


@story(FINAL_AT_ONCE)
def test_a_late_commit_behind_the_floor_is_found(stage: Stage) -> None:
    chain, slow, quick = Chain(stage), stage.session(), stage.session()
    chain.run(2)
    slow.begin()
    [late] = slow.defer("a")
    [second], [third] = quick.defer("a"), quick.defer("a")
    chain.learn()
    promise(chain.hand_over() == second, "the late one is not there yet")
    slow.commit()
    chain.learn()
    promise(chain.hand_over() == late, "it comes before the third")
    promise(chain.hand_over() == third, "in order")


@story(
    Mutation(
        "the horizon is the end of the snapshot",
        "final_ids.sql",
        "concat_ws(' ', pg_current_xact_id(),",
        "concat_ws(' ', pg_snapshot_xmax(pg_current_snapshot()),",
    )
)
def test_the_newest_transaction_is_waited_for(stage: Stage) -> None:
    chain, quick, slow = Chain(stage), stage.session(), stage.session()
    chain.run(2)
    slow.begin()
    quick.begin()
    [second] = quick.defer("a")
    [late] = slow.defer("a")
    quick.commit()
    promise(chain.learn() is None or chain.final < late, "the late one is not final")
    slow.commit()
    promise([chain.hand_over(), chain.hand_over()] == [second, late], "both are found")


@story(
    Mutation(
        "a producer draws an id before it has a transaction id",
        "defer_jobs.sql",
        "v_own xid8 := pg_current_xact_id();",
        "v_own xid8;",
    )
)
def test_who_draws_an_id_already_has_a_transaction_id(stage: Stage) -> None:
    chain, slow, quick = Chain(stage), stage.session(), stage.session()
    chain.run(2)
    stage.control.execute(
        "CREATE FUNCTION wait_here() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN IF NEW.task = ''slow'' THEN PERFORM pg_advisory_xact_lock_shared(77); END IF; "
        "RETURN NEW; END'"
    )
    stage.control.execute(
        "CREATE TRIGGER wait_here BEFORE INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION wait_here()"
    )
    stage.control.execute("SELECT pg_advisory_lock(77)")
    try:
        slow.start(slow.defer, "a", task="slow")
        [second], [third] = quick.defer("a"), quick.defer("a")
        chain.learn()
        promise(chain.hand_over() == second, "the late one is not there yet")
    finally:
        stage.control.execute("SELECT pg_advisory_unlock(77)")
        [late] = slow.result()
        stage.control.execute("DROP FUNCTION wait_here CASCADE")
    promise([chain.hand_over(), chain.hand_over()] == [late, third], "it is found")


@story(
    Mutation(
        "patience looks at no locks",
        "final_ids.sql",
        "WHERE drawn.relation = 'jobs_id_seq'::regclass",
        "WHERE false",
    )
)
def test_a_long_transaction_delays_the_floor_only_if_it_has_written_jobs(stage: Stage) -> None:
    chain, other, slow, quick = Chain(stage), stage.session(), stage.session(), stage.session()
    chain.run(2)
    other.begin()
    other.run("SELECT pg_current_xact_id()")
    promise(chain.learn() is None, "it might write a job")
    promise(chain.learn(patient=True) is not None, "after a while we look, and it has not")
    slow.begin()
    [late] = slow.defer("a")
    [second], [third] = quick.defer("a"), quick.defer("a")
    chain.learn(patient=True)
    promise(chain.hand_over() == second, "the late one is not there yet")
    slow.commit()
    promise([chain.hand_over(), chain.hand_over()] == [late, third], "it is found")
    other.commit()


@story(
    Mutation(
        "patience looks for locks on jobs",
        "final_ids.sql",
        "drawn.relation = 'jobs_id_seq'::regclass",
        "drawn.relation = 'jobs'::regclass",
    )
)
def test_who_waits_with_an_id_has_not_yet_locked_the_table(stage: Stage) -> None:
    """A call with two jobs draws both ids, and then waits for the queueing lock of the first."""
    chain, user, slow, quick = Chain(stage), stage.session(), stage.session(), stage.session()
    chain.run(2)

    def defer(session: Session, on_conflict: str, *locks: str) -> list[int]:
        n = len(locks)
        rows = session.run(
            "SELECT id FROM defer_jobs(%s, %s::jsonb[], NULL, %s::text[], NULL, NULL, NULL, "
            "p_queueing_locks => %s::text[], p_on_conflict => %s::conflict_policy)",
            ["task"] * n, ["{}"] * n, list(locks), ["first", "second"][:n], on_conflict,
        )  # fmt: skip
        return [id for (id,) in rows]

    defer(quick, "skip", "b")
    user.begin()
    defer(user, "skip", "b")
    slow.start(defer, slow, "replace", "b", "a")
    [second], [third] = quick.defer("a"), quick.defer("a")
    promise(chain.learn(patient=True) is None, "its ids are open")
    promise(chain.hand_over() == second, "the late one is not there yet")
    user.commit()
    [_, late] = slow.result()
    promise([chain.hand_over(), chain.hand_over()] == [late, third], "it is found")


@story(
    Mutation(
        "who has drawn an id is old only if a transaction id shows it",
        "final_ids.sql",
        ") IS TRUE) IS NOT FALSE",
        ") IS NOT FALSE) IS NOT FALSE",
    )
)
def test_who_has_drawn_an_id_is_new_only_if_a_transaction_id_shows_it(stage: Stage) -> None:
    """While a transaction is being prepared, its locks may show under two names."""
    chain, other, slow = Chain(stage), stage.session(), stage.session()
    chain.run(2)
    other.begin()
    other.run("SELECT pg_current_xact_id()")
    slow.begin()
    slow.run("SELECT nextval('jobs_id_seq')")
    promise(chain.learn(patient=True) is None, "it may be old")
    slow.commit()
    promise(chain.learn(patient=True) is not None, "it is over")


@story(Mutation("sessions may cache ids", "final_ids.sql", "AND seqcache = 1", ""))
def test_nothing_is_final_while_sessions_cache_ids(stage: Stage) -> None:
    chain, slow, quick = Chain(stage), stage.session(), stage.session()
    stage.control.execute("ALTER SEQUENCE jobs_id_seq CACHE 20")
    try:
        slow.defer(None)
        quick.defer(None)
        promise(chain.learn() is None, "slow has lower ids than quick")
    finally:
        stage.control.execute("ALTER SEQUENCE jobs_id_seq CACHE 1")


@pytest.mark.parametrize("lost", ["", "10 once"])
@story(
    Mutation(
        "an unknown horizon is over",
        "final_ids.sql",
        "IF v_horizon IS NOT NULL THEN",
        "IF v_horizon IS NOT NULL OR p_patient THEN",
    ),
    Mutation(
        "the horizon of another session is good",
        "final_ids.sql",
        "CASE WHEN p_horizon = current_setting('inturn.horizon', true)",
        "CASE WHEN p_horizon <> ''",
    ),
)
def test_what_another_session_noted_is_not_final(stage: Stage, lost: str) -> None:
    """A worker has reconnected, or a pooler gives it a session that another one has used."""
    chain = Chain(stage)
    chain.run(2)
    chain.worker.run("SELECT set_config('inturn.horizon', %s, false)", lost)
    promise(chain.worker.final_ids(patient=True) is None, "it starts over")
    promise(chain.worker.final_ids(patient=True) is not None, "the session is known")


@story(
    Mutation(
        "a floor outlives its session",
        "usable_floors.sql",
        "p_horizon = current_setting('inturn.horizon', true)",
        "true",
    )
)
def test_floors_of_another_session_are_ignored(stage: Stage) -> None:
    chain, producer = Chain(stage), stage.session()
    chain.run(3)
    [last] = producer.defer("a")
    chain.worker.run("SELECT set_config('inturn.horizon', '', false)")  # as in a new one
    # After a failover, the counter may lag behind.
    [(again,)] = stage.control.execute(
        "INSERT INTO jobs (id, task, lock, status, created_at) OVERRIDING SYSTEM VALUE "
        "VALUES (0, 'task', 'a', 'todo', now()) RETURNING id"
    ).fetchall()
    promise(chain.hand_over() == again, "a look from the front finds it")
    promise(chain.learn() is None or chain.floor[1] <= last, "and the worker starts over")
    promise(chain.hand_over() == last, "in order")


@story(
    NO_LOOK_BACK,
    Mutation(
        "a floor outlives its session",
        "usable_floors.sql",
        "p_horizon = current_setting('inturn.horizon', true)",
        "true",
    ),
)
def test_a_claim_begins_at_the_floor_and_finds_what_came_behind_it(stage: Stage) -> None:
    chain = Chain(stage)
    comes = come_from_the_history(chain)
    job = next(comes)
    chain.run(4)
    worker, floors = chain.worker, {"a": [chain.floor]}
    worker.defer("a", 0, 0)
    assert chain.job is not None
    worker.finish(chain.job, want=0, floors=floors)
    next(comes, None)
    [first] = worker.claim(1, floors=floors)
    promise(first.id == job, "it comes before younger ones")
    worker.finish(first, want=0, floors=floors)
    worker.run("SELECT set_config('inturn.horizon', '', false)")  # as in a new session
    [(again,)] = stage.control.execute(
        "INSERT INTO jobs (id, task, lock, status, created_at) OVERRIDING SYSTEM VALUE "
        "VALUES (0, 'task', 'a', 'todo', now()) RETURNING id"
    ).fetchall()
    promise(worker.claim(1, floors=floors)[0].id == again, "a look from the front finds it")


@story(
    Mutation(
        "a lane begins at the highest floor",
        "lane_heads.sql",
        "line_from(lane.lock, p_floors -> lane.lock)",
        "line_from(lane.lock, (SELECT value FROM jsonb_each(p_floors) ORDER BY value DESC LIMIT 1))",
    )
)
def test_each_lane_begins_at_its_own_floor(stage: Stage) -> None:
    worker = stage.worker()
    worker.final_ids()
    [_], [low], [_], [high] = (worker.defer(lock) for lock in ("b", "b", "a", "a"))
    done = worker.finish(*worker.claim(2), floors={"a": [(0, high, 0)], "b": [(0, low, 0)]})
    promise({job.id for job in done.following} == {low, high}, "both are found")


# ---------------------------------------------------------------- jobs that come back


def come_from_a_delay(chain: Chain) -> Return:
    [job] = chain.worker.defer("a", delay="1 hour")
    yield job
    chain.worker.hasten("2 hours")
    chain.worker.claim(0)


def come_from_a_retry(chain: Chain) -> Return:
    chain.worker.defer("a", on_retry="release")
    job = chain.worker.claim_one()
    chain.worker.retry(job, delay="1 hour")
    yield job.id
    chain.worker.hasten("2 hours")
    chain.worker.claim(0)


def come_from_another_lane(chain: Chain) -> Return:
    chain.worker.defer("b")
    job = chain.worker.claim_one()
    yield job.id
    chain.worker.run(
        "SELECT retry(%s, %s, '{0}', '{NULL}', p_locks => '{a}')", [job.id], [job.claim_id]
    )


def come_from_the_history(chain: Chain) -> Return:
    [job] = chain.worker.defer("a")
    chain.worker.cancel(job)
    yield job
    chain.worker.retry_job(job)


def come_from_the_history_of_another_lane(chain: Chain) -> Return:
    [job] = chain.worker.defer("b")
    chain.worker.cancel(job)
    yield job
    chain.worker.run("SELECT retry_job_changed(%s, p_lock => 'a')", job)


def come_after_a_parent(chain: Chain) -> Return:
    chain.worker.defer(None)
    parent = chain.worker.claim_one()
    job = chain.worker.defer_after(parent.id, lock="a")
    yield job
    chain.worker.finish(parent)
    chain.worker.hasten("1 hour")
    chain.worker.claim(0)


def come_from_another_priority(chain: Chain) -> Return:
    [job] = chain.worker.defer("a", -1)
    yield job
    move(chain, job, 0)


def move(chain: Chain, job: int, priority: int) -> None:
    chain.worker.run(
        "SELECT change_jobs('move', %s, ROW('{todo,blocked}', NULL, NULL, NULL, NULL, NULL, NULL, "
        "NULL, NULL, NULL, NULL, NULL)::job_filter, p_priority => %s)",
        [job], priority,
    )  # fmt: skip


def replace(chain: Chain, delay: str | None) -> int:
    [(job,)] = chain.worker.run(
        "SELECT id FROM defer_jobs('{task}', '{\"{}\"}', NULL, '{a}', NULL, NULL, %s::interval[], "
        "p_queueing_locks => '{once}', p_on_conflict => 'replace')",
        [delay],
    )
    return cast(int, job)


def come_by_a_replacement(chain: Chain) -> Return:
    yield replace(chain, "1 hour")
    replace(chain, "0")


def come_by_a_replacement_without_a_time(chain: Chain) -> Return:
    yield replace(chain, "1 hour")
    replace(chain, None)


def come_after_a_batch(chain: Chain) -> Return:
    [(batch,)] = chain.worker.run("SELECT open_batch('b', 'task', lock => 'a')")
    [(job,)] = chain.worker.run("SELECT callback_id FROM batches WHERE id = %s", batch)
    chain.worker.run("SELECT defer('task', batch_id => %s)", batch)
    chain.worker.run("SELECT close_batch(%s)", batch)
    part = chain.worker.claim_one()
    yield job
    chain.worker.finish(part)
    chain.worker.claim(0)


WAYS = [
    come_from_a_delay,
    come_from_a_retry,
    come_from_another_lane,
    come_from_the_history,
    come_from_the_history_of_another_lane,
    come_after_a_parent,
    come_from_another_priority,
    come_by_a_replacement,
    come_by_a_replacement_without_a_time,
    come_after_a_batch,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@story(NO_LOOK_BACK)
def test_a_job_that_comes_back_behind_the_floor_is_found(
    stage: Stage, way: Callable[[Chain], Return]
) -> None:
    bring_back(stage, way)


def bring_back(stage: Stage, way: Callable[[Chain], Return]) -> None:
    chain = Chain(stage)
    comes = way(chain)
    job = next(comes)
    chain.run(4)
    [last] = chain.worker.defer("a")
    next(comes, None)
    promise(chain.hand_over() == job, "it comes before younger ones")
    promise(chain.hand_over() == last, "in order")


@story(FINAL_AT_ONCE)
def test_a_job_that_comes_back_late_is_found(stage: Stage) -> None:
    """Its number was drawn before others that are final, in a transaction that is still open."""
    chain, slow, quick = Chain(stage), stage.worker(), stage.session()
    [job] = chain.worker.defer("a", delay="1 hour")
    chain.run(4)
    slow.begin()
    slow.hasten("2 hours")
    slow.claim(0)  # promotes it
    [second], [third] = quick.defer("a"), quick.defer("a")
    chain.learn()
    promise(chain.hand_over() == second, "the other one is not back yet")
    slow.commit()
    promise(chain.hand_over() == job, "it is found")
    promise(chain.hand_over() == third, "in order")


@story(
    Mutation(
        "a retry draws a number before it has a transaction id",
        "retry.sql",
        "v_own     xid8 := pg_current_xact_id();",
        "v_own     xid8;",
    )
)
def test_who_brings_a_job_back_has_a_transaction_id_before_the_number(stage: Stage) -> None:
    """A free job that is retried into a lane has no lane whose row would be locked first."""
    chain, slow, quick = Chain(stage), stage.worker(), stage.session()
    chain.worker.defer(None)
    job = slow.claim_one()
    chain.run(4)
    into_lane = (
        "SELECT retry(%s, %s, '{0}', '{\"{}\"}', p_locks => '{a}')",
        [job.id], [job.claim_id],
    )  # fmt: skip
    slow.start_until("describe_attempt", slow.run, *into_lane)
    [second], [third] = quick.defer("a"), quick.defer("a")
    chain.learn()
    promise(chain.hand_over() == second, "the other one is not back yet")
    slow.resume()
    promise(chain.hand_over() == job.id, "it is found")
    promise(chain.hand_over() == third, "in order")


@story(
    Mutation(
        "jobs with a new number are not read",
        "line_from.sql",
        "AND jobs.back_id > (SELECT v_floor.final)",
        "AND false",
    ),
)
def test_a_job_that_has_drawn_a_number_is_found(stage: Stage) -> None:
    bring_back(stage, come_from_a_delay)


@story(
    Mutation(
        "jobs without a number are not read",
        "line_from.sql",
        "AND jobs.back_id IS NULL",
        "AND false",
    ),
)
def test_a_job_that_came_back_without_a_number_is_found(stage: Stage) -> None:
    bring_back(stage, come_from_another_priority)


def come_from_a_delay_at_once(chain: Chain, *priorities: int) -> int:
    [job] = chain.worker.defer("a", *priorities, delay="1 hour", on_retry="release")
    chain.worker.hasten("2 hours")
    chain.worker.claim(0)
    chain.worker.hasten("0")
    return job


@story(
    Mutation(
        "a moved job keeps its number",
        "move_waiting.sql",
        "CASE WHEN coalesce(p_priority, priority) = priority THEN back_id END",
        "back_id",
    ),
)
def test_a_job_that_moves_has_no_number_any_more(stage: Stage) -> None:
    chain = Chain(stage)
    job = come_from_a_delay_at_once(chain, -1)
    chain.run(4)
    [last] = chain.worker.defer("a")
    move(chain, job, 0)
    promise(chain.hand_over() == job, "it comes before younger ones")
    promise(chain.hand_over() == last, "in order")


@story(Mutation("a changed job keeps its number", "retry_job_changed.sql", "back_id = NULL,", ""))
def test_a_job_that_is_changed_has_no_number_any_more(stage: Stage) -> None:
    """It has halted four lanes, is brought back by way of one, and changed by way of two others."""
    chain = Chain(stage)
    worker = chain.worker
    [(job,)] = worker.run(
        "SELECT defer('task', locks => '{a,b,c,d}', priority => -1, on_failure => 'halt')"
    )
    worker.finish(worker.claim_one(), status="failed", want=0)
    worker.run("SELECT resume_lane('a'), retry_head('b')")
    worker.run("SELECT retry_job_changed(%s, clock() + '1 hour')", job)
    worker.hasten("2 hours")
    worker.claim(0)
    worker.hasten("0")
    chain.run(4)
    worker.defer("a")
    worker.run("SELECT retry_job_changed(%s, NULL, 0)", job)
    promise(chain.hand_over() is None, "it is next, and a claim must try its lanes")


@story(
    Mutation(
        "a delayed job keeps its number",
        "retry.sql",
        "back_id = CASE WHEN ended.due_at > clock() THEN NULL",
        "back_id = CASE WHEN ended.due_at > clock() THEN jobs.back_id",
    ),
)
def test_a_job_that_waits_for_a_retry_has_no_number_any_more(stage: Stage) -> None:
    chain = Chain(stage)
    job = come_from_a_delay_at_once(chain)
    chain.worker.retry(chain.worker.claim_one(), delay="1 hour")
    chain.run(4)
    [last] = chain.worker.defer("a")
    chain.worker.retry_job(job)
    promise(chain.hand_over() == job, "it comes before younger ones")
    promise(chain.hand_over() == last, "in order")


@story(
    Mutation(
        "a job that was moved has no mark",
        "move_waiting.sql",
        "CASE WHEN scheduled_at IS NULL AND p_priority <> priority",
        "CASE WHEN false",
    )
)
def test_a_job_with_another_priority_is_found(stage: Stage) -> None:
    bring_back(stage, come_from_another_priority)


@story(
    Mutation(
        "nothing is looked for above the floor",
        "line_from.sql",
        "AND jobs.priority > v_floor.priority",
        "AND false",
    ),
    Mutation(
        "nothing is looked for below the floor",
        "line_from.sql",
        "v_above := CASE WHEN NOT FOUND THEN v_floor.priority END;",
        "v_above := NULL;",
    ),
)
def test_jobs_of_other_priorities_are_found(stage: Stage) -> None:
    chain = Chain(stage)
    chain.run(2)
    low, middle, high = (chain.worker.defer("a", priority)[0] for priority in (-1, 1, 2))
    chain.learn()
    promise(chain.hand_over(2) == high, "first the highest")
    [highest] = chain.worker.defer("a", 3)
    [same] = chain.worker.defer("a", 0)
    promise(chain.hand_over(3) == highest, "also above the floor")
    promise(chain.hand_over(1) == middle, "also below it")
    promise([chain.hand_over(0), chain.hand_over(-1)] == [same, low], "and further below")


@story(
    Mutation(
        "the lines of second lanes are left out",
        "line_from.sql",
        "FROM waits WHERE waits.lock = p_lock",
        "FROM waits WHERE false",
    )
)
def test_a_job_whose_second_lane_it_is_keeps_its_place(stage: Stage) -> None:
    chain = Chain(stage)
    chain.run(2)
    several = chain.worker.defer_several("A", "a")
    chain.worker.defer("a")
    promise(chain.hand_over() is None, "a claim must try its lanes")
    promise(chain.claim() == several, "it is next")
