"""Each action by its form, in a browser with scripts and in one without, with real workers."""

from urllib.parse import urlsplit

import psycopg
import pytest
from playwright.sync_api import Locator, Page
from starlette.routing import compile_path

from inturn.web.app import EVERY_ACTION
from tests.web.browser.conftest import Offer, Visit
from tests.web.browser.operated_scenes import OPERATED
from tests.web.browser.scenarios import LANE
from tests.web.browser.scenarios import SCENES as OF_LANES_AND_JOBS
from tests.web.seed import Shop

pytestmark = pytest.mark.proof

WITH_SCRIPTS = pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])
PATHS = [action.path for action in EVERY_ACTION]
SCENES = {**OF_LANES_AND_JOBS, **OPERATED}
MANY = 450  # jobs: more than a step changes
LOADS = 5  # of a page


@WITH_SCRIPTS
@pytest.mark.parametrize("path", SCENES)
def test_an_action_does_what_it_says(
    shop: Shop, offer: Offer, visit: Visit, path: str, scripts: bool
) -> None:
    scene = SCENES[path](shop)
    address = offer()
    with visit(360, scripts=scripts) as visitor:
        page = visitor.open(address + scene.page)
        form = find_form(page, path)
        assert len(explain(form).inner_text()) > 20  # it says what it does
        for name, value in scene.typed.items():
            form.locator(f"[name={name}]").fill(value)
        submit(form)
        page.locator("#result").wait_for()
        scene.prove()
        page.reload()
        assert page.locator("#result").count() == (0 if scripts else 1)
        assert visitor.problems == []


def test_each_action_has_a_scene() -> None:
    # Those that stop a change of many are one function. The test below plays it.
    assert SCENES.keys() == {path for path in PATHS if not path.endswith("/stop")}


@WITH_SCRIPTS
def test_a_change_of_many_jobs_is_stopped_after_its_step(
    shop: Shop, offer: Offer, visit: Visit, dsn: str, scripts: bool
) -> None:
    shop.send.batch_defer(*({"n": n} for n in range(MANY)))
    options = "-c search_path=inturn"
    with psycopg.connect(dsn, options=options) as held, visit(scripts=scripts) as visitor:
        # The step that writes the history waits here.
        held.execute("LOCK TABLE finished_jobs IN SHARE MODE")
        page = visitor.open(f"{offer()}/bulk?action=cancel&q=task:mail.send")
        page.locator("#typed").fill(str(MANY))
        submit(find_form(page, "/bulk/cancel"))
        submit(find_form(page, "/bulk/cancel/stop"))
        page.get_by_text("The change stops after its current step.").wait_for()
        held.rollback()
        page.get_by_role("link", name="Do the rest").wait_for()
        left = shop.app.job_manager.list_jobs(status="todo")
        assert 0 < len(left) < MANY
        assert visitor.problems == []


def test_a_form_that_comes_too_late_changes_nothing_and_says_so(
    shop: Shop, offer: Offer, visit: Visit
) -> None:
    scene = SCENES["/lane/resume"](shop)
    with visit() as visitor:
        page = visitor.open(offer() + scene.page)
        form = find_form(page, "/lane/resume")
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


@WITH_SCRIPTS
def test_lanes_are_found_by_what_their_jobs_are(
    full_queue: tuple[Shop, str], visit: Visit, scripts: bool
) -> None:
    _, address = full_queue
    with visit(360, scripts=scripts) as visitor:
        page = visitor.open(f"{address}/lanes?sort=name")
        page.get_by_text("More filters").click()
        page.get_by_label("Queue").fill("mail")
        page.get_by_label("Task").fill("mail.*")
        page.get_by_label("Waiting at least").fill("1")
        page.get_by_label("For at least").fill("0s")
        page.get_by_role("button", name="Show").click()
        page.wait_for_url("**queue=mail&task=mail.*&waiting=1&oldest=0s")
        assert page.locator("th .lock").all_inner_texts()[0] == "customer:0"
        page.get_by_role("navigation", name="States").get_by_text("halted").click()
        page.get_by_role("link", name="Clear filter").click()
        page.wait_for_url(f"{address}/lanes")
        assert page.locator("th .lock").count() > 1
        page.get_by_text("More filters").click()
        page.get_by_label("For at least").fill("soon")
        page.get_by_role("button", name="Show").click()
        page.get_by_text("“soon” is not a length of time. Write 5m").wait_for()
        assert page.get_by_label("For at least").input_value() == "soon"
        assert visitor.problems == []


def find_form(page: Page, path: str) -> Locator:
    """Return the form of an action. It may have to be unfolded, as by a person."""
    for _ in range(LOADS):
        if form := _look_for_form(page, path):
            return form
        page.reload()  # on a busy machine a look is given up, and its form is missing
    raise AssertionError(f"there is no form for {path} at {page.url}")


def _look_for_form(page: Page, path: str) -> Locator | None:
    pattern = compile_path(path)[0]
    forms = page.locator("form[method=post]")
    for place in range(forms.count()):
        form = forms.nth(place)
        if pattern.match(urlsplit(form.get_attribute("action") or "").path):
            for folded in form.locator("xpath=ancestor::details[not(@open)]").all():
                folded.locator("> summary").click()
            return form
    return None


def explain(form: Locator) -> Locator:
    """Return the text that says what a form does: in it, or above it in its panel."""
    inside = form.locator("p")
    return inside.first if inside.count() else form.page.locator("#preview .effect")


def submit(form: Locator) -> None:
    form.locator("button").last.click()
