"""Stories of a clock that is set back an hour. No look and no wait lasts until it has caught up.

The upkeep of any worker sees to that.
"""

from tests.race.harness import Mutation, Stage, Worker, ids, promise, story

RECALL = "recall_looks.sql"
DELAYED = "delayed_at > v_now + interval '2 s'"


def unrecalled(name: str, old: str) -> Mutation:
    return Mutation(name, RECALL, old, old.replace(" v_now", " 'infinity'::timestamptz"))


def ahead(worker: Worker) -> None:
    worker.hasten("1 hour")


def set_back(worker: Worker) -> None:
    worker.hasten("0")
    worker.run("SELECT reconcile('z', 10)")


def next_of(worker: Worker) -> list[int]:
    """Set the clock back. Return what the worker finds."""
    set_back(worker)
    return ids(worker.claim() or worker.claim())


@story(
    unrecalled("lanes", "coalesce(look_at, stopped_until) > v_now"),
    Mutation("nobody calls it", "reconcile.sql", "PERFORM recall_looks();", "NULL;"),
)
def test_a_lane_whose_next_job_was_locked_goes_on(stage: Stage) -> None:
    producer, person, worker = stage.session(), stage.session(), stage.worker()
    ahead(worker)
    _, second = producer.defer("lane", 0, 0)
    producer.defer("stopped")
    producer.pause("stopped", "2 hours")
    running = worker.claim_one()
    person.begin()
    person.run("SELECT FROM jobs WHERE id = %s FOR UPDATE", second)
    worker.finish(running)
    promise(stage.lanes()["lane"] == "delayed", "its next job is locked")
    person.rollback()
    promise(next_of(worker) == [second], "the lane is looked at")
    promise(stage.lanes()["stopped"] == "paused", "and what a person has stopped stays")


@story(
    Mutation(
        "the lane's slice lasts until then", "handover_candidates.sql",
        "clock() BETWEEN head.since AND", "clock() <",
    )
)  # fmt: skip
def test_an_older_job_goes_on_before_a_lane(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    ahead(worker)
    producer.defer("lane")
    running = worker.claim_one()
    [older], _ = producer.defer(None), producer.defer("lane")
    set_back(worker)
    promise(worker.finish(running).following == [], "the lane gives way to it")
    promise(worker.claim_one().id == older, "and it is next")


@story(
    unrecalled("keys", "WHERE look_at > v_now + interval '5 s'"),
    Mutation(
        "tokens wait for it", "fold_key.sql", "+ interval '5 s' THEN", "+ interval '1 m' THEN"
    ),
)
def test_a_key_goes_on(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    producer.run("SELECT set_limit('key', p_rate => 1, p_period => '10 s', p_burst => 1)")
    first, second = producer.defer(None, 0, 0, limit="key")
    worker.hasten("30 seconds")  # a short way back, since tokens are as of the last start
    promise(ids(worker.claim()) == [first], "the second has no token")
    set_back(worker)
    promise(worker.claim() == [], "it waits for a token")
    promise(str(worker.next_wake()) < "0:00:11", f"no longer than usual: {worker.next_wake()}")
    worker.hasten("10.1 seconds")
    promise(ids(worker.claim()) == [second], "its token has come")


@story(unrecalled("ends", "look_at > v_now + interval '2 s' ORDER BY look_at LIMIT 1000"))
def test_a_child_that_was_locked_goes_on(stage: Stage) -> None:
    producer, person, worker = stage.session(), stage.session(), stage.worker()
    [parent] = producer.defer(None)
    child = producer.defer_after(parent)
    ahead(worker)
    [running] = worker.claim()
    person.begin()
    person.run("SELECT FROM jobs WHERE id = %s FOR UPDATE", child)
    worker.finish(running)
    promise(worker.claim() == [], "it is locked")
    person.rollback()
    promise(next_of(worker) == [child], "it is looked at")


@story(
    unrecalled("children", DELAYED),
    Mutation(
        "a look at parents does not note when",
        "await_parents.sql",
        "SET delayed_at = clock(), scheduled_at",
        "SET scheduled_at",
    ),
)
def test_a_child_whose_parent_was_not_there_goes_on(stage: Stage) -> None:
    producer, person, worker = stage.session(), stage.session(), stage.worker()
    person.begin()
    [parent] = person.defer(None)
    child = producer.defer_after(parent, on_parent="go")
    later = producer.defer_after(child, at="30 minutes")
    ahead(worker)
    producer.run("UPDATE jobs SET scheduled_at = clock() + interval '2 h' WHERE id = %s", later)
    promise(worker.claim() == [], "the transaction may bring it")
    person.rollback()
    set_back(worker)
    worker.hasten("2 seconds")
    promise(ids(worker.claim() or worker.claim()) == [child], "it is looked at")
    promise(stage.statuses()[later] == "scheduled", "and what is for later stays")


@story(
    Mutation(
        "only those that a claim has met",
        "defer_after.sql",
        "IS NOT TRUE THEN v_now",
        "IS NOT TRUE THEN NULL::timestamptz",
    )
)
def test_a_child_that_no_claim_has_met_goes_on(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [parent] = producer.defer(None)
    producer.hasten("1 hour")
    child = producer.defer_after(parent)
    set_back(worker)
    worker.finish(*worker.claim())
    promise(next_of(worker) == [child], "it is looked at")


@story(
    Mutation(
        "a child that a person calls does not note when",
        "retry_at_its_place.sql",
        "THEN clock() END, has_parents",
        "THEN NULL::timestamptz END, has_parents",
    )
)
def test_a_child_that_a_person_has_called_goes_on(stage: Stage) -> None:
    producer, person, worker = stage.session(), stage.session(), stage.worker()
    [parent] = producer.defer(None)
    child = producer.defer_after(parent, at="2 hours")
    worker.finish(*worker.claim())
    person.hasten("1 hour")
    person.retry_job(child)
    promise(next_of(worker) == [child], "it is looked at")


@story(unrecalled("children", DELAYED))
def test_a_child_whose_parent_was_locked_goes_on(stage: Stage) -> None:
    producer, person, worker = stage.session(), stage.session(), stage.worker()
    [parent] = producer.defer(None)
    running = worker.claim()
    person.begin()
    person.run("SELECT FROM jobs WHERE id = %s FOR UPDATE", parent)
    child = producer.defer_after(parent)
    ahead(worker)
    promise(worker.claim() == [], "somebody has the parent locked")
    person.rollback()
    set_back(worker)
    worker.finish(*running)
    worker.hasten("2 seconds")
    promise(ids(worker.claim() or worker.claim()) == [child], "it is looked at")


@story(unrecalled("batches", "due_at > v_now + interval '2 s'"))
def test_a_batch_that_was_locked_ends(stage: Stage) -> None:
    producer, person, worker = stage.session(), stage.session(), stage.worker()
    [(batch,)] = producer.run("SELECT open_batch('b', 'callback')")
    person.begin()
    person.run("SELECT FROM batch_gates FOR UPDATE")
    producer.run("SELECT close_batch(%s)", batch)
    ahead(worker)
    promise(worker.claim() == [], "somebody may join it")
    person.rollback()
    promise(len(next_of(worker)) == 1, "it is looked at")


@story(unrecalled("keys", "WHERE look_at > v_now + interval '5 s'"))
def test_a_job_whose_pause_is_over_goes_on(stage: Stage) -> None:
    producer, person, worker = stage.session(), stage.session(), stage.worker()
    [job] = producer.defer(None)
    producer.run("SELECT pause_task('task')")
    promise(worker.claim() == [], "it is set aside")
    person.begin()
    person.run("SELECT FROM jobs WHERE id = %s FOR UPDATE", job)
    producer.run("SELECT resume_task('task')")
    ahead(worker)
    promise(worker.claim() == [], "it is locked")
    person.rollback()
    promise(next_of(worker) == [job], "it is looked at")
