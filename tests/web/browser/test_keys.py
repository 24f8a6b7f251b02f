"""Keys: people who do not want the mouse, or cannot use it."""

from datetime import UTC, datetime

import pytest
from playwright.sync_api import Page, expect

from tests.web.browser.conftest import Visit
from tests.web.seed import Shop

pytestmark = pytest.mark.proof


def test_keys_lead_through_the_pages(full_queue: tuple[Shop, str], visit: Visit) -> None:
    with visit() as visitor:
        page = visitor.open(full_queue[1])
        press(page, "gl")
        page.wait_for_url("**/lanes")
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("k")
        first = page.locator("#lanes tbody tr").first
        expect(first.locator("a.lock")).to_be_focused()
        wanted = first.locator("a.lock").get_attribute("href")
        page.keyboard.press("Enter")
        page.wait_for_url(f"{full_queue[1]}{wanted}")


def test_each_key_of_the_navigation_leads_to_its_page(
    full_queue: tuple[Shop, str], visit: Visit
) -> None:
    with visit() as visitor:
        page = visitor.open(full_queue[1])
        links = page.locator("nav a[data-key]").all()
        keys = [(each.get_attribute("data-key"), each.get_attribute("href")) for each in links]
        assert len({key for key, _ in keys}) == len(keys) >= 2
        for key, path in keys:
            page.goto(f"{full_queue[1]}/lanes?prefix=nothing")
            press(page, f"g{key}")
            page.wait_for_url(f"{full_queue[1]}{path}")
            expect(page.locator("nav a[aria-current=page]")).to_have_attribute("href", path or "")
        assert visitor.problems == []


def test_a_slash_searches_and_letters_in_a_field_are_letters(
    full_queue: tuple[Shop, str], visit: Visit
) -> None:
    with visit() as visitor:
        page = visitor.open(f"{full_queue[1]}/lanes")
        page.keyboard.press("/")
        search = page.get_by_role("searchbox")
        expect(search).to_be_focused()
        page.keyboard.type("gl?jt/")
        assert search.input_value() == "gl?jt/"
        assert page.locator("dialog[open]").count() == 0
        page.keyboard.press("Enter")
        page.wait_for_url("**prefix=*")
        page.get_by_text("No lanes match this filter.").wait_for()


def test_a_question_mark_shows_the_keys_and_they_can_be_switched_off(
    full_queue: tuple[Shop, str], visit: Visit
) -> None:
    with visit() as visitor:
        page = visitor.open(full_queue[1])
        page.keyboard.press("?")
        page.get_by_role("dialog", name="Keys").wait_for()
        page.get_by_label("Keys are on").uncheck()
        page.keyboard.press("Escape")
        expect(page.locator("dialog[open]")).to_have_count(0)
        page.keyboard.press("?")
        press(page, "gl")
        assert page.locator("dialog[open]").count() == 0
        assert page.url.rstrip("/") == full_queue[1]
        page.get_by_role("button", name="Keys").click()
        page.get_by_label("Keys are on").check()
        page.keyboard.press("Escape")
        press(page, "gl")
        page.wait_for_url("**/lanes")


def test_tab_begins_with_a_way_past_the_navigation(
    full_queue: tuple[Shop, str], visit: Visit
) -> None:
    with visit() as visitor:
        page = visitor.open(full_queue[1])
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#main")).to_be_focused()


def press(page: Page, keys: str) -> None:
    """Press one key after the other, at once by the clock of the page."""
    page.clock.set_fixed_time(datetime.now(UTC))
    for key in keys:
        page.keyboard.press(key)
