"""Each action by its form, in a browser with scripts and in one without, with real workers."""

import hashlib
import re
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from playwright.sync_api import Locator, Page
from psycopg.sql import SQL, Identifier
from starlette.routing import compile_path

from inturn.testing import Databases
from inturn.web import Access, create_app
from inturn.web.actions import ACTIONS
from tests.web.browser.conftest import Offer, Visit
from tests.web.browser.scenarios import LANE, SCENES
from tests.web.crawl import crawl, is_page
from tests.web.seed import Shop, seeded
from tests.web.serving import serve

WITH_SCRIPTS = pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])
ACTION = re.compile(r"""<form\b[^>]*?\smethod="post"[^>]*?\saction="([^"]*)\"""")
PATHS = [action.path for action in ACTIONS]
# A scene needs the page of its form.
PLAYED = [
    path
    for path in PATHS
    if path in SCENES and is_page(path.replace("{job_id:int}", "1").rpartition("/")[0])
]
OTHERS = [path for path in PATHS if path not in SCENES]


@WITH_SCRIPTS
@pytest.mark.parametrize("path", PLAYED)
def test_an_action_does_what_it_says(
    shop: Shop, offer: Offer, visit: Visit, path: str, scripts: bool
) -> None:
    scene = SCENES[path](shop)
    address = offer()
    with visit(360, scripts=scripts) as visitor:
        page = visitor.open(address + scene.page)
        form = find_form(page, path)
        assert len(form.locator("p").first.inner_text()) > 20  # it says what it does
        for name, value in scene.typed.items():
            form.locator(f"[name={name}]").fill(value)
        submit(form)
        page.locator("#result").wait_for()
        scene.prove()
        page.reload()
        assert page.locator("#result").count() == (0 if scripts else 1)
        assert visitor.problems == []


def test_every_other_action_changes_something(databases: Databases, visit: Visit) -> None:
    """Actions that have no scene of their own, on whichever page offers them."""
    for path in OTHERS:
        pattern = compile_path(path)[0]
        with databases.clone() as dsn, seeded(dsn) as shop:
            site = create_app(shop.app, authorize=lambda _: Access.FULL.named("ana"))
            with serve(site) as address, visit() as visitor:
                offers = [
                    url
                    for url, text in crawl(address, each=20).items()
                    if any(pattern.match(urlsplit(each).path) for each in ACTION.findall(text))
                ]
                assert offers, f"no page offers {path}"
                page = visitor.open(address + offers[0])
                form = find_form(page, path)
                fill(form)
                before = sum_up(dsn)
                submit(form)
                page.locator("#result").wait_for()
                assert sum_up(dsn) != before, path
                assert visitor.problems == []


@pytest.mark.parametrize("path", [path for path in PLAYED if path == "/lane/resume"])
def test_a_form_that_comes_too_late_changes_nothing_and_says_so(
    shop: Shop, offer: Offer, visit: Visit, path: str
) -> None:
    scene = SCENES[path](shop)
    with visit() as visitor:
        page = visitor.open(offer() + scene.page)
        form = find_form(page, path)
        shop.app.lanes.resume(LANE)
        submit(form)
        page.get_by_role("heading", name="Nothing was changed").wait_for()
        page.get_by_role("link", name="Back").click()
        page.wait_for_url(f"**{scene.page}")


def test_without_scripts_pages_are_read_and_filtered(
    full_queue: tuple[Shop, str], visit: Visit
) -> None:
    _, address = full_queue
    with visit(scripts=False) as visitor:
        page = visitor.open(f"{address}/")
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Lanes").click()
        page.get_by_role("searchbox").fill("customer:")
        page.get_by_role("button", name="Show").click()
        page.wait_for_url("**prefix=customer%3A*")
        assert page.locator("th .lock").all_inner_texts() == ["customer:0"]


def find_form(page: Page, path: str) -> Locator:
    """Return the form of an action. It may have to be unfolded, as by a person."""
    pattern = compile_path(path)[0]
    forms = page.locator("form[method=post]")
    for place in range(forms.count()):
        form = forms.nth(place)
        if pattern.match(urlsplit(form.get_attribute("action") or "").path):
            for folded in form.locator("xpath=ancestor::details[not(@open)]").all():
                folded.locator("> summary").click()
            return form
    raise AssertionError(f"there is no form for {path} at {page.url}")


def fill(form: Locator) -> None:
    """Fill in what is required: the text to repeat, or a one."""
    for field in form.locator("input[required], textarea[required]").all():
        label = field.locator("xpath=ancestor::label//code")
        field.fill(label.first.inner_text() if label.count() else "1")


def submit(form: Locator) -> None:
    form.locator("button").last.click()


def sum_up(dsn: str) -> str:
    """Return a digest of everything that people can change."""
    with psycopg.connect(dsn, options="-c search_path=inturn") as connection:
        tables: list[Any] = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'inturn'::regnamespace "
            "AND relkind IN ('r', 'p') AND relname NOT IN ('workers', 'rollups') ORDER BY 1"
        ).fetchall()
        texts = []
        for (name,) in tables:
            rows = connection.execute(
                SQL("SELECT one::text FROM {} AS one").format(Identifier(name))
            ).fetchall()
            texts.append(f"{name} {sorted(rows)}")
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
