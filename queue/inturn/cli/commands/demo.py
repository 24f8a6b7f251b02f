"""`queue demo`: run the alphabet without a lock, then with one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from inturn.cli.settings import verbose_option
from inturn.errors import InturnError

if TYPE_CHECKING:
    from inturn.cli.demo_page import Page

FRAME_SECONDS = 0.05


@click.command("demo", epilog="Example: queue demo")
@verbose_option
def command() -> None:
    """Watch a lock keep the alphabet in order.

    It takes ten seconds. It starts a PostgreSQL server of its own, and removes it at the end.
    """
    from rich.console import Console
    from rich.live import Live

    from inturn.cli import demo_picture as drawing
    from inturn.cli.demo_page import Page

    console = Console(highlight=False)
    pages = [Page(lock=None), Page(lock="alphabet")]
    if console.is_terminal and not console.is_dumb_terminal:
        with Live(
            drawing.picture(pages, console, drawing.STARTING), console=console, auto_refresh=False
        ) as live:
            _play(pages, draw=lambda: live.update(drawing.picture(pages, console), refresh=True))
    else:
        click.echo(f"{drawing.INTRODUCTION}\n{drawing.STARTING}")
        _play(pages, done=lambda page: click.echo(drawing.plain(page)))
    if not pages[1].in_order:  # checked, not assumed
        raise InturnError(f"{drawing.conclusion(pages)} This is a bug in inturn. Please report it.")
    console.print(drawing.conclusion(pages), "", drawing.NEXT, sep="\n")


def _play(
    pages: list[Page],
    draw: Callable[[], None] = lambda: None,
    done: Callable[[Page], None] = lambda _: None,
) -> None:
    """Run both rounds. Call `draw` again and again, and `done` after each round."""
    import anyio

    from inturn.cli.demo_page import ROUND_SECONDS, fill
    from inturn.embedded import Server
    from inturn.schema.migrate import migrate

    async def rounds(dsn: str) -> None:
        async with anyio.create_task_group() as beside:
            beside.start_soon(redraw)
            for page in pages:
                await fill(page, dsn)
                done(page)
            beside.cancel_scope.cancel()

    async def redraw() -> None:
        while True:
            draw()
            await anyio.sleep(FRAME_SECONDS)

    # A round ends by cancelling its workers. psycopg would log that in the middle of the picture.
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    with Server() as server:
        migrate(server.dsn())
        try:
            anyio.run(rounds, server.dsn())
        except* TimeoutError:
            count = sum(len(page.letters) for page in pages)
            raise InturnError(
                f"The demo timed out after {ROUND_SECONDS} s, with {count} of 52 letters written."
            ) from None
    draw()
