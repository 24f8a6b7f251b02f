"""Stories of jobs that wait for a delay while the clock is set back an hour.

They wait as long again, and not for an hour more. A time that was chosen stays.
"""

from tests.race.harness import Mutation, Session, Stage, Worker, ids, promise, story
from tests.race.test_clock import DELAYED, RECALL, ahead, set_back, unrecalled

NOBODY = unrecalled("nobody recalls delays", DELAYED)
TIMES_TOO = Mutation(
    "absolute times are recalled, too",
    RECALL,
    DELAYED,
    "coalesce(delayed_at, scheduled_at) > v_now + interval '2 s'",
)


def unnoted(file: str, old: str, time: str = "v_now") -> Mutation:
    """Do not note when the delay was given."""
    new = old.replace(f"THEN {time}", "THEN NULL::timestamptz")
    return Mutation(f"{file} does not note when", file, old, new)


def noted(file: str, old: str, new: str) -> Mutation:
    """Take a time that was chosen for a delay."""
    return Mutation(f"{file} takes a time for a delay", file, old, new)


def defer_job(session: Session, at: str | None = None, delay: str | None = None) -> int:
    [(job,)] = session.run(
        "SELECT defer_job('task', '{}', 'default', NULL, 0, clock() + %s::interval, %s::interval, "
        "'hold', 'continue', NULL)",
        at, delay,
    )  # fmt: skip
    return int(job)


def defer(
    session: Session,
    at: str | None = None,
    delay: str | None = None,
    key: list[str] | None = None,
    after: list[int] | None = None,
) -> int:
    """Defer a job, or give the job that waits under a queueing lock its work."""
    [(job,)] = session.run(
        "SELECT id FROM defer_jobs('{task}', '{\"{}\"}', NULL, NULL, NULL, "
        "ARRAY[clock() + %s::interval], ARRAY[%s::interval], p_queueing_locks => %s::text[], "
        "p_on_conflict => 'replace', p_after => %s::bigint[], p_after_of => %s::integer[])",
        at, delay, key, after, after and [1],
    )  # fmt: skip
    return int(job)


def retry(worker: Worker, at: str | None = None, *, uncharged: bool = False) -> int:
    """End an attempt at a job. The next one comes after ten seconds, or that far from now."""
    job = worker.claim_one()
    worker.run(
        "SELECT retry(%s, %s, '{10 s}', '{NULL}', ARRAY[clock() + %s::interval], "
        "p_uncharged => %s)",
        [job.id], [job.claim_id], at, [uncharged],
    )  # fmt: skip
    return job.id


def found_in(worker: Worker, delay: str, since: str = "now") -> list[int]:
    """Let that much time pass after the clock was set back. Return what the worker finds."""
    worker.run(
        "SELECT set_config('inturn.clock', (%s::timestamptz + %s::interval)::text, false)",
        since, delay,
    )  # fmt: skip
    return sorted(ids(worker.claim()) + ids(worker.claim()))


def promise_wait(worker: Worker, *jobs: int) -> None:
    """Promise that after the clock was set back, the jobs start ten seconds later."""
    set_back(worker)
    [(since,)] = worker.run("SELECT current_setting('inturn.clock')")
    promise(found_in(worker, "9.9 seconds", since) == [], "they wait as long as they were told to")
    promise(found_in(worker, "10 seconds", since) == sorted(jobs), "and no longer")


@story(
    NOBODY,
    Mutation("the wait is lost", RECALL, "greatest(extract(", "least(0, extract("),
    unnoted("defer_job.sql", "v_due > v_now THEN v_now"),
    unnoted("defer_jobs.sql", "CASE WHEN r.later AND r.at IS NULL THEN v_now"),
)
def test_a_delayed_job_does_not_wait_for_the_clock(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    producer.hasten("1 hour")
    promise_wait(worker, defer_job(producer, delay="10 s"), defer(producer, delay="10 s"))


@story(
    unnoted("defer_jobs.sql", "CASE WHEN g.at IS NULL AND g.delay > interval '0' THEN v_now"),
    Mutation(
        "what replaces it does not note when",
        "replace_waiting.sql",
        "delayed_at = p_options.delayed_at,",
        "",
    ),
)
def test_a_delayed_job_under_a_queueing_lock_does_not_either(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    producer.hasten("1 hour")
    delayed = defer(producer, delay="10 s", key=["a"])
    replaced = defer(producer, at="1 hour", key=["b"])
    promise(defer(producer, delay="10 s", key=["b"]) == replaced, "it has new work")
    promise_wait(worker, delayed, replaced)


@story(
    Mutation("children do not note when", "defer_after.sql", "ELSE o.delayed_at END", "END"),
)
def test_a_delayed_child_does_not_either(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [parent] = producer.defer(None)
    producer.hasten("1 hour")
    child = defer(producer, delay="10 s", after=[parent])
    worker.finish(*worker.claim())
    promise_wait(worker, child)


@story(NOBODY, unnoted("retry.sql", "ended.due_at > clock() THEN clock()", "clock()"))
def test_a_lane_does_not_wait_for_its_retry(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    producer.defer("lane", 0, 0)
    ahead(worker)
    first = retry(worker)
    promise(stage.lanes() == {"lane": "retrying"}, "the lane waits for it")
    promise_wait(worker, first)


@story(NOBODY, unnoted("retry.sql", "ended.due_at > clock() THEN clock()", "clock()"))
def test_a_snoozed_job_does_not_wait_for_the_clock(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    producer.defer(None)
    ahead(worker)
    promise_wait(worker, retry(worker, uncharged=True))


@story(Mutation("all delays are recalled", RECALL, DELAYED, "delayed_at IS NOT NULL"))
def test_no_wait_begins_anew_while_the_clock_goes_on(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    job = defer_job(producer, delay="10 s")
    for delay in ("0", "1 second", "9 seconds"):
        worker.hasten(delay)
        worker.reconcile()
    promise(found_in(worker, "10 seconds") == [job], "it starts after its delay")


@story(Mutation("nobody is woken", RECALL, "PERFORM notify_workers(v_queues)", "PERFORM 1"))
def test_a_worker_that_sleeps_until_the_old_time_is_woken(stage: Stage) -> None:
    producer, worker, sleeper = stage.session(), stage.worker(), stage.worker()
    producer.hasten("1 hour")
    defer_job(producer, delay="10 s")
    sleeper.set_awake(False)
    promise(str(sleeper.next_wake()) > "1:00:00", "it sleeps for an hour")
    with stage.notifications() as notifications:
        set_back(worker)
    promise(notifications == ["default"], "it looks again")
    promise(str(sleeper.next_wake()) < "0:00:11", "and finds the new time")
    with stage.notifications() as notifications:
        set_back(worker)
    promise(notifications == [], "once")


@story(
    TIMES_TOO,
    noted("defer_job.sql", "p_at IS NULL AND v_due", "v_due"),
    noted("defer_jobs.sql", "r.later AND r.at IS NULL THEN", "r.later THEN"),
    noted("defer_jobs.sql", "g.at IS NULL AND g.delay > interval '0' THEN", "true THEN"),
    noted("defer_after.sql", "after.any AND (o.scheduled_at > v_now) IS NOT TRUE", "after.any"),
)
def test_a_job_that_was_scheduled_for_a_time_keeps_it(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    [parent] = producer.defer(None)
    worker.finish(*worker.claim())
    producer.hasten("1 hour")
    jobs = [
        defer_job(producer, at="10 s"),
        defer(producer, at="10 s"),
        defer(producer, at="10 s", key=["a"]),
        defer(producer, at="10 s", after=[parent]),
    ]
    set_back(worker)
    promise(found_in(worker, "59 minutes") == [], "they do not start before their time")
    promise(found_in(worker, "61 minutes") == jobs, "but then")


@story(TIMES_TOO, noted("retry.sql", "ended.at IS NULL AND ended.due_at", "ended.due_at"))
def test_a_retry_at_a_time_keeps_it(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    producer.defer("lane", 0, 0)
    ahead(worker)
    first = retry(worker, at="10 s")
    set_back(worker)
    promise(found_in(worker, "59 minutes") == [], "it does not start before its time")
    promise(found_in(worker, "61 minutes") == [first], "but then")


@story(
    TIMES_TOO,
    noted("retry_job_changed.sql", "CASE WHEN p_at IS NULL THEN delayed_at END", "delayed_at"),
)
def test_a_child_to_which_a_person_gives_a_time_keeps_it(stage: Stage) -> None:
    producer, person, worker = stage.session(), stage.session(), stage.worker()
    [parent] = producer.defer(None)
    child = producer.defer_after(parent, at="2 hours")
    worker.hasten("1 hour")
    person.hasten("1 hour")
    person.run("SELECT retry_job_changed(%s, clock() + interval '10 s')", child)
    set_back(worker)
    worker.finish(*worker.claim())
    promise(found_in(worker, "59 minutes") == [], "it does not start before its time")
    promise(found_in(worker, "61 minutes") == [child], "but then")


@story(
    Mutation(
        "the length is in days",
        RECALL,
        "interval '1 s' * greatest(extract(epoch FROM scheduled_at - delayed_at), 0)",
        "(scheduled_at - delayed_at)",
    )
)
def test_a_day_has_24_hours_when_summer_time_begins(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()

    def set_clock(session: Session, time: str) -> None:
        session.run("SELECT set_config('inturn.clock', %s, false)", time)

    set_clock(producer, "2027-03-29 12:00Z")
    job = defer_job(producer, delay="24 hours")
    worker.run("SET timezone = 'Europe/Berlin'")
    set_clock(worker, "2027-03-27 12:00Z")
    worker.run("SELECT reconcile('z', 10)")
    set_clock(worker, "2027-03-28 11:59Z")
    promise(worker.claim() == [], "it has waited for less than 24 hours")
    set_clock(worker, "2027-03-28 12:00Z")
    promise(ids(worker.claim()) == [job], "now it has")
