"""Several and shared locks together with groups and batches."""

from tests.race.harness import Mutation, Session, Stage, ids, promise, story

LINE = "SELECT count(*) FROM waits"


def defer(session: Session, *locks: str, group: str | None = None, batch: int | None = None) -> int:
    [(job,)] = session.run(
        "SELECT defer('task', locks => %s::text[], group_key => %s, batch_id => %s)",
        list(locks), group, batch,
    )  # fmt: skip
    return int(job)


@story(
    Mutation(
        "turns leave them out",
        "fair_candidates.sql",
        "coalesce(chosen.several, '{}')",
        "'{}'::bigint[]",
    ),
    Mutation(
        "they take no turns",
        "fair_candidates.sql",
        "token.lock, false, token.group_key, token.several FROM token",
        "token.lock, false, '', token.several FROM token",
    ),
)
def test_jobs_with_several_lanes_take_the_turns_of_their_groups(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    large = {defer(person, f"a{number}", f"b{number}", group="a") for number in range(6)}
    others = {*person.defer(None, 0, 0)}
    started = [job for _ in range(4) for job in ids(worker.claim(1))]
    turns = "".join("a" if job in large else "b" for job in started)
    promise(turns == "baba" and others <= {*started}, f"not {turns}")


@story(
    Mutation(
        "the callback stands in line before it is its turn",
        "open_batch.sql",
        "PERFORM leave_line(job.id, job.priority, job.locks) FROM jobs AS job "
        "WHERE job.id = v_job AND job.locks IS NOT NULL;",
        "",
    ),
    Mutation(
        "it gets in no line",
        "free_children.sql",
        "PERFORM join_lanes(v_joining) WHERE v_joining IS NOT NULL;",
        "",
    ),
)
def test_a_callback_with_several_lanes_is_in_line_only_when_its_batch_has_ended(
    stage: Stage,
) -> None:
    person, worker = stage.session(), stage.worker()
    [(batch,)] = person.run("SELECT open_batch('import', 'report', locks => '{a,b}')")
    [(callback,)] = person.run("SELECT callback_id FROM batches WHERE id = %s", batch)
    member = defer(person, "c", batch=batch)
    person.run("SELECT close_batch(%s)", batch)
    [other] = person.defer("b")
    running = {job.id: job for job in worker.claim()}
    promise({*running} == {member, other}, f"lane b is free, and {other} runs, not {[*running]}")
    worker.finish(running[member])
    promise(worker.claim() == [], "lane b is held")
    promise(person.run(LINE) == [(1,)], "the callback waits in the line of b")
    worker.finish(running[other])
    promise(ids(worker.claim()) == [callback], "both lanes are free")


@story()
def test_a_batch_is_cancelled_with_its_jobs_that_have_several_lanes(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    [(batch,)] = person.run("SELECT open_batch('import')")
    [held] = person.defer("b")
    [running] = worker.claim()
    for _ in range(2):
        defer(person, "a", "b", batch=batch)
    cancelled = 0
    last: int | None = 0
    while last is not None:
        [(count, last)] = person.run(
            "SELECT cancelled, last FROM cancel_batch(%s, %s)", batch, last
        )
        cancelled += count
    promise((cancelled, person.run(LINE)) == (2, [(0,)]), f"{cancelled} cancelled")
    [next_one] = person.defer("b")
    promise(running.id == held and worker.claim() == [], "the running job has kept its lane")
    promise(ids(worker.finish(running).following) == [next_one], "and the lane goes on")


@story(
    Mutation(
        "its task is the one that the claim saw first",
        "is_startable.sql",
        "AND jobs.task = p_seen.task",
        "",
    )
)
def test_a_job_that_gets_a_paused_task_while_its_lanes_are_won_does_not_start(
    stage: Stage,
) -> None:
    person, worker = stage.session(), stage.worker()
    defer = "SELECT defer(%s, locks => '{a,b}', queueing_lock => 'q', on_conflict => 'replace')"
    person.run(defer, "task")
    person.run("SELECT pause_task('mail')")
    worker.start_until("win_lanes", worker.claim)
    person.run(defer, "mail")
    promise(worker.resume() == [], "its new task is paused")
    promise(worker.claim() == [] and stage.lanes() == {}, "and it waits")
    person.run("SELECT resume_task('mail')")
    promise(len(worker.claim()) == 1, "until the pause is over")
