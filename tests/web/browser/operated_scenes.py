"""Scenes of actions on queues, tasks, limits and batches, and on many jobs or lanes at once."""

from collections.abc import Callable
from functools import partial
from typing import Any

from inturn.formatting import visible
from inturn.web.rendering import make_url
from tests.waiting import wait_until
from tests.web.browser.scenarios import LANE, Scene, halt, send, statuses
from tests.web.seed import LIMIT, Shop, hostile

NAME = hostile("name")
WHY = {"reason": "the bank is down", "hours": "2"}


def address(path: str, **query: str) -> str:
    return make_url("", path, query).unescape()


def prove_pause(shop: Shop, ids: list[int]) -> Callable[[], None]:
    """Return a check that nothing starts, and that the pause names person and reason."""

    def prove() -> None:
        shop.work()
        assert "succeeded" not in statuses(shop, *ids)
        paused: list[Any] = [
            *shop.app.queues.list_paused(),
            *shop.app.queues.list_paused_tasks(),
        ]
        (found,) = [(each.by, each.reason, each.until is None) for each in paused]
        assert found == ("ana", "the bank is down", False)

    return prove


def prove_end(shop: Shop, ids: list[int], *expected: str) -> Callable[[], None]:
    """Return a check of how jobs are after a worker has run. A bulk needs a moment."""

    def prove() -> None:
        def ended() -> bool:
            shop.work()
            return statuses(shop, *ids) == list(expected)

        wait_until(ended, LIMIT)

    return prove


def pause_queue(shop: Shop) -> Scene:
    page = address("/queue", name="default")
    return Scene(page, prove_pause(shop, send(shop, LANE, 2)), WHY)


def resume_queue(shop: Shop) -> Scene:
    shop.app.queues.pause("default")
    page = address("/queue", name="default")
    return Scene(page, prove_end(shop, send(shop, LANE, 2), "succeeded", "succeeded"))


def pause_everything(shop: Shop) -> Scene:
    prove = prove_pause(shop, send(shop, LANE, 2))
    return Scene("/queues", prove, {**WHY, "confirm": "everything"})


def resume_everything(shop: Shop) -> Scene:
    shop.app.queues.pause(None)
    return Scene("/queues", prove_end(shop, send(shop, LANE, 1), "succeeded"))


def pause_task(shop: Shop) -> Scene:
    page = address("/task", name="mail.send")
    return Scene(page, prove_pause(shop, send(shop, LANE, 2)), WHY)


def resume_task(shop: Shop) -> Scene:
    shop.app.queues.pause_task("mail.send")
    page = address("/task", name="mail.send")
    return Scene(page, prove_end(shop, send(shop, LANE, 2), "succeeded", "succeeded"))


def set_limit(shop: Shop) -> Scene:
    def prove() -> None:
        (found,) = shop.app.limits.list()
        assert (found.pattern, found.concurrency, found.rate) == ("stripe:*", 3, "10/min")

    typed = {"pattern": "stripe:*", "concurrency": "3", "rate": "10/min"}
    return Scene("/limits", prove, typed)


def remove_limit(shop: Shop) -> Scene:
    shop.app.limits.set(NAME, concurrency=1)

    def prove() -> None:
        assert shop.app.limits.list() == []

    return Scene(address("/limits", pattern=NAME), prove)


def open_batch(shop: Shop) -> tuple[int, int]:
    """Return a batch that is open, and its job."""
    batch = shop.app.batches.open(NAME)
    return batch, shop.send.configure(batch=batch).defer()


def close_batch(shop: Shop) -> Scene:
    batch, _ = open_batch(shop)

    def prove() -> None:
        shop.work()
        found = shop.app.batches.show(batch)
        assert found is not None
        assert (found.state, found.succeeded) == ("ended", 1)

    return Scene(f"/batch?id={batch}", prove)


def cancel_batch(shop: Shop) -> Scene:
    batch, job = open_batch(shop)
    prove = prove_end(shop, [job], "cancelled")
    return Scene(f"/batch?id={batch}", prove, {"confirm": visible(NAME)})


def retry_jobs(shop: Shop) -> Scene:
    ids = halt(shop)
    page = address("/bulk", action="retry", q="state:failed")
    return Scene(page, prove_end(shop, ids, "succeeded", "succeeded"))


def cancel_jobs(shop: Shop) -> Scene:
    ids = send(shop, LANE, 2)
    page = address("/bulk", action="cancel", q="task:mail.*")
    return Scene(page, prove_end(shop, ids, "cancelled", "cancelled"))


def delete_jobs(shop: Shop) -> Scene:
    ids = send(shop, LANE, 2)
    shop.work()
    page = address("/bulk", action="delete", q="state:succeeded")

    def prove() -> None:
        wait_until(lambda: statuses(shop, *ids) == [None, None], LIMIT)

    return Scene(page, prove)


def change_lanes(action: str, last: list[str], shop: Shop) -> Scene:
    """Change a halted lane. `last` is how its jobs are afterwards."""
    ids = halt(shop)
    page = address("/bulk/lanes", action=action, state="halted")
    return Scene(page, prove_end(shop, ids, *last))


def pause_lanes(shop: Shop) -> Scene:
    for place in range(2):
        shop.charge.configure(lock=LANE, on_retry="hold").defer(place=place)
    shop.work()

    def prove() -> None:
        wait_until(lambda: [each.state for each in shop.app.lanes.list()] == ["paused"], LIMIT)

    return Scene(address("/bulk/lanes", action="pause", prefix=LANE[:6]), prove)


OPERATED: dict[str, Callable[[Shop], Scene]] = {
    "/queues/pause": pause_queue,
    "/queues/pause-everything": pause_everything,
    "/queues/resume": resume_queue,
    "/queues/resume-everything": resume_everything,
    "/tasks/pause": pause_task,
    "/tasks/resume": resume_task,
    "/limits/set": set_limit,
    "/limits/remove": remove_limit,
    "/batches/close": close_batch,
    "/batches/cancel": cancel_batch,
    "/bulk/retry": retry_jobs,
    "/bulk/cancel": cancel_jobs,
    "/bulk/delete": delete_jobs,
    "/bulk/lanes/resume": partial(change_lanes, "resume", ["failed", "succeeded"]),
    "/bulk/lanes/retry-head": partial(change_lanes, "retry-head", ["succeeded", "succeeded"]),
    "/bulk/lanes/skip-head": partial(change_lanes, "skip-head", ["failed", "succeeded"]),
    "/bulk/lanes/pause": pause_lanes,
}
