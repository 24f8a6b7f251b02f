"""The dashboard below a prefix, in apps that know nothing of it."""

import re

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from inturn import App
from inturn.web import Access, create_app
from inturn.web.gate import Gate
from tests.web.conftest import EMPTY, SAME_ORIGIN

LINK = re.compile(r'(?:href|src|action|data-stream)="([^"#][^"]*)"')


def mount_in_fastapi(site: Gate) -> FastAPI:
    outer = FastAPI()
    outer.mount("/tools/queue", site)
    return outer


def mount_in_starlette(site: Gate) -> Starlette:
    return Starlette(routes=[Mount("/tools", routes=[Mount("/queue", app=site)])])


@pytest.mark.parametrize("mount", [mount_in_fastapi, mount_in_starlette])
def test_below_a_prefix_every_link_and_action_works(app: App, mount: object) -> None:
    app.configure_task("shop.pay", lock="a").defer()
    site = create_app(app, authorize=lambda request: Access.FULL)
    assert callable(mount)
    # Not entered: a mounted app is told nothing of the start.
    client = TestClient(mount(site), headers=SAME_ORIGIN, follow_redirects=False)
    seen = 0
    for path in ("/", "/lanes?prefix=a", "/lane?lock=a", "/jobs/1", "/nothing"):
        page = client.get(f"/tools/queue{path}")
        assert page.status_code == (404 if path == "/nothing" else 200)
        links = [each.replace("&amp;", "&") for each in LINK.findall(page.text)]
        assert links
        assert all(each.startswith("/tools/queue/") for each in links), links
        for link in links:
            if "/assets/" in link:
                assert client.get(link).status_code == 200
                seen += 1
    assert seen > 10
    answer = client.post("/tools/queue/lane/pause?lock=a", data=EMPTY)
    assert answer.headers["location"] == "/tools/queue/lane?lock=a&done=paused"
    assert client.get(answer.headers["location"]).status_code == 200


def test_two_dashboards_in_one_process_do_not_mix(app: App, empty_dsn: str) -> None:
    app.configure_task("shop.pay", lock="only-here").defer()
    outer = Starlette(
        routes=[
            Mount("/one", app=create_app(app, authorize=lambda request: Access.FULL)),
            Mount("/two", app=create_app(App(empty_dsn), authorize=lambda request: Access.FULL)),
        ]
    )
    client = TestClient(outer)
    assert "only-here" in client.get("/one/lanes?prefix=only").text
    assert "queue migrate" in client.get("/two/").text


def test_the_health_check_asks_no_database() -> None:
    nowhere = App("postgresql://nobody@127.0.0.1:1/x")
    assert TestClient(create_app(nowhere)).get("/-/health").text == "ok\n"


def test_a_page_that_does_not_exist_leads_back(client: TestClient) -> None:
    ids = ("999999", str(2**70), "9" * 5000, "x")
    for path in ("/nothing", *(f"/jobs/{id}" for id in ids), "/lane", "/lane?lock=nobody"):
        answer = client.get(path)
        assert answer.status_code == 404, path
        assert 'class="button"' in answer.text
