"""A claim that looks only at what is new: stories told as in test_interleavings.

It must leave everything else to the next full claim, and start nothing that a full claim would not.
"""

from functools import partial
from itertools import count

import pytest
from psycopg.errors import NoDataFound

from tests.race.harness import Mutation, Stage, Worker, ids, promise, story
from tests.race.test_interleavings import refused
from tests.race.test_paused_queues import pause


@story(
    Mutation("it looks at the front", "new_candidates.sql", "jobs.id > r.since", "true"),
    Mutation(
        "it starts the jobs of other workers",
        "new_candidates.sql",
        "AND jobs.queue::text IN (SELECT unnest(r.queues))",
        "",
    ),
    Mutation(
        "it leaves out the lanes",
        "new_candidates.sql",
        "IF v_tokens IS NOT NULL THEN",
        "IF false THEN",
    ),
)
def test_it_starts_free_jobs_and_heads_of_lanes_that_came_since(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker("default")
    (old,), (old_head,) = producer.defer(None), producer.defer("a")
    free, (head, behind) = producer.defer(None), producer.defer("b", 0, 0)
    producer.defer(None, queue="elsewhere")
    [last] = producer.defer(None)
    promise(ids(worker.claim(since=old_head)) == [*free, head, last], "no other")
    promise(worker.claim(since=old_head) == [], "once")
    promise(ids(stage.worker().claim())[:2] == [old, old_head], "a full claim has the rest")
    order = stage.drain()
    promise(order.index(head) < order.index(behind), "in order")


@story(
    Mutation(
        "it leaves out what came back", "new_candidates.sql", "jobs.back_id > r.since", "false"
    ),
    Mutation(
        "a job draws no number", "retry.sql", "ELSE nextval('jobs_id_seq')", "ELSE NULL::bigint"
    ),
)
def test_it_starts_jobs_that_came_back_since(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    (first, second), [free] = producer.defer("a", 0, 0), producer.defer(None)
    worker.retry(*worker.claim())
    again = worker.claim(since=free)
    promise(ids(again) == [first, free], "both are due")
    worker.finish(*again, want=0)
    promise(stage.drain() == [second], "in order")


@story(
    Mutation(
        "it takes the oldest",
        "new_candidates.sql",
        "ORDER BY jobs.priority DESC, jobs.id\n",
        "ORDER BY jobs.id\n",
    )
)
def test_it_starts_the_best_of_them(stage: Stage) -> None:
    producer, worker = stage.session(), stage.worker()
    jobs = producer.defer(None, 0, 2, 1)
    producer.defer("a", 1)
    promise(ids(worker.claim(1, since=0)) == [jobs[1]], "by priority")


@story(
    Mutation(
        "a lane is taken without winning it",
        "claim.sql",
        "r := win_heads(r);",
        "r.ids := r.ids || r.seen;",
    ),
)
def test_a_new_job_does_not_pass_the_older_ones_of_its_lane(stage: Stage) -> None:
    producer, worker, other = stage.session(), stage.worker(), stage.worker()
    [first] = producer.defer("a")
    [running] = worker.claim()
    [second] = producer.defer("a")
    promise(other.claim(since=first) == [], "its lane is held")
    worker.retry(running, delay="1 hour")
    [third] = producer.defer("a")
    promise(other.claim(since=second) == [], "its lane waits for the retry")
    promise(stage.drain() == [first, second, third], "in order")


@story(
    Mutation("two claims take the same job", "new_candidates.sql", "FOR UPDATE SKIP LOCKED", ""),
    Mutation(
        "one waits for the other", "new_candidates.sql", "FOR UPDATE SKIP LOCKED", "FOR UPDATE"
    ),
)
def test_two_looks_share_the_new_jobs(stage: Stage) -> None:
    producer, one, two = stage.session(), stage.worker(), stage.worker()
    free = producer.defer(None, 0, 0, 0, 0)
    one.begin()
    promise(ids(one.claim(2, since=0)) == free[:2], "the first two")
    promise(ids(two.claim(4, since=0)) == free[2:], "the others, without waiting")
    one.commit()


@story()
def test_a_job_that_is_committed_late_waits_for_a_full_claim(stage: Stage) -> None:
    slow, quick, worker = stage.session(), stage.session(), stage.worker()
    slow.begin()
    [late], [head] = slow.defer(None), slow.defer("a")
    [first], [behind] = quick.defer(None), quick.defer("a")
    promise(ids(worker.claim(since=0)) == [first, behind], "nothing else is there")
    slow.commit()
    promise(worker.claim(since=behind) == [], "they are not new")
    promise(ids(worker.claim()) == [late], "a full claim finds them, though the lane is held")
    promise(stage.drain() == [late, first, behind, head], "the lane goes on with what it ran")


@story(
    Mutation(
        "it takes no slots",
        "claim.sql",
        "IF r.limited OR cardinality(r.paused) > 0 THEN",
        "IF false THEN",
    ),
    Mutation("it clears the front", "pass_gates.sql", " AND r.since IS NULL", ""),
)
def test_limits_and_paused_tasks_hold(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", 1)
    old = person.defer(None, *[0] * 3, limit="stripe")
    [first, *rest] = person.defer(None, 0, 0, limit="stripe")
    promise(ids(worker.claim(since=old[-1])) == [first], "there is one slot")
    [new] = person.defer(None, limit="stripe")
    promise(worker.claim(since=rest[-1]) == [], "and no other")
    person.run("SELECT pause_task('mail', NULL, NULL)")
    [mail] = person.defer(None, task="mail")
    promise(worker.claim(since=new) == [], "its task is paused")
    promise(person.reasons(mail) == ["task paused"], "and it is said why")
    promise(person.run("SELECT count(*) FROM jobs WHERE status = 'todo'") == [(3,)], "the old ones")


@story(
    Mutation(
        "it starts jobs during a pause",
        "begin_further.sql",
        "CASE WHEN NOT EXISTS (SELECT FROM paused_queues)",
        "CASE WHEN true",
    ),
    Mutation(
        "it ignores the turns",
        "begin_further.sql",
        "p_queues IS NULL OR",
        "p_queues IS NOT NULL AND",
    ),
    Mutation(
        "a worker without a row may claim",
        "begin_further.sql",
        "PERFORM require_registered(p_worker);",
        "",
    ),
)
def test_pauses_and_turns_make_it_a_full_claim(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    pause(person, "default")
    [first] = person.defer(None)
    promise(worker.claim(since=0) == [], "its queue is paused")
    person.run("SELECT resume_queue('default')")
    [grouped] = person.defer(None, group="g")
    promise(ids(worker.claim(since=grouped)) == [first, grouped], "a full claim, since groups wait")
    stage.forget(worker)
    promise(refused(partial(worker.claim, since=0), by=NoDataFound), "it must register again")


@story(
    Mutation(
        "the worker is not told",
        "pass_gates.sql",
        "PERFORM set_config('inturn.lacking', 'true', true);",
        "",
    )
)
def test_a_full_claim_tells_whether_it_left_jobs_that_lack_a_slot(stage: Stage) -> None:
    """Then the worker makes no looks: new jobs must not go first."""
    person, worker = stage.session(), stage.worker()
    person.set_limit("mail", None, rate=60, burst=10)
    person.defer(None, 0, 0, limit="mail")
    person.defer(None, queue="elsewhere")
    claim = (
        "SELECT current_setting('inturn.lacking', true) = 'true' "
        "FROM claim(%s, ARRAY[%s], 10, false, 1)"
    )
    promise(worker.run(claim, worker.id, "default") == [(True,)], "one of two is left")
    promise(worker.run(claim, worker.id, "elsewhere") != [(True,)], "none is left there")


def count_pages(worker: Worker, since: int | None) -> int:
    """Let a worker claim one job, and return how many pages that touches."""
    [(plan,)] = worker.run(
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT FROM claim(%s, NULL, 10, p_since => %s)",
        worker.id, since,
    )  # fmt: skip
    promise(plan[0]["Plan"]["Actual Rows"] == 1, "there is a job")
    return int(plan[0]["Plan"]["Shared Hit Blocks"])


@pytest.mark.parametrize("prefix", [None, "a"], ids=["free", "lanes"])
def test_it_does_not_feel_what_has_run_under_an_open_snapshot(
    stage: Stage, prefix: str | None
) -> None:
    producer, worker, reader = stage.session(), stage.worker(), stage.session()
    reader.begin()
    reader.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    reader.run("SELECT count(*) FROM jobs")
    numbers = count()

    def defer() -> int:
        return producer.defer(prefix and f"{prefix} {next(numbers)}")[0]

    pages: list[dict[str, int]] = []
    for _ in range(3):
        new = count_pages(worker, defer() - 1)
        defer()
        pages.append({"new": new, "front": count_pages(worker, None)})
        for _ in range(1000):
            defer()
        while jobs := worker.claim(1000):
            worker.finish(*jobs, want=0)
    _, before, after = pages  # the first claims of the session read the catalogs
    promise(after["front"] > 1.5 * before["front"], f"the front is longer: {pages}")
    promise(after["new"] <= before["new"] + 5, f"a look at new jobs is not: {pages}")
