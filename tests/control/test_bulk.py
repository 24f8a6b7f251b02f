"""Many jobs or lanes are changed at once, from Python, while workers run."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from inturn import App, JobContext, Status
from inturn.errors import BadArgument, UnknownOption
from inturn.operations.changes import bulk
from inturn.operations.changes.jobs import JobFilter
from tests.conftest import Query

pytestmark = pytest.mark.anyio


class Shop:
    """A task whose jobs fail while `broken` is true, and the order in which they ran."""

    def __init__(self, app: App) -> None:
        self.broken = True
        self.ran: list[str] = []

        @app.task(name="send", queue="mail")
        def send(name: str) -> None:
            self.ran.append(name)
            if self.broken:
                raise ValueError(f"Timeout of {name}")

        self.send: Any = send

    def defer(self, lock: str | None, *names: str, **more: Any) -> list[int]:
        deferrer = self.send.configure(lock=lock, **more)
        return [deferrer.defer(name=name) for name in names]


@pytest.fixture
def shop(app: App) -> Shop:
    return Shop(app)


async def mended(app: App, shop: Shop) -> list[str]:
    """Let a worker run what waits, now that nothing fails. Return the order."""
    shop.broken = False
    shop.ran.clear()
    await app.run_worker_async()
    return shop.ran


async def test_failed_jobs_run_again_in_the_order_of_their_lane(app: App, shop: Shop) -> None:
    shop.defer("lane", "a", "b", "c")
    shop.defer(None, "free")
    await app.run_worker_async()
    shop.defer("lane", "later")
    seen = app.job_manager.preview_jobs("retry", task="send")
    assert (seen.count, seen.more, seen.unlocked, seen.lanes, seen.waiting) == (4, False, 1, 1, 1)
    done = app.job_manager.retry_jobs(task="send")
    assert (done.changed, done.refused) == (4, {})
    assert [name for name in await mended(app, shop) if name != "free"] == ["a", "b", "c", "later"]


async def test_a_job_that_halted_its_lane_waits_for_older_ones_that_are_retried_too(
    app: App, shop: Shop
) -> None:
    shop.defer("lane", "a", "b", on_failure="halt")
    await app.run_worker_async()
    app.lanes.resume("lane")
    await app.run_worker_async()
    shop.defer("lane", "later")
    assert shop.ran == ["a", "b"]
    seen = app.job_manager.preview_jobs("retry", everything=True)
    assert (seen.halted_by, seen.halted) == (1, 0)
    async with app.open_async():
        done = await app.job_manager.retry_jobs_async(lock_prefix="la")
    assert done.changed == 2
    assert await mended(app, shop) == ["a", "b", "later"]


async def test_a_filter_leaves_the_other_jobs_alone(app: App, shop: Shop) -> None:
    for lock in ("order:1", "order:2", "customer:1"):
        shop.defer(lock, lock)
    await app.run_worker_async()
    jobs = app.job_manager
    past = datetime.now(UTC) - timedelta(hours=1)
    nothings: list[dict[str, Any]] = [
        {"error": "Timeout of order:3"},
        {"lock_prefix": "order:3"},
        {"before": past},
        {"queue": "default"},
        {"status": "aborted"},
        {"ids": []},
    ]
    for nothing in nothings:
        assert jobs.retry_jobs(**nothing).changed == 0, nothing
    assert jobs.preview_jobs("retry", lock_prefix="order:").lanes == 2
    assert jobs.retry_jobs(error="of order:2").changed == 1
    assert [job.lock for job in jobs.list_jobs(status="failed")] == ["order:1", "customer:1"]


async def test_a_bulk_that_is_run_again_does_nothing_twice(app: App, shop: Shop) -> None:
    shop.defer("lane", "a", "b")
    await app.run_worker_async()
    seen = app.job_manager.preview_jobs("retry", task="send")
    assert app.job_manager.retry_jobs(task="send", before=seen.until).changed == 2
    await app.run_worker_async()
    assert shop.ran == ["a", "b", "a", "b"], "they failed again"
    assert app.job_manager.retry_jobs(task="send", before=seen.until).looked_at == 0
    assert app.job_manager.retry_jobs(task="send").changed == 2, "a new bulk is about them"


async def test_cancelling_leaves_running_and_ended_jobs_alone(app: App, shop: Shop) -> None:
    done: list[bulk.Bulk] = []

    @app.task(name="clear", queue="mail", pass_context=True)
    def clear(context: JobContext) -> None:
        done.append(app.job_manager.cancel_jobs(queue="mail", status=["todo", "doing", "blocked"]))

    shop.broken = False
    shop.defer(None, "ended")
    await app.run_worker_async()
    clear.configure(lock="lane", priority=9).defer()
    shop.defer("lane", "a", "b")
    shop.defer(None, "free")
    await app.run_worker_async(concurrency=1)
    assert (done[0].changed, done[0].refused) == (3, {"running": 1})
    assert shop.ran == ["ended"]
    assert [job.status for job in app.job_manager.list_jobs(task="send")] == [
        "succeeded", *["cancelled"] * 3
    ]  # fmt: skip


async def test_a_flood_moves_behind_the_other_jobs(app: App, shop: Shop) -> None:
    jobs = app.job_manager
    flood = shop.defer(None, "flood 1", "flood 2") + shop.defer("lane", "flood 3")
    app.configure_task("send", queue="mail", lock="lane").defer(name="mine")
    later = shop.defer(None, "later", schedule_in={"hours": 1})
    asked: dict[str, Any] = {"ids": [*flood, *later], "priority": -10}
    seen = jobs.preview_jobs("move", **asked)
    assert (seen.count, seen.unlocked, seen.lanes, seen.waiting) == (4, 3, 1, 1)
    done = jobs.move_jobs(**asked, before=seen.until, by="ana")
    assert (done.changed, done.refused) == (4, {})
    assert jobs.move_jobs(**asked, before=seen.until).looked_at == 0, "the rest is nothing"
    assert jobs.preview_jobs("move", **asked).count == 0
    assert [job.status for job in jobs.list_jobs(id=later[0])] == ["scheduled"]
    shop.broken = False
    await app.run_worker_async(concurrency=1)
    assert (shop.ran[0], len(shop.ran)) == ("mine", 4)


async def test_waiting_jobs_move_to_another_queue(app: App, shop: Shop, query: Query) -> None:
    shop.defer("lane", "a", "b")
    async with app.open_async():
        done = await app.job_manager.move_jobs_async(task="send", to_queue="slow", by="ana")
    assert done.changed == 2
    assert query("SELECT DISTINCT queue::text, priority FROM jobs") == [("slow", 0)]
    [(reason,)] = query("SELECT reason FROM lane_audit")
    assert reason.startswith("to queue slow, ")
    assert "task send" in reason
    await app.run_worker_async(queues=["mail"])
    assert shop.ran == []
    assert await mended(app, shop) == ["a", "b"]


async def test_a_long_lane_keeps_its_order_while_it_moves(app: App, query: Query) -> None:
    """More jobs than one step changes: whatever part of them has moved, the first is the oldest."""
    app.configure_task("send", queue="mail", lock="lane").batch_defer(
        *({"n": n} for n in range(1_500))
    )
    first_of_lane = "SELECT min(id) FROM jobs"
    heads: list[Any] = []
    for priority in (-5, 5):
        operation = bulk.change_jobs(
            "move",
            JobFilter(queue="mail"),
            bulk.Bulk(),
            move=bulk.Move(priority),
            watch=lambda _: heads.append(
                query("SELECT id FROM jobs ORDER BY priority DESC, id LIMIT 1")
            ),
        )
        app.connector.run(operation)
    assert len(heads) >= 4
    assert all(head == query(first_of_lane) for head in heads)


async def test_deleting_forgets_jobs_and_leaves_a_lane_halted(
    app: App, shop: Shop, query: Query
) -> None:
    shop.defer("lane", "a", on_failure="halt")
    shop.defer("lane", "b")
    await app.run_worker_async()
    app.job_manager.delete_jobs(status="failed")
    assert [job.lock for job in app.job_manager.list_jobs()] == ["lane"]
    assert query("SELECT stopped::text FROM lanes") == [("halted",)]
    assert app.lanes.change_lanes("resume", lock_prefix="lane").changed == 1
    assert await mended(app, shop) == ["b"]


@pytest.mark.parametrize("name", ["before_id", "search", "prefix"])
def test_a_filter_that_does_not_exist_is_refused_instead_of_ignored(
    app: App, shop: Shop, name: str
) -> None:
    [job] = shop.defer("lane", "a")
    app.lanes.pause("lane")
    asked: dict[str, Any] = {name: 1}
    with pytest.raises(UnknownOption, match=f"{name} is not an option of a bulk change"):
        app.job_manager.cancel_jobs(**asked)
    with pytest.raises(UnknownOption, match=f"{name} is not an option of a bulk change"):
        app.lanes.change_lanes("resume", states=["paused"], **asked)
    assert app.job_manager.get_job_status(job) == "blocked"
    lane = app.lanes.show("lane")
    assert lane is not None
    assert lane.state == "paused"


def test_an_action_that_does_not_exist_is_refused(app: App) -> None:
    action: Any = "resum"
    with pytest.raises(BadArgument, match="'resum' is not one of retry, cancel, delete, move"):
        app.job_manager.preview_jobs(action, task="send")
    for call in (app.lanes.preview_lanes, app.lanes.change_lanes):
        with pytest.raises(BadArgument, match="'resum' is not one of resume, retry-head"):
            call(action, states=["halted"])


def test_an_empty_prefix_is_not_a_filter(app: App, shop: Shop) -> None:
    shop.defer("lane", "a")
    with pytest.raises(BadArgument, match="lock_prefix is empty"):
        app.job_manager.cancel_jobs(lock_prefix="")
    assert app.job_manager.preview_jobs("cancel", everything=True).count == 1


def test_a_bulk_without_a_filter_must_say_that_it_means_everything(app: App) -> None:
    with pytest.raises(BadArgument, match="everything"):
        app.job_manager.retry_jobs()
    with pytest.raises(BadArgument, match="everything"):
        app.lanes.change_lanes("resume")
    with pytest.raises(BadArgument, match="everything"):
        app.job_manager.move_jobs(priority=1)
    with pytest.raises(BadArgument, match="priority"):
        app.job_manager.move_jobs(task="send")
    with pytest.raises(BadArgument, match="queue"):
        app.job_manager.preview_jobs("move", to_queue="a,b", task="send")
    with pytest.raises(BadArgument, match="status"):
        app.job_manager.retry_jobs(status="broken")
    with pytest.raises(BadArgument, match="states"):
        app.lanes.change_lanes("resume", states=["broken"])


def test_lanes_are_paused_and_resumed_by_how_their_locks_begin(app: App, shop: Shop) -> None:
    shop.defer("order:1", "a", "b")
    shop.defer("order:2", "c")
    shop.defer("customer:1", "d")
    seen = app.lanes.preview_lanes("pause", lock_prefix="order:")
    assert (seen.count, seen.waiting, seen.sample) == (2, 3, ["order:1", "order:2"])
    paused = app.lanes.change_lanes("pause", lock_prefix="order:", by="ann", reason="bank is down")
    assert paused.changed == 2
    assert [(lane.lock, lane.stopped_by, lane.stop_reason) for lane in app.lanes.list()] == [
        ("order:1", "ann", "bank is down"),
        ("order:2", "ann", "bank is down"),
    ]
    assert app.lanes.change_lanes("retry-head", states=["paused"]).refused == {"nothing": 2}
    assert app.lanes.change_lanes("resume", everything=True).changed == 2
    assert app.lanes.list() == []


async def test_halted_lanes_are_retried_skipped_and_not_paused(app: App, shop: Shop) -> None:
    for lock in ("a", "b", "c"):
        shop.defer(lock, lock, f"{lock} later", on_failure="halt")
    await app.run_worker_async()
    assert app.lanes.change_lanes("pause", states=["halted"]).refused == {"halted": 3}
    async with app.open_async():
        seen = await app.lanes.preview_lanes_async("retry-head", everything=True)
        assert (seen.count, seen.halted, seen.waiting) == (3, 3, 3)
        assert (await app.lanes.change_lanes_async("retry-head", lock_prefix="a")).changed == 1
    assert app.lanes.change_lanes("skip-head", everything=True).changed == 2
    ran = await mended(app, shop)
    assert sorted(ran) == ["a", "a later", "b later", "c later"]
    assert ran.index("a") < ran.index("a later")


async def test_lanes_are_chosen_by_the_error_of_the_job_that_they_wait_for(
    app: App, query: Query
) -> None:
    def fail(error: str, *locks: str) -> None:
        for lock in locks:
            query(
                "SELECT defer('t', lock => %s, on_failure => 'halt'), defer('t', lock => %s)",
                lock, lock,
            )  # fmt: skip
            query(
                "SELECT finish(w, NULL, 0, ARRAY[id], ARRAY[claim_id], '{failed}', "
                "ARRAY[jsonb_build_object('error', %s::text)]) "
                "FROM register_worker('w', 'h', 1, NULL, 1) AS w "
                "CROSS JOIN LATERAL claim(w, NULL, 1)",
                error,
            )

    fail("CardTimeout", "a", "b")
    fail("KeyError: 'total'", "c")
    seen = app.lanes.preview_lanes("retry-head", states=["halted"], error="Timeout")
    assert (seen.count, seen.halted, seen.sample) == (2, 2, ["a", "b"])
    assert app.lanes.change_lanes("skip-head", error="KeyError").changed == 1
    assert app.lanes.change_lanes("retry-head", states=["halted"], error="nothing").changed == 0
    assert app.lanes.change_lanes("pause", error="Timeout").refused == {"halted": 2}
    assert app.lanes.change_lanes("retry-head", lock_prefix="a", error="Timeout").changed == 1
    assert query("SELECT lock FROM lanes WHERE stopped = 'halted'") == [("b",)]
    refused = query(
        "SELECT outcome FROM change_lanes('resume', '{b}', NULL, p_error => 'KeyError')"
    )
    assert refused == [("changed",)]


def test_a_step_takes_whole_lanes() -> None:
    free = [(id, None) for id in range(bulk.STEP + 1)]
    others = [(1000 + id, f"{id:05}") for id in range(bulk.STEP - 2)]
    lane = [(2000 + id, "lane") for id in range(bulk.STEP)]
    steps = bulk.split_by_lane([*free, *others, *lane, (9999, "last")])
    assert [len(step) for step in steps] == [bulk.STEP, 2 * bulk.STEP - 1, 1]
    assert steps[1][-bulk.STEP :] == [id for id, _ in lane]
    assert bulk.split_by_lane([]) == []


def test_the_actions_are_about_the_statuses_that_there_are() -> None:
    assert set().union(*bulk.STATUSES.values()) | {"doing"} == set(Status)
