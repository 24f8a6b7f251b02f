"""Shared lanes: readers run side by side, a writer alone, and all start in order."""

import psycopg

from tests.race.harness import Mutation, Stage, ids, promise, story


@story(
    Mutation(
        "a reader wakes nobody",
        "start_in_lanes.sql",
        "PERFORM notify_workers(wake_readers(v_seen.shared)) WHERE v_seen.shared IS NOT NULL;",
        "",
    ),
)
def test_readers_run_side_by_side(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.defer("a")
    [writer] = worker.claim()
    readers = [person.defer_several("a", shared="a") for _ in range(3)]
    worker.claim()
    promise(set(stage.statuses().values()) == {"doing", "blocked"}, f"{stage.statuses()}")
    worker.finish(writer)
    started = []
    while jobs := worker.claim(1):
        started += ids(jobs)
    promise(started == readers, f"all of them run: {started}")
    promise(stage.lanes() == {"a": "held"}, "in one lane")


@story(
    Mutation(
        "a writer joins readers",
        "lets_start.sql",
        "p_lane.readers IS NOT NULL AND coalesce(p_lane.lock = ANY (p_shared), false)",
        "p_lane.readers IS NOT NULL",
    ),
)
def test_a_writer_runs_alone(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    first = person.defer_several("a", shared="a")
    second = person.defer_several("a", "b", shared="a")
    writer = person.defer_several("a", "c")
    [simple] = person.defer("a")
    jobs = worker.claim()
    promise(ids(jobs) == [first, second], f"the readers start: {ids(jobs)}")
    worker.finish(jobs[0])
    promise(worker.claim() == [], "one reader is left")
    worker.finish(jobs[1], want=0)
    jobs = worker.claim()
    promise(ids(jobs) == [writer], "then the writer")
    worker.finish(*jobs, want=0)
    promise(ids(worker.claim()) == [simple], "then the other one")


@story(
    Mutation(
        "a reader joins past a writer that waits",
        "start_in_lanes.sql",
        "SELECT head.lock FROM lane_heads(v_seen.locks) AS head WHERE head.id <> p_id",
        "SELECT head.lock FROM lane_heads(v_seen.locks) AS head WHERE head.id <> p_id "
        "AND head.lock <> ALL (coalesce(v_seen.shared, '{}'))",
    )
)
def test_a_writer_that_waits_is_not_starved_by_later_readers(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.defer_several("a", shared="a")
    [reader] = worker.claim()
    [writer] = person.defer("a")
    later = person.defer_several("a", shared="a")
    promise(worker.claim() == [], "the writer is first")
    worker.finish(reader, want=0)
    jobs = worker.claim()
    promise(ids(jobs) == [writer], "it goes first")
    worker.finish(*jobs, want=0)
    promise(ids(worker.claim()) == [later], "then the reader")


@story(
    Mutation(
        "the first reader to end frees the lane",
        "leave_lanes.sql",
        "nullif(greatest(readers - given.count, 0), 0)",
        "NULL",
    )
)
def test_the_last_reader_frees_the_lane(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    for _ in range(2):
        person.defer_several("a", shared="a")
    one, other = worker.claim()
    [writer] = person.defer("a")
    worker.claim()
    worker.finish(one, want=0)
    promise(worker.claim() == [], "one reader is left")
    worker.finish(other, want=0)
    promise(ids(worker.claim()) == [writer], "nobody reads any more")


@story(
    Mutation(
        "a reader is blocked in a lane that it can join",
        "block_in_lanes.sql",
        "ELSE NOT lets_start(held, jobs.id, jobs.shared) END",
        "ELSE true END",
    )
)
def test_a_reader_is_not_blocked_behind_readers(stage: Stage) -> None:
    """The job that it could not start for is another lane's."""
    person, worker, other = stage.session(), stage.worker(), stage.session()
    person.defer_several("a", shared="a")
    worker.claim()
    reader = person.defer_several("a", "b", shared="a")
    other.begin()
    other.run("SELECT pg_advisory_xact_lock(lock_key('lane', 'b'))")
    promise(worker.claim() == [], "b is not to be had")
    other.rollback()
    promise(ids(worker.claim()) == [reader], "nobody would wake it")


@story(
    Mutation(
        "a failed reader gives its share up",
        "keep_or_leave.sql",
        "IF p_leaving IS NULL THEN",
        "PERFORM release_lanes(ARRAY(SELECT leave_lanes(p_keeping))); IF p_leaving IS NULL THEN",
    )
)
def test_a_reader_keeps_its_share_for_its_retry(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    reader = person.defer_several("a", shared="a")
    [job] = worker.claim()
    worker.retry(job, delay="1 hour")
    [writer] = person.defer("a", 9)
    promise(worker.claim() == [], "no writer starts")
    other = person.defer_several("a", shared="a", priority=10)
    promise(ids(worker.claim()) == [other], "a better reader may join")
    worker.hasten("2 hours")
    jobs = worker.claim()
    promise(ids(jobs) == [reader], f"no writer came between: {writer}")


@story(
    Mutation(
        "a cancelled reader keeps its share", "reopen_lanes.sql", "IF p_kept THEN", "IF false THEN"
    )
)
def test_the_cancel_of_a_reader_between_two_attempts_gives_its_share_back(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    reader = person.defer_several("a", shared="a")
    [job] = worker.claim()
    worker.retry(job, delay="1 hour")
    [writer] = person.defer("a")
    worker.claim()
    person.cancel(reader)
    promise(ids(worker.claim()) == [writer], "nobody reads any more")


@story(
    Mutation(
        "nobody wakes the readers behind it",
        "reopen_lane.sql",
        "PERFORM notify_workers(wake_readers(ARRAY[p_lock], p_kept => true));",
        "",
    )
)
def test_a_reader_that_is_brought_back_leaves_its_lane_to_other_readers_too(stage: Stage) -> None:
    """Also before it has started."""
    person, worker, slow = stage.session(), stage.worker("default"), stage.worker("x")
    failed = person.defer_several("a", shared="a", on_failure="halt", queue="x")
    [job] = slow.claim()
    slow.finish(job, status="failed")
    other = person.defer_several("a", shared="a")
    promise(worker.claim() == [], "the lane is halted")
    promise(stage.statuses()[other] == "blocked", "it waits there")
    person.retry_head("a")
    promise(ids(worker.claim()) == [other], "it starts")
    promise(ids(slow.claim()) == [failed], "so does the one that failed")


@story(
    Mutation("a paused lane takes readers", "lets_start.sql", "p_lane.stopped IS NULL AND", ""),
    Mutation(
        "nobody wakes the reader that keeps its share",
        "wake_readers.sql",
        "WHERE p_kept AND jobs.keeps_lanes AND jobs.status = 'blocked'",
        "WHERE false",
    ),
)
def test_a_paused_lane_lets_no_reader_start_until_it_is_resumed(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    for _ in range(2):
        person.defer_several("a", shared="a")
    one, _ = worker.claim()
    third = person.defer_several("a", shared="a")
    person.pause("a")
    worker.retry(one)
    promise(worker.claim() == [], "neither the retry nor a new one")
    promise(worker.next_wake() is None, "nobody looks again and again")
    promise(stage.lanes() == {"a": "paused"}, "people who look for paused lanes find it")
    person.resume_lane("a")
    promise(ids(worker.claim()) == [one.id, third], "both start")


@story(
    Mutation(
        "a reader that a user has locked is forgotten",
        "wake_readers.sql",
        "UPDATE lanes SET look_at = next_look_at(since) WHERE lanes.lock = ANY (v_busy);",
        "",
    )
)
def test_a_reader_that_a_user_has_locked_is_looked_at_again(stage: Stage) -> None:
    person, user, worker = stage.session(), stage.session(), stage.worker()
    person.defer_several("a", shared="a")
    [running] = worker.claim()
    [writer] = person.defer("a")
    reader = person.defer_several("a", shared="a")
    worker.claim()
    promise(stage.statuses()[reader] == "blocked", "the writer is first")
    user.begin()
    user.run("SELECT FROM jobs WHERE id = %s FOR UPDATE", reader)
    person.cancel(writer)
    user.rollback()
    worker.hasten("2 seconds")
    promise(ids(worker.claim()) == [reader], f"it joins {running.id}")


@story(
    Mutation(
        "a rescued reader keeps two shares",
        "take_lanes.sql",
        "lanes.readers + (p_kept IS NULL)::integer",
        "lanes.readers + 1",
    )
)
def test_a_reader_of_a_dead_worker_has_one_share(stage: Stage) -> None:
    person, worker, dead = stage.session(), stage.worker(), stage.worker()
    reader = person.defer_several("a", shared="a")
    dead.claim()
    stage.forget(dead)
    worker.rescue()
    [job] = worker.claim()
    promise(job.id == reader, "it runs again")
    [writer] = person.defer("a")
    worker.claim()
    worker.finish(job, want=0)
    promise(ids(worker.claim()) == [writer], "nobody reads any more")


@story(
    Mutation(
        "the readers are not counted",
        "lane_is_stranded.sql",
        "lane.readers IS DISTINCT FROM count_readers(p_lock)",
        "false",
    )
)
def test_the_reconciler_repairs_the_number_of_readers(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.defer_several("a", shared="a")
    [running] = worker.claim()
    [writer] = person.defer("a")
    worker.claim()
    stage.control.execute("UPDATE lanes SET readers = 5")
    person.reconcile()
    worker.finish(running, want=0)
    promise(ids(worker.claim()) == [writer], "nobody reads any more")


@story(
    Mutation(
        "the end of a reader trusts the number of readers",
        "leave_lanes.sql",
        "nullif(greatest(readers - given.count, 0), 0)",
        "nullif(nullif(readers - given.count, -1), 0)",
    )
)
def test_readers_end_although_somebody_has_changed_their_number(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    for _ in range(3):
        person.defer_several("a", shared="a")
    readers = worker.claim()
    stage.control.execute("UPDATE lanes SET readers = 1")
    try:
        ended = worker.finish(*readers).accepted
    except psycopg.errors.CheckViolation:
        ended = []
    promise(ended == ids(readers), f"they end: {ended}")
    promise(not stage.lanes(), "nobody reads any more")


@story(
    Mutation(
        "the end of another job forgets it", "keep_stopped.sql",
        "coalesce(reason.failed_id, lanes.failed_job_id)", "reason.failed_id",
    )
)  # fmt: skip
def test_a_shared_lane_remembers_which_job_has_halted_it(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    failing = person.defer_several("one", "shared", shared=["shared"], on_failure="halt")
    person.defer_several("two", "shared", shared=["shared"])
    first, second = worker.claim()
    worker.finish(first, status="failed")
    worker.finish(second)
    promise(person.retry_head("shared") == failing, "it is the job to retry")
    promise(ids(worker.claim()) == [failing], "and it starts")
