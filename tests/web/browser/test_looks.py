"""Every page in both themes, at a desk and on a phone: it fits, nothing complains, axe is content.

The pages are found by the links of a queue with every state in it, so pages that are added are
tested as well.
"""

from urllib.parse import urlencode, urlsplit
from uuid import uuid4

import pytest
from playwright.sync_api import Page
from starlette.routing import compile_path

from inturn.web.pages import PAGES
from tests.web.browser.axe import find_violations
from tests.web.browser.conftest import Offer, Visit, wait_in
from tests.web.crawl import crawl
from tests.web.seed import Shop, hostile, query

pytestmark = pytest.mark.proof

DESK, LAPTOP, PHONE = 1280, 1024, 360  # pixels
SCREEN = 900  # pixels; the height of a window
LONG_LOCK = "😀 customer مرحبا بالعالم " + "9" * 400
THEMES = ("light", "dark")
BEHIND_FORMS = {"/bulk/run", "/bulk/lanes/run"}  # test_actions.py looks at them
FILTERED = (
    "/lanes?queue=mail&task=mail.*&waiting=1&oldest=0s&sort=waiting",
    "/lanes?prefix=customer&task=mail.*",
    "/lanes?queue=nothing",
    "/lanes?state=soon&waiting=many&oldest=soon",
)
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"

# Texts that have three lines or more with fewer than five letters each, and rows that are higher than
# two windows: a page that scrolls in one direction only can still be unreadable.
CRUSHED = """() => {
  const bad = [];
  const hasText = (each) => [...each.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
  for (const each of [...document.querySelectorAll("main :not(svg, svg *, td, th, dd)")].filter(hasText)
    .concat(...document.querySelectorAll("main dd, main tbody td, main tbody th"))) {
    const tops = [], texts = document.createTreeWalker(each, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const range = document.createRange();
      range.selectNodeContents(texts.currentNode);
      tops.push(...[...range.getClientRects()].filter((box) => box.width > 1).map((box) => box.top));
    }
    tops.sort((one, other) => one - other);
    const lines = tops.filter((top, n) => n === 0 || top - tops[n - 1] > 8).length;
    const text = each.innerText.trim();
    if (text && lines >= 3 && text.length / lines < 5) bad.push(`${lines} lines: ${text.slice(0, 60)}`);
  }
  for (const row of document.querySelectorAll("main tbody tr")) {
    if (row.getBoundingClientRect().height > 2 * innerHeight) bad.push(`row: ${row.innerText.slice(0, 60)}`);
  }
  return bad;
}"""
HIDDEN_ENTRIES = """() => [...document.querySelectorAll(".top nav a")].filter((each) => {
  const box = each.getBoundingClientRect(), bar = each.closest("nav").getBoundingClientRect();
  return box.left < 0 || box.right > innerWidth || box.right > bar.right + 1 || box.left < bar.left - 1;
}).map((each) => each.textContent)"""


@pytest.mark.parametrize("width", [DESK, LAPTOP, PHONE])
def test_every_value_of_every_page_can_be_read(
    full_queue: tuple[Shop, str], visit: Visit, width: int
) -> None:
    _, address = full_queue
    found: dict[str, object] = {}
    with visit(width) as visitor:
        page = visitor.open(address)
        for path in [*crawl(address), *FILTERED]:
            page.goto(address + path)
            unfold(page)
            if bad := [*page.evaluate(CRUSHED), *page.evaluate(HIDDEN_ENTRIES)]:
                found[path] = bad
    assert found == {}


@pytest.mark.parametrize("width", [DESK, LAPTOP, PHONE])
def test_long_names_and_counters_in_the_bar_leave_every_value_readable(
    shop: Shop, offer: Offer, visit: Visit, width: int, dsn: str
) -> None:
    job = shop.send.configure(lock=LONG_LOCK, queue="mail").defer(number=int("9" * 400))
    shop.fail.configure(lock="halted").defer()
    shop.work()
    shop.app.queues.pause("mail", reason="x")
    query(dsn, "SELECT register_worker(%s, 'host', 1, '{lost}', 4)", str(uuid4()))
    query(dsn, "UPDATE workers SET heartbeat_at = clock() - interval '1 min' RETURNING 1")
    address = offer()
    lane = urlencode({"lock": LONG_LOCK})
    with visit(width) as visitor:
        page = visitor.open(address)
        assert page.locator(".badge").count() >= 2
        for path in (
            "/",
            "/lanes",
            f"/lane?{lane}",
            "/jobs",
            f"/jobs/{job}",
            "/workers",
            "/system",
        ):
            page.goto(address + path)
            assert page.evaluate(CRUSHED) == [], path
            assert page.evaluate(HIDDEN_ENTRIES) == [], path
            assert page.evaluate(OVERFLOW) == 0, path


def test_a_lane_with_31_waiting_jobs_fits_three_screens_of_a_phone_beside_its_error(
    shop: Shop, offer: Offer, visit: Visit, dsn: str
) -> None:
    """Their ids are long, as are the names of their tasks, and they are some hours old.

    The error takes half a screen at most, although its traceback is long.
    """
    query(dsn, "SELECT setval('jobs_id_seq', 4711000)")
    task = shop.app.configure_task("shop.ship", lock="order:1")
    for number in range(32):
        task.defer(number=number)
    shop.work()
    query(
        dsn,
        "UPDATE jobs SET task = 'billing.invoices.send_reminder_' || id % 2,"
        " created_at = clock() - interval '2 h 5 min' RETURNING 1",
    )
    query(
        dsn,
        "UPDATE finished_jobs SET errors = jsonb_set(errors, '{0,error}',"
        " to_jsonb(repeat(E'a line\\n', 100) || 'ValueError: no address')) RETURNING 1",
    )
    with visit(PHONE) as visitor:
        page = visitor.open(f"{offer()}/lane?lock=order:1")
        assert page.locator("#line tbody tr").count() == 31
        error = page.evaluate(
            "document.querySelector('#strip').offsetTop - document.querySelector('#failure').offsetTop"
        )
        assert 192 < error <= SCREEN / 2
        assert page.evaluate("document.documentElement.scrollHeight") - error <= 3 * SCREEN


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_refusals_have_the_bar_and_a_way_back(
    shop: Shop, offer: Offer, visit: Visit, width: int
) -> None:
    for number in range(3):
        shop.send.configure(lock="order:1").defer(number=number)
    address = offer()
    lane = f"{address}/lane?lock=order%3A1"
    with visit(width) as visitor:
        page = visitor.open(f"{address}/no/such/page")
        check_refusal(page, f"{address}/")
        page.goto(f"{address}/jobs/999999999")
        check_refusal(page, f"{address}/jobs")
        page.goto(lane)
        page.get_by_text("Skip head").first.click()
        shop.app.lanes.skip_head("order:1")  # somebody else was faster
        page.get_by_role("button", name="Skip head").click()
        page.wait_for_url("**/lane/skip-head*")
        assert page.get_by_text("Another job is now the head").count() == 1
        check_refusal(page, lane)


def check_refusal(page: Page, back: str) -> None:
    """The bar is complete, a link leads on, and no button needs a script that is not there."""
    assert page.get_by_role("navigation", name="Pages").get_by_role("link").count() == 11
    assert page.evaluate(HIDDEN_ENTRIES) == []
    link = page.get_by_role("link", name="Back")
    assert link.evaluate("(each) => each.href") == back
    assert page.get_by_role("button").count() == 0


def test_without_scripts_no_button_needs_one(full_queue: tuple[Shop, str], visit: Visit) -> None:
    with visit(scripts=False) as visitor:
        page = visitor.open(full_queue[1])
        assert page.locator("[hidden]").count() > 0
        assert page.locator("[hidden]:visible").count() == 0


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", [DESK, PHONE])
def test_every_page_is_fit_to_be_seen(
    full_queue: tuple[Shop, str], visit: Visit, width: int, theme: str
) -> None:
    _, address = full_queue
    paths = [*crawl(address), *FILTERED]
    with visit(width, theme) as visitor:
        page = visitor.open(address + paths[0])
        for path in paths:
            page.goto(address + path)
            check(page)
            unfold(page)
            check(page)
        assert visitor.problems == []


def test_links_lead_to_every_page(full_queue: tuple[Shop, str]) -> None:
    paths = {urlsplit(path).path for path in crawl(full_queue[1])}
    missed = {
        page.path
        for page in PAGES
        if not any(compile_path(page.path)[0].match(path) for path in paths)
    }
    assert missed == BEHIND_FORMS


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_pages_about_nothing_are_fit_to_be_seen(offer: object, visit: Visit, width: int) -> None:
    assert callable(offer)
    address = offer()
    with visit(width, "dark") as visitor:
        for path in (*crawl(address), "/lanes?prefix=nothing"):
            page = visitor.open(address + path)
            check(page)
        assert visitor.problems == []


def test_a_page_that_is_not_there_is_fit_to_be_seen(
    full_queue: tuple[Shop, str], visit: Visit
) -> None:
    with visit(PHONE) as visitor:
        page = visitor.open(f"{full_queue[1]}/no/such/page")
        assert page.title().startswith("Page not found")
        assert find_violations(page) == []
        assert page.evaluate(OVERFLOW) == 0


def test_the_help_is_fit_to_be_seen(full_queue: tuple[Shop, str], visit: Visit) -> None:
    with visit(PHONE, "dark") as visitor:
        page = visitor.open(full_queue[1])
        page.get_by_role("button", name="Keys").click()
        check(page)


def test_a_theme_that_was_chosen_stays(full_queue: tuple[Shop, str], visit: Visit) -> None:
    with visit() as visitor:
        page = visitor.open(full_queue[1])
        page.get_by_role("button", name="Theme").click()
        page.get_by_role("button", name="Theme").click()
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.goto(f"{full_queue[1]}/lanes")
        assert page.locator("html").get_attribute("data-theme") == "dark"
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == ground
        assert visitor.problems == []


def test_a_page_that_is_not_fit_is_noticed(full_queue: tuple[Shop, str], visit: Visit) -> None:
    """So the test above can fail."""
    with visit(PHONE) as visitor:
        page = visitor.open(full_queue[1])
        page.keyboard.press("p")  # or a change would repair it
        page.evaluate("document.querySelector('h1').outerHTML = '<img src=nothing.png>'")
        page.evaluate("document.querySelector('main').style.color = 'silver'")
        page.evaluate("document.querySelector('main').style.width = '800px'")
        assert {each.partition(":")[0] for each in find_violations(page)} >= {
            "image-alt",
            "color-contrast",
        }
        assert page.evaluate(OVERFLOW) > 0
        page.evaluate(
            "document.body.append(Object.assign(document.createElement('script'), {text: 'hacked=1'}))"
        )
        wait_in(page, "problems.length > 0")
        assert visitor.problems


def check(page: Page) -> None:
    """Look at a page as it is now."""
    where = page.url
    assert page.evaluate(OVERFLOW) == 0, f"{where} scrolls sideways"
    assert page.evaluate("problems") == [], where
    assert page.evaluate("window.hacked") is None, where
    assert find_violations(page) == [], where


def unfold(page: Page) -> None:
    """Open everything that can be unfolded."""
    page.evaluate("document.querySelectorAll('main details').forEach((each) => each.open = true)")


def test_texts_of_jobs_are_shown_as_texts(full_queue: tuple[Shop, str], visit: Visit) -> None:
    _, address = full_queue
    with visit() as visitor:
        page = visitor.open(f"{address}/lanes")
        assert page.get_by_text(hostile("reason")[:60]).count()
