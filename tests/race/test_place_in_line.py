"""A job that waits in a lane says how many go before it, and about how long they take."""

from tests.race.harness import Stage


def say(stage: Stage, job: int) -> str:
    [(detail,)] = stage.session().run("SELECT detail FROM explain(%s)", job)
    return str(detail)


def test_a_job_says_how_many_go_first_and_only_those(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    [running] = person.defer("a")
    worker.claim()
    second, third, last, urgent = person.defer("a", 0, 0, 0, 5)
    person.defer("a", delay="1 hour")
    assert f"by job {running} (task)" in say(stage, urgent)
    assert "go first" not in say(stage, urgent)
    assert "; 1 other job of the lane goes first; the lane continues" in say(stage, second)
    assert "; 2 other jobs of the lane go first; the lane" in say(stage, third)
    assert "; 3 other jobs of the lane go first; the lane" in say(stage, last)


def test_with_a_pace_it_says_about_how_long(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    jobs = person.defer("a", *[0] * 400)
    running = worker.claim()
    for _ in range(10):
        running = worker.finish(*running).following
    assert say(stage, jobs[11]).endswith("ends")  # the next one
    assert "9 other jobs of the lane go first, about 1 min at its present pace;" in say(
        stage, jobs[20]
    )
    assert "about 39 min at its present pace" in say(stage, jobs[399])
    person.defer("a", *[0] * 5000)
    [(newest,)] = person.run("SELECT max(id) FROM jobs")
    assert "about 9 h at its present pace" in say(stage, newest)
