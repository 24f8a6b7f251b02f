"""Every page in both themes, at a desk and on a phone: it fits, nothing complains, axe is content.

The pages are found by the links of a queue with every state in it, so pages that are added are
tested as well.
"""

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page
from starlette.routing import compile_path

from inturn.web.pages import PAGES
from tests.web.browser.axe import find_violations
from tests.web.browser.conftest import Visit, wait_in
from tests.web.crawl import crawl
from tests.web.seed import Shop, hostile

pytestmark = pytest.mark.proof

DESK, PHONE = 1280, 360  # pixels
THEMES = ("light", "dark")
BEHIND_FORMS = {"/bulk/run", "/bulk/lanes/run"}  # test_actions.py looks at them
FILTERED = (
    "/lanes?queue=mail&task=mail.*&waiting=1&oldest=0s&sort=waiting",
    "/lanes?prefix=customer&task=mail.*",
    "/lanes?queue=nothing",
    "/lanes?state=soon&waiting=many&oldest=soon",
)
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


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
        assert page.title().startswith("There is no such page")
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
