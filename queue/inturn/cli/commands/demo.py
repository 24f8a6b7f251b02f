"""See it work: the alphabet, without and with a lock."""

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
    """See a lock keep the alphabet in order.

    Takes ten seconds, on a PostgreSQL that is started for it and gone afterwards.
    """
    from rich.console import Console
    from rich.live import Live

    from inturn.cli import demo_picture as shown
    from inturn.cli.demo_page import Page

    console = Console(highlight=False)
    pages = [Page(lock=None), Page(lock="alphabet")]
    if console.is_terminal and not console.is_dumb_terminal:
        with Live(
            shown.picture(pages, console, shown.STARTING), console=console, auto_refresh=False
        ) as live:
            _play(pages, draw=lambda: live.update(shown.picture(pages, console), refresh=True))
    else:
        click.echo(f"{shown.INTRODUCTION}\n{shown.STARTING}")
        _play(pages, done=lambda page: click.echo(shown.plain(page)))
    if not pages[1].in_order:  # checked, not assumed
        raise InturnError(f"{shown.conclusion(pages)} That is a bug of inturn, please report it.")
    console.print(shown.conclusion(pages), "", shown.NEXT, sep="\n")


def _play(
    pages: list[Page],
    draw: Callable[[], None] = lambda: None,
    done: Callable[[Page], None] = lambda _: None,
) -> None:
    """Both rounds, on a server of their own. `draw` is called over and over, `done` after each round."""
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

    # A round ends by cancelling its workers, which psycopg would remark in the middle of the picture.
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    with Server() as server:
        migrate(server.dsn())
        try:
            anyio.run(rounds, server.dsn())
        except* TimeoutError:
            count = sum(len(page.letters) for page in pages)
            raise InturnError(
                f"The workers wrote {count} of 52 letters, then nothing for {ROUND_SECONDS} s."
            ) from None
    draw()
