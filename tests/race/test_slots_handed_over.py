"""A finish hands the slot of a limit to the job that waits for it, if a claim would start it too."""

from tests.race.harness import Mutation, Session, Stage, Worker, ids, promise, story

LATER = "2 hours"


def run_first(stage: Stage, slots: int = 1) -> tuple[Session, Worker]:
    """Give a limit to a key, and let a worker run as many of its jobs as it allows."""
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", slots)
    person.defer(None, *[9] * slots, limit="stripe")
    return person, worker


def used(stage: Stage) -> int:
    [(count,)] = stage.session().run("SELECT used FROM gates WHERE key = 'limit:stripe'")
    return int(count)


@story(
    Mutation(
        "a slot that is handed over stays free",
        "finish.sql",
        "SELECT unnest(v_done.gates) EXCEPT ALL SELECT unnest(v_next.gates)",
        "SELECT unnest(v_done.gates)",
    ),
    Mutation(
        "a slot is handed over as often as it is asked for",
        "slot_heads.sql",
        "SELECT key, count(*) AS slots FROM unnest(p_gates) AS key GROUP BY key",
        "SELECT key, count(*) + 1 AS slots FROM unnest(p_gates) AS key GROUP BY key",
    ),
    Mutation(
        "only one of two slots is opened",
        "finish.sql",
        "IF cardinality(v_next.gates) IS DISTINCT FROM cardinality(v_done.gates) THEN",
        "IF v_next.gates IS NULL THEN",
    ),
)
def test_a_slot_goes_to_the_best_job_that_waits_for_it(stage: Stage) -> None:
    person, worker = run_first(stage, slots=2)
    later, better, last = person.defer(None, 0, 1, 0, limit="stripe")
    running = worker.claim()
    promise(len(running) == 2 and worker.claim() == [], "two run")
    following = worker.finish(running[0]).following
    promise(ids(following) == [better] and used(stage) == 2, "one ends, and the best one starts")
    promise(worker.claim() == [], "no slot is left")
    following = worker.finish(running[1], *following, want=1).following
    promise(ids(following) == [later] and used(stage) == 1, "one of two slots is taken over")
    promise(ids(worker.claim()) == [last], "a claim takes the other slot")


@story(
    Mutation(
        "a slot is handed over under a limit that was lowered",
        "slot_heads.sql",
        "least(freed.slots, rule.slots - gates.used + freed.slots)",
        "freed.slots",
    ),
)
def test_a_slot_that_was_taken_away_is_not_handed_over(stage: Stage) -> None:
    person, worker = run_first(stage, slots=2)
    [waiting] = person.defer(None, limit="stripe")
    one, other = worker.claim()
    worker.claim()
    person.set_limit("stripe", 1)
    promise(worker.finish(one).following == [], "one is enough now")
    promise(ids(worker.finish(other).following) == [waiting], "the next one has its slot")


@story(
    Mutation("a rate is charged nothing", "slot_heads.sql", "rule.rate IS NULL AND", ""),
)
def test_a_job_that_also_needs_a_token_is_not_handed_over(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", 1, 1)
    person.defer(None, 0, 0, limit="stripe")
    [running] = worker.claim()
    promise(worker.finish(running).following == [], "its token is not there yet")


@story(
    Mutation(
        "a slot is handed over past a lane that waits",
        "slot_heads.sql",
        "ORDER BY gated_jobs.is_awaited DESC, gated_jobs.priority DESC, gated_jobs.id",
        "ORDER BY gated_jobs.priority, gated_jobs.id",
    ),
    Mutation("a lane is not won", "slot_heads.sql", "AND jobs.lock IS NULL AND", "AND"),
)
def test_a_job_in_a_lane_is_claimed_and_nothing_goes_past_it(stage: Stage) -> None:
    person, worker, other = *run_first(stage), stage.worker()
    [in_lane] = person.defer("a", 1, limit="stripe")
    person.defer(None, limit="stripe")
    [running] = worker.claim()
    worker.claim()
    [held] = person.defer("a", 2)
    holding = other.claim_one()
    promise(holding.id == held, "its lane is busy")
    promise(worker.finish(running).following == [], "it goes first, and has no lane")
    other.finish(holding, want=0)
    promise(ids(worker.claim()) == [in_lane], "a claim starts it")


@story(
    Mutation(
        "an expired job takes a slot over",
        "slot_heads.sql",
        "AND (jobs.expires_at IS NULL OR jobs.was_attempted OR jobs.expires_at > clock())",
        "",
    ),
)
def test_a_job_that_has_expired_takes_no_slot_over(stage: Stage) -> None:
    person, worker = run_first(stage)
    person.defer(None, limit="stripe", expires_in="1 hour")
    [behind] = person.defer(None, limit="stripe")
    [running] = worker.claim()
    worker.hasten(LATER)
    worker.finish(running)
    promise(ids(worker.claim()) == [behind] and used(stage) == 1, "the slot is for the next one")


@story(
    Mutation(
        "a paused task takes a slot over",
        "slot_heads.sql",
        "AND jobs.task NOT IN (SELECT unnest(p_paused))",
        "",
    ),
)
def test_a_job_of_a_paused_task_takes_no_slot_over(stage: Stage) -> None:
    person, worker = run_first(stage)
    person.defer(None, limit="stripe", task="slow")
    [running] = worker.claim()
    person.run("SELECT pause_task('slow')")
    promise(worker.finish(running).following == [], "its task is paused")
    promise(worker.claim() == [], "still")


@story(
    Mutation(
        "paused queues are served",
        "finish.sql",
        "p_queues := leave_out_paused(coalesce(p_queues,",
        "p_queues := (coalesce(p_queues,",
    ),
    Mutation(
        "a pause of another queue ends the hand-over",
        "finish.sql",
        "|| ARRAY(SELECT queue FROM slot_heads(v_done.gates, v_paused))",
        "",
    ),
)
def test_a_job_of_a_paused_queue_takes_no_slot_over_and_others_do(stage: Stage) -> None:
    person, worker = run_first(stage)
    person.defer(None, 1, limit="stripe", queue="mail")
    [here] = person.defer(None, limit="stripe")
    [running] = worker.claim()
    person.run("SELECT pause_queue('mail')")
    promise(worker.finish(running).following == [], "its queue is paused")
    [running] = worker.claim()
    promise(running.id == here, "another queue has the slot")
    [next_here] = person.defer(None, 2, limit="stripe")
    worker.claim()
    promise(ids(worker.finish(running).following) == [next_here], "and hands it on")


@story(
    Mutation(
        "a slot goes past older jobs",
        "handover_candidates.sql",
        "coalesce((slot.priority, first.id) > (first.priority, slot.id), true)",
        "true",
    ),
)
def test_other_ready_jobs_that_are_better_go_first(stage: Stage) -> None:
    person, worker = run_first(stage)
    [running] = worker.claim()
    [waiting] = person.defer(None, limit="stripe")
    worker.claim()
    [urgent] = person.defer(None, 1)
    promise(worker.finish(running).following == [], "a better job is ready")
    promise([worker.claim_one().id for _ in range(2)] == [urgent, waiting], "by priority")


@story(
    Mutation("a group loses its turn", "slot_heads.sql", " AND jobs.group_key IS NULL", ""),
)
def test_a_job_with_a_group_takes_no_slot_over(stage: Stage) -> None:
    person, worker = run_first(stage)
    [running] = worker.claim()
    [waiting] = person.defer(None, limit="stripe", group="x")
    worker.claim()
    promise(worker.finish(running).following == [], "groups take turns")
    promise(ids(worker.claim()) == [waiting], "in claims")


@story(
    Mutation(
        "a queue keeps the slot",
        "slot_heads.sql",
        "ORDER BY waiting.is_awaited DESC, waiting.priority DESC, waiting.id",
        "ORDER BY q.queue",
    ),
)
def test_a_slot_that_a_job_of_another_queue_should_get_is_not_handed_over(stage: Stage) -> None:
    person, _ = run_first(stage)
    mine, other = stage.worker("default"), stage.worker("mail")
    [running] = mine.claim()
    [elsewhere] = person.defer(None, limit="stripe", queue="mail")
    person.defer(None, limit="stripe")
    other.claim()
    mine.claim()
    promise(mine.finish(running).following == [], "the older one goes first")
    promise(ids(other.claim()) == [elsewhere], "wherever it is")


@story(
    Mutation("a finish waits for a user", "slot_heads.sql", "FOR UPDATE SKIP LOCKED", "FOR UPDATE"),
)
def test_a_slot_is_not_handed_to_a_job_that_a_user_has_locked(stage: Stage) -> None:
    person, worker = run_first(stage)
    [waiting] = person.defer(None, limit="stripe")
    [running] = worker.claim()
    user = stage.session()
    user.begin()
    user.run("SELECT FROM jobs WHERE id = %s FOR UPDATE", waiting)
    promise(worker.finish(running).following == [], "finish does not wait for the user")
    user.rollback()
    worker.hasten("10 seconds")
    promise(ids(worker.claim()) == [waiting], "a claim finds it later")
