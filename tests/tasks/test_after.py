"""The options after and on_parent: jobs that come after other jobs."""

from typing import Any

import psycopg
import pytest

from inturn import App
from inturn.errors import BadArgument
from tests.conftest import Query


class Broken(Exception):
    pass


@pytest.fixture
def ran() -> list[str]:
    return []


@pytest.fixture
def note(app: App, ran: list[str]) -> Any:
    @app.task(name="note")
    def note(name: str) -> None:
        ran.append(name)
        if name == "broken":
            raise Broken

    return note


def test_jobs_run_after_their_parents_in_one_drain(app: App, note: Any, ran: list[str]) -> None:
    first, second = note.defer("first"), note.configure(lock="a").defer("second")
    third = note.configure(after=[first, second], lock="a", priority=9).defer("third")
    note.configure(after=third).defer("fourth")
    app.run_worker()
    assert ran == ["first", "second", "third", "fourth"]


@pytest.mark.anyio
async def test_a_bulk_waits_for_the_jobs_of_an_earlier_call(
    app: App, note: Any, ran: list[str]
) -> None:
    async with app.open_async():
        first = await note.defer_async("first")
        many = await note.configure(after=[first]).batch_defer_async({"name": "a"}, {"name": "b"})
        await note.configure(after=many).defer_async("last")
        await app.run_worker_async()
    assert ran == ["first", "a", "b", "last"]


def test_jobs_with_and_without_parents_can_be_deferred_in_one_call(
    app: App, note: Any, ran: list[str], query: Query
) -> None:
    first = note.configure(schedule_in={"hours": 1}).defer("first")
    free = note.make_new_job("free")
    app.job_manager.batch_defer_jobs([note.configure(after=first).make_new_job("child"), free])
    app.run_worker()
    assert (ran, query("SELECT status::text FROM jobs ORDER BY id")) == (
        ["free"],
        [("scheduled",), ("pending",)],
    )


def test_what_happens_after_a_failure_is_the_choice_of_each_job(
    app: App, note: Any, ran: list[str]
) -> None:
    parent = note.defer("broken")
    cancelled = note.configure(after=parent).defer("cancelled")
    note.configure(after=parent, on_parent="go").defer("goes")
    held = note.configure(after=parent, on_parent="hold").defer("held")
    app.run_worker()
    manager = app.job_manager
    assert ran == ["broken", "goes"]
    assert [manager.get_job_status(job) for job in (cancelled, held)] == ["cancelled", "pending"]
    [reason, *_] = manager.explain(held)
    assert (reason.reason, reason.unblock) == ("parent failed", f"queue jobs retry {parent}")
    assert [job.id for job in manager.list_jobs(status="pending")] == [held]
    [counts] = manager.list_queues()
    assert counts["pending"] == 1


def test_a_task_can_declare_what_a_failed_parent_means(app: App, note: Any, ran: list[str]) -> None:
    @app.task(on_parent="go")
    def clean_up() -> None:
        ran.append("clean up")

    clean_up.configure(after=note.defer("broken")).defer()
    app.run_worker()
    assert ran == ["broken", "clean up"]


def test_a_child_exists_only_if_the_transaction_of_its_parent_commits(
    app: App, note: Any, ran: list[str], dsn: str
) -> None:
    with psycopg.connect(dsn) as connection:
        first = note.configure(connection=connection).defer("first")
        note.configure(connection=connection, after=first).defer("second")
        app.run_worker()
        assert ran == []
    app.run_worker()
    assert ran == ["first", "second"]


def test_a_parent_without_history_counts_by_how_it_ended(
    app: App, note: Any, ran: list[str]
) -> None:
    for name in ("good", "broken"):
        note.configure(after=note.defer(name)).defer(f"after {name}")
    app.run_worker(delete_jobs="always")
    assert ran == ["good", "broken", "after good"]


@pytest.mark.parametrize(
    "options",
    [
        {"after": "1"},
        {"after": [True]},
        {"after": [0]},
        {"after": [1.0]},
        {"after": [2**63]},
        {"after": [1, 1]},
        {"after": range(1, 1_002)},
        {"after": 1, "queueing_lock": "k"},
    ],
)
def test_parents_that_make_no_sense_are_refused_by_name(
    note: Any, query: Query, options: dict[str, Any]
) -> None:
    with pytest.raises(BadArgument) as refused:
        note.configure(**options).defer("child")
    assert refused.value.argument == "after"
    assert query("SELECT FROM jobs") == []


def test_a_parent_that_never_was_is_refused(app: App, note: Any, query: Query) -> None:
    with pytest.raises(BadArgument, match="after: there is no job 7") as refused:
        note.configure(after=7).defer("child")
    assert refused.value.argument == "after"
    first = note.defer("first")
    jobs = [note.make_new_job("a"), note.configure(after=first + 1).make_new_job("b")]
    with pytest.raises(BadArgument, match=f"after: there is no job {first + 1}"):
        app.job_manager.batch_defer_jobs(jobs)  # a job of the same call
    assert len(query("SELECT FROM jobs")) == 1
