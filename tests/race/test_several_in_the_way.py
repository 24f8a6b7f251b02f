"""Jobs with several lanes that cannot start now: they keep nobody else from starting, or awake."""

from tests.race.harness import Mutation, Session, Stage, ids, promise, story

IN_FRONT = 100  # more than a claim tries one by one


def defer_many(session: Session, *, first: str, second: str) -> None:
    session.run(
        "SELECT count(defer('task', locks => ARRAY[%s || n, %s])) FROM generate_series(1, %s) AS n",
        first, second, IN_FRONT,
    )  # fmt: skip


@story(
    Mutation(
        "only the line of the first lane is left out",
        "lane_tokens.sql",
        "NOT t.locks && p_lost AND",
        "t.lock NOT IN (SELECT unnest(p_lost)) AND",
    ),
    Mutation(
        "the lane that was lost is not known",
        "win_lanes.sql",
        "lost := v_lock;",
        "lost := p_job.locks[1];",
    ),
)
def test_jobs_whose_second_lane_a_person_has_locked_are_in_nobodys_way(stage: Stage) -> None:
    person, other, worker = stage.session(), stage.session(), stage.worker()
    defer_many(person, first="a", second="hot")
    other.begin()
    other.pause("hot")
    [free] = person.defer(None)
    [single] = person.defer("z")
    started = ids(worker.claim())
    promise(started == [free, single], f"the others start: {started}")


@story(
    Mutation(
        "a job is tried although somebody has it locked",
        "lane_tokens.sql",
        "CASE WHEN is_touched(t.xmin, t.xmax) THEN try_lock_job(t.id) ELSE true END",
        "(t.locks IS NOT NULL OR "
        "CASE WHEN is_touched(t.xmin, t.xmax) THEN try_lock_job(t.id) ELSE true END)",
    )
)
def test_jobs_that_a_person_has_locked_are_in_nobodys_way(stage: Stage) -> None:
    person, other, worker = stage.session(), stage.session(), stage.worker()
    defer_many(person, first="a", second="hot")
    other.begin()
    other.run("SELECT FROM jobs FOR UPDATE")
    [free] = person.defer(None)
    [single] = person.defer("z")
    started = ids(worker.claim())
    promise(started == [free, single], f"the others start: {started}")


@story(
    Mutation(
        "the lanes that are given back wake somebody for the job itself",
        "start_in_lanes.sql",
        "PERFORM notify_workers(release_lanes(v_won.new_lanes, p_id));",
        "PERFORM notify_workers(release_lanes(v_won.new_lanes, v_asleep[1]));",
    )
)
def test_idle_workers_do_not_wake_each_other_for_a_job_that_cannot_start(stage: Stage) -> None:
    person, other, worker = stage.session(), stage.session(), stage.worker()
    job = person.defer_several("a", "hot")
    other.begin()
    other.pause("hot")
    with stage.notifications() as heard:
        promise(worker.claim() == [], "one of its lanes is locked")
    promise(heard == [], f"nothing has changed for anybody: {heard}")
    other.rollback()
    promise(ids(worker.claim()) == [job], "it starts")
