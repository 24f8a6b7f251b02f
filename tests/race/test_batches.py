"""Batches in races: ends, joins, the close, claims that count, and what people do meanwhile."""

from typing import Any

import psycopg

from tests.race.harness import Mutation, Session, Stage, ids, promise, story


def open_batch(session: Session, lock: str | None = None) -> tuple[int, int]:
    """Open a batch, and return its id and the job of its callback."""
    [(batch,)] = session.run("SELECT open_batch('import', 'callback', lock => %s)", lock)
    [(callback,)] = session.run("SELECT callback_id FROM batches WHERE id = %s", batch)
    return batch, callback


def join(session: Session, batch: int, lock: str | None = None, **others: Any) -> int:
    """Defer a job of a batch."""
    [(job,)] = session.run(
        "SELECT defer('task', lock => %s, batch_id => %s, on_failure => %s, expires_at => "
        "now() + %s::interval)",
        lock, batch, others.get("on_failure", "continue"), others.get("expires_in"),
    )  # fmt: skip
    return int(job)


def close(session: Session, batch: int) -> None:
    session.run("SELECT close_batch(%s)", batch)


def progress(session: Session, batch: int) -> tuple[Any, ...]:
    """Return its state and how many jobs joined, are left, succeeded, failed and were cancelled."""
    [row] = session.run(
        "SELECT state, total, remaining, succeeded, failed, cancelled FROM batch_status "
        "WHERE id = %s",
        batch,
    )
    return row


def status(session: Session, job: int) -> str:
    [(found,)] = session.run("SELECT status::text FROM all_jobs WHERE id = %s", job)
    return str(found)


def leftovers(session: Session) -> int:
    [(count,)] = session.run(
        "SELECT (SELECT count(*) FROM batch_gates) + (SELECT count(*) FROM batch_events)"
    )
    return int(count)


DECISIONS = {"cancel": "cancel", "delete": "delete", "retry": "retry_job"}
UNTOLD = Mutation(
    "an end is told to nobody",
    "archive_jobs.sql",
    "tell_batch(gone.id, gone.batch_id, gone.outcome)",
    "true",
)
UNSETTLED = Mutation(
    "no claim counts", "settle_due.sql", "PERFORM settle_batches(p_most);", "NULL;"
)
UNSHARED = Mutation(
    "who joins does not share the gate",
    "join_batches.sql",
    "ORDER BY batch_id FOR KEY SHARE",
    "ORDER BY batch_id",
)
UNGUARDED = Mutation(
    "a batch ends although somebody joins it",
    "end_batches.sql",
    "WHERE batch_id = ANY (p_ids) FOR UPDATE SKIP LOCKED",
    "WHERE batch_id = ANY (p_ids)",
)


@story(
    UNTOLD,
    UNSETTLED,
    Mutation(
        "a batch ends before it is closed", "settle_batches.sql", "AND closed_at IS NOT NULL", ""
    ),
    Mutation(
        "a batch ends while jobs are left",
        "settle_batches.sql",
        "AND total = succeeded + failed + cancelled + aborted",
        "",
    ),
)
def test_the_callback_starts_once_the_batch_is_closed_and_no_job_is_left(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    batch, callback = open_batch(producer)
    one, two = join(producer, batch), join(producer, batch, "a")
    first, second = worker.claim()
    promise([first.id, second.id] == [one, two], "the callback is not among them")
    worker.finish(first)
    promise(worker.claim() == [], "one is left")
    promise(producer.reasons(callback)[:2] == ["batch open", "batch"], "it says for what it waits")
    worker.finish(second, status="failed")
    promise(worker.claim() == [], "it is open")
    promise(progress(producer, batch) == ("open", 2, 0, 1, 1, 0), "all are counted")
    three = join(producer, batch)
    close(producer, batch)
    promise(ids(running := worker.claim()) == [three], "another one has joined")
    promise(producer.reasons(callback)[:1] == ["batch"], "it waits for that one only")
    worker.finish(*running)
    promise(ids(running := worker.claim()) == [callback], "now it runs")
    worker.finish(*running)
    promise(worker.claim() == [], "and only once")
    promise(progress(producer, batch) == ("ended", 3, 0, 2, 1, 0), "it has ended")
    promise(leftovers(worker) == 0, "nothing is left of it")


@story(UNSETTLED)
def test_an_empty_batch_runs_its_callback_when_it_is_closed(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    batch, callback = open_batch(producer)
    promise(worker.claim() == [], "it is open")
    producer.begin()
    close(producer, batch)
    promise(worker.claim() == [], "it is not closed before the commit")
    producer.commit()
    promise(str(worker.next_wake()) == "0:00:00", "a worker that looks now does not sleep")
    promise(ids(worker.claim()) == [callback], "it is empty")


@story(UNSHARED, UNGUARDED)
def test_a_job_that_commits_after_the_close_and_the_last_end_is_waited_for(stage: Stage) -> None:
    producer, late, worker = stage.session(), stage.session(), stage.worker()
    batch, callback = open_batch(producer)
    join(producer, batch)
    late.begin()
    another = join(late, batch)
    close(producer, batch)
    worker.finish(*worker.claim())
    promise(worker.claim() == [], "somebody is joining, and nobody waits")
    promise(producer.reasons(callback)[:1] == ["batch"], "which explain says")
    late.commit()
    promise(ids(running := worker.claim()) == [another], "it has joined")
    worker.finish(*running)
    promise(ids(worker.claim()) == [callback], "then no job is left")


@story(
    Mutation(
        "no later claim looks again",
        "end_batches.sql",
        "WHERE id = ANY (p_ids) AND ended_at IS NULL",
        "WHERE false",
    ),
)
def test_a_job_that_is_rolled_back_is_not_waited_for(stage: Stage) -> None:
    producer, late, worker = stage.session(), stage.session(), stage.worker()
    batch, callback = open_batch(producer)
    late.begin()
    join(late, batch)
    close(producer, batch)
    promise(worker.claim() == [], "somebody is joining")
    late.rollback()
    promise(worker.next_wake() is not None, "a worker looks again although nobody tells it")
    worker.hasten("3 seconds")
    promise(ids(worker.claim()) == [callback], "nobody has joined")


def test_a_savepoint_that_is_rolled_back_takes_its_jobs_and_its_share_back(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    batch, callback = open_batch(producer)
    producer.begin()
    producer.run("SAVEPOINT here")
    join(producer, batch)
    producer.run("ROLLBACK TO here")
    other = stage.session()
    close(other, batch)
    promise(
        ids(worker.claim()) == [callback], "an open transaction without jobs is in nobody's way"
    )
    producer.commit()
    promise(progress(producer, batch) == ("ended", 0, 0, 0, 0, 0), "none has joined")


@story(
    Mutation(
        "events are not looked at again",
        "end_batches.sql",
        "AND event <> 'look' LIMIT 1",
        "AND false LIMIT 1",
    ),
)
def test_a_job_that_commits_between_the_count_and_the_end_is_waited_for(stage: Stage) -> None:
    producer, worker, other = stage.session(), stage.worker(), stage.worker()
    batch, callback = open_batch(producer)
    close(producer, batch)
    worker.start_until("end_batches", worker.claim)
    job = join(producer, batch)
    promise(ids(worker.resume()) == [job], "it has joined before the end")
    promise(other.claim() == [], "so the callback waits")
    promise(status(producer, callback) == "pending", "it is not even ready")


@story(
    Mutation(
        "the gate stays",
        "end_batches.sql",
        "DELETE FROM batch_gates WHERE batch_id = ANY (v_done.ids);",
        "",
    ),
)
def test_a_job_that_comes_while_a_claim_ends_the_batch_is_refused(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    batch, callback = open_batch(producer)
    close(producer, batch)
    worker.start_until("free_children", worker.claim)
    producer.start(refused_join, producer, batch)  # the claim is a moment from its commit
    promise(ids(worker.resume()) == [callback], "the claim goes on")
    promise(producer.result(), "no job joins a batch that has ended")


def refused_join(session: Session, batch: int) -> bool:
    try:
        join(session, batch)
    except (psycopg.errors.InvalidParameterValue, psycopg.errors.SerializationFailure):
        return True
    return False


@story(
    Mutation(
        "the gate stays",
        "end_batches.sql",
        "DELETE FROM batch_gates WHERE batch_id = ANY (v_done.ids);",
        "",
    ),
)
def test_an_old_snapshot_does_not_let_a_job_join(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    batch, callback = open_batch(producer)
    producer.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    producer.run("SELECT FROM batches")
    closer = stage.session()
    close(closer, batch)
    promise(ids(worker.claim()) == [callback], "the batch ends")
    promise(refused_join(producer, batch), "although the snapshot shows it open")


@story(
    Mutation(
        "claims wait for each other's counts",
        "settle_batches.sql",
        "FOR NO KEY UPDATE SKIP LOCKED",
        "FOR NO KEY UPDATE",
    ),
    Mutation(
        "a batch is counted without its lock",
        "settle_batches.sql",
        "WHERE id = ANY (v_due) FOR NO KEY UPDATE SKIP LOCKED",
        "WHERE id = ANY (v_due)",
    ),
)
def test_two_claims_never_wait_for_each_other_and_count_each_end_once(stage: Stage) -> None:
    producer, one, two = stage.session(), stage.worker(), stage.worker()
    batch, callback = open_batch(producer)
    for _ in range(2):
        join(producer, batch)
    close(producer, batch)
    first, second = one.claim()
    one.finish(first)
    two.begin()
    promise(two.claim() == [], "this claim counts, and does not commit yet")
    one.finish(second)
    promise(one.claim() == [], "this one leaves the count to it")
    two.commit()
    promise(ids(one.claim()) == [callback], "the last end is counted now")
    promise(progress(producer, batch) == ("ended", 2, 0, 2, 0, 0), "each once")


@story(
    Mutation(
        "all transactions write one row",
        "note_batch_event.sql",
        "pg_current_xact_id()::text::bigint",
        "1",
    ),
    Mutation(
        "a producer has the batch for itself",
        "join_batches.sql",
        "FOR KEY SHARE",
        "FOR UPDATE",
    ),
)
def test_producers_and_ends_of_one_batch_wait_for_nobody(stage: Stage) -> None:
    producer, other, worker = stage.session(), stage.session(), stage.worker()
    batch, callback = open_batch(producer)
    producer.begin()
    join(producer, batch)
    other.begin()
    mine = join(other, batch)
    third = stage.session()
    third.begin()
    close(third, batch)
    other.commit()
    promise(ids(running := worker.claim()) == [mine], "it has joined")
    worker.begin()
    worker.finish(*running)
    fourth = join(other, batch)
    worker.commit()
    promise(ids(running := worker.claim()) == [fourth], "it has joined too")
    worker.finish(*running)
    third.rollback()
    producer.commit()
    promise(progress(producer, batch) == ("open", 3, 1, 2, 0, 0), "all are counted")
    close(producer, batch)
    worker.finish(*worker.claim())
    promise(ids(worker.claim()) == [callback], "and waited for")


@story(
    Mutation(
        "a claim waits for the callback",
        "end_batches.sql",
        "THEN try_lock_job(callback_id)",
        "THEN EXISTS (SELECT FROM jobs WHERE jobs.id = callback_id FOR UPDATE)",
    ),
    Mutation(
        "a locked callback is not looked at again",
        "end_batches.sql",
        "WHERE id = ANY (p_ids) AND ended_at IS NULL",
        "WHERE false",
    ),
)
def test_nobody_waits_for_a_callback_that_an_open_transaction_has_locked(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    batch, callback = open_batch(producer)
    job = join(producer, batch)
    close(producer, batch)
    running = worker.claim()
    producer.begin()
    producer.run("SELECT FROM jobs WHERE id = %s FOR UPDATE", callback)
    worker.finish(*running)
    free = stage.session().defer(None)
    promise(ids(worker.claim()) == free, "other jobs go on")
    producer.rollback()
    worker.hasten("3 seconds")
    promise(ids(worker.claim()) == [callback], f"the callback of {job} runs later")


@story(
    Mutation(
        "a retry does not share the gate",
        "restore_job.sql",
        "WHERE batch_id = v_back.batch_id FOR KEY SHARE",
        "WHERE batch_id = v_back.batch_id",
    ),
    Mutation(
        "a retried job is not waited for",
        "restore_job.sql",
        "PERFORM note_batch_event(v_back.batch_id, v_back.status::text::batch_event, -1, p_id);",
        "NULL;",
    ),
)
def test_a_job_that_is_retried_before_the_end_is_waited_for_again(stage: Stage) -> None:
    producer, operator, worker = stage.session(), stage.session(), stage.worker()
    batch, callback = open_batch(producer)
    job = join(producer, batch)
    worker.finish(*worker.claim(), status="failed")
    operator.begin()
    promise(operator.retry_job(job), "it runs again")
    close(producer, batch)
    promise(worker.claim() == [], "the operator has not committed")
    operator.commit()
    promise(ids(running := worker.claim()) == [job], "it runs again")
    promise(progress(producer, batch) == ("closed", 1, 1, 0, 0, 0), "and counts as such")
    worker.finish(*running)
    promise(ids(worker.claim()) == [callback], "now the batch has ended")
    promise(progress(producer, batch) == ("ended", 1, 0, 1, 0, 0), "with its last end")


@story(
    Mutation("an ended batch goes on counting", "note_batch_event.sql", "AND ended_at IS NULL", ""),
)
def test_a_job_that_is_retried_after_the_end_changes_nothing(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    batch, callback = open_batch(producer)
    job = join(producer, batch)
    close(producer, batch)
    worker.finish(*worker.claim(), status="failed")
    worker.finish(*worker.claim())
    promise(producer.retry_job(job), "it runs again")
    worker.finish(*worker.claim())
    promise(worker.claim() == [], "the callback does not")
    promise(status(producer, callback) == "succeeded", "it has run")
    promise(progress(producer, batch) == ("ended", 1, 0, 0, 1, 0), "the counts stay")
    promise(leftovers(worker) == 0, "nothing is left")


@story(UNTOLD)
def test_every_kind_of_end_counts(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    batch, callback = open_batch(producer)
    [run, failed, aborted] = [join(producer, batch) for _ in range(3)]
    one, two, three = worker.claim()
    worker.finish(one)
    worker.finish(two, status="failed")
    worker.finish(three, status="aborted")
    producer.cancel(join(producer, batch))
    producer.delete(join(producer, batch))
    join(producer, batch, "a")
    promise(producer.skip_head("a") is not None, "it is skipped")
    for _ in range(2):
        join(producer, batch, "b")
    promise(producer.cancel_waiting("b") == 2, "they are cancelled")
    join(producer, batch, "c", expires_in="1 minute")
    worker.hasten("1 hour")
    promise(worker.claim() == [], "it expires")
    [(child,)] = producer.run(
        "SELECT defer('task', after => ARRAY[%s::bigint], batch_id => %s)", failed, batch
    )
    promise(worker.claim() == [], "it is cancelled, because its parent has failed")
    promise(status(producer, child) == "cancelled", "it is")
    counts = progress(producer, batch)
    promise(counts == ("open", 10, 0, 1, 1, 7), f"all are counted: {counts}")
    [(counted,)] = producer.run("SELECT aborted FROM batch_status")
    promise(counted == 1, "the aborted one too")
    promise({run, failed, aborted} <= {one.id, two.id, three.id}, "they ran")
    close(producer, batch)
    promise(ids(worker.claim()) == [callback], "no job is left")


def test_ends_without_history_count(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    batch, callback = open_batch(producer)
    join(producer, batch)
    close(producer, batch)
    [job] = worker.claim()
    worker.run(
        "SELECT finish(%s, NULL, 0, ARRAY[%s], ARRAY[%s::uuid], '{succeeded}', '{NULL}', NULL, "
        "'{succeeded}')",
        worker.id, job.id, job.claim_id,
    )  # fmt: skip
    producer.run("DELETE FROM finished_jobs")
    promise(ids(worker.claim()) == [callback], "nothing has to be found again")


@story(UNSETTLED)
def test_a_job_whose_worker_dies_is_waited_for_and_counts_once(stage: Stage) -> None:
    producer, one, two = stage.session(), stage.worker(), stage.worker()
    batch, callback = open_batch(producer)
    job = join(producer, batch)
    close(producer, batch)
    running = one.claim()
    stage.forget(one)
    promise(two.rescue() == [job], "it is taken back")
    promise(ids(again := two.claim()) == [job], "it runs again")
    promise(one.finish(*running).accepted == [], "the late end is refused")
    promise(two.claim() == [], "so it does not count")
    two.finish(*again)
    promise(ids(two.claim()) == [callback], "the other one does")
    promise(progress(producer, batch) == ("ended", 1, 0, 1, 0, 0), "once")


def test_what_is_no_end_does_not_count(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    batch, callback = open_batch(producer)
    for lock in (None, "a"):
        join(producer, batch, lock)
    close(producer, batch)
    worker.put_back(*worker.claim())
    worker.retry(*worker.claim(), delay="1 minute")
    promise(worker.claim() == [], "they wait for their next attempt")
    promise(progress(producer, batch)[:3] == ("closed", 2, 2), "so no job has ended")
    producer.pause("a")
    worker.hasten("1 hour")
    worker.finish(*worker.claim())
    promise(worker.claim() == [], "one of them waits in a paused lane")
    producer.resume_lane("a")
    worker.finish(*worker.claim())
    promise(ids(worker.claim()) == [callback], "both have ended")


def test_a_sleeping_worker_is_told_of_the_close_and_of_the_last_end(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker("other")
    batch, _ = open_batch(producer)
    job = join(producer, batch)
    worker.set_awake(False)
    with stage.notifications() as of_the_end:
        producer.cancel(job)
    with stage.notifications() as of_the_close:
        close(producer, batch)
    promise((of_the_end, of_the_close) == ([""], [""]), f"{of_the_end} {of_the_close}")


def test_an_end_that_is_rolled_back_does_not_count(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    batch, callback = open_batch(producer)
    join(producer, batch)
    close(producer, batch)
    running = worker.claim()
    worker.begin()
    worker.finish(*running)
    promise(stage.worker().claim() == [], "it has not committed")
    worker.rollback()
    promise(worker.claim() == [], "and never does")
    worker.finish(*running)
    promise(ids(worker.claim()) == [callback], "this one does")


def test_a_halted_lane_holds_its_batch_up_and_explain_leads_to_it(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    batch, callback = open_batch(producer)
    first = join(producer, batch, "a", on_failure="halt")
    second = join(producer, batch, "a")
    close(producer, batch)
    worker.finish(*worker.claim(), status="failed")
    promise(worker.claim() == [], "the lane is halted")
    [(detail, unblock)] = producer.run(
        "SELECT detail, unblock FROM explain(%s) WHERE reason = 'batch'", callback
    )
    promise(f"waits for job {second}" in detail, detail)
    promise(unblock == f"queue jobs explain {second}", unblock)
    reasons = producer.reasons(second)
    promise(reasons[0] == "lane halted" and reasons[-1] == "in batch", str(reasons))
    promise(producer.resume_lane("a"), f"a person lets it go on without {first}")
    worker.finish(*worker.claim())
    promise(ids(worker.claim()) == [callback], "then the batch ends")


@story(
    Mutation(
        "the callback counts",
        "note_batch_event.sql",
        "AND (p_job IS NULL OR callback_id IS DISTINCT FROM p_job)",
        "",
    ),
)
def test_a_callback_that_a_person_decided_about_does_not_run_at_the_end(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    for then in DECISIONS:
        batch, callback = open_batch(producer)
        join(producer, batch)
        close(producer, batch)
        running = worker.claim()
        promise(bool(getattr(producer, DECISIONS[then])(callback)), f"{then} it")
        early = worker.claim()
        promise(ids(early) == ([callback] if then == "retry" else []), "it runs early, or never")
        promise(progress(producer, batch)[:3] == ("closed", 1, 1), "which does not count")
        worker.finish(*early)
        worker.finish(*running)
        promise(worker.claim() == [], "it does not run at the end")
        promise(
            progress(producer, batch) == ("ended", 1, 0, 1, 0, 0), "the batch ends all the same"
        )
    promise(leftovers(worker) == 0, "nothing is left")


def test_a_callback_takes_its_place_in_its_lane(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    batch, callback = open_batch(producer, "a")
    first = join(producer, batch, "a")
    [later] = producer.defer("a")
    close(producer, batch)
    running = worker.claim()
    promise(ids(running) == [first], "the callback reserves nothing")
    worker.finish(*running, want=0)
    promise(ids(running := worker.claim()) == [callback], "its id is lower")
    promise(ids(worker.finish(*running).following) == [later], "the lane goes on")


@story(
    Mutation(
        "a batch that is gone keeps its events",
        "settle_batches.sql",
        "SELECT unnest(v_due) EXCEPT",
        "SELECT unnest(v_ids) EXCEPT",
    ),
)
def test_events_of_a_batch_that_is_gone_keep_nobody_awake(stage: Stage) -> None:
    worker = stage.worker()
    stage.control.execute(
        "INSERT INTO batch_events (batch_id, xact, event, jobs, at) VALUES (99, 1, 'closed', 0, now())"
    )
    promise(worker.claim() == [], "there is nothing to do")
    promise(worker.next_wake() is None, "and nothing to wait for")


def test_a_cancel_of_a_batch_waits_for_no_free_job_and_leaves_running_ones(stage: Stage) -> None:
    producer, operator, worker = stage.session(), stage.session(), stage.worker()
    batch, callback = open_batch(producer)
    running_id = join(producer, batch)
    running = worker.claim()
    locked, free = join(producer, batch), join(producer, batch)
    producer.begin()
    producer.run("SELECT FROM jobs WHERE id = %s FOR UPDATE", locked)
    last: int | None = 0
    while last is not None:
        [(_, _, last)] = operator.run("SELECT * FROM cancel_batch(%s, %s)", batch, last)
    producer.rollback()
    promise(status(producer, callback) == "cancelled", "the callback is")
    promise(status(producer, free) == "cancelled", "what waits is")
    promise(status(producer, running_id) == "doing", "what runs is not")
    promise(ids(worker.claim()) == [locked], "nor what somebody had locked")
    promise(progress(producer, batch)[:3] == ("closed", 3, 2), "it waits for these")
    worker.finish(*running)
