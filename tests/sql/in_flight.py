"""Jobs of every kind in flight, for tests that move them to another server."""

from tests.race.harness import Stage

LEFT = "SELECT id, status, task, explain.reason, explain.detail FROM jobs, LATERAL explain(id)"


def fill(stage: Stage) -> None:
    """Put jobs of every kind in flight."""
    producer, worker = stage.session(), stage.worker()
    producer.set_limit("one", 1)
    producer.run("SELECT set_limit('often', p_rate => 1, p_period => '1 s')")
    producer.run("SELECT register_schedules('{tick}', '{a}', '{* * * * *}', '{UTC}')")
    [(batch,)] = producer.run("SELECT open_batch('b', 'callback')")
    producer.run("SELECT defer('t', batch_id => %s), defer('t', batch_id => %s)", batch, batch)
    for lock in ("lane", "lane", "lane", "again", "again"):
        producer.defer(lock)
    producer.defer_several("lane", "other")
    producer.defer_several("read", shared=["read"])
    for limit in ("one", "often"):
        producer.defer(None, 0, 0, 0, limit=limit)
    producer.defer(None, 0, 0, group="tenant")
    producer.defer(None, delay="1 hour")
    running = worker.claim(30)
    producer.defer_after(running[0].id)
    worker.retry(running[1], delay="10 s")
    worker.finish(running[2])
    producer.run("SELECT close_batch(%s)", batch)


def leave_horizon(stage: Stage) -> int:
    """Let a job come after one whose transaction is rolled back. Return the id that is stored."""
    producer, person, worker = stage.session(), stage.session(), stage.worker()
    person.begin()
    [gone] = person.defer(None)
    child = producer.defer_after(gone, on_parent="go")
    worker.claim(30)
    person.rollback()
    [(horizon,)] = producer.run("SELECT horizon FROM edges WHERE child = %s", child)
    return int(horizon)


def assert_all_ends(stage: Stage) -> None:
    """Assert that a new worker does all jobs within two hours of the clock, and leaves nothing."""
    worker = stage.worker()
    stage.control.execute("DELETE FROM workers WHERE id <> %s", [worker.id])
    worker.rescue()
    for seconds in range(60):
        worker.hasten(f"{3600 + 2 * seconds} seconds")
        worker.finish(*worker.claim(30), want=0)
    assert stage.control.execute(LEFT).fetchall() == []
    assert stage.lanes() == {}
    for table in ("edges", "batch_events", "waits", "ends"):
        assert stage.control.execute(f"SELECT FROM {table}".encode()).fetchall() == [], table
