"""Jobs with several lanes that cannot start now: they keep nobody else from starting, or awake."""

import pytest

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
        "NOT arrayoverlap(t.locks, p_lost) AND",
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


@story(
    Mutation(
        "the lanes are taken by their names",
        "expire_jobs.sql",
        "GROUP BY lane ORDER BY min(place) LIMIT p_lanes",
        "GROUP BY lane ORDER BY lane LIMIT p_lanes",
    )
)
def test_jobs_with_many_lanes_expire_a_few_at_a_time(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.run(
        "SELECT count(defer('task', locks => ARRAY['a' || n, 'z' || n], "
        "expires_at => clock() + interval '1 hour')) FROM generate_series(1, 60) AS n"
    )
    worker.hasten("2 hours")
    for _ in range(3):  # each looks at 50 lanes
        worker.claim()
    promise(not stage.statuses(), f"{len(stage.statuses())} have not expired")


@pytest.mark.landing
@story(
    Mutation(
        "the lanes are taken as they come",
        "cancel_in_lanes.sql",
        "GROUP BY lane ORDER BY min(id) LIMIT 500",
        "GROUP BY lane ORDER BY lane LIMIT 500",
    )
)
def test_a_lane_whose_jobs_have_many_lanes_is_cancelled_a_part_at_a_time(stage: Stage) -> None:
    person = stage.session()
    person.run(
        "SELECT count(defer('task', locks => ARRAY['x', 'a' || n, 'b' || n])) "
        "FROM generate_series(1, 600) AS n"
    )
    cancelled = [person.cancel_waiting("x") for _ in range(3)]
    promise(cancelled == [250, 250, 100], f"{cancelled}")
    promise(not stage.lanes(), "no lane is left")


@story(
    Mutation(
        "a job that keeps its share stays",
        "cancel_in_lanes.sql",
        "SELECT id FROM jobs WHERE keeps_lanes AND p_lock = ANY (shared)",
        "SELECT id FROM jobs WHERE false",
    )
)
def test_cancel_waiting_ends_a_reader_that_waits_for_its_retry(stage: Stage) -> None:
    """As it ends a job that keeps the lane for itself."""
    person, worker = stage.session(), stage.worker()
    person.defer_several("a", "b", shared="a")
    [reader] = worker.claim()
    worker.retry(reader, delay="1 hour")
    [writer] = person.defer("a")
    promise(person.cancel_waiting("a") == 2, f"{reader.id} and {writer}")
    [later] = person.defer("a")
    promise(ids(worker.claim()) == [later], "nobody reads any more")


@story(
    Mutation(
        "the reconciler does not look at the line",
        "lane_is_stranded.sql",
        "line_is_wrong(p_lock) OR",
        "",
    )
)
def test_the_reconciler_repairs_a_lane_after_a_job_was_deleted_by_hand(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.defer_several("a", "b")
    stage.control.execute("DELETE FROM jobs")
    [job] = person.defer("b")
    worker.claim()
    person.reconcile()
    promise(ids(worker.claim()) == [job], "it starts")


@story(
    Mutation(
        "it does not look at lanes that are the second of all jobs",
        "reconcile.sql",
        "SELECT lock FROM beside WHERE n > 0 AND lock IS NOT NULL",
        "SELECT lock FROM beside WHERE false",
    )
)
def test_the_reconciler_takes_jobs_out_of_line_that_were_deleted_by_hand(stage: Stage) -> None:
    person = stage.session()
    person.defer_several("a", "b", "c")
    stage.control.execute("DELETE FROM jobs")
    person.reconcile()
    left = person.run("SELECT lock FROM waits")
    promise(left == [] and not stage.lanes(), f"nobody is in line: {left}")


@story(
    Mutation(
        "only the first row of the line is looked at",
        "line_is_wrong.sql",
        "WHERE head.several AND",
        "WHERE false AND",
    )
)
def test_the_reconciler_repairs_lanes_after_a_priority_was_changed_by_hand(stage: Stage) -> None:
    """Each of the two jobs waits for the other one."""
    person, worker = stage.session(), stage.worker()
    first = person.defer_several("a", "b")
    second = person.defer_several("a", "b")
    stage.control.execute("UPDATE jobs SET priority = 5 WHERE id = %s", [second])
    promise(worker.claim() == [], "neither is the head of both lanes")
    person.reconcile()
    order = []
    while jobs := worker.claim(1):
        order += ids(jobs)
        worker.finish(*jobs, want=0)
    promise(order == [second, first], f"{order}")
