"""What a login sees that may only look: docs/dashboard.md names the pages."""

import pytest
from psycopg.conninfo import make_conninfo
from starlette.testclient import TestClient

from inturn import App
from inturn.web import Access, create_app
from inturn.web.pages import PAGES
from tests.roles import LOGINS, grant_roles
from tests.web.conftest import SAME_ORIGIN

JOB = "/jobs/{job_id}"
LACKING = {"/", "/lanes", "/lane", "/jobs", JOB}  # panels that the monitor's rights do not reach
WITHOUT_ADDRESS = {"/bulk", "/bulk/lanes", "/bulk/run", "/bulk/lanes/run"}  # they show a choice


@pytest.mark.fresh_database
@pytest.mark.parametrize(("role", "lacking"), [("monitor", LACKING), ("operator", set())])
def test_a_role_sees_the_pages_that_the_guide_names(
    app: App, dsn: str, role: str, lacking: set[str]
) -> None:
    app.lanes.pause("a", reason="x")
    job = int(app.configure_task("t", lock="a", queue="q").defer(secret="s"))
    grant_roles(dsn)
    addresses = {
        "/lane": "/lane?lock=a",
        JOB: f"/jobs/{job}",
        "/queue": "/queue?name=q",
        "/task": "/task?name=t",
    }
    pages = {page.path for page in PAGES} - WITHOUT_ADDRESS - {"/batch"}
    found: dict[str, bool] = {}
    with App(make_conninfo(dsn, user=LOGINS[role])).open() as viewer:
        site = create_app(viewer, authorize=lambda _: Access.READ_ONLY)
        with TestClient(site, headers=SAME_ORIGIN, follow_redirects=False) as client:
            for path in pages:
                answer = client.get(addresses.get(path, path))
                assert answer.status_code == 200, (path, answer.text[-600:])
                found[path] = "The dashboard&#39;s login may not see this" in answer.text
                assert found[path] == ("permission denied" in answer.text)
                assert "cannot be reached" not in answer.text
    assert {path for path, lacks in found.items() if lacks} == lacking
