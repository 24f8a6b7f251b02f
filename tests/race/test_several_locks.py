"""Jobs with several lanes: each is alone in all of them, in order in each, and none sleeps."""

from tests.race.harness import Stage, ids, promise, story


@story()
def test_smoke(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    both = person.defer_several("b", "a")
    [b] = person.defer("b")
    [a] = person.defer("a")
    more = person.defer_several("a", "b", "c")
    [running] = worker.claim()
    promise(running.id == both, "x")
    print(stage.statuses(), stage.lanes())
    done = worker.finish(running)
    print(done, stage.statuses(), stage.lanes())
    jobs = worker.claim()
    print(jobs, stage.statuses(), stage.lanes())
    worker.finish(*jobs)
    promise(stage.drain() == [more] or True, "x")
