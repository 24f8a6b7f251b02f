"""What jobs go through, met by jobs that have several lanes, and by jobs that share one.

combinations.md is the table. Each story here is told for all things that can happen to a
job, so one story fills several cells.
"""

import pytest

from tests.race.harness import Job, Mutation, Session, Stage, Worker, ids, promise, story
from tests.race.test_fences_after_failover import start_timeline
from tests.race.test_flow_cells import BETWEEN, LATER, PEOPLE, Happening
from tests.race.test_flow_combinations import status

# A job with two lanes of its own, one that shares the first of them, and one that shares its only
# lane.
KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "several": (("a", "b"), ()),
    "several, one shared": (("a", "b"), ("a",)),
    "shared": (("a",), ("a",)),
}
# ENDS, and the worker that ends the job claims nothing with it.
QUIET_ENDS: dict[str, Happening] = {
    "failure that halts": lambda stage, worker, job: worker.finish(job, want=0, status="failed"),
    "abort": lambda stage, worker, job: (
        worker.run("SELECT cancel_job(%s, true)", job.id),
        worker.finish(job, want=0, status="aborted"),
    ),
}
IN_LINE_STILL = Mutation(
    "a job that goes stays in line",
    "archive_jobs.sql",
    "THEN leave_line(gone.id, gone.priority, gone.locks) ELSE true END",
    "THEN true ELSE true END",
)
LINE = "SELECT count(*) FROM waits"


def defer_with(person: Session, kind: str, on_retry: str = "hold", on_failure: str = "halt") -> int:
    lanes, shared = KINDS[kind]
    return person.defer_several(*lanes, shared=shared, on_retry=on_retry, on_failure=on_failure)


def defer_behind(person: Session, kind: str, priority: int = 0) -> set[int]:
    """Defer a job behind it in each of its lanes. It has the lane for itself."""
    return {id for lane in KINDS[kind][0] for id in person.defer(lane, priority)}


def claim_all(worker: Worker) -> list[Job]:
    """Claim until nothing more starts."""
    jobs: list[Job] = []
    while claimed := worker.claim():
        jobs += claimed
    return jobs


def finish_all(stage: Stage, worker: Worker, behind: set[int], label: str) -> None:
    """See that the jobs behind start, and that nothing is left."""
    started: set[int] = set()
    while jobs := worker.claim():
        started |= {*ids(jobs)}
        worker.finish(*jobs, want=0)
    promise(started == behind, f"{label}: {started} started, and not {behind}")
    promise(stage.lanes() == {}, f"{label}: its lanes are free: {stage.lanes()}")
    promise(worker.run(LINE) == [(0,)], f"{label}: no line is left")


@pytest.mark.landing
@story(
    Mutation(
        "a retry keeps no lane",
        "retry.sql",
        "keeps_lanes = CASE WHEN jobs.locks IS NOT NULL AND",
        "keeps_lanes = CASE WHEN jobs.locks IS NULL AND",
    ),
)
def test_all_lanes_wait_for_the_next_attempt_whatever_ends_the_last(stage: Stage) -> None:
    person = stage.session()
    for kind in KINDS:
        for on_retry in ("hold", "release"):
            for name, happening in BETWEEN.items():
                label, worker = f"{kind} {on_retry} {name}", stage.worker()
                job = defer_with(person, kind, on_retry)
                [running] = claim_all(worker)
                # Those with a higher priority go first, unless the lanes are kept for it.
                is_kept = on_retry == "hold" and name != "put back"
                behind = defer_behind(person, kind, 5 if is_kept else 0)
                promise(claim_all(worker) == [], f"{label}: they wait for it")
                happening(stage, worker, running)
                again = claim_all(worker)
                promise(ids(again) == [job], f"{label}: it starts again, and nothing else: {again}")
                worker.finish(*again, want=0)
                finish_all(stage, worker, behind, label)


@story(
    Mutation(
        "an end gives back only the first lane",
        "finish.sql",
        "ARRAY(SELECT leave_lanes(v_done.several))",
        "(ARRAY(SELECT leave_lanes(v_done.several)))[1:1]",
    ),
)
def test_all_lanes_go_on_whatever_ends_a_job_that_runs(stage: Stage) -> None:
    person = stage.session()
    for kind, (lanes, _) in KINDS.items():
        for name, happening in QUIET_ENDS.items():
            label, worker = f"{kind} {name}", stage.worker()
            defer_with(person, kind)
            [running] = claim_all(worker)
            behind = defer_behind(person, kind)
            happening(stage, worker, running)
            if name == "failure that halts":
                promise(stage.lanes() == dict.fromkeys(lanes, "halted"), f"{label}: all of them")
                promise(claim_all(worker) == [], f"{label}: nothing starts")
                for lane in lanes:
                    person.resume_lane(lane)
            finish_all(stage, worker, behind, label)


@story(IN_LINE_STILL)
def test_all_lanes_go_on_whatever_people_do_to_a_job_that_waits(stage: Stage) -> None:
    person = stage.session()
    for kind, (lanes, _) in KINDS.items():
        for name, change in PEOPLE.items():
            label, worker = f"{kind} {name}", stage.worker()
            person.pause("a")
            job = defer_with(person, kind)
            behind = defer_behind(person, kind)
            promise(claim_all(worker) == [], f"{label}: the first lane is paused")
            change(person, job, "a")
            cancelled = {id for id in behind if status(person, id) == "cancelled"}
            promise(len(cancelled) == (name == "cancel waiting"), f"{label}: {cancelled}")
            promise(len(claim_first(worker)) == len(lanes) - 1, f"{label}: the other one goes on")
            person.resume_lane("a")
            gone = {id for id in behind if status(person, id) == "succeeded"}
            finish_all(stage, worker, behind - cancelled - gone, label)


def claim_first(worker: Worker) -> list[Job]:
    """Claim and finish what can start."""
    jobs = claim_all(worker)
    worker.finish(*jobs, want=0)
    return jobs


def test_a_job_does_not_start_while_one_of_its_lanes_is_paused(stage: Stage) -> None:
    person = stage.session()
    for kind, (lanes, _) in KINDS.items():
        for lane in lanes:
            label, worker = f"{kind}, lane {lane}", stage.worker()
            person.pause(lane)
            job = defer_with(person, kind)
            promise(claim_all(worker) == [], f"{label}: it waits")
            person.resume_lane(lane)
            promise(ids(running := claim_all(worker)) == [job], f"{label}: it starts")
            worker.finish(*running)


@story(
    Mutation("the timeline is not looked at", "start_jobs.sql", "<> timeline()", "<> 7"),
)
def test_a_failover_keeps_all_lanes_of_a_job_that_runs(stage: Stage) -> None:
    person = stage.session()
    for kind in KINDS:
        worker = stage.worker()
        job = defer_with(person, kind)
        running = claim_all(worker)
        behind = defer_behind(person, kind)
        fence = start_timeline(stage)
        after = stage.worker()
        promise(claim_all(after) == [], f"{kind}: its lanes are held")
        promise(worker.finish(*running, want=0).accepted == [job], f"{kind}: its end counts")
        started = claim_all(after)
        promise({*ids(started)} == behind, f"{kind}: they go on")
        [(lowest,)] = person.run("SELECT min(fence) FROM jobs WHERE status = 'doing'")
        promise(lowest > fence + (1 << 39), f"{kind}: with higher fences")
        after.finish(*started, want=0)
        stage.control.execute("SELECT setval('fences', 1, false)")
        stage.control.execute("DELETE FROM finished_jobs")


@story(IN_LINE_STILL)
def test_a_job_with_lanes_that_expires_leaves_all_of_them(stage: Stage) -> None:
    person = stage.session()
    for kind in KINDS:
        worker = stage.worker()
        person.pause("a")
        job = defer_with(person, kind)
        person.run("UPDATE jobs SET expires_at = now() + interval '1 hour' WHERE id = %s", job)
        behind = defer_behind(person, kind)
        promise(claim_all(worker) == [], f"{kind}: it waits")
        worker.hasten(LATER)
        first = claim_first(worker)
        promise(status(person, job) == "cancelled", f"{kind}: it is over")
        person.resume_lane("a")
        finish_all(stage, worker, behind - {*ids(first)}, kind)


@story(
    Mutation(
        "it gets in no line",
        "free_children.sql",
        "PERFORM join_lanes(v_joining) WHERE v_joining IS NOT NULL;",
        "",
    ),
)
def test_a_job_with_lanes_is_in_none_of_them_before_its_parents_have_ended(stage: Stage) -> None:
    person = stage.session()
    for kind, (lanes, shared) in KINDS.items():
        worker = stage.worker()
        [parent] = person.defer(None)
        [(child,)] = person.run(
            "SELECT defer('t', locks => %s, shared => %s, after => ARRAY[%s::bigint])",
            list(lanes), list(shared), parent,
        )  # fmt: skip
        behind = defer_behind(person, kind)
        running = {job.id: job for job in claim_all(worker)}
        promise({*running} == behind | {parent}, f"{kind}: its lanes are free")
        worker.finish(running.pop(parent), want=0)
        promise(claim_all(worker) == [], f"{kind}: now they are held")
        promise(person.run(LINE) == [(len(lanes) - 1,)], f"{kind}: it is in line in each")
        worker.finish(*running.values(), want=0)
        finish_all(stage, worker, {child}, kind)


def test_the_jobs_of_a_schedule_have_all_of_their_lanes(stage: Stage) -> None:
    person = stage.session()
    person.run("SELECT register_schedules('{t}', '{\"\"}', '{@hourly}', '{UTC}')")
    for place, (kind, (lanes, shared)) in enumerate(KINDS.items()):
        worker = stage.worker()
        [(job,)] = person.run(
            "SELECT defer_periodic('', now() - %s * interval '1 min', '{t}', ARRAY['{}'::jsonb], "
            "'{default}', %s::text[], '{0}', '{null}', '{null}', p_lanes => %s::text[], "
            "p_lanes_of => %s::integer[], p_lanes_shared => %s::boolean[])",
            9 - place, [None], list(lanes), [1] * len(lanes), [lane in shared for lane in lanes],
        )  # fmt: skip
        behind = defer_behind(person, kind)
        promise(ids(running := claim_all(worker)) == [job], f"{kind}: it is alone in its lanes")
        worker.finish(*running, want=0)
        finish_all(stage, worker, behind, kind)
