"""A real browser for the dashboard. Without Chromium, these tests are left out, and say so.

Playwright's sync API keeps a loop in the thread of the test. So workers and sites run in threads,
and the browser ends with each file, before the next one has a loop of its own.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from inturn.testing import Databases
from inturn.web import Access, create_app
from tests.web.browser.chromium import MISSING, MUST, find_chromium
from tests.web.seed import LIMIT, Shop, seeded
from tests.web.serving import serve

WATCH = """
window.problems = [];
addEventListener("securitypolicyviolation", (event) => problems.push("CSP: " + event.violatedDirective + " " + event.blockedURI));
"""
MS = 1000
Offer = Callable[..., str]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, for all tests of a file."""
    path = find_chromium()
    if path is None and os.environ.get(MUST) == "1":
        pytest.fail(MISSING)
    if path is None:
        pytest.skip(MISSING)
    expect.set_options(timeout=LIMIT * MS)
    with sync_playwright() as playwright:
        # Root has no sandbox, and the shared memory of a container is small.
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=path, args=options, timeout=LIMIT * MS)
        yield browser
        browser.close()


@dataclass
class Visitor:
    """A person with a browser of their own. `problems` is what the browser complained of."""

    context: BrowserContext
    problems: list[str] = field(default_factory=list)

    def open(self, address: str) -> Page:
        """Open an address in a tab of its own."""
        page = self.context.new_page()
        page.set_default_timeout(LIMIT * MS)
        page.on("console", self._note_console)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.goto(address)
        return page

    def _note_console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"{message.type}: {message.text}")


Visit = Callable[..., Any]


def wait_in(page: Page, condition: str) -> None:
    """Wait for a condition in the page. `wait_for_function` would need the eval that CSP forbids."""
    deadline = time.monotonic() + LIMIT
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, condition
        page.wait_for_timeout(50)


@pytest.fixture
def visit(browser: Browser) -> Visit:
    """Give a person a browser: `with visit(width=360) as visitor`."""

    @contextmanager
    def meet(
        width: int = 1280, theme: Any = "light", scripts: bool = True, zone: str | None = None
    ) -> Iterator[Visitor]:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=theme,
            java_script_enabled=scripts,
            timezone_id=zone,
        )
        try:
            context.add_init_script(WATCH)
            yield Visitor(context)
        finally:
            context.close()

    return meet


@pytest.fixture(scope="session")
def full_queue(databases: Databases) -> Iterator[tuple[Shop, str]]:
    """A queue with every state in it, for tests that only look, and its address."""
    with ExitStack() as stack:
        shop = stack.enter_context(seeded(stack.enter_context(databases.clone())))
        site = create_app(shop.app, authorize=lambda _: Access.FULL.named("ana"))
        yield shop, stack.enter_context(serve(site))


@pytest.fixture
def shop(dsn: str) -> Iterator[Shop]:
    """An empty queue of the test's own, and its tasks."""
    shop = Shop(dsn)
    with shop.app.open():
        yield shop
        shop.may_end.set()


@pytest.fixture
def offer(shop: Shop) -> Iterator[Offer]:
    """Serve the dashboard of the test's own queue, and return its address."""
    with ExitStack() as stack:

        def open_site(access: Access = Access.FULL, **options: Any) -> str:
            options.setdefault("authorize", lambda _: access.named("ana"))
            return stack.enter_context(serve(create_app(shop.app, **options)))

        yield open_site
