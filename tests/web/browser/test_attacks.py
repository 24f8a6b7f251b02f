"""What a hostile page or a hostile job can do in a real browser: nothing.

The browser of a person who may do everything visits pages of an attacker. Two of them: one on
another site (another host name), and one on the same site (another port).
"""

from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import quote

import pytest
from playwright.sync_api import Page
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from inturn.web.pages import PAGES
from tests.web.browser.conftest import Offer, Visit
from tests.web.crawl import crawl, fields_of
from tests.web.seed import Shop, hostile
from tests.web.serving import serve

pytestmark = pytest.mark.proof

PAUSE = "/lane/pause?lock=order%3A1"
REFUSAL = "does not come from a page of the dashboard"
SCRIPT = "\"'><script>window.hacked='query'</script><img src=x onerror=window.hacked='query'>"
FETCHES = {
    "simple": "{method: 'POST', mode: 'no-cors', body: new URLSearchParams({reason: 'x'})}",
    "with credentials": (
        "{method: 'POST', credentials: 'include', body: new URLSearchParams({reason: 'x'})}"
    ),
    "as text": "{method: 'POST', mode: 'no-cors', body: 'reason=x'}",
    "another method": "{method: 'PUT', body: new URLSearchParams({reason: 'x'})}",
    "get": "{method: 'GET', mode: 'no-cors'}",
}


@pytest.fixture(params=["127.0.0.1", "localhost"], ids=["same site", "another site"])
def attacker(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of pages of an attacker. `?to=` is the address that they are about."""

    async def form(asked: Request) -> HTMLResponse:
        to = asked.query_params["to"].replace('"', "&quot;")
        return HTMLResponse(
            f'<form method="post" action="{to}"><input name="reason" value="x"><button>Win</button>'
            "</form>"
        )

    async def frame(asked: Request) -> HTMLResponse:
        to = asked.query_params["to"].replace('"', "&quot;")
        return HTMLResponse(f'<iframe src="{to}" width="800" height="600"></iframe>')

    with serve(Starlette(routes=[Route("/form", form), Route("/frame", frame)])) as address:
        yield address.replace("127.0.0.1", request.param)


def is_paused(shop: Shop) -> bool:
    return any(each.state == "paused" for each in shop.app.lanes.list())


def test_a_form_on_another_page_changes_nothing(
    shop: Shop, offer: Offer, visit: Visit, attacker: str
) -> None:
    target = offer() + PAUSE
    with visit() as visitor:
        page = visitor.open(f"{attacker}/form?to={quote(target, safe='')}")
        page.get_by_role("button", name="Win").click()
        page.get_by_text(REFUSAL).wait_for()
    assert not is_paused(shop)


@pytest.mark.parametrize("kind", FETCHES)
def test_a_script_on_another_page_changes_and_reads_nothing(
    shop: Shop, offer: Offer, visit: Visit, attacker: str, kind: str
) -> None:
    target = offer() + PAUSE
    with visit() as visitor:
        page = visitor.open(f"{attacker}/form?to=x")
        script = f"async (to) => {{ try {{ return await (await fetch(to, {FETCHES[kind]})).text() }} catch {{ return '' }} }}"
        assert page.evaluate(script, target) == ""
    assert not is_paused(shop)


def test_the_same_form_on_a_page_of_ours_is_taken(shop: Shop, offer: Offer, visit: Visit) -> None:
    """So the tests above can fail."""
    address = offer()
    with visit() as visitor:
        page = visitor.open(f"{address}/lanes")
        page.evaluate(
            f"async () => {{ await fetch('{PAUSE}', {{redirect: 'manual', ...{FETCHES['simple']}, mode: 'same-origin'}}) }}"
        )
    assert is_paused(shop)


def test_no_page_can_be_framed(offer: Offer, visit: Visit, attacker: str) -> None:
    address = offer()
    with visit() as visitor:
        for path in (*crawl(address), "/no/such/page"):
            page = visitor.open(f"{attacker}/frame?to={quote(address + path, safe='')}")
            frame = page.frame_locator("iframe")
            assert frame.locator("#main").count() == 0, path
            assert any("frame" in each for each in visitor.problems), path
            visitor.problems.clear()


def check_harmless(page: Page) -> None:
    """See that no script of a job has run, and that none was even tried."""
    page.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")
    for element in page.locator("main a, main button, main [tabindex]").all()[:20]:
        element.dispatch_event("mouseover")
    assert page.evaluate("window.hacked") is None, page.url
    assert page.evaluate("problems") == [], page.url
    assert page.locator("[onerror], [onload], [onfocus], [onmouseover]").count() == 0, page.url
    assert page.locator("main img, main script, main svg[onload]").count() == 0, page.url


def test_texts_of_jobs_run_no_script_on_any_page(
    full_queue: tuple[Shop, str], visit: Visit
) -> None:
    """Arguments, errors, locks, tasks, reasons, names of workers, headers: see seed.py."""
    _, address = full_queue
    pages = crawl(address, each=8)
    with visit() as visitor:
        page = visitor.open(address)
        for path in pages:
            page.goto(address + path)
            check_harmless(page)
        assert visitor.problems == []
    seen = "".join(pages.values())
    for place in ("reason", "person", "lock", "error"):
        assert f"{place}&lt;script&gt;" in seen, place


def test_addresses_run_no_script(full_queue: tuple[Shop, str], visit: Visit) -> None:
    _, address = full_queue
    text = quote(SCRIPT, safe="")
    with visit() as visitor:
        page = visitor.open(address)
        for path, html in crawl(address).items():
            bare = path.partition("?")[0]
            names = {"done", "n", "lock", "state", "sort", "q", "prefix", *fields_of(html)}
            page.goto(f"{address}{bare}?{'&'.join(f'{name}={text}' for name in names)}")
            check_harmless(page)
        visitor.problems.clear()
        for page_ in PAGES:
            page.goto(f"{address}{page_.path.partition('{')[0]}/{text}")
            check_harmless(page)


def test_what_is_typed_into_a_filter_runs_no_script(
    full_queue: tuple[Shop, str], visit: Visit
) -> None:
    with visit() as visitor:
        page = visitor.open(f"{full_queue[1]}/lanes")
        page.get_by_role("searchbox").fill(hostile("lock")[:12])
        page.keyboard.press("Enter")
        page.wait_for_url("**prefix=*")
        check_harmless(page)
        page.get_by_role("searchbox").fill(SCRIPT)
        page.keyboard.press("Enter")
        page.get_by_text("No lanes match this filter.").wait_for()
        check_harmless(page)


def test_a_page_does_not_say_what_a_link_tells_it_to_say(
    full_queue: tuple[Shop, str], visit: Visit
) -> None:
    with visit() as visitor:
        for query in ("done=You+are+logged+out", "done=job-deleted&n=1<b>", "done=__class__&n=1"):
            page = visitor.open(f"{full_queue[1]}/lanes?{query}")
            assert page.locator("#result").count() == 0


def test_a_script_in_a_page_would_be_refused_and_noticed(
    full_queue: tuple[Shop, str], visit: Visit
) -> None:
    """The CSP is the second wall. It also shows that the tests above would see a script."""
    with visit() as visitor:
        page = visitor.open(full_queue[1])
        page.evaluate(
            "document.querySelector('main').innerHTML = '<img src=x onerror=\"window.hacked=1\">'"
        )
        with ExitStack() as stack:
            stack.callback(visitor.problems.clear)
            with pytest.raises(AssertionError):
                check_harmless(page)
        assert page.evaluate("window.hacked") is None
