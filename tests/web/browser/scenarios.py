"""For each action: what must be there, where its form is, and what real workers do afterwards."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from inturn.formatting import visible
from inturn.web.rendering import make_url
from tests.waiting import wait_until
from tests.web.seed import LIMIT, LOCK, Shop

LANE = "order:ü/../1 &?%2F"


class Scene(NamedTuple):
    """A page with the form, what a person types into it, and the check of what came of it."""

    page: str
    prove: Callable[[], None]
    typed: Mapping[str, str] = {}


def lane(lock: str) -> str:
    return str(make_url("", "/lane", {"lock": lock}).unescape())


def statuses(shop: Shop, *ids: int) -> list[str | None]:
    return [shop.app.job_manager.get_job_status(each) for each in ids]


def send(shop: Shop, lock: str, count: int) -> list[int]:
    return [shop.send.configure(lock=lock).defer(place=place) for place in range(count)]


def halt(shop: Shop) -> list[int]:
    """Let the first of two jobs halt their lane. From then on, they would succeed."""
    ids: list[int] = [shop.ship.configure(lock=LANE).defer(place=place) for place in range(2)]
    shop.work()
    shop.works.set()
    assert statuses(shop, *ids) == ["failed", "blocked"]
    return ids


def pause_lane(shop: Shop) -> Scene:
    ids = send(shop, LANE, 2)

    def prove() -> None:
        shop.work()
        assert "succeeded" not in statuses(shop, *ids)
        (found,) = shop.app.lanes.list()
        assert (found.state, found.stopped_by, found.stop_reason) == (
            "paused",
            "ana",
            "the bank is down",
        )

    return Scene(lane(LANE), prove, {"reason": "the bank is down", "hours": "2"})


def resume_lane(shop: Shop) -> Scene:
    ids = send(shop, LANE, 2)
    shop.app.lanes.pause(LANE)

    def prove() -> None:
        shop.work()
        assert statuses(shop, *ids) == ["succeeded", "succeeded"]

    return Scene(lane(LANE), prove)


def retry_head(shop: Shop) -> Scene:
    ids = halt(shop)

    def prove() -> None:
        shop.work()
        assert statuses(shop, *ids) == ["succeeded", "succeeded"]

    return Scene(lane(LANE), prove)


def skip_head(shop: Shop) -> Scene:
    ids = halt(shop)

    def prove() -> None:
        shop.work()
        assert statuses(shop, *ids) == ["failed", "succeeded"]

    return Scene(lane(LANE), prove)


def cancel_waiting(shop: Shop) -> Scene:
    ids = send(shop, LOCK, 3)

    def prove() -> None:
        shop.work()
        assert statuses(shop, *ids) == ["cancelled"] * 3

    return Scene(lane(LOCK), prove, {"confirm": visible(LOCK)})


def retry_job(shop: Shop) -> Scene:
    first, second = halt(shop)
    shop.app.lanes.skip_head(LANE)
    shop.work()

    def prove() -> None:
        shop.work()
        assert statuses(shop, first, second) == ["succeeded", "succeeded"]

    return Scene(f"/jobs/{first}", prove)


def cancel_job(shop: Shop) -> Scene:
    first, second = send(shop, LANE, 2)

    def prove() -> None:
        shop.work()
        assert statuses(shop, first, second) == ["cancelled", "succeeded"]

    return Scene(f"/jobs/{first}", prove)


def abort_job(shop: Shop) -> Scene:
    job = shop.export.defer()
    shop.start()
    wait_until(lambda: statuses(shop, job) == ["doing"], LIMIT)

    def prove() -> None:
        wait_until(lambda: statuses(shop, job) != ["doing"], LIMIT)
        assert not shop.may_end.is_set()  # nothing else has ended it

    return Scene(f"/jobs/{job}", prove)


def delete_job(shop: Shop) -> Scene:
    (job,) = send(shop, LANE, 1)
    shop.work()

    def prove() -> None:
        assert statuses(shop, job) == [None]

    return Scene(f"/jobs/{job}", prove)


SCENES: dict[str, Callable[[Shop], Scene]] = {
    "/lane/pause": pause_lane,
    "/lane/resume": resume_lane,
    "/lane/retry-head": retry_head,
    "/lane/skip-head": skip_head,
    "/lane/cancel-waiting": cancel_waiting,
    "/jobs/{job_id}/retry": retry_job,
    "/jobs/{job_id}/cancel": cancel_job,
    "/jobs/{job_id}/abort": abort_job,
    "/jobs/{job_id}/delete": delete_job,
}
