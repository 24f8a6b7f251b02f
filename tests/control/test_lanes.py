"""Lanes and jobs are changed from Python while a worker runs."""

import threading
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import anyio
import pytest
from psycopg.conninfo import conninfo_to_dict

from inturn import App, JobContext, RetryStrategy, Status
from inturn.errors import BadArgument, ConnectorException, JobAborted, LaneBusy
from tests.conftest import Query, Until

pytestmark = pytest.mark.anyio


@pytest.fixture
def seen(app: App) -> list[str]:
    """The arguments of the calls of `note`. A name that begins with `bad` fails."""
    notes: list[str] = []

    @app.task(name="note")
    async def note(name: str) -> None:
        notes.append(name)
        if name.startswith("bad"):
            raise ValueError(name)

    return notes


async def test_a_paused_lane_starts_nothing_until_it_is_resumed(app: App, seen: list[str]) -> None:
    app.tasks["note"].configure(lock="lane").batch_defer({"name": "a"}, {"name": "b"})
    app.tasks["note"].configure(lock="other").defer(name="c")
    assert app.lanes.pause("lane", reason="a bad day", by="ann")
    assert app.lanes.pause("lane", by="eve"), "a pause replaces an earlier one"
    await app.run_worker_async()
    assert seen == ["c"]
    (lane,) = app.lanes.list()
    assert (lane.lock, lane.state, lane.stopped_by, lane.stop_reason, lane.waiting) == (
        "lane",
        "paused",
        "eve",
        "a bad day",
        2,
    )
    async with app.open_async():
        assert await app.lanes.show_async("lane") == app.lanes.show("lane") == lane
        assert await app.lanes.resume_async("lane", by="bob")
        assert not await app.lanes.resume_async("lane")
    await app.run_worker_async()
    assert seen == ["c", "a", "b"]
    assert app.lanes.show("lane") is None


async def test_a_pause_ends_by_itself_and_wakes_the_worker(
    app: App, seen: list[str], until: Until
) -> None:
    app.tasks["note"].configure(lock="lane").defer(name="a")
    async with app.open_async(), anyio.create_task_group() as group:
        ends = await _pause_briefly(app)
        group.start_soon(partial(app.run_worker_async, wait=True))
        await until(lambda: seen and app.lanes.show("lane") is None)
        assert datetime.now(UTC) >= ends
        group.cancel_scope.cancel()
    assert seen == ["a"]


async def _pause_briefly(app: App) -> datetime:
    """Pause the lane, again if the pause was over before the server heard of it."""
    ends = datetime.now(UTC) + timedelta(seconds=0.5)
    try:
        await app.lanes.pause_async("lane", until=ends)
    except ConnectorException as error:
        assert "would already be over" in str(error)  # noqa: PT017
        return await _pause_briefly(app)
    return ends


async def test_a_lane_halts_when_a_job_has_failed_until_somebody_retries_it(
    app: App, query: Query
) -> None:
    lucky = False
    runs: list[str] = []

    @app.task(lock="lane", on_failure="halt")
    async def fragile(name: str) -> None:
        runs.append(name)
        if not lucky:
            raise ValueError("not today")

    first, _ = fragile.batch_defer({"name": "a"}, {"name": "b"})
    await app.run_worker_async()
    assert runs == ["a"]
    lane = app.lanes.show("lane")
    assert lane is not None
    assert (lane.state, lane.stop_reason) == ("halted", f"job {first} failed")
    lucky = True
    assert app.lanes.retry_head("lane") == first
    await app.run_worker_async()
    assert runs == ["a", "a", "b"]
    assert query("SELECT operation, who, jobs FROM lane_audit") == [
        ("retry-head", conninfo_to_dict(app.connector.dsn)["user"], 1)
    ]


async def test_skipping_the_head_of_a_halted_lane_leaves_the_failed_job_behind(
    app: App, seen: list[str]
) -> None:
    first, _ = (
        app.tasks["note"]
        .configure(lock="lane", on_failure="halt")
        .batch_defer({"name": "bad"}, {"name": "b"})
    )
    await app.run_worker_async()
    assert seen == ["bad"]
    assert app.lanes.skip_head("lane") == first
    await app.run_worker_async()
    assert seen == ["bad", "b"]
    assert app.job_manager.get_job_status(first) is Status.FAILED


async def test_a_lane_goes_on_while_a_released_job_waits_for_its_retry(app: App) -> None:
    runs: list[str] = []

    @app.task(lock="lane", retry=RetryStrategy(max_attempts=1), on_retry="release")
    async def shaky(name: str) -> None:
        runs.append(name)
        if runs == ["a"]:
            raise ValueError("once")

    shaky.batch_defer({"name": "a"}, {"name": "b"})
    await app.run_worker_async()
    assert sorted(runs) == ["a", "a", "b"]


async def test_cancelled_jobs_of_a_lane_do_not_run_and_hold_up_nobody(
    app: App, seen: list[str]
) -> None:
    ids = app.tasks["note"].configure(lock="lane").batch_defer(*({"name": name} for name in "abcd"))
    assert app.job_manager.cancel_job_by_id(ids[0])  # the token
    assert app.job_manager.cancel_job_by_id(ids[2], delete_job=True)
    assert not app.job_manager.cancel_job_by_id(ids[2])
    await app.run_worker_async()
    assert seen == ["b", "d"]
    statuses = [app.job_manager.get_job_status(id) for id in ids]
    assert statuses == [Status.CANCELLED, Status.SUCCEEDED, None, Status.SUCCEEDED]
    assert app.job_manager.retry_job_by_id(ids[0])
    await app.run_worker_async()
    assert seen == ["b", "d", "a"]


async def test_all_that_waits_in_a_lane_is_cancelled_at_once(app: App, seen: list[str]) -> None:
    app.tasks["note"].configure(lock="lane").batch_defer(*({"name": name} for name in "abc"))
    assert app.lanes.cancel_waiting("lane") == 3
    app.tasks["note"].configure(lock="lane").defer(name="d")
    await app.run_worker_async()
    assert seen == ["d"]


async def test_a_running_async_job_is_aborted_and_its_lane_goes_on(
    app: App, query: Query, until: Until
) -> None:
    started: list[int] = []

    @app.task(lock="lane", pass_context=True, retry=True)
    async def stay(context: JobContext) -> None:
        started.append(context.job.id)
        if len(started) == 1:
            await anyio.sleep_forever()

    first, second = stay.batch_defer({}, {})
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, wait=True))
        await until(lambda: started)
        assert not app.job_manager.cancel_job_by_id(first)  # it is being done
        with pytest.raises(LaneBusy, match="Abort the job"):
            app.lanes.skip_head("lane")
        assert app.job_manager.cancel_job_by_id(first, abort=True)
        await until(lambda: query("SELECT FROM finished_jobs HAVING count(*) = 2"))
        group.cancel_scope.cancel()
    assert started == [first, second]
    assert query("SELECT status::text, errors -> 0 ->> 'error' FROM finished_jobs ORDER BY id") == [
        ("aborted", "an operator asked to abort the job"),
        ("succeeded", None),
    ]


async def test_a_running_sync_job_is_asked_to_end_and_may_say_that_it_was_aborted(
    app: App, query: Query, until: Until
) -> None:
    started, reasons = threading.Event(), []

    @app.task(pass_context=True, retry=True)
    def stay(context: JobContext) -> None:
        started.set()
        while not context.should_abort():
            threading.Event().wait(0.01)
        reasons.append(context.abort_reason)
        raise JobAborted("as you wish")

    job_id = stay.defer()
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, wait=True))
        await until(started.is_set)
        assert await app.job_manager.cancel_job_by_id_async(job_id, abort=True)
        await until(lambda: query("SELECT FROM finished_jobs"))
        group.cancel_scope.cancel()
    assert reasons == ["an operator asked to abort the job"]
    ((status, error),) = query("SELECT status::text, errors -> 0 ->> 'error' FROM finished_jobs")
    assert status == "aborted"
    assert error.endswith("JobAborted: as you wish")


async def test_a_job_explains_why_it_does_not_run(app: App, seen: list[str]) -> None:
    first, second = (
        app.tasks["note"].configure(lock="lane").batch_defer({"name": "a"}, {"name": "b"})
    )
    later = app.tasks["note"].configure(schedule_in={"days": 1}).defer(name="c")

    def reasons(job_id: int) -> list[str]:
        return [reason.reason for reason in app.job_manager.explain(job_id)]

    assert reasons(first) == ["queue unserved"]
    assert reasons(second) == ["lane head waits", "queue unserved"]
    assert reasons(later) == ["scheduled", "queue unserved"]
    app.lanes.pause("lane")
    assert reasons(first) == ["lane paused", "queue unserved"]
    app.lanes.resume("lane")
    await app.run_worker_async()
    assert reasons(first) == ["finished"]
    assert reasons(10**12) == ["unknown"]


BAD_PAUSES = [
    ({"lock": ""}, "lock is empty"),
    ({"lock": "lane", "until": datetime(2030, 1, 1)}, "until: .* has no zone"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_PAUSES)
async def test_a_pause_that_cannot_be_meant_is_refused(
    app: App, arguments: dict[str, str], message: str
) -> None:
    with pytest.raises(BadArgument, match=message):
        app.lanes.pause(**arguments)  # type: ignore[arg-type]
    assert app.lanes.list() == []


async def test_each_call_takes_the_locks_that_a_job_takes(app: App, seen: list[str]) -> None:
    lock: Any = 7
    app.configure_task("note", lock=lock).defer(name="a")
    assert app.lanes.pause(lock)
    lane = app.lanes.show(lock)
    assert lane is not None
    assert (lane.lock, lane.state) == ("7", "paused")
    assert app.lanes.resume(lock)
    assert app.lanes.retry_head(lock) is None
    assert app.lanes.skip_head(lock)
    assert app.lanes.cancel_waiting(lock) == 0
    lanes = app.lanes
    calls = (lanes.show, lanes.resume, lanes.retry_head, lanes.skip_head, lanes.cancel_waiting)
    for call in calls:
        with pytest.raises(BadArgument, match="lock is missing"):
            call(None)  # type: ignore[arg-type]
        with pytest.raises(BadArgument, match="NUL"):
            call("a\0")


@pytest.mark.parametrize("option", ["on_retry", "on_failure"])
async def test_a_policy_that_does_not_exist_is_refused(
    app: App, seen: list[str], option: str
) -> None:
    with pytest.raises(
        BadArgument, match=f"{option}: 'stop' is not one of '(hold|continue)', '(release|halt)'"
    ):
        app.configure_task("note", **{option: "stop"})  # type: ignore[arg-type]
