"""`queue demo`: write four alphabets without a lock, then with one lock each."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

import click

from inturn.cli.processes.web_server import check_packages, serve_beside
from inturn.cli.settings import verbose_option
from inturn.errors import InturnError, MissingExtra

if TYPE_CHECKING:
    from rich.console import Console

    from inturn.cli.demo.page import DemoPage

FRAME_SECONDS = 0.05


@click.command(
    "demo",
    epilog="""\b
Examples:
  queue demo
  queue demo --web   also leave stuck lanes to free in a browser""",
)
@click.option(
    "--web",
    "has_web",
    is_flag=True,
    help="Serve the dashboard, with stuck lanes to play with, until Ctrl-C.",
)
@verbose_option
def command(has_web: bool) -> None:
    """Watch locks keep four alphabets in order, even when a worker is killed.

    Takes about ten seconds, on a temporary PostgreSQL server. With --web, four lanes stay: halted,
    waiting for a retry, paused, and behind a job that hangs.
    """
    from rich.console import Console
    from rich.live import Live

    from inturn.cli.demo import picture as drawing
    from inturn.cli.demo.page import DemoPage

    _check_extras(has_web=has_web)
    console = Console(highlight=False)
    pages = [DemoPage(1, has_locks=False), DemoPage(2, has_locks=True, has_a_death=True)]
    with ExitStack() as beside:  # the server and the dashboard, until the end
        open_server = partial(_open_server, beside, console, has_web=has_web)
        if console.is_terminal and not console.is_dumb_terminal:
            starting = drawing.picture(pages, console, drawing.STARTING)
            with Live(starting, console=console, auto_refresh=False) as live:
                dsn, link = open_server()
                _play(
                    dsn,
                    pages,
                    draw=lambda: live.update(drawing.picture(pages, console), refresh=True),
                )
        else:
            click.echo(f"{drawing.INTRODUCTION}\n{drawing.STARTING}")
            dsn, link = open_server()
            _play(dsn, pages, done=lambda page: click.echo(drawing.plain(page)))
        conclusion = drawing.conclusion(pages)
        if not pages[1].in_order:  # checked, not assumed
            raise InturnError(f"{conclusion} This is a bug in inturn. Please report it.")
        console.print(conclusion, "", drawing.next_steps(), sep="\n", soft_wrap=True)
        if has_web:
            _let_play(dsn, link, drawing.find_script())


def _let_play(dsn: str, link: str | None, script: str) -> None:
    from inturn.cli.demo.playground import describe_playground, open_playground

    with suppress(KeyboardInterrupt), open_playground(dsn):
        click.echo(f"\n{describe_playground(dsn, script)}")
        click.echo(f"The dashboard runs until Ctrl-C: {link}")
        signal.pause()


def _open_server(beside: ExitStack, console: Console, *, has_web: bool) -> tuple[str, str | None]:
    """Start PostgreSQL and, if asked for, the dashboard. Return the address of each."""
    from inturn.embedded import Server
    from inturn.schema.migrate import migrate

    dsn = beside.enter_context(Server()).dsn()
    migrate(dsn)
    if not has_web:
        return dsn, None
    link = beside.enter_context(serve_beside(dsn))
    console.print(f"The dashboard: {link}", soft_wrap=True)
    return dsn, link


def _check_extras(*, has_web: bool) -> None:
    """Raise an error, before printing anything, if a package is missing."""
    from inturn.embedded.binaries import find_binaries

    try:
        import_module("inturn.schema.migrate")
    except MissingExtra:
        raise MissingExtra("The demo", "dev") from None
    find_binaries()
    if has_web:
        check_packages()


def _play(
    dsn: str,
    pages: list[DemoPage],
    draw: Callable[[], None] = lambda: None,
    done: Callable[[DemoPage], None] = lambda _: None,
) -> None:
    """Run both rounds. Call `draw` repeatedly, and `done` after each round."""
    import anyio

    from inturn import App
    from inturn.cli.demo.page import ROUND_SECONDS, TABLE, start_workers

    async def rounds() -> None:
        async with anyio.create_task_group() as beside, app.open_async():
            beside.start_soon(redraw)
            async with start_workers(app, dsn) as workers:
                for page in pages:
                    await workers.fill(page, app)
                    done(page)
            beside.cancel_scope.cancel()

    async def redraw() -> None:
        while True:
            draw()
            await anyio.sleep(FRAME_SECONDS)

    app = App(dsn)
    with app.connector.connect() as connection:
        connection.execute(TABLE)
    try:
        anyio.run(rounds)
    except* TimeoutError:
        count = sum(page.written for page in pages)
        raise InturnError(
            f"The demo timed out after {ROUND_SECONDS} s, with {count} of 208 letters written."
        ) from None
    draw()
