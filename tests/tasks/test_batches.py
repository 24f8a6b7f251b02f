"""Batches: `app.batch`, `app.batches`, the option batch, and what the callback learns."""

from typing import Any

import psycopg
import pytest

from inturn import App, JobContext
from inturn.errors import BadArgument
from inturn.model import BatchCounts
from tests.conftest import Query


class Broken(Exception):
    pass


@pytest.fixture
def ran() -> list[object]:
    return []


@pytest.fixture
def note(app: App, ran: list[object]) -> Any:
    @app.task(name="note")
    def note(name: str) -> None:
        ran.append(name)
        if name == "broken":
            raise Broken

    return note


@pytest.fixture
def report(app: App, ran: list[object]) -> Any:
    @app.task(name="report", pass_context=True)
    def report(context: JobContext, day: int = 0) -> None:
        ran.append(context.batch)

    return report


def test_the_callback_runs_after_all_jobs_and_knows_how_they_ended(
    app: App, note: Any, report: Any, ran: list[object]
) -> None:
    with app.batch("import", callback=report) as batch:
        note.configure(batch=batch, lock="a").batch_defer({"name": "one"}, {"name": "broken"})
        note.configure(batch=batch).defer("two")
        cancelled = note.configure(batch=batch).defer("never")
        app.job_manager.cancel_job_by_id(cancelled)
    app.run_worker()
    assert sorted(map(str, ran[:3])) == ["broken", "one", "two"]
    assert ran[3:] == [BatchCounts(batch, 4, 2, 1, 1, 0)]


@pytest.mark.anyio
async def test_a_batch_can_be_filled_in_a_loop(
    app: App, note: Any, report: Any, ran: list[object]
) -> None:
    async with app.open_async():
        async with app.batch("import", callback=report) as batch:
            await note.configure(batch=batch).defer_async("one")
            await note.configure(batch=batch).batch_defer_async({"name": "two"})
            progress = await app.batches.show_async(batch)
            assert progress is not None
            assert (progress.state, progress.total, progress.remaining) == ("open", 2, 2)
        await app.run_worker_async()
        assert [each.state for each in await app.batches.list_async()] == ["ended"]
    assert ran[2:] == [BatchCounts(batch, 2, 2, 0, 0, 0)]


def test_the_callback_of_an_empty_batch_runs_when_it_is_closed(
    app: App, report: Any, ran: list[object]
) -> None:
    batch = app.batches.open("empty", callback=report)
    app.run_worker()
    assert ran == []
    assert app.batches.close(batch)
    assert app.batches.close(batch)
    app.run_worker()
    assert ran == [BatchCounts(batch, 0, 0, 0, 0, 0)]


def test_the_callback_has_arguments_and_options_of_its_own(
    app: App, report: Any, query: Query
) -> None:
    configured = report.configure(lock="reports", priority=5, task_kwargs={"day": 7}, timeout=3)
    batch = app.batches.open("import", callback=configured)
    assert query(
        "SELECT status::text, lock, priority, args, batch_id, timeout::text FROM jobs"
    ) == [("pending", "reports", 5, {"day": 7}, batch, "00:00:03")]


def test_a_block_that_raises_leaves_its_batch_open(
    app: App, note: Any, report: Any, ran: list[object]
) -> None:
    def fill() -> None:
        with app.batch("import", callback=report) as batch:
            note.configure(batch=batch).defer("one")
            raise Broken

    with pytest.raises(Broken):
        fill()
    [batch] = [each.id for each in app.batches.list()]
    app.run_worker()
    assert ran == ["one"]
    app.batches.close(batch)
    app.run_worker()
    assert ran[1:] == [BatchCounts(batch, 1, 1, 0, 0, 0)]


def test_a_batch_that_is_rolled_back_leaves_nothing(
    app: App, note: Any, report: Any, dsn: str, query: Query
) -> None:
    with psycopg.connect(dsn) as connection:
        with app.batch("import", callback=report, connection=connection) as batch:
            note.configure(batch=batch, connection=connection).defer("one")
        connection.rollback()
    assert app.batches.show(batch) is None
    assert query("SELECT count(*) FROM jobs") == [(0,)]
    with pytest.raises(BadArgument, match=f"batch: there is no batch {batch}"):
        note.configure(batch=batch).defer("two")


def test_a_batch_that_is_opened_filled_and_closed_in_one_transaction(
    app: App, note: Any, report: Any, dsn: str, ran: list[object]
) -> None:
    with psycopg.connect(dsn) as connection:
        with app.batch("import", callback=report, connection=connection) as batch:
            note.configure(batch=batch, connection=connection).defer("one")
            with connection.transaction(force_rollback=True):
                note.configure(batch=batch, connection=connection).defer("rolled back")
        app.run_worker()
        assert ran == []
        connection.commit()
    app.run_worker()
    assert ran == ["one", BatchCounts(batch, 1, 1, 0, 0, 0)]


def test_jobs_of_a_batch_can_add_jobs_after_it_was_closed(
    app: App, note: Any, report: Any, ran: list[object]
) -> None:
    @app.task(name="split", pass_context=True)
    def split(context: JobContext, parts: int) -> None:
        for part in range(parts):
            note.configure(batch=context.job.batch_id).defer(f"part {part}")

    with app.batch("import", callback=report) as batch:
        split.configure(batch=batch).defer(2)
    app.run_worker(concurrency=1)
    assert ran == ["part 0", "part 1", BatchCounts(batch, 3, 3, 0, 0, 0)]
    with pytest.raises(BadArgument, match=f"batch {batch} has ended"):
        note.configure(batch=batch).defer("late")


def test_a_job_that_is_retried_after_the_end_does_not_run_the_callback_again(
    app: App, note: Any, report: Any, ran: list[object]
) -> None:
    with app.batch("import", callback=report) as batch:
        job = note.configure(batch=batch).defer("broken")
    app.run_worker()
    app.job_manager.retry_job_by_id(job)
    app.run_worker()
    assert ran == ["broken", BatchCounts(batch, 1, 0, 1, 0, 0), "broken"]


def test_a_job_that_is_retried_before_the_end_is_waited_for_again(
    app: App, note: Any, report: Any, ran: list[object]
) -> None:
    batch = app.batches.open("import", callback=report)
    job = note.configure(batch=batch).defer("broken")
    app.run_worker()
    app.job_manager.retry_job_by_id(job)
    app.batches.close(batch)
    progress = app.batches.show(batch)
    assert progress is not None
    assert (progress.total, progress.remaining, progress.failed) == (1, 1, 0)
    app.run_worker()
    assert ran == ["broken", "broken", BatchCounts(batch, 1, 0, 1, 0, 0)]


def test_a_callback_that_is_retried_learns_the_same(
    app: App, report: Any, ran: list[object]
) -> None:
    with app.batch("import", callback=report) as batch:
        pass
    app.run_worker()
    progress = app.batches.show(batch)
    assert progress is not None
    assert progress.callback_id is not None
    app.job_manager.retry_job_by_id(progress.callback_id)
    app.run_worker()
    assert ran == [BatchCounts(batch, 0, 0, 0, 0, 0)] * 2


def test_jobs_of_several_batches_and_of_none_can_be_deferred_in_one_call(
    app: App, note: Any
) -> None:
    one, two = app.batches.open("one"), app.batches.open("two")
    first = note.defer("first")
    jobs = [
        note.configure(batch=one).make_new_job("a"),
        note.make_new_job("b"),
        note.configure(batch=two).make_new_job("c"),
        note.configure(batch=two).make_new_job("d"),
    ]
    app.job_manager.batch_defer_jobs(jobs)
    app.job_manager.batch_defer_jobs(
        [*jobs, note.configure(batch=one, after=first).make_new_job("e")]
    )
    assert [(each.name, each.total) for each in app.batches.list()] == [("two", 4), ("one", 3)]
    assert len(app.job_manager.list_jobs(batch=one)) == 3


def test_cancelling_a_batch_cancels_what_waits_and_its_callback(
    app: App, note: Any, report: Any, ran: list[object], query: Query
) -> None:
    batch = app.batches.open("import", callback=report)
    member = note.configure(batch=batch)
    member.batch_defer(*[{"name": "free"}] * 5)
    note.configure(batch=batch, lock="a").batch_defer(*[{"name": "lane"}] * 3)
    note.configure(batch=batch, limit="k", schedule_in={"hours": 1}).defer("limited")
    member.defer("free")
    note.defer("other")
    assert app.batches.cancel(batch) == 11
    app.run_worker()
    assert ran == ["other"]
    progress = app.batches.show(batch)
    assert progress is not None
    assert (progress.state, progress.total, progress.cancelled) == ("ended", 10, 10)
    assert query("SELECT count(*) FROM lanes") == [(0,)]


@pytest.mark.parametrize(
    "options",
    [
        {"schedule_in": {"seconds": 1}},
        {"queueing_lock": "k"},
        {"after": 1},
        {"expires_in": {"seconds": 1}},
        {"batch": 1},
        {"group": "tenant"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_a_callback_cannot_have_every_option(app: App, report: Any, options: Any) -> None:
    [name] = options
    with pytest.raises(BadArgument, match=f"callback: cannot have the option {name}"):
        app.batches.open("import", callback=report.configure(**options))
    assert app.batches.list() == []


@pytest.mark.parametrize("batch", [True, "7", 0, -1, 2**63, 1.0], ids=repr)
def test_what_is_not_a_batch_is_refused(app: App, note: Any, batch: Any) -> None:
    with pytest.raises(BadArgument, match=r"^batch: "):
        note.configure(batch=batch).defer("one")
    with pytest.raises(BadArgument, match=r"^batch: "):
        app.batches.close(batch)


@pytest.mark.parametrize("name", ["", "x" * 1025, None, b"x"], ids=["empty", "long", "None", "b"])
def test_what_is_not_a_name_is_refused(app: App, name: Any) -> None:
    with pytest.raises(BadArgument, match=r"^name "), app.batch(name):
        pass


def test_a_job_with_a_queueing_lock_cannot_be_in_a_batch(app: App, note: Any) -> None:
    batch = app.batches.open("import")
    with pytest.raises(BadArgument, match="batch: a job with a queueing_lock"):
        note.configure(batch=batch, queueing_lock="k").defer("one")
    with pytest.raises(BadArgument, match="batch: cannot be set for a periodic task"):
        app.periodic(cron="* * * * *", batch=batch)


def test_a_job_of_a_batch_cannot_come_after_its_callback(app: App, note: Any, report: Any) -> None:
    batch = app.batches.open("import", callback=report)
    progress = app.batches.show(batch)
    assert progress is not None
    with pytest.raises(BadArgument, match="after: a job of a batch cannot come after its callback"):
        note.configure(batch=batch, after=progress.callback_id).defer("one")


def test_sql_producers_can_use_batches(
    app: App, report: Any, ran: list[object], query: Query
) -> None:
    [(batch,)] = query("SELECT open_batch('import', callback => 'report', args => '{\"day\": 2}')")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="name: give 1 to 1,024 bytes"):
        query("SELECT open_batch('')")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="there is no batch 99"):
        query("SELECT defer('report', batch_id => 99)")
    query("SELECT defer('report', batch_id => %s)", batch)
    query("SELECT close_batch(%s)", batch)
    app.run_worker()
    assert ran == [None, BatchCounts(batch, 1, 1, 0, 0, 0)]


def test_old_batches_are_pruned_a_few_at_a_time(app: App, query: Query) -> None:
    for _ in range(3):
        with app.batch("old"):
            pass
    app.run_worker()
    with app.batch("open"):
        pass
    assert query("SELECT prune_batches('1 hour', 2)") == [(0,)]
    assert query("SELECT prune_batches('0', 2)") == [(2,)]
    assert query("SELECT prune_batches('0', 2)") == [(1,)]
    assert [each.name for each in app.batches.list()] == ["open"]
    assert query("SELECT count(*) FROM batch_gates") == [(1,)]
