"""Changes appear by themselves, and never under a person's hand."""

import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from threading import Event, Thread

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, Route, expect

from inturn.web import Access, create_app, live
from tests.field.outage import outage
from tests.proxy import Faulty
from tests.web.browser.conftest import Offer, Visit, wait_in
from tests.web.browser.scenarios import LANE, SCENES
from tests.web.browser.test_actions import find_form, submit
from tests.web.operated import roll_up
from tests.web.seed import LIMIT, Shop, query
from tests.web.serving import serve

pytestmark = pytest.mark.proof

MS = LIMIT * 1000
BATCH, PAUSE = 100, 0.1  # jobs of one statement, seconds until the next
EVENTS = 3  # that the page must have heard of while nothing may move


@contextmanager
def flooded(shop: Shop) -> Iterator[list[int]]:
    """Defer a thousand jobs a second, if the machine can. The list counts them."""
    stop, count = Event(), [0]

    def flood() -> None:
        while not stop.wait(PAUSE):
            name = f"flood:{count[0] % 50}"
            shop.send.configure(lock=name).batch_defer(*[{"n": n} for n in range(BATCH)])
            shop.app.lanes.pause(name, reason=f"pause {count[0]}", by="a program")
            count[0] += BATCH

    thread = Thread(target=flood, name="flood")
    thread.start()
    try:
        yield count
    finally:
        stop.set()
        thread.join(LIMIT)


def watch_swaps(page: Page) -> None:
    """Note what changes below #live, and count the events that the page hears of."""
    page.evaluate(
        """() => {
            window.swaps = []; window.heard = 0;
            new MutationObserver((all) => {
                // Times tick, the tools say whether the page is live, and htmx marks its requests.
                for (const {target, type, attributeName, oldValue} of all) {
                    const element = target.closest ? target : target.parentElement;
                    const marks = [element?.className, oldValue].some((text) => /^htmx/.test(text));
                    if (!element?.closest("time, .tools") && !marks)
                        swaps.push(`${type} ${attributeName} ${element?.outerHTML.slice(0, 200)}`);
                }
            }).observe(document.querySelector("#live"),
                {subtree: true, childList: true, attributes: true, attributeOldValue: true,
                 characterData: true});
            const source = new EventSource(document.querySelector("#live").dataset.stream);
            source.addEventListener("changed", () => heard++);
        }"""
    )


def wait_for_events(page: Page) -> None:
    page.evaluate("window.heard = 0")
    wait_in(page, f"heard >= {EVENTS}")


def lock_at(page: Page, x: float, y: float) -> str:
    found: str = page.evaluate(
        "([x, y]) => document.elementFromPoint(x, y).closest('tr').querySelector('.lock').textContent",
        [x, y],
    )
    return found


def hover_until(element: Locator, read: Callable[[], str | None], text: str) -> None:
    """Hover over an element until it says this.

    A page that is fetched again may move it away from the hand.
    """
    deadline = time.monotonic() + LIMIT
    while text not in (read() or ""):
        assert time.monotonic() < deadline, read()
        element.hover(timeout=MS)


def test_a_change_appears_by_itself(shop: Shop, offer: Offer, visit: Visit) -> None:
    with visit() as visitor:
        page = visitor.open(offer() + "/lanes")
        expect(page.locator("#status")).to_have_text("live", timeout=MS)
        shop.send.configure(lock="new").defer()
        shop.app.lanes.pause("new", reason="a pause that is new")
        page.get_by_text("a pause that is new").wait_for()
        assert visitor.problems == []


@pytest.mark.parametrize("scripts", [True, False])
def test_times_are_in_utc_and_under_a_hand_in_the_zone_of_the_browser(
    shop: Shop, offer: Offer, visit: Visit, scripts: bool
) -> None:
    due = datetime(2031, 1, 31, 20, 15, tzinfo=UTC)
    job = shop.send.configure(schedule_at=due).defer()
    with visit(zone="Asia/Tokyo", scripts=scripts) as visitor:
        page = visitor.open(f"{offer()}/jobs/{job}")
        if scripts:
            expect(page.locator("#status")).to_have_text("live", timeout=MS)
        written = page.locator("#why time").first
        assert written.text_content() == "2031-01-31 20:15:00Z"
        assert written.get_attribute("title") is None
        if scripts:
            local = "Feb 1, 2031, 5:15:00 AM GMT+9\n2031-01-31T20:15:00.000Z"
            hover_until(written, lambda: written.get_attribute("title"), local)
        deferred = page.locator("#timeline time").first
        zone = "GMT+9" if scripts else "Z"
        hover_until(deferred, lambda: deferred.get_attribute("title"), zone)
        assert visitor.problems == []


def test_a_time_under_a_hand_at_rest_keeps_its_zone_when_the_page_changes(
    shop: Shop, offer: Offer, visit: Visit
) -> None:
    job = shop.send.configure(lock="ann").defer()
    with visit(zone="Asia/Tokyo") as visitor:
        page = visitor.open(f"{offer()}/jobs/{job}")
        expect(page.locator("#status")).to_have_text("live", timeout=MS)
        deferred = page.locator("#timeline time").first
        deferred.hover()
        shop.app.lanes.pause("ann", reason="a new pause")
        page.get_by_text("a new pause").first.wait_for()
        expect(deferred).to_have_attribute("title", re.compile(r"GMT\+9"), timeout=MS)
        assert visitor.problems == []


@pytest.mark.parametrize("scripts", [True, False])
def test_the_times_below_a_chart_have_the_zone_of_the_browser_under_a_hand(
    dsn: str, shop: Shop, offer: Offer, visit: Visit, scripts: bool
) -> None:
    for _ in range(2):
        shop.send.configure(lock="ann").defer()
    shop.work()
    roll_up(partial(query, dsn))
    zone = "GMT+9" if scripts else "+00:00"
    site = offer()
    with visit(zone="Asia/Tokyo", scripts=scripts) as visitor:
        page = visitor.open(f"{site}/lane?lock=ann")
        if scripts:
            expect(page.locator("#status")).to_have_text("live", timeout=MS)
        written = page.locator(".ticks time").first
        hover_until(written, lambda: written.get_attribute("title"), zone)
        page = visitor.open(f"{site}/task?name=mail.send")
        if scripts:
            expect(page.locator("#status")).to_have_text("live", timeout=MS)
        drawn = page.locator(".chart text[data-at]").first
        hover_until(drawn, drawn.locator("title").text_content, zone)
        assert visitor.problems == []


def test_the_result_of_an_action_stays_when_the_page_changes(
    shop: Shop, offer: Offer, visit: Visit
) -> None:
    with visit() as visitor:
        page = visitor.open(offer() + SCENES["/lane/pause"](shop).page)
        expect(page.locator("#status")).to_have_text("live", timeout=MS)
        submit(find_form(page, "/lane/pause"))
        page.locator("#result").wait_for()
        page.mouse.move(0, 0)  # nothing changes under a hand
        shop.app.lanes.resume(LANE, by="a program")
        expect(page.locator("#main")).to_contain_text("a program", timeout=MS)
        assert page.locator("#result").count() == 1
        assert visitor.problems == []


def test_a_page_that_is_paused_while_it_is_fetched_stays(
    shop: Shop, offer: Offer, visit: Visit
) -> None:
    with visit() as visitor:
        fetched = hold_first_fetch(visitor.context)
        page = visitor.open(offer() + "/lanes")
        shop.app.lanes.pause("new", reason="a pause that is new")
        wait_for_fetch(page, fetched)
        page.keyboard.press("p")
        fetched[0].continue_()
        expect(page.locator("#apply")).to_be_visible()
        assert "a pause that is new" not in page.content()
        page.keyboard.press("p")
        page.get_by_text("a pause that is new").wait_for()
        assert visitor.problems == []


def hold_first_fetch(context: BrowserContext) -> list[Route]:
    """Hold the first time that a page is fetched again. Return the list that will have it."""
    fetched: list[Route] = []

    def hold(route: Route) -> None:
        if fetched or route.request.is_navigation_request():
            route.continue_()
        else:
            fetched.append(route)

    context.route("**/lanes", hold)
    return fetched


def wait_for_fetch(page: Page, fetched: list[Route]) -> None:
    deadline = time.monotonic() + LIMIT
    while not fetched:
        assert time.monotonic() < deadline
        page.wait_for_timeout(50)


def test_a_change_appears_by_itself_though_an_older_page_was_under_way(
    shop: Shop, offer: Offer, visit: Visit
) -> None:
    with visit() as visitor:
        fetched = hold_first_fetch(visitor.context)
        page = visitor.open(offer() + "/lanes")
        watch_swaps(page)
        shop.app.lanes.pause("old", reason="a pause that is old")
        wait_for_fetch(page, fetched)
        older = fetched[0].fetch()
        page.evaluate("window.heard = 0")
        shop.app.lanes.pause("new", reason="a pause that is new")
        wait_in(page, "heard >= 1")
        assert "a pause that is new" not in older.text()
        fetched[0].fulfill(response=older)
        page.get_by_text("a pause that is new").wait_for()
        assert visitor.problems == []


def test_a_change_under_a_hand_appears_when_the_hand_leaves(
    shop: Shop, offer: Offer, visit: Visit
) -> None:
    shop.app.lanes.pause("old", reason="a pause that is old")
    with visit() as visitor:
        visitor.context.add_init_script(
            "EventSource = class extends EventSource { constructor(url) { super(url); window.stream = this; } }"
        )
        page = visitor.open(offer() + "/lanes")
        expect(page.locator("#status")).to_have_text("live", timeout=MS)
        page.locator("#lanes tbody tr").hover()
        wait_in(page, "document.querySelector('#live tbody tr:hover')")
        shop.app.lanes.pause("new", reason="a pause that is new")
        expect(page.locator("#apply")).to_be_visible(timeout=MS)
        page.evaluate("stream.close()")  # it would report the change again
        assert "a pause that is new" not in page.content()
        page.mouse.move(2, 2)
        page.get_by_text("a pause that is new").wait_for()
        assert visitor.problems == []


def test_what_changed_while_the_network_was_away_appears(
    dsn: str, shop: Shop, offer: Offer, visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "LOAD_SECONDS", 0.0)  # as if the network was away for longer
    site = offer()
    port = int(site.rsplit(":", 1)[1])
    reach = partial(socket.create_connection, ("127.0.0.1", port))
    with visit() as other, visit() as visitor, Faulty(reach) as proxy:
        beside = other.open(f"{site}/lanes")
        page = visitor.open(f"http://127.0.0.1:{proxy.port}/lanes")
        expect(page.locator("#status")).to_have_text("live", timeout=MS)
        proxy.refuse()
        proxy.reset()
        expect(page.locator("#status")).to_have_text("waiting", timeout=MS)
        query(dsn, "SELECT pause_lane('new', 'a new pause'), pg_stat_force_next_flush()")
        beside.get_by_text("a new pause").wait_for()
        proxy.heal()
        page.get_by_text("a new pause").wait_for()


def test_the_page_of_a_job_that_is_deleted_says_so(shop: Shop, offer: Offer, visit: Visit) -> None:
    job = shop.send.defer()
    with visit() as visitor:
        page = visitor.open(f"{offer()}/jobs/{job}")
        expect(page.locator("#status")).to_have_text("live")
        shop.app.job_manager.cancel_job_by_id(job, delete_job=True)
        expect(page.locator("#away")).to_contain_text("This no longer exists")
        assert page.get_by_role("heading", name=f"Job {job}").is_visible()
        assert visitor.problems == []


def test_a_thousand_changes_a_second_do_not_cost_a_click(
    shop: Shop, offer: Offer, visit: Visit
) -> None:
    for number in range(6):
        shop.app.lanes.pause(f"calm:{number}", reason="calm")
    with visit() as visitor, flooded(shop) as count:
        page = visitor.open(offer() + "/lanes?sort=worst")
        watch_swaps(page)
        wait_in(page, "swaps.length > 0")  # it is live
        page.evaluate(
            "document.querySelectorAll('.lock').forEach((link) => link.addEventListener('click', (event) => event.preventDefault()))"
        )
        page.evaluate(
            "window.clicked = []; document.addEventListener('click', (event) => clicked.push(event.target.closest('tr')?.querySelector('.lock')?.textContent))"
        )
        for _ in range(3):
            row = page.locator("#lanes tbody tr").nth(2)
            row.locator(".lock").hover()
            box = row.locator(".lock").bounding_box()
            assert box
            x, y = box["x"] + 5, box["y"] + box["height"] / 2
            page.mouse.move(x, y)
            aimed = lock_at(page, x, y)
            page.evaluate("window.swaps = []")
            before = count[0]
            wait_for_events(page)
            assert count[0] > before
            assert page.evaluate("swaps") == []
            assert lock_at(page, x, y) == aimed
            page.evaluate(
                "document.addEventListener('click', (event) => event.preventDefault(), {once: true, capture: true})"
            )
            page.mouse.click(x, y)
            assert page.evaluate("clicked.at(-1)") == aimed
            expect(page.locator("#apply")).to_be_visible()
            page.mouse.move(2, 2)
            page.evaluate("window.swaps = []")
            wait_in(page, "swaps.length > 0")  # now they are applied
        assert visitor.problems == []


def test_a_click_opens_the_lane_that_was_aimed_at(shop: Shop, offer: Offer, visit: Visit) -> None:
    """With real navigation, while everything changes."""
    for number in range(6):
        shop.app.lanes.pause(f"calm:{number}", reason="calm")
    with visit() as visitor, flooded(shop):
        page = visitor.open(offer() + "/lanes")
        for place in (0, 3, 5):
            link = page.locator("#lanes tbody tr .lock").nth(place)
            link.hover()
            wanted = link.get_attribute("href")
            with page.expect_request(lambda request: request.is_navigation_request()) as asked:
                page.mouse.down()
                page.mouse.up()
            assert wanted
            assert asked.value.url.endswith(wanted)
            page.wait_for_url(asked.value.url)
            page.go_back()
            page.wait_for_url("**/lanes")


def test_a_selection_holds_changes_back_until_they_are_asked_for(
    shop: Shop, offer: Offer, visit: Visit
) -> None:
    shop.app.lanes.pause("calm", reason="calm")
    with visit() as visitor, flooded(shop):
        page = visitor.open(offer() + "/lanes")
        page.mouse.move(2, 2)
        page.get_by_text("by somebody: calm").or_(page.get_by_text("calm").first).first.wait_for()
        watch_swaps(page)
        page.evaluate("getSelection().selectAllChildren(document.querySelector('h1'))")
        page.evaluate("window.swaps = []")
        wait_for_events(page)
        assert page.evaluate("swaps") == []
        assert page.evaluate("String(getSelection())") == "Lanes"
        page.get_by_role("button", name="Changes").click()
        wait_in(page, "swaps.length > 0")
        assert visitor.problems == []


def test_what_a_person_types_and_unfolds_stays(shop: Shop, offer: Offer, visit: Visit) -> None:
    shop.app.lanes.pause("calm", reason="calm")
    with visit() as visitor, flooded(shop):
        page = visitor.open(offer() + "/lanes")
        watch_swaps(page)
        page.get_by_role("searchbox").fill("half a wo")
        page.evaluate("window.swaps = []")
        wait_for_events(page)
        assert page.get_by_role("searchbox").input_value() == "half a wo"
        assert page.evaluate("swaps") == []
        assert page.evaluate("document.activeElement.id") == "prefix"
        page.get_by_text("More filters").click()
        page.get_by_label("Queue").fill("half a wo")
        page.locator("h1").click()  # nothing has the focus
        page.evaluate("window.swaps = []")
        wait_for_events(page)
        assert page.get_by_label("Queue").input_value() == "half a wo"
        assert page.evaluate("swaps") == []


def test_back_and_reload_keep_the_state(shop: Shop, offer: Offer, visit: Visit) -> None:
    for lock in ("order:1", "order:2", "customer:1"):
        shop.app.lanes.pause(lock)
    with visit() as visitor:
        page = visitor.open(offer() + "/lanes")
        locks = page.locator("#lanes .lock")
        page.get_by_role("searchbox").fill("order:")
        page.locator("select").select_option("name")
        page.get_by_role("searchbox").press("Enter")
        page.wait_for_url("**prefix=order%3A*")
        expect(locks).to_have_text(["order:1", "order:2"])
        page.reload()
        expect(locks).to_have_text(["order:1", "order:2"])
        assert page.locator("select").input_value() == "name"
        page.get_by_role("navigation", name="States").get_by_role("link", name="paused").click()
        page.wait_for_url("**state=paused*")
        page.go_back()
        expect(locks).to_have_text(["order:1", "order:2"])
        assert page.get_by_role("searchbox").input_value() == "order:"
        page.go_back()
        expect(locks).to_have_count(3)
        assert visitor.problems == []


def test_two_people_see_what_one_of_them_changes(shop: Shop, offer: Offer, visit: Visit) -> None:
    shop.send.configure(lock="order:1").defer()
    address = offer()
    with visit() as ana, visit(360, "dark") as ben:
        theirs = ben.open(f"{address}/lanes")
        expect(theirs.locator("#status")).to_have_text("live", timeout=MS)
        mine = ana.open(f"{address}/lanes")
        mine.evaluate(
            """async () => { await fetch("/lane/pause?lock=order%3A1", {
                method: "POST", redirect: "manual", body: new URLSearchParams({reason: "seen by both"})}) }"""
        )
        for page in (mine, theirs):
            page.get_by_text("by ana: seen by both").wait_for()
        assert ana.problems + ben.problems == []


def test_without_a_stream_the_page_asks_now_and_then(shop: Shop, visit: Visit) -> None:
    site = create_app(shop.app, authorize=lambda _: Access.FULL)

    async def without_stream(scope: object, receive: object, send: object) -> None:
        if isinstance(scope, dict) and scope.get("path") == "/live":
            scope["path"] = "/no/such/page"
        await site(scope, receive, send)  # type: ignore[arg-type]  # as any ASGI app

    with serve(without_stream) as address, visit() as visitor:
        page = visitor.open(f"{address}/lanes")
        expect(page.locator("#status")).to_have_text("polling", timeout=MS)
        shop.app.lanes.pause("new", reason="found by asking")
        page.get_by_text("found by asking").wait_for()


@pytest.mark.fresh_database
def test_a_page_whose_database_is_away_says_so_and_greys(
    shop: Shop, offer: Offer, visit: Visit, dsn: str
) -> None:
    address = offer()
    with visit() as visitor:
        page = visitor.open(address)
        away, main = page.locator("#away"), page.locator("main")
        expect(page.locator("#status")).to_have_text("live")
        expect(away).to_be_hidden()
        with outage(dsn):
            expect(away).to_contain_text("The database has not responded since")
            expect(main).to_have_css("opacity", "0.45")
        expect(away).to_be_hidden()
        expect(main).to_have_css("opacity", "1")


def test_a_page_that_cannot_be_read_after_an_outage_is_read_again(
    shop: Shop, offer: Offer, visit: Visit
) -> None:
    with visit() as visitor:
        page = visitor.open(f"{offer()}/lanes")
        expect(page.locator("#status")).to_have_text("live")
        refused: list[Route] = []

        def refuse(route: Route) -> None:
            refused.append(route)
            route.fulfill(status=503)

        page.route("**/lanes", refuse)
        shop.app.lanes.pause("new", reason="a new pause")
        expect(page.locator("#away")).to_contain_text("The database has not responded since")
        expect(page.locator("#status")).to_have_text("delayed")
        page.evaluate("window.ticks = 0; setInterval(() => { ticks += 1; }, 1000)")
        wait_in(page, "ticks >= 3")
        assert 2 <= len(refused) <= 6, "once a second is enough"
        page.unroute("**/lanes")
        page.get_by_text("a new pause").wait_for()
        expect(page.locator("#away")).to_be_hidden()
        expect(page.locator("#status")).to_have_text("live")
