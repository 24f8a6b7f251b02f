"""The pages of docs/ as `make docs` builds them: found by search, readable on a phone, fit for axe."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from starlette.staticfiles import StaticFiles

from docs import llms
from tests.web.browser.axe import find_violations
from tests.web.browser.chromium import MUST
from tests.web.browser.conftest import Visit
from tests.web.serving import serve

pytestmark = pytest.mark.proof

ROOT = Path(__file__).parents[3]
SPHINX = ROOT / "build/docs-tools/bin/sphinx-build"
DESK, PHONE = 1280, 360  # pixels
LOOKED_AT = ("index", "stuck-lane", "flow", "api/tasks", "search")
WIDE = """() => [document.documentElement, ...document.querySelectorAll(".content pre, .table-wrapper")]
  .filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.innerText.slice(0, 60))"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the built pages."""
    if not SPHINX.exists() and os.environ.get(MUST) != "1":
        pytest.skip("`make docs` installs what builds the pages")
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([SPHINX, "-q", "-W", "docs", folder], cwd=ROOT, check=True)
    with serve(StaticFiles(directory=folder, html=True)) as address:
        yield address


@pytest.mark.parametrize(
    "words",
    ["halted", "stuck", "not running", "too many connections", "permission denied", "retry storm",
     "parent failed"],
)  # fmt: skip
def test_a_search_from_a_night_begins_with_the_page_for_the_night(
    site: str, visit: Visit, words: str
) -> None:
    with visit() as visitor:
        page = visitor.open(f"{site}/search.html?q={words}")
        first = page.locator("#search-results ul.search > li > a").first
        expect(first).to_have_text("Free a stuck lane")
        first.click()
        expect(page.locator("h1")).to_contain_text("Free a stuck lane")


@pytest.mark.parametrize(("words", "page"), [("limits", "limits"), ("doctor", "watching")])
def test_a_search_begins_with_a_title(site: str, visit: Visit, words: str, page: str) -> None:
    assert search(site, visit, words)[0] == page


def test_a_search_ends_with_the_pages_for_contributors(site: str, visit: Visit) -> None:
    chapters = llms.list_pages(ROOT / "docs")
    makers = {entry.page for entry in chapters[llms.CONTRIBUTORS]}
    makers |= {f"decisions/{file.stem}" for file in (ROOT / "docs/decisions").glob("*.md")}
    found = [page in makers for page in search(site, visit, "lane")]
    assert len(found) > found.count(True) > 5
    assert found == sorted(found)


def search(site: str, visit: Visit, words: str) -> list[str]:
    """Return the pages that a search finds, in their order."""
    with visit() as visitor:
        page = visitor.open(f"{site}/search.html?q={words}")
        expect(page.locator("#search-results .search-summary")).to_contain_text("found")
        links = page.locator("#search-results ul.search > li > a")
        found = [link.get_attribute("href") or "" for link in links.all()]
        return [href.partition(".html")[0] for href in found]


def test_nothing_on_the_page_for_the_night_is_scrolled_sideways(site: str, visit: Visit) -> None:
    with visit(PHONE) as visitor:
        page = visitor.open(f"{site}/stuck-lane.html")
        assert page.evaluate(WIDE) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESK, PHONE])
def test_axe_finds_nothing_on_the_pages(site: str, visit: Visit, width: int, theme: str) -> None:
    with visit(width, theme) as visitor:
        page = visitor.open(site)
        for name in LOOKED_AT:
            page.goto(f"{site}/{name}.html")
            assert find_violations(page) == [], name


def test_the_first_page_is_in_one_screen_and_under_200_kilobytes(site: str, visit: Visit) -> None:
    sizes: list[int] = []
    with visit() as visitor:
        page = visitor.open("about:blank")
        page.on("response", lambda answer: sizes.append(len(answer.body())))
        page.goto(f"{site}/index.html", wait_until="networkidle")
        last = page.locator("#inturn > p", has_text="not for you")
        assert last.evaluate("each => each.getBoundingClientRect().bottom <= innerHeight")
    assert sum(sizes) < 200_000, sizes


@pytest.mark.parametrize(
    ("theme", "name"), [("light", "lane-halted"), ("dark", "lane-halted-dark")]
)
def test_the_picture_of_the_first_page_has_its_theme(
    site: str, visit: Visit, theme: str, name: str
) -> None:
    with visit(theme=theme) as visitor:
        page = visitor.open(f"{site}/index.html")
        shown = page.locator("#inturn > img:visible")
        assert shown.count() == 1
        assert str(shown.get_attribute("src")).endswith(f"/{name}.png")
