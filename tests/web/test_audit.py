"""Whatever somebody changes in the dashboard is recorded with their name, and pages show it."""

import re

import pytest
from starlette.testclient import TestClient

from inturn import App
from inturn.web.app import EVERY_ACTION
from tests.conftest import Query
from tests.web.conftest import EMPTY
from tests.web.test_bulk import confirm, fail

# The form of each action, and the operation that is recorded. Ids are those of the scene.
FORMS: dict[str, tuple[str, dict[str, str], str]] = {
    "/lane/pause": ("?lock=a", EMPTY, "pause"),
    "/lane/resume": ("?lock=p", EMPTY, "resume"),
    "/lane/retry-head": ("?lock=h", EMPTY, "retry-head"),
    "/lane/skip-head": ("?lock=h", {"head": "{failed}"}, "skip-head"),
    "/lane/cancel-waiting": ("?lock=a", {"confirm": "a"}, "cancel-waiting"),
    "/jobs/{job_id}/retry": ("/{ended}/retry", EMPTY, "retry-job"),
    "/jobs/{job_id}/cancel": ("/{waiting}/cancel", EMPTY, "cancel-job"),
    "/jobs/{job_id}/abort": ("/{running}/abort", EMPTY, "abort-job"),
    "/jobs/{job_id}/delete": ("/{ended}/delete", EMPTY, "delete-job"),
    "/queues/pause": ("?name=mail", EMPTY, "pause-queue"),
    "/queues/pause-everything": ("", {"confirm": "everything"}, "pause-queue"),
    "/queues/resume": ("?name=q", EMPTY, "resume-queue"),
    "/queues/resume-everything": ("", EMPTY, "resume-queue"),
    "/tasks/pause": ("?name=shop.pay", EMPTY, "pause-task"),
    "/tasks/resume": ("?name=t", EMPTY, "resume-task"),
    "/limits/set": ("", {"pattern": "new", "concurrency": "3"}, "set-limit"),
    "/limits/remove": ("?pattern=key", EMPTY, "remove-limit"),
    "/batches/close": ("?id={batch}", EMPTY, "close-batch"),
    "/batches/cancel": ("?id={batch}", {"confirm": "import"}, "cancel-batch"),
}
BULKS = {
    "/bulk/retry": ("/bulk?action=retry&q=lock:h", "retry-jobs"),
    "/bulk/cancel": ("/bulk?action=cancel&q=lock:a", "cancel-jobs"),
    "/bulk/delete": ("/bulk?action=delete&q=state:cancelled", "delete-jobs"),
    "/bulk/lanes/resume": ("/bulk/lanes?action=resume&state=paused", "resume"),
    "/bulk/lanes/retry-head": ("/bulk/lanes?action=retry-head", "retry-head"),
    "/bulk/lanes/skip-head": ("/bulk/lanes?action=skip-head", "skip-head"),
    "/bulk/lanes/pause": ("/bulk/lanes?action=pause&prefix=a", "pause"),
}


class Scene:
    """Something for each action to change."""

    def __init__(self, app: App, query: Query) -> None:
        pay = app.configure_task("shop.pay", lock="r")
        self.running = int(pay.defer())
        query(
            "SELECT id FROM claim(register_worker('w', 'here', 1, '{default}', 1), '{default}', 1)"
        )
        [self.failed] = fail(app, "h", halt=True)
        self.ended, self.waiting = (
            int(app.configure_task("shop.pay", lock=lock).defer()) for lock in ("e", "a")
        )
        app.job_manager.cancel_job_by_id(self.ended)
        app.lanes.pause("p")
        app.configure_task("shop.pay", lock="p").defer()
        app.queues.pause("q")
        app.queues.pause(None)
        query("SELECT pause_task('t')")
        app.limits.set("key", concurrency=1)
        self.batch = app.batches.open("import")
        query("WITH old AS (DELETE FROM lane_audit) SELECT")


@pytest.fixture
def scene(app: App, query: Query) -> Scene:
    return Scene(app, query)


def post(client: TestClient, scene: Scene, path: str) -> None:
    end, form, _ = FORMS[path]
    address = (path.partition("/{")[0] + end).format(**vars(scene))
    data = {name: value.format(**vars(scene)) for name, value in form.items()}
    answer = client.post(address, data=data)
    assert answer.status_code == 303, answer.text


def test_each_action_is_tried_here() -> None:
    paths = {action.path for action in EVERY_ACTION if not action.path.endswith("/stop")}
    assert paths == {*FORMS, *BULKS}


@pytest.mark.parametrize("path", FORMS)
def test_an_action_is_recorded(client: TestClient, scene: Scene, query: Query, path: str) -> None:
    post(client, scene, path)
    assert query("SELECT who, operation FROM lane_audit") == [("ana", FORMS[path][2])]


@pytest.mark.parametrize("path", BULKS)
def test_a_bulk_is_recorded(client: TestClient, scene: Scene, query: Query, path: str) -> None:
    address, operation = BULKS[path]
    confirm(client, address)
    rows = query("SELECT who, operation FROM lane_audit ORDER BY id")
    assert rows[-1] == ("ana", operation)
    assert {who for who, _ in rows} == {"ana"}


def test_the_audit_leads_to_jobs_lanes_and_batches(client: TestClient, scene: Scene) -> None:
    for path in ("/jobs/{job_id}/cancel", "/batches/cancel", "/lane/retry-head"):
        post(client, scene, path)
    system = client.get("/system").text
    assert re.search(r'<a href="/system/changes">[^<]*audit', system)
    page = client.get("/system/changes").text
    assert "<h1>Audit</h1>" in page
    for link in (
        f'<a class="lock" href="/lane?lock=a">a</a> <a href="/jobs/{scene.waiting}">',
        f'<a href="/batch?id={scene.batch}">batch {scene.batch}</a>',
        f'<a class="lock" href="/lane?lock=h">h</a> <a href="/jobs/{scene.failed}">',
    ):
        assert link in page


def test_the_page_of_a_job_and_that_of_its_lane_say_who_changed_it(
    client: TestClient, scene: Scene
) -> None:
    post(client, scene, "/jobs/{job_id}/cancel")
    changed = r'id="changes".*?data-label="Who">ana<.*?data-label="What">cancel-job<'
    assert re.search(changed, client.get(f"/jobs/{scene.waiting}").text, re.DOTALL)
    assert re.search(changed, client.get("/lane?lock=a").text, re.DOTALL)
    assert 'id="changes"' not in client.get(f"/jobs/{scene.running}").text
