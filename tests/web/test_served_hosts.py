"""The dashboard served below a prefix by real servers: FastAPI, Starlette, Django and WSGI."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from a2wsgi import ASGIMiddleware, WSGIMiddleware
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from inturn import App
from inturn.web import Access, create_app
from tests.web.crawl import links_of
from tests.web.seed import LIMIT
from tests.web.serving import serve

PREFIX = "/admin/queue"


def in_fastapi(site: Any) -> Any:
    app = FastAPI()
    app.mount(PREFIX, site)
    return app


def in_starlette(site: Any) -> Any:
    return Starlette(routes=[Mount(PREFIX, site)])


def beside_django(site: Any) -> Any:
    """As the asgi.py of docs/dashboard.md."""
    from django.core.asgi import get_asgi_application

    return Starlette(routes=[Mount(PREFIX, site), Mount("", get_asgi_application())])


def in_wsgi(site: Any) -> Any:
    """A WSGI app with the dashboard below a path, served as WSGI servers do."""
    inner = ASGIMiddleware(site)

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        path = environ["PATH_INFO"]
        if not path.startswith(PREFIX):
            start_response("200 OK", [("content-type", "text/plain")])
            return [b"the host"]
        moved = {**environ, "SCRIPT_NAME": PREFIX, "PATH_INFO": path.removeprefix(PREFIX)}
        return inner(moved, start_response)  # type: ignore[arg-type]  # an environ

    return WSGIMiddleware(app)  # type: ignore[arg-type]  # plain types of an environ


HOSTS = [in_fastapi, in_starlette, beside_django, in_wsgi]


@pytest.fixture(params=HOSTS, ids=lambda host: host.__name__)
def host(request: pytest.FixtureRequest, app: App, django: object) -> Iterator[httpx2.Client]:
    site = create_app(app, authorize=lambda _: Access.FULL.named("ana"))
    with (
        serve(request.param(site)) as address,
        httpx2.Client(base_url=address, timeout=LIMIT) as client,
    ):
        yield client


def test_every_link_and_asset_stays_below_the_prefix(app: App, host: httpx2.Client) -> None:
    app.lanes.pause("a/b", reason="x")
    for path in ("/", "/lanes", "/lanes?prefix=a"):
        page = host.get(f"{PREFIX}{path}")
        assert page.status_code == 200, page.text
        links = links_of(page.text)
        assert links
        assert all(link.startswith(f"{PREFIX}/") for link in links), links
        style = page.text.partition('rel="stylesheet" href="')[2].partition('"')[0]
        assert style.startswith(f"{PREFIX}/assets/")
        assert "immutable" in host.get(style).headers["cache-control"]
    assert host.get(f"{PREFIX}/no/such/page").status_code == 404


def test_an_action_comes_back_below_the_prefix(app: App, host: httpx2.Client) -> None:
    answer = host.post(
        f"{PREFIX}/lane/pause?lock=a",
        data={"reason": "x"},
        headers={"origin": str(host.base_url).rstrip("/")},
    )
    assert answer.status_code == 303, answer.text
    assert answer.headers["location"].startswith(f"{PREFIX}/lane?lock=a&")
    assert [each.state for each in app.lanes.list()] == ["paused"]
