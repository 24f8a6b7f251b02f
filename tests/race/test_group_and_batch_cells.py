"""What jobs and lanes go through, met by jobs of groups, jobs of batches, and callbacks.

combinations.md is the table. Each story here is told for all things that can happen to a
job, so one story fills several cells.
"""

from typing import Any

import psycopg

from tests.race.harness import Mutation, Session, Stage, Worker, ids, promise, story
from tests.race.test_batches import close, join, leftovers, open_batch, progress
from tests.race.test_fences_after_failover import start_timeline
from tests.race.test_flow_cells import BETWEEN, ENDS, LATER, PEOPLE, used
from tests.race.test_flow_combinations import status
from tests.race.test_groups import defer, groups, start

NO_MEMORY = Mutation(
    "each claim begins with the first group",
    "begin_turns.sql",
    "r.turns := coalesce(r.turns, '{}');",
    "r.turns := '{}';",
)
WAYS = [(on_retry, name) for on_retry in ("hold", "release") for name in BETWEEN]


def clear(stage: Stage) -> None:
    for table in ("jobs", "lanes", "finished_jobs"):
        stage.control.execute(f"DELETE FROM {table}".encode())


def alternate(stage: Stage, worker: Worker, label: str) -> list[int]:
    """Start six jobs of the groups a and b, and see that they take turns."""
    started = start(worker, 6)
    promise(groups(stage, started) in ("ababab", "bababa"), f"{label}: {groups(stage, started)}")
    promise(len(set(stage.doing())) == len(stage.doing()), f"{label}: each job once")
    return started


# ---------------------------------------------------------------- groups


@story(NO_MEMORY)
def test_the_groups_take_turns_whatever_ends_an_attempt(stage: Stage) -> None:
    person = stage.session()
    for on_retry in ("hold", "release"):
        for name, happening in (BETWEEN | ENDS).items():
            label, worker = f"{on_retry} {name}", stage.worker()
            person.defer("lane", group="a", on_retry=on_retry, on_failure="halt")
            running = worker.claim_one()
            defer(person, 4, "a")
            defer(person, 8, "b")
            happening(stage, worker, running)
            alternate(stage, worker, label)
            clear(stage)


@story(NO_MEMORY)
def test_the_groups_take_turns_whatever_people_do_to_a_lane(stage: Stage) -> None:
    person = stage.session()
    for name, change in (PEOPLE | {"pause": lambda person, _, lane: person.pause(lane)}).items():
        worker = stage.worker()
        [first] = person.defer("lane", group="a")
        defer(person, 4, "a")
        defer(person, 4, "b")
        change(person, first, "lane")
        promise(first not in alternate(stage, worker, name), f"{name}: it does not start")
        clear(stage)


@story(NO_MEMORY)
def test_the_groups_take_turns_through_a_failover(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    defer(person, 9, "a")
    defer(person, 9, "b")
    alternate(stage, worker, "before")
    start_timeline(stage)
    alternate(stage, worker, "a worker that goes on")
    alternate(stage, stage.worker(), "a new one")


def test_a_waiting_job_that_is_replaced_keeps_its_group(stage: Stage) -> None:
    person = stage.session()
    for group in "ab":
        person.run(
            "SELECT defer('t', group_key => %s, queueing_lock => 'q', on_conflict => 'replace')",
            group,
        )
    promise(person.run("SELECT group_key FROM jobs") == [("a",)], "and its place")


@story(NO_MEMORY)
def test_the_jobs_of_a_schedule_take_the_turns_of_their_group(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.run("SELECT register_schedules('{t}', '{\"\"}', '{@hourly}', '{UTC}')")
    defer(person, 4, "b")
    for minutes in range(4):
        person.run(
            "SELECT defer_periodic('', now() - %s * interval '1 min', '{t}', ARRAY['{}'::jsonb], "
            "'{default}', '{null}', '{0}', '{null}', '{null}', p_group_keys => '{a}')",
            4 - minutes,
        )
    alternate(stage, worker, "periodic")


@story(NO_MEMORY)
def test_jobs_of_a_group_that_expire_take_no_turn(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    for _ in range(6):
        person.defer(None, group="a", expires_in="1 hour")
    defer(person, 4, "a")
    defer(person, 4, "b")
    worker.hasten(LATER)
    alternate(stage, worker, "expiry")


@story(NO_MEMORY)
def test_the_jobs_of_a_batch_take_the_turns_of_their_groups(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    batch, callback = open_batch(person)
    for group in "aaaabbbb":
        person.run("SELECT defer('t', group_key => %s, batch_id => %s)", group, batch)
    close(person, batch)
    alternate(stage, worker, "a batch")
    promise(status(person, callback) == "pending", "some are left")


# ---------------------------------------------------------------- jobs of a batch


@story(
    Mutation(
        "the end of an attempt is an end",
        "retry.sql",
        "IF v_again.ids IS NOT NULL THEN",
        "IF v_again.ids IS NOT NULL THEN PERFORM tell_batch(again.id, again.batch_id, 'failed') "
        "FROM jobs AS again WHERE again.id = ANY (v_again.ids) AND again.batch_id IS NOT NULL;",
    ),
)
def test_the_end_of_an_attempt_ends_no_batch_whatever_it_wants(stage: Stage) -> None:
    person = stage.session()
    for on_retry, name in WAYS:
        label, worker = f"{on_retry} {name}", stage.worker()
        batch, callback = open_batch(person)
        [(job,)] = person.run(
            "SELECT defer('t', lock => %s, batch_id => %s, on_retry => %s)", label, batch, on_retry
        )
        close(person, batch)
        BETWEEN[name](stage, worker, worker.claim_one())
        promise(ids(running := worker.claim()) == [job], f"{label}: it starts again")
        promise(progress(person, batch)[:3] == ("closed", 1, 1), f"{label}: it has not ended")
        worker.finish(*running)
        promise(ids(last := worker.claim()) == [callback], f"{label}: now it has")
        promise(progress(person, batch) == ("ended", 1, 0, 1, 0, 0), f"{label}: once")
        worker.finish(*last)
    promise(leftovers(person) == 0, "nothing is left")


@story(
    Mutation(
        "an end is told to nobody",
        "archive_jobs.sql",
        "tell_batch(gone.id, gone.batch_id, gone.outcome)",
        "true",
    ),
)
def test_whatever_ends_a_job_counts_in_its_batch_once(stage: Stage) -> None:
    person = stage.session()
    for name in (*ENDS, *PEOPLE):
        worker = stage.worker()
        batch, callback = open_batch(person)
        job = join(person, batch, name, on_failure="halt")
        if name in ENDS:
            ENDS[name](stage, worker, worker.claim_one())
        else:
            person.pause(name)
            promise(worker.claim() == [], f"{name}: it waits")
            PEOPLE[name](person, job, name)
        promise(worker.claim() == [], f"{name}: the batch is open")
        close(person, batch)
        promise(ids(last := worker.claim()) == [callback], f"{name}: it has ended")
        promise(
            progress(person, batch)[:3] == ("ended", 1, 0), f"{name}: {progress(person, batch)}"
        )
        worker.finish(*last)


@story(
    Mutation("the timeline is not looked at", "start_jobs.sql", "<> timeline()", "<> 7"),
)
def test_a_failover_ends_no_batch_and_loses_no_end(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    batch, callback = open_batch(person)
    for _ in range(2):
        join(person, batch)
    close(person, batch)
    first, second = worker.claim()
    worker.finish(first)
    fence = start_timeline(stage)
    after = stage.worker()
    promise(after.claim() == [], "one of them runs")
    worker.finish(second)
    promise(ids(after.claim()) == [callback], "the end of an older fence counts")
    [(own,)] = person.run("SELECT fence FROM jobs WHERE id = %s", callback)
    promise(own > fence + (1 << 39), "above all that the old server can have given")
    promise(progress(person, batch) == ("ended", 2, 0, 2, 0, 0), "and so did the one before")


def test_a_batch_waits_for_a_job_that_waits_for_its_limit(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("slots", 1)
    person.defer(None, 9, limit="slots")
    batch, callback = open_batch(person)
    [(job,)] = person.run("SELECT defer('t', limit_key => 'slots', batch_id => %s)", batch)
    close(person, batch)
    running = worker.claim()
    promise(worker.claim() == [] and status(person, job) == "limited", "it waits")
    [(detail,)] = person.run(
        "SELECT detail FROM explain(%s) WHERE reason = 'batch'", callback
    )  # fmt: skip
    promise(f"waits for job {job}" in detail, detail)
    promise(ids(running := worker.finish(*running).following) == [job], "it has the slot")
    worker.finish(*running)
    promise(ids(worker.claim()) == [callback] and used(stage, "slots") == 0, "the batch ends")


def test_a_batch_waits_for_jobs_that_come_after_others(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    batch, callback = open_batch(person)
    [parent] = person.defer(None)
    for policy in ("cancel", "go"):
        person.run(
            "SELECT defer('t', after => ARRAY[%s::bigint], on_parent => %s, batch_id => %s)",
            parent, policy, batch,
        )  # fmt: skip
    close(person, batch)
    running = worker.claim()
    promise(ids(running) == [parent] and worker.claim() == [], "both wait")
    worker.finish(*running, status="failed")
    promise(len(running := worker.claim()) == 1, "one of them minds")
    worker.finish(*running)
    promise(ids(worker.claim()) == [callback], "both have ended")
    promise(progress(person, batch) == ("ended", 2, 0, 1, 0, 1), "each in its way")


# ---------------------------------------------------------------- callbacks


@story(
    Mutation(
        "the callback counts, and the batch goes on counting",
        "note_batch_event.sql",
        "AND ended_at IS NULL\n        AND (p_job IS NULL OR callback_id IS DISTINCT FROM p_job)",
        "",
    ),
)
def test_whatever_ends_an_attempt_of_a_callback_its_batch_has_ended(stage: Stage) -> None:
    person = stage.session()
    for on_retry, name in WAYS:
        label, worker = f"{on_retry} {name}", stage.worker()
        batch, callback = open_ended(person, worker, label, on_retry)
        BETWEEN[name](stage, worker, worker.claim_one())
        promise(ids(running := worker.claim()) == [callback], f"{label}: it starts again")
        promise(progress(person, batch) == ("ended", 1, 0, 1, 0, 0), f"{label}: and is told so")
        worker.finish(*running)
        promise(worker.claim() == [], f"{label}: its end is the last one")
        promise(progress(person, batch) == ("ended", 1, 0, 1, 0, 0), f"{label}: no count changes")
    promise(leftovers(person) == 0, "nothing is left")


def open_ended(
    person: Session, worker: Worker, lock: str, on_retry: str = "hold"
) -> tuple[int, int]:
    """A batch whose only job has ended, and its callback, which has yet to start."""
    [(batch,)] = person.run(
        "SELECT open_batch('b', 'callback', lock => %s, on_retry => %s, on_failure => 'halt')",
        lock, on_retry,
    )  # fmt: skip
    [(callback,)] = person.run("SELECT callback_id FROM batches WHERE id = %s", batch)
    join(person, batch)
    close(person, batch)
    worker.finish(worker.claim_one(), want=0)
    return int(batch), int(callback)


def test_a_callback_in_a_lane_is_halted_paused_and_ended_as_any_job(stage: Stage) -> None:
    person = stage.session()
    for name in (*ENDS, *PEOPLE):
        worker = stage.worker()
        batch, callback = open_ended(person, worker, name)
        if name in ENDS:
            ENDS[name](stage, worker, worker.claim_one())
            if name == "failure that halts":
                promise(stage.lanes()[name] == "halted", "its lane is halted")
                promise(person.retry_head(name) == callback, "a person has it run once more")
                worker.finish(worker.claim_one())
        else:
            person.pause(name)
            promise(worker.claim() == [], f"{name}: it waits in its lane")
            promise(progress(person, batch)[0] == "ended", f"{name}: which is not the batch's")
            PEOPLE[name](person, callback, name)
            person.resume_lane(name)
        promise(worker.claim() == [], f"{name}: it has ended")
        promise(progress(person, batch) == ("ended", 1, 0, 1, 0, 0), f"{name}: no count changes")
        promise(name not in stage.lanes(), f"{name}: its lane is free")


def test_a_callback_that_waits_for_its_batch_is_in_no_lane(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    batch, callback = open_batch(person, "a")
    promise(person.skip_head("a") is None and person.cancel_waiting("a") == 0, "nobody skips it")
    [other] = person.defer("a")
    promise(ids(running := worker.claim()) == [other], "the lane does not wait for it")
    close(person, batch)
    promise(worker.claim() == [] and status(person, callback) == "blocked", "now it is in it")
    promise(ids(worker.finish(*running).following) == [callback], "and the next one")


def test_a_callback_waits_for_its_limit_when_its_batch_has_ended(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("slots", 1)
    [(batch,)] = person.run("SELECT open_batch('b', 'callback', limit_key => 'slots')")
    [(callback,)] = person.run("SELECT callback_id FROM batches WHERE id = %s", batch)
    person.defer(None, limit="slots")
    running = worker.claim()
    close(person, batch)
    promise(worker.claim() == [] and status(person, callback) == "limited", "it waits")
    following = worker.finish(*running).following
    promise(ids(following) == [callback] and used(stage, "slots") == 1, "it has the slot")


def test_a_failover_keeps_a_callback_that_waits_and_one_that_runs(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    batch, waiting = open_batch(person)
    _, running = open_ended(person, worker, "a")
    promise(ids(started := worker.claim()) == [running], "one runs")
    start_timeline(stage)
    after = stage.worker()
    promise(after.claim() == [], "it runs on, and the other one waits")
    promise(worker.finish(*started).accepted == [running], "its end counts")
    close(person, batch)
    promise(ids(after.claim()) == [waiting], "the other batch ends")


def test_a_job_of_a_batch_that_is_to_come_after_its_callback_is_refused(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    batch, callback = open_batch(person)
    other, _ = open_batch(person)
    refused: Any = None
    try:
        person.run("SELECT defer('t', after => ARRAY[%s::bigint], batch_id => %s)", callback, batch)
    except psycopg.errors.InvalidParameterValue as error:
        refused = error
    promise("after: " in str(refused), "they would wait for each other")
    person.run("SELECT defer('t', after => ARRAY[%s::bigint], batch_id => %s)", callback, other)
    close(person, batch)
    promise(ids(worker.claim()) == [callback], "nobody has joined")
