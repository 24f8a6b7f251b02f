"""What `drain` does with limits, groups, parents, batches and expiries, and what it cannot do."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest

from inturn import App, RetryStrategy
from inturn.model import Status
from inturn.testing import Queue

NEW_YEAR = datetime(2031, 1, 1, tzinfo=UTC)


class Broken(Exception):
    """The error that tasks of these tests raise."""


def statuses(queue: Queue) -> list[str]:
    return [str(job.status) for job in queue.jobs()]


@pytest.fixture
def seen() -> list[Any]:
    return []


@pytest.fixture
def note(app: App, seen: list[Any]) -> Any:
    @app.task(name="note")
    def note(name: object = None) -> object:
        seen.append(name)
        if name == "broken":
            raise Broken
        return name

    return note


def many(count: int) -> list[dict[str, int]]:
    return [{"name": number} for number in range(count)]


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize("concurrency", [1, 4])
def test_all_jobs_of_a_limit_run_in_one_drain(
    app: App, queue: Queue, note: Any, seen: list[Any], concurrency: int
) -> None:
    app.limits.set("api", concurrency=2)
    note.configure(limit="api").batch_defer(*many(20))
    assert len(queue.drain(concurrency=concurrency)) == 20
    assert sorted(seen) == list(range(20))
    queue.assert_never_more_than(2, limit="api")


def test_a_drain_does_not_wait_for_tokens(app: App, queue: Queue, note: Any) -> None:
    app.limits.set("api", rate="1/day", burst=3)
    note.configure(limit="api").batch_defer(*many(5))
    assert len(queue.drain()) == 3
    assert statuses(queue) == ["succeeded"] * 3 + ["limited"] * 2
    with pytest.raises(AssertionError) as caught:
        queue.drain(until=lambda: False)
    assert "job 4 note(name=3), limited\n      limited: limit api lets 1 start" in str(caught.value)


@pytest.mark.fresh_database
def test_with_advance_the_clock_moves_from_one_token_to_the_next(
    app: App, queue: Queue, note: Any
) -> None:
    """It moves a day for each token, where a worker would look every few seconds."""
    queue.freeze(NEW_YEAR)
    app.limits.set("api", rate="1/day", burst=2)
    note.configure(limit="api").batch_defer(*many(5))
    turns = len(queue.drain(advance=timedelta(days=2, hours=1)))
    assert turns == 4
    days = [job.started_at - NEW_YEAR for job in queue.jobs() if job.started_at is not None]
    assert [time.days for time in days] == [0, 0, 1, 2]
    assert queue.now() == NEW_YEAR + timedelta(days=2, hours=1)


@pytest.mark.fresh_database
@pytest.mark.anyio
async def test_a_worker_does_not_spin_when_a_frozen_clock_stands_at_its_next_look_at_a_limit(
    app: App, queue: Queue, note: Any
) -> None:
    queue.freeze(NEW_YEAR)
    app.limits.set("api", rate="1/day")
    await note.configure(limit="api").batch_defer_async(*many(2))
    await queue.drain_async()
    queue.advance(seconds=5)
    with anyio.fail_after(120):
        assert await queue.drain_async() == []


def test_a_drain_takes_all_groups_in_turns(
    app: App, queue: Queue, note: Any, seen: list[Any]
) -> None:
    for group in "ab":
        note.configure(group=group).batch_defer(*[{"name": group}] * 3)
    queue.drain()
    assert seen == ["a", "b"] * 3


# ---------------------------------------------------------------- parents


def test_a_drain_runs_parents_and_then_their_children(
    queue: Queue, note: Any, seen: list[Any]
) -> None:
    parent = note.configure(schedule_in={"hours": 1}).defer("parent")
    note.configure(after=parent, lock="lane").defer("child")
    assert queue.drain() == []
    queue.drain(advance=timedelta(hours=2))
    assert seen == ["parent", "child"]
    queue.assert_lane_order("lane", [{"name": "child"}])


def test_a_held_job_stays_pending_and_until_says_why(queue: Queue, note: Any) -> None:
    parent = note.defer("broken")
    note.configure(after=parent, on_parent="hold").defer("child")
    queue.drain(raises=False)
    with pytest.raises(AssertionError, match=r"child'\), pending\n +parent failed: .*job 1 \(note"):
        queue.drain(until=lambda: False)


# ---------------------------------------------------------------- batches and expiry


def test_a_batch_that_is_open_leaves_its_callback_and_until_says_so(
    app: App, queue: Queue, note: Any, seen: list[Any]
) -> None:
    batch = app.batches.open("import", callback=note)
    note.configure(batch=batch).defer("part")
    queue.drain(advance=timedelta(days=1))
    assert seen == ["part"]
    with pytest.raises(AssertionError, match=r"note\(\), pending\n +batch open: .*is open"):
        queue.drain(until=lambda: False)
    app.batches.close(batch)
    queue.drain()
    assert seen == ["part", None]


def test_a_job_that_has_expired_is_cancelled_by_a_drain_and_its_lane_goes_on(
    queue: Queue, note: Any, seen: list[Any]
) -> None:
    late = note.configure(lock="lane", expires_in={"hours": 1}).defer("late")
    note.configure(lock="lane").defer("next")
    note.configure(after=late).defer("child")
    queue.advance(hours=1)
    queue.drain()
    assert seen == ["next"]
    assert statuses(queue) == ["cancelled", "succeeded", "cancelled"]
    queue.assert_lane_order("lane", [{"name": "next"}])
    queue.assert_never_overlaps("lane")


# ---------------------------------------------------------------- perform


PERFORMS: dict[str, Callable[[App, Any], Any]] = {
    "limited: limit full lets 1 start": lambda _, note: note.configure(limit="full"),
    "parent: it comes after job": lambda _, note: note.configure(
        after=note.configure(schedule_in={"hours": 1}).defer()
    ),
    "finished: cancelled(.|\n)*job 2": lambda _, note: note.configure(after=2),
    "lane paused: ": lambda app, note: (app.lanes.pause("lane"), note.configure(lock="lane"))[1],
}


@pytest.mark.parametrize(("reason", "make"), PERFORMS.items(), ids=list(PERFORMS))
def test_perform_says_why_its_job_cannot_run(
    app: App, queue: Queue, note: Any, reason: str, make: Callable[[App, Any], Any]
) -> None:
    app.limits.set("full", rate="1/day")
    note.configure(limit="full").defer()
    note.defer("broken")
    queue.drain(raises=False)
    with pytest.raises(AssertionError, match=rf"^Job \d+ of task note did not run:\n +{reason}"):
        queue.perform(make(app, note), "this")


# ---------------------------------------------------------------- the history of a lane


def test_a_job_that_waits_for_its_retry_does_not_overlap_those_that_go_on(
    app: App, queue: Queue, seen: list[int]
) -> None:
    @app.task(name="flaky", lock="lane", on_retry="release",
              retry=RetryStrategy(max_attempts=2, wait=600))  # fmt: skip
    def flaky(number: int) -> None:
        seen.append(number)
        if seen.count(1) == 1 and number == 1:
            raise Broken

    flaky.batch_defer({"number": 1}, {"number": 2}, {"number": 3})
    queue.drain()
    queue.assert_never_overlaps("lane")
    queue.drain(advance=timedelta(hours=1))
    assert seen == [1, 2, 3, 1]
    queue.assert_never_overlaps("lane")
    queue.assert_lane_order("lane", [{"number": 2}, {"number": 3}, {"number": 1}])


def test_a_retry_that_is_cancelled_did_not_run_until_then(
    app: App, queue: Queue, seen: list[int]
) -> None:
    @app.task(name="flaky", lock="lane", on_retry="release", retry=RetryStrategy(wait=600))
    def flaky(number: int) -> None:
        seen.append(number)
        if number == 1:
            raise Broken

    first = flaky.defer(number=1)
    flaky.defer(number=2)
    queue.drain()
    queue.advance(minutes=1)
    flaky.defer(number=3)
    queue.drain()
    assert app.job_manager.cancel_job_by_id(first)
    assert seen == [1, 2, 3]
    queue.assert_never_overlaps("lane")


# ---------------------------------------------------------------- assert_enqueued


def test_a_waiting_job_is_found_by_its_limit_group_batch_and_expiry(
    app: App, queue: Queue, note: Any
) -> None:
    queue.freeze(NEW_YEAR)
    with app.batch("import") as batch:
        note.configure(limit="api", group="ann", batch=batch, expires_in={"hours": 1}).defer()
    expires = NEW_YEAR + timedelta(hours=1)
    [job] = queue.assert_enqueued(
        note, limit="api", group="ann", batch=int(batch), expires_at=expires
    )
    assert (job.limit, job.group, job.batch, job.expires_at) == ("api", "ann", batch, expires)
    assert job.status is Status.TODO
    with pytest.raises(AssertionError, match="limit: 'api', not 'other'"):
        queue.assert_enqueued(note, limit="other", group="ann")
    with pytest.raises(AssertionError, match="group: 'ann', not None"):
        queue.assert_enqueued(note, group=None, batch=batch)
