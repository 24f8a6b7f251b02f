"""Stories of what attempts tell about their progress, told as in test_interleavings."""

from tests.race.harness import Job, Mutation, Session, Stage, promise, story

FENCE = "SELECT fence FROM jobs WHERE id = %s"
SEEN = "SELECT progress->>'text' FROM all_jobs WHERE id = %s"


def tell(session: Session, job: Job, fence: int, text: str, done: int = 1) -> None:
    session.run(
        "SELECT report_progress(ARRAY[%s::bigint], ARRAY[%s::bigint], ARRAY[%s::bigint], '{NULL}', "
        "ARRAY[%s])",
        job.id,
        fence,
        done,
        text,
    )


@story(
    Mutation(
        "any attempt is let through",
        "report_progress.sql",
        " WHERE stored.fence <= excluded.fence;",
        ";",
    ),
)
def test_what_a_worker_tells_that_was_taken_for_dead_does_not_hide_the_next_attempt(
    stage: Stage,
) -> None:
    first, second = stage.worker(), stage.worker()
    first.defer(None)
    early = first.claim_one()
    [(early_fence,)] = first.run(FENCE, early.id)
    tell(first, early, early_fence, "early")
    promise(second.run(SEEN, early.id) == [("early",)], "it is seen while its attempt runs")

    stage.control.execute("DELETE FROM workers WHERE id = %s", [first.id])
    second.rescue()
    late = second.claim_one()
    [(late_fence,)] = second.run(FENCE, late.id)
    tell(first, early, early_fence, "early, again")
    promise(second.run(SEEN, late.id) == [(None,)], "the new attempt starts anew")

    tell(second, late, late_fence, "late")
    tell(first, early, early_fence, "too late")
    promise(second.run(SEEN, late.id) == [("late",)], "only the new attempt is seen")
    tell(second, late, late_fence, "late, again")
    promise(second.run(SEEN, late.id) == [("late, again",)], "and it goes on")


@story(
    Mutation(
        "the history is not looked at",
        "prune_progress.sql",
        "AND NOT EXISTS (SELECT FROM finished_jobs WHERE finished_jobs.id = looked.job_id)",
        "",
    ),
    Mutation(
        "live jobs are not looked at",
        "prune_progress.sql",
        "WHERE NOT EXISTS (SELECT FROM jobs WHERE jobs.id = looked.job_id) AND",
        "WHERE",
    ),
    Mutation(
        "nothing is deleted",
        "prune_progress.sql",
        "FOR UPDATE OF progress SKIP LOCKED",
        "AND false",
    ),
    Mutation(
        "it waits for a row",
        "prune_progress.sql",
        "FOR UPDATE OF progress SKIP LOCKED",
        "FOR UPDATE OF progress",
    ),
)
def test_only_the_progress_of_jobs_that_are_gone_is_pruned(stage: Stage) -> None:
    worker, late, upkeep = stage.worker(), stage.worker(), stage.session()
    for _ in range(4):
        worker.defer(None)
    running, ended, gone, told = worker.claim(4)
    for job in (running, ended, gone, told):
        [(fence,)] = worker.run(FENCE, job.id)
        tell(worker, job, fence, "told")
    worker.finish(ended, gone, told)
    for job in (gone, told):
        stage.control.execute("DELETE FROM finished_jobs WHERE id = %s", [job.id])

    [(fence,)] = stage.control.execute("SELECT fence FROM progress WHERE job_id = %s", [told.id])
    late.begin()
    tell(late, told, fence, "told late, and not committed yet")
    promise(upkeep.run("SELECT prune_progress(0, 9)") == [(None,)], "all were looked at")
    kept = "SELECT array_agg(job_id ORDER BY job_id) FROM progress"
    promise(upkeep.run(kept) == [([running.id, ended.id, told.id],)], "the gone one is pruned")
    late.commit()
    upkeep.run("SELECT prune_progress(0, 9)")
    promise(upkeep.run(kept) == [([running.id, ended.id],)], "and later the other one")
