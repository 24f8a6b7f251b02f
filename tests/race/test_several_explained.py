"""A job with several lanes says for which lane it waits, for whom, and what unblocks it."""

from tests.race.harness import Stage, ids


def explain(stage: Stage, job: int) -> list[tuple[str, str, str | None]]:
    return [
        (reason, str(detail), unblock)
        for reason, detail, unblock in stage.session().run("SELECT * FROM explain(%s)", job)
    ]


def test_it_names_each_lane_that_is_held_and_the_job_there(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    a, b = person.defer("a"), person.defer("b")
    worker.claim()
    both = person.defer_several("a", "b", "c")
    found = explain(stage, both)
    assert [reason for reason, _, _ in found] == ["lane held", "lane held"]
    assert found[0][1].startswith(f"by job {a[0]} (task)")
    assert found[0][1].endswith("in lane a; the lane continues when it ends")
    assert found[1][1].startswith(f"by job {b[0]} (task)")
    assert found[1][1].endswith("in lane b; the lane continues when it ends")


def test_a_job_behind_it_says_that_it_waits_for_another_lane(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.defer("b")
    worker.claim()
    both = person.defer_several("a", "b")
    [behind] = person.defer("a")
    worker.claim()
    assert explain(stage, behind) == [
        (
            "lane head waits",
            f"job {both} (task) goes first and waits for lane b",
            f"queue jobs explain {both}",
        )
    ]
    report = person.run("SELECT state, head_id, waits_for, behind FROM lane_report('a')")
    assert report == [("idle", both, "b", 1)]
    assert [status for (status,) in person.run("SELECT status::text FROM live_jobs ORDER BY id")][
        1:
    ] == ["blocked", "blocked"]


def test_a_writer_names_the_readers_and_a_later_reader_the_writer(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    readers = [person.defer_several("a", shared="a") for _ in range(2)]
    jobs = worker.claim()
    assert ids(jobs) == readers
    writer = person.defer_several("a", "b")
    later = person.defer_several("a", shared="a")
    assert [detail.split(" since")[0] for _, detail, _ in explain(stage, writer)] == [
        f"by job {reader} (task)" for reader in readers
    ]
    assert explain(stage, later) == [
        (
            "lane head waits",
            f"job {writer} (task) goes first and waits for lane a, in lane a",
            f"queue jobs explain {writer}",
        )
    ]
    worker.retry(jobs[0], delay="1 hour")
    [(_, detail, unblock)] = [each for each in explain(stage, writer) if each[0] == "lane retrying"]
    assert detail.startswith(f"job {readers[0]} (task) keeps its share until it is retried")
    assert unblock == f"queue jobs retry {readers[0]}"
    status = person.run(
        "SELECT state::text, readers, waiting, job_id FROM lane_status WHERE lock = 'a'"
    )
    assert status == [("held", 2, 2, readers[1])]


def test_it_is_ready_if_nothing_is_in_its_way(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    reader = person.defer_several("a", shared="a")
    worker.claim()
    other = person.defer_several("a", "b", shared="a")
    assert [reason for reason, _, _ in explain(stage, other)] == ["ready"]
    assert ids(worker.claim()) == [other], reader


def test_a_paused_lane_names_itself(stage: Stage) -> None:
    person = stage.session()
    stage.worker()
    both = person.defer_several("a", "b")
    person.pause("b")
    [(reason, detail, unblock)] = explain(stage, both)
    assert (reason, unblock) == ("lane paused", "queue lanes resume b")
    assert "in lane b: a reason" in detail
