"""The dashboard as an ASGI app."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable
from typing import Any

import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from inturn.app import App
from inturn.operations.reading.situation import get_situation
from inturn.web.access import Access, Authorize, SecretLink
from inturn.web.actions import ACTIONS, Action, Refused, read_form, run_action
from inturn.web.bulk.actions import BULK_ACTIONS
from inturn.web.bulk.runs import BulkRuns
from inturn.web.gate import Gate
from inturn.web.live import Live, LiveResponse
from inturn.web.page import SECTIONS, Links, NotThere, Page, View
from inturn.web.pages import PAGES
from inturn.web.queue_actions import QUEUE_ACTIONS
from inturn.web.reading import BADGE_SECONDS, PAGE_SECONDS, Reading
from inturn.web.redaction import Redact
from inturn.web.rendering import ASSETS, make_environment
from inturn.web.results import describe_result

logger = logging.getLogger(__name__)
EVERY_ACTION = (*ACTIONS, *BULK_ACTIONS, *QUEUE_ACTIONS)
HINT = "The dashboard is not configured to admit you."
REFRESH = "hx-request"  # the header of dashboard.js when it refreshes its page
TITLES = {404: "Page not found", 429: "Not now"}
Handler = Callable[[Request, Access], Awaitable[Response]]


@dataclass
class Site:
    """One dashboard: its queue, and how it is read."""

    app: App
    reading: Reading
    redact: Redact | None


class _LoggedLink(SecretLink):
    """A link for an app without `authorize`. Only the log shows it."""

    _is_logged = False

    def __call__(self, request: Request) -> Access:
        access = super().__call__(request)
        if not access.sees and not self._is_logged:
            self._is_logged = True
            path = request.scope.get("root_path", "")
            logger.warning("dashboard.link: open %s/%s to see the dashboard", path, self.query)
        return access


class Assets(StaticFiles):
    """Files whose addresses change with their contents, so that browsers may cache them."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        response = super().file_response(*args, **options)
        response.headers["cache-control"] = "public, max-age=31536000, immutable"
        return response

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return the file behind the version in its address."""
        _, _, name = path.partition("/")
        return await super().get_response(name, scope)


def create_app(
    app: App,
    *,
    authorize: Authorize | None = None,
    read_only: bool = False,
    redact: Redact | None = None,
) -> Gate:
    """Return the dashboard of a queue, an ASGI app to serve or to mount below any path.

        app.mount("/queue", create_app(queue, authorize=decide))

    authorize: receives each request and returns an `Access`; it may be async. Without it, a link
    with a secret admits people; the first request without it logs the link.
    read_only: offer no actions, whatever `authorize` returns.
    redact: receives a task's name and its arguments, and returns those to show. Values whose names
    look like secrets are always hidden.

    It connects at the first request for a page, so it needs no lifespan.
    """
    who = _LoggedLink() if authorize is None else authorize
    if len(app.connector.homes) > 1:
        return _create_over_cells(app, who, read_only=read_only, redact=redact)
    site, live = Site(app, Reading(app.connector), redact), Live(app.connector)
    enter = partial(guard, who, read_only)
    pages = [
        Route(page.path, enter(partial(show_page, site, page)), methods=["GET"]) for page in PAGES
    ]
    actions = [
        Route(action.path, enter(partial(take_action, site, action)), methods=["POST"])
        for action in EVERY_ACTION
    ]
    watch = Route("/live", enter(partial(show_live, live)))

    @asynccontextmanager
    async def close_at_end(_: Starlette) -> AsyncIterator[None]:
        yield
        made.state.runs.close()
        site.reading.close()

    made = Starlette(
        routes=[*_make_open_routes(), watch, *pages, *actions],
        lifespan=close_at_end,
        exception_handlers={HTTPException: show_error},
    )
    made.router.redirect_slashes = False
    made.state.runs = BulkRuns(app.connector)
    return Gate(made)


def _make_open_routes() -> list[BaseRoute]:
    """Return the routes that need no access."""
    return [Mount("/assets", Assets(directory=ASSETS)), Route("/-/health", answer_health)]


def _create_over_cells(
    app: App, authorize: Authorize, *, read_only: bool, redact: Redact | None
) -> Gate:
    """Return a page about all cells, with each cell's own dashboard below it."""
    from inturn.web.cells import find_cell, show_cells

    cells = [Reading(home) for home in app.connector.homes]
    make_own = partial(create_app, authorize=authorize, read_only=read_only, redact=redact)

    def answer(read: Callable[..., Response]) -> Callable[[Request], Awaitable[Response]]:
        async def in_thread(request: Request, _: Access) -> Response:
            return await anyio.to_thread.run_sync(read, cells, request)

        return guard(authorize, read_only, in_thread)

    routes = [
        *_make_open_routes(),
        Route("/", answer(show_cells)),
        Route("/find", answer(find_cell)),
        *[Mount(f"/cell/{cell}", make_own(app.cell(cell))) for cell in range(len(cells))],
    ]
    return Gate(Starlette(routes=routes, exception_handlers={HTTPException: show_error}))


def guard(
    authorize: Authorize, read_only: bool, handler: Handler
) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that asks `authorize` before anything else."""

    async def answer(request: Request) -> Response:
        if isinstance(authorize, SecretLink) and (cookie := authorize.admit(request)):
            return cookie
        found = authorize(request)
        access = await found if isawaitable(found) else found
        if read_only:
            access = access.without_changes()
        if not access.sees:
            challenge = getattr(authorize, "challenge", None)
            return render_message(
                request,
                401 if challenge else 403,
                "You may not see this page",
                f"{getattr(authorize, 'hint', HINT)} See docs/dashboard.md.",
                {"www-authenticate": challenge} if challenge else None,
            )
        return await handler(request, access)

    return answer


async def answer_health(request: Request) -> Response:
    """Report that the process is alive, without the database."""
    return Response("ok\n", media_type="text/plain")


async def show_live(live: Live, request: Request, access: Access) -> Response:
    return LiveResponse(live)


async def show_page(site: Site, page: Page, request: Request, access: Access) -> Response:
    return await anyio.to_thread.run_sync(_read_page, site, page, request, access)


async def take_action(site: Site, action: Action, request: Request, access: Access) -> Response:
    refuse = partial(render_message, request, schema=site.reading.schema)
    if not access.may(action.permission):
        return refuse(403, "You may not do this", f"You need the right to {action.permission}.")
    form = await read_form(request)
    try:
        return await anyio.to_thread.run_sync(run_action, action, site.app, request, access, form)
    except Refused as refused:
        return refuse(409, refused.title, str(refused), back=refused.back)


def show_error(request: Request, error: Exception) -> Response:
    """Return a page for an address that does not exist."""
    assert isinstance(error, HTTPException)  # it handles no other
    status = error.status_code
    text = "Use the navigation to find it." if status == 404 else str(error)
    title = TITLES.get(status, "Request failed")
    return render_message(request, status, title, text, dict(error.headers or {}))


def render_message(
    request: Request,
    status: int,
    title: str,
    detail: str,
    headers: dict[str, str] | None = None,
    back: str = "/",
    schema: str | None = None,
) -> Response:
    """Return a page with a message. Without access to pages, it does not show the schema."""
    html = Links(request).render(
        "message.html", title=title, detail=detail, back=back, sections=SECTIONS, schema=schema
    )
    return HTMLResponse(html, status, headers)


def _read_page(site: Site, page: Page, request: Request, access: Access) -> Response:
    with site.reading.open() as reader:
        seconds = PAGE_SECONDS if page.section == "overview" else BADGE_SECONDS
        header = reader.panel(lambda reader: reader.run(get_situation(reader.schema)), seconds)
        view = View(request, access, reader, header, site.redact)
        try:
            found = page.read(view)
        except NotThere as missing:
            if REFRESH in request.headers:  # the page stays; dashboard.js reports that it is gone
                return Response(status_code=204)
            back = missing.back or next(each.path for each in SECTIONS if each.name == page.section)
            return render_message(
                request, 404, "Not found", str(missing), back=back, schema=reader.schema
            )
        environment = make_environment(site.app.program, site.app.connector.number)
        html = environment.get_template(page.template).render(
            access=access,
            url=view.url,
            now=view.now,
            header=header,
            page=page,
            sections=SECTIONS,
            result=describe_result(request.query_params),
            schema=reader.schema,
            **found,
        )
        return HTMLResponse(html, headers={"server-timing": f'queries;desc="{reader.queries}"'})
