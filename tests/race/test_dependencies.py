"""Jobs that come after others, in races with the ends of those, with claims and with people."""

from tests.race.harness import Mutation, Session, Stage, ids, promise, story


def status(session: Session, job: int) -> str | None:
    rows = session.run(
        "SELECT status::text FROM all_jobs WHERE id = %s ORDER BY finished_at DESC NULLS FIRST", job
    )
    return str(rows[0][0]) if rows else None


def leftovers(session: Session) -> int:
    [(count,)] = session.run("SELECT (SELECT count(*) FROM edges) + (SELECT count(*) FROM ends)")
    return int(count)


UNTOLD = Mutation(
    "the end of a job with children is told to nobody",
    "tell_relatives.sql",
    "IF p_has_children THEN",
    "IF false THEN",
)
UNSEEN = Mutation(
    "explain knows no parent that is in no table",
    "explain_parents.sql",
    "job.status IS NULL AND NOT edges.failed AND coalesce(NOT",
    "false AND coalesce(NOT",
)
UNSETTLED = Mutation(
    "no claim looks at the ends", "settle_due.sql", "PERFORM settle_ends(100, p_most);", "NULL;"
)


@story(
    UNTOLD,
    UNSETTLED,
    Mutation(
        "parents do not matter",
        "promote.sql",
        "PERFORM await_parents(v_children);",
        "UPDATE jobs SET status = 'todo' WHERE id = ANY (v_children);",
    ),
)
def test_a_job_starts_after_the_end_of_the_last_of_its_parents(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [one], [two] = producer.defer(None), producer.defer("a")
    child = producer.defer_after(one, two, lock="a")
    first, second = worker.claim()
    promise([first.id, second.id] == [one, two], "the child is not among them")
    promise(status(worker, child) == "pending", "it waits")
    promise(producer.reasons(child)[:2] == ["parent"] * 2, f"for both: {producer.reasons(child)}")
    worker.finish(first)
    promise(worker.claim() == [], "one has not ended")
    worker.finish(second)
    promise(ids(worker.claim()) == [child], "both have ended")
    promise(leftovers(worker) == 0, "nothing is left of it")


MARK = """
    WITH parent AS MATERIALIZED (
        SELECT jobs.id FROM jobs
        WHERE jobs.id = ANY (ARRAY(
                SELECT edges.parent FROM edges WHERE edges.child = ANY (p_children)))
            AND jobs.has_children IS NOT TRUE
        FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE jobs SET has_children = true WHERE jobs.id = ANY (ARRAY(SELECT parent.id FROM parent));
"""
FREE = "PERFORM free_children(p_children, 'scheduled');"


@story(Mutation("count before mark", "await_parents.sql", FREE, FREE + MARK))
def test_a_parent_that_ends_after_the_look_has_been_marked(stage: Stage) -> None:
    producer, worker, other = stage.session(), stage.worker(), stage.worker()
    # Without the second protection: a child is left for later if a living parent has no mark.
    stage.adjust("await_parents.sql", "FROM seen WHERE NOT marked", "FROM seen WHERE false")
    if stage.mutated:
        stage.adjust("await_parents.sql", MARK.strip() + " -- One", "-- One")
    [parent] = producer.defer(None)
    running = worker.claim_one()
    child = producer.defer_after(parent)
    stage.let_wait()
    other.start_until("free_children", other.claim)
    worker.start(worker.finish, running)  # it waits for the claim, which has marked the parent
    other.resume()
    promise(worker.result().accepted == [parent], "then it ends")
    promise(ids(other.claim()) == [child], "and its child goes on")


@story(
    Mutation(
        "a parent that is locked needs no mark",
        "await_parents.sql",
        "SELECT DISTINCT child FROM seen WHERE NOT marked",
        "SELECT DISTINCT child FROM seen WHERE false",
    ),
)
def test_a_parent_that_ends_while_the_claim_looks_is_seen(stage: Stage) -> None:
    producer, worker, other = stage.session(), stage.worker(), stage.worker()
    [parent] = producer.defer(None)
    running = worker.claim_one()
    child = producer.defer_after(parent)
    worker.begin()
    worker.finish(running)
    promise(other.claim() == [], "nobody knows yet whether the parent ends, and nobody waits")
    worker.commit()
    other.hasten("1 second")
    promise(ids(other.claim()) == [child], "it has ended")


@story(
    Mutation(
        "the children are not locked",
        "settle_ends.sql",
        "try_lock_job(near.child)",
        "true",
    ),
)
def test_two_parents_that_end_at_once_leave_no_child_behind(stage: Stage) -> None:
    producer, one, two = stage.session(), stage.worker(), stage.worker()
    [first], [second] = producer.defer(None), producer.defer(None)
    running = one.claim(2)
    child = producer.defer_after(first, second)
    promise(one.claim() == [], "both run")
    one.finish(running[0])
    one.begin()
    promise(one.claim() == [], "the second runs")
    two.run(
        "SELECT finish(%s, NULL, 0, %s, %s, '{succeeded}', '{NULL}')",
        one.id,
        [second],
        [running[1].claim_id],
    )
    promise(two.claim() == [], "another claim has the child")
    one.commit()
    two.hasten("1 second")
    promise(ids(two.claim()) == [child], "the last end frees it")


@story(
    Mutation(
        "the end is forgotten",
        "settle_ends.sql",
        "WHERE edges.parent = ends.job_id",
        "WHERE false",
    ),
    Mutation(
        "claims wait for the child",
        "settle_ends.sql",
        "try_lock_job(near.child)",
        "EXISTS (SELECT FROM jobs WHERE jobs.id = near.child FOR UPDATE)",
    ),
)
def test_nobody_waits_for_a_child_that_an_open_transaction_has_locked(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [parent] = producer.defer(None)
    running = worker.claim_one()
    child, other = producer.defer_after(parent), producer.defer_after(parent)
    worker.claim()
    producer.begin()
    producer.run("SELECT FROM jobs WHERE id = %s FOR UPDATE", child)
    worker.finish(running)
    promise(ids(worker.claim()) == [other], "the other goes on")
    producer.rollback()
    promise(ids(worker.claim()) == [child], "and this one later")


@story(
    Mutation(
        "only the first ends are looked at",
        "settle_ends.sql",
        "WHERE (look_at, seq) > (v_at, v_seq) AND",
        "WHERE",
    ),
    Mutation(
        "only the first children are looked at",
        "settle_ends.sql",
        "WHERE edges.parent = ended.parent",
        "WHERE edges.child = (SELECT min(child) FROM edges AS e WHERE e.parent = ended.parent)",
    ),
)
def test_children_that_are_locked_do_not_keep_others_from_their_turn(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [first], [second] = producer.defer(None), producer.defer(None)
    running = worker.claim(2)
    locked, beside = producer.defer_after(first), producer.defer_after(first)
    behind = producer.defer_after(second)
    worker.claim()
    stage.adjust("settle_due.sql", "settle_ends(100, p_most)", "settle_ends(1, 3)")
    producer.begin()
    producer.run("SELECT FROM jobs WHERE id = %s FOR UPDATE", locked)
    worker.finish(*running)
    promise(ids(worker.claim()) == [beside, behind], "all but the one that is locked")
    producer.rollback()
    promise(ids(worker.claim()) == [locked], "and this one later")


@story(UNTOLD)
def test_a_child_of_a_failed_job_is_cancelled_and_so_are_its_own(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [parent] = producer.defer(None)
    child = producer.defer_after(parent, lock="a")
    grandchild = producer.defer_after(child, lock="a")
    anyway = producer.defer_after(child, on_parent="go")
    running = worker.claim_one()
    worker.finish(running, status="failed")
    promise(ids(worker.claim()) == [anyway], "which does not care")
    promise([status(worker, job) for job in (child, grandchild)] == ["cancelled"] * 2, "at once")
    [(error,)] = worker.run(
        "SELECT errors -> 0 ->> 'error' FROM finished_jobs WHERE id = %s", child
    )
    promise(f"job {parent}" in error, f"it names the parent: {error}")
    promise(worker.claim() == [] and leftovers(worker) == 0, "the next claim leaves nothing of it")


@story(
    Mutation(
        "a restored parent has no children",
        "restore_job.sql",
        "true, priority",
        "NULL, priority",
    ),
    Mutation(
        "its new end does not count",
        "settle_ends.sql",
        "(NOT edges.failed OR ended.status = 'succeeded')",
        "NOT edges.failed",
    ),
)
def test_a_held_child_goes_on_when_its_parent_was_retried(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [parent] = producer.defer(None)
    child = producer.defer_after(parent, on_parent="hold")
    worker.finish(worker.claim_one(), status="failed")
    promise(worker.claim() == [], "it is held")
    promise(producer.reasons(child)[0] == "parent failed", f"{producer.reasons(child)}")
    producer.retry_job(parent)
    promise(ids(running := worker.claim()) == [parent], "the parent runs again")
    promise(producer.reasons(child)[0] == "parent", f"{producer.reasons(child)}")
    worker.finish(*running, status="failed")
    promise(worker.claim() == [] and leftovers(worker) == 1, "and fails again")
    promise(producer.reasons(child)[0] == "parent failed", f"{producer.reasons(child)}")
    producer.retry_job(parent)
    worker.finish(worker.claim_one())
    promise(ids(worker.claim()) == [child], "and succeeds")


@story(
    Mutation(
        "a success leaves the edges of an earlier failure",
        "settle_ends.sql",
        "(NOT edges.failed OR ended.status = 'succeeded')",
        "NOT edges.failed",
    ),
)
def test_a_parent_that_is_retried_while_a_claim_judges_its_child_frees_it(stage: Stage) -> None:
    producer, worker, other = stage.session(), stage.worker(), stage.worker()
    [parent] = producer.defer(None)
    worker.finish(worker.claim_one(), status="failed")
    child = producer.defer_after(parent, on_parent="hold")
    other.start_until("cut_edges", other.claim)  # it has seen the failure
    producer.retry_job(parent)
    promise(ids(running := other.resume()) == [parent], "the same claim starts it again")
    other.finish(*running)
    promise(ids(worker.claim()) == [child], "its parent has succeeded")
    promise(leftovers(worker) == 0, "nothing is left of it")


@story(
    Mutation(
        "a restored parent is marked only for the children that it sees",
        "restore_job.sql",
        "true, priority",
        "nullif(EXISTS (SELECT FROM edges WHERE parent = p_id), false), priority",
    ),
)
def test_a_child_that_comes_while_its_parent_is_retried_hears_of_the_new_end(
    stage: Stage,
) -> None:
    producer, other, worker = stage.session(), stage.session(), stage.worker()
    [parent] = producer.defer(None)
    worker.finish(worker.claim_one(), status="failed")
    producer.begin()
    producer.retry_job(parent)
    child = other.defer_after(parent, on_parent="hold")
    promise(worker.claim() == [], "the failure holds it up")
    producer.commit()
    worker.finish(worker.claim_one())
    promise(ids(worker.claim()) == [child], "and the success lets it go")


@story(
    Mutation(
        "a retry changes the edges",
        "restore_job.sql",
        "IF v_back.lost_queueing_lock THEN",
        "UPDATE edges SET failed = false WHERE parent = p_id; IF v_back.lost_queueing_lock THEN",
    ),
)
def test_nobody_waits_for_an_open_transaction_that_retries_a_parent(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [parent] = producer.defer(None)
    child = producer.defer_after(parent, on_parent="hold")
    worker.finish(worker.claim_one(), status="failed")
    producer.run("UPDATE jobs SET expires_at = now() + interval '1 hour' WHERE id = %s", child)
    worker.claim()
    promise(status(worker, child) == "pending", "it is held")
    producer.begin()
    producer.retry_job(parent)
    worker.hasten("2 hours")
    promise(worker.claim() == [] and status(worker, child) == "cancelled", "it has expired")


@story(
    Mutation(
        "an old end counts for a new life",
        "settle_ends.sql",
        "WHERE (SELECT true FROM jobs WHERE jobs.id = ours.parent LIMIT 1) IS NULL",
        "WHERE true",
    ),
)
def test_an_end_that_was_taken_back_frees_nobody(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [parent] = producer.defer(None)
    child = producer.defer_after(parent)
    running = worker.claim_one()
    worker.finish(running, status="failed")
    producer.retry_job(parent)  # before any claim has looked after its end
    promise(ids(running_again := worker.claim()) == [parent], "the child waits on")
    worker.finish(*running_again)
    promise(ids(worker.claim()) == [child], "for the new end")


@story(
    Mutation(
        "a rescue or a retry is an end",
        "retry.sql",
        "IF v_again.ids IS NOT NULL THEN",
        "IF v_again.ids IS NOT NULL THEN "
        "PERFORM tell_relatives(job, 'succeeded', true) FROM unnest(v_again.ids) AS job; "
        "DELETE FROM edges WHERE parent = ANY (v_again.ids); "
        "UPDATE jobs SET status = 'todo' WHERE status = 'pending';",
    ),
)
def test_retries_and_rescues_of_a_parent_do_not_free_its_child(stage: Stage) -> None:
    producer, worker, dead = stage.session(), stage.worker(), stage.worker()
    [parent] = producer.defer(None)
    child = producer.defer_after(parent)
    worker.retry(worker.claim_one())
    promise(ids(dead.claim()) == [parent], "only the parent")
    dead.run("DELETE FROM workers WHERE id = %s", dead.id)
    worker.rescue()
    promise(ids(running := worker.claim()) == [parent], "still")
    worker.finish(*running)
    promise(ids(worker.claim()) == [child], "it has ended now")


@story(
    Mutation(
        "a cancelled child keeps its edges",
        "tell_relatives.sql",
        "DELETE FROM edges WHERE child = p_id;",
        "",
    ),
)
def test_people_can_cancel_delete_and_let_go_what_waits_for_others(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [parent] = producer.defer(None)
    cancelled, deleted, let_go = (producer.defer_after(parent, lock="a") for _ in range(3))
    running = worker.claim_one()
    promise(worker.claim() == [], "they wait")
    promise(producer.cancel(cancelled) == "cancelled" and producer.delete(deleted), "and may end")
    promise(producer.retry_job(let_go), "or go on")
    promise(ids(worker.claim()) == [let_go], "without their parent")
    worker.finish(running)
    worker.claim()
    promise(leftovers(worker) == 0, "nothing is left")


@story(
    Mutation(
        "a claim forgets an end of its own before others can see it",
        "settle_ends.sql",
        "AND age(ends.xmin) > 0",
        "",
    ),
)
def test_a_child_that_comes_while_a_claim_ends_its_parent_hears_of_the_end(stage: Stage) -> None:
    producer, worker, other = stage.session(), stage.worker(), stage.worker()
    [parent] = producer.defer("a", expires_in="1 hour")
    producer.pause("a")
    first = producer.defer_after(parent, on_parent="go")
    promise(worker.claim() == [], "the parent waits, and is marked")
    worker.hasten("2 hours")
    worker.begin()
    promise(ids(worker.claim()) == [first], "the claim ends the parent and frees the child it sees")
    child = producer.defer_after(parent, on_parent="go")
    promise(other.claim() == [], "to all others, the parent waits still")
    worker.commit()
    promise(ids(other.claim()) == [child], "it has ended")
    promise(leftovers(other) == 0, "nothing is left of it")


@story(
    Mutation(
        "a person goes by the status that a job had when the claim began",
        "retry_at_its_place.sql",
        "AND coalesce(status IN ('scheduled', 'pending'), false) FOR UPDATE;",
        "AND coalesce(status IN ('scheduled', 'pending'), false); "
        "PERFORM FROM jobs WHERE id = p_id FOR UPDATE;",
    ),
)
def test_a_job_that_is_let_go_while_a_claim_makes_it_pending_keeps_no_parent(stage: Stage) -> None:
    producer, person, worker = stage.session(), stage.session(), stage.worker()
    [parent] = producer.defer(None, delay="3 hours")
    child = producer.defer_after(parent, at="1 hour")
    worker.hasten("2 hours")
    worker.begin()
    promise(worker.claim() == [], "it waits for its parent")
    person.start(person.retry_job, child)
    worker.commit()
    promise(person.result() is True, "it need not wait any longer")
    promise(ids(running := worker.claim()) == [child], "and starts")
    worker.finish(*running)
    promise(leftovers(worker) == 0, "nothing is left of it")


@story(UNTOLD)
def test_a_cancelled_or_deleted_parent_has_ended_too(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    for end in (producer.cancel, producer.delete):
        [parent] = producer.defer("a")
        child, other = producer.defer_after(parent), producer.defer_after(parent, on_parent="go")
        producer.pause("a")
        promise(worker.claim() == [], "the parent waits")
        end(parent)
        promise(ids(running := worker.claim()) == [other], "it has not succeeded")
        promise(status(worker, child) == "cancelled", "so the child does not start")
        worker.finish(*running)
        producer.resume_lane("a")


@story(UNSETTLED)
def test_parents_that_have_ended_before_count_as_they_ended(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    producer.defer(None, 0, 0)
    good, bad = worker.claim()
    worker.finish(good)
    worker.finish(bad, status="failed")
    after = producer.defer_after(good.id)
    against = producer.defer_after(good.id, bad.id)
    held = producer.defer_after(bad.id, on_parent="hold")
    promise(ids(running := worker.claim()) == [after], "its parent has succeeded")
    promise(status(worker, against) == "cancelled", "one has failed")
    promise(status(worker, held) == "pending", "it waits for the retry")
    later = producer.defer_after(after)
    worker.claim()
    worker.finish(*running)
    promise(ids(worker.claim()) == [later], "and the next goes on")


@story(
    Mutation(
        "an idle worker sleeps on",
        "next_wake.sql",
        "(SELECT look_at FROM ends ORDER BY look_at LIMIT 1)",
        "(SELECT NULL::timestamptz)",
    ),
)
def test_a_worker_looks_again_while_ends_are_left(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [parent] = producer.defer(None)
    producer.defer_after(parent)
    running = worker.claim_one()
    worker.claim()
    promise(worker.next_wake() is None, "nothing to wait for")
    worker.finish(running)
    promise(str(worker.next_wake()) == "0:00:00", "there is a child to look after")


@story(
    Mutation(
        "children that stay locked are looked at again and again",
        "settle_ends.sql",
        "UPDATE ends SET look_at = v_now +",
        "UPDATE ends SET look_at = v_now + '0' *",
    ),
    Mutation(
        "a child that is not ours makes its sibling wait",
        "settle_ends.sql",
        "EXCEPT SELECT unnest(v_ours.parents)",
        "",
    ),
)
def test_nobody_looks_all_the_time_at_children_that_an_open_transaction_has_locked(
    stage: Stage,
) -> None:
    producer, worker = stage.session(), stage.worker()
    [parent] = producer.defer(None)
    running = worker.claim_one()
    child, other = producer.defer_after(parent), producer.defer_after(parent)
    worker.claim()
    stage.adjust("settle_due.sql", "settle_ends(100, p_most)", "settle_ends(1, 1)")
    worker.hasten("0")  # its clock stands still
    worker.finish(running)
    producer.begin()
    producer.run("SELECT FROM jobs WHERE id = %s FOR UPDATE", other)
    promise(ids(worker.claim()) == [child], "the first is free")
    promise(str(worker.next_wake()) == "0:00:00", "there may be others like it")
    promise(worker.claim() == [], "there is none")
    promise(str(worker.next_wake()) == "0:00:00.010000", "the next look is later")
    worker.hasten("10 seconds")
    promise(worker.claim() == [], "it is locked still")
    promise(str(worker.next_wake()) > "0:00:00.9", "ever later")
    producer.rollback()
    worker.hasten("12 seconds")
    promise(ids(worker.claim()) == [other], "and nobody forgets it")


HORIZON = "coalesce(edges.horizon, v_own)"


@story(
    Mutation(
        "a parent that nobody sees has ended",
        "await_parents.sql",
        f"is_past({HORIZON})",
        "true",
    ),
    UNSEEN,
)
def test_a_child_that_commits_before_its_parent_waits_for_it(stage: Stage) -> None:
    producer, other, worker = stage.session(), stage.session(), stage.worker()
    producer.begin()
    [parent] = producer.defer(None)
    child = other.defer_after(parent)
    promise(worker.claim() == [], "its parent is not there yet")
    promise("parent" in worker.reasons(child), f"and explain says so: {worker.reasons(child)}")
    producer.commit()
    promise("parent" in worker.reasons(child), f"it has not ended: {worker.reasons(child)}")
    worker.hasten("3 seconds")
    promise(ids(running := worker.claim()) == [parent], "now it is")
    promise(status(worker, child) == "pending", "and has not ended")
    worker.finish(*running)
    promise(ids(worker.claim()) == [child], "now it has")


@story(
    Mutation(
        "each claim waits for the transactions of its own time",
        "await_parents.sql",
        HORIZON,
        "v_own",
    ),
)
def test_a_child_of_a_forgotten_job_waits_only_for_older_transactions(stage: Stage) -> None:
    producer, old, young, worker = (*(stage.session() for _ in range(3)), stage.worker())
    [parent] = producer.defer(None)
    worker.finish(worker.claim_one())
    producer.delete(parent)
    old.begin()
    old.run("SELECT pg_current_xact_id()")
    child = producer.defer_after(parent)
    promise(worker.claim() == [], "the old transaction may bring it")
    young.begin()
    young.run("SELECT pg_current_xact_id()")
    old.commit()
    worker.hasten("3 seconds")
    promise(ids(worker.claim()) == [child], "the young one cannot")


@story(
    Mutation(
        "pauses end before due jobs are promoted",
        "settle_due.sql",
        "IF p_due.jobs THEN",
        "IF p_due.pauses THEN PERFORM end_pauses(); END IF; IF p_due.jobs THEN",
    ),
)
def test_a_claim_that_ends_a_pause_waits_for_parents_that_came_meanwhile(stage: Stage) -> None:
    producer, slow, worker = stage.session(), stage.session(), stage.worker()
    producer.run("SELECT pause_task('mail', NULL, clock() + interval '1 hour')")
    [due] = producer.defer(None, delay="1 hour")
    worker.hasten("2 hours")
    worker.start_until("promote", worker.claim)
    slow.begin()
    [parent] = slow.defer(None)
    child = producer.defer_after(parent, on_parent="go", at="-1 hour")
    promise(ids(worker.resume()) == [due], "nobody knows yet whether there is a parent")
    slow.commit()
    promise(ids(running := worker.claim()) == [parent], "there is")
    worker.finish(*running)
    worker.hasten("3 hours")
    promise(ids(worker.claim()) == [child], "and it has ended")


@story(
    Mutation(
        "a transaction of the future is waited for",
        "is_past.sql",
        "OR p_xact > greatest(",
        "OR false AND p_xact > greatest(",
    ),
)
def test_a_child_does_not_wait_for_a_transaction_of_another_server(stage: Stage) -> None:
    """In a copy of the database, on a server that has used fewer ids."""
    producer, old, worker = stage.session(), stage.session(), stage.worker()
    old.begin()
    [parent] = old.defer(None)
    child = producer.defer_after(parent, on_parent="go")
    promise(worker.claim() == [], "the old transaction may bring it")
    old.rollback()
    stage.control.execute("UPDATE edges SET horizon = horizon + 1000000000000")
    promise("parent" not in worker.reasons(child), f"explain sees that: {worker.reasons(child)}")
    worker.hasten("3 seconds")
    promise(ids(worker.claim()) == [child], "nobody here can bring it")


@story(
    Mutation(
        "our own id counts as one of the future",
        "is_past.sql",
        "greatest(pg_snapshot_xmax(pg_current_snapshot()), pg_current_xact_id_if_assigned())",
        "pg_snapshot_xmax(pg_current_snapshot())",
    ),
)
def test_a_claim_that_looks_twice_in_one_transaction_still_waits_for_the_parent(
    stage: Stage,
) -> None:
    producer, other, young, worker = (*(stage.session() for _ in range(3)), stage.worker())
    producer.begin()
    [parent] = producer.defer(None)
    other.defer_after(parent)
    young.begin()
    young.run("SELECT pg_current_xact_id()")  # so our id lies beyond the end of our snapshot
    worker.begin()
    promise(worker.claim() == [], "its parent is not there yet")
    worker.hasten("3 seconds")
    promise(worker.claim() == [], "and still is not")


@story(
    Mutation(
        "a claim does not look for the end of a parent that left no history",
        "await_parents.sql",
        "WHERE ends.job_id = edges.parent",
        "WHERE false",
    ),
)
def test_a_failure_that_left_no_history_counts_for_a_child_that_is_due_now(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [parent] = producer.defer(None)
    running = worker.claim_one()
    first = producer.defer_after(parent)
    worker.claim()
    second = producer.defer_after(parent)
    worker.run(
        "SELECT finish(%s, NULL, 0, %s, %s, '{failed}', '{NULL}', NULL, '{failed}')",
        worker.id,
        [parent],
        [running.claim_id],
    )
    promise(worker.claim() == [], "neither of them starts")
    promise([status(worker, job) for job in (first, second)] == ["cancelled"] * 2, "the end tells")


@story(
    Mutation(
        "a claim looks at all children that are due",
        "await_parents.sql",
        "p_children := p_children[:place];",
        "NULL;",
    ),
)
def test_a_claim_looks_at_a_bounded_number_of_parents(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    parents = producer.defer(None, *[0] * 100, delay="1 hour")
    children = [producer.defer_after(*parents) for _ in range(12)]
    promise(worker.claim() == [], "they wait")
    seen = [stage.statuses()[child] for child in children]
    promise(seen == ["pending"] * 10 + ["scheduled"] * 2, f"the last are for the next: {seen}")
    worker.claim()
    promise({status(worker, child) for child in children} == {"pending"}, "which judges them")


@story(
    Mutation(
        "only one that a claim has met", "retry_at_its_place.sql",
        "CASE WHEN is_pending(jobs) THEN 'pending' ELSE status END", "status",
    )
)  # fmt: skip
def test_a_child_starts_without_its_parent_as_soon_as_it_is_retried(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    [parent] = person.defer(None)
    worker.claim_one()
    child = person.defer_after(parent)
    promise(person.retry_job(child), "before a claim has checked its parents")
    promise(ids(worker.claim()) == [child], "and it starts without them")
