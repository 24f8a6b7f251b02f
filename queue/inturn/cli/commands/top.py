"""`queue top`: watch the queue."""

from __future__ import annotations

import shutil
import time
from contextlib import closing, suppress
from datetime import UTC, timedelta
from functools import partial
from textwrap import wrap
from typing import TYPE_CHECKING

import click

from inturn.cli.output.printing import Output, limit_option, output_options
from inturn.cli.settings import Settings, database_options, find_connector
from inturn.cli.values import Seconds
from inturn.errors import DatabaseUnavailable
from inturn.formatting import iso, span, visible

if TYPE_CHECKING:
    from inturn.cli.live.look import Look, Looker
    from inturn.cli.output.screen import Screen


@click.command(
    "top",
    epilog="""\b
Examples:
  queue top
  queue top --interval 10
  queue top --once --json""",
)
@click.option(
    "--interval",
    type=Seconds(positive=True),
    default="2",
    show_default=True,
    help="How long to wait between refreshes.",
)
@click.option("--once", is_flag=True, help="Print one snapshot and exit.")
@limit_option("The maximum number of lanes, queues and workers to show.", most=100, default=20)
@output_options
@database_options
def command(settings: Settings, interval: float, once: bool, limit: int, form: str) -> None:
    """Watch lanes, limits, queues and workers, problems first.

    A stuck lane comes with the reason and the command that unblocks it. q quits, p pauses. With
    --json, or if the output is not a terminal, it prints one snapshot, as with --once. A snapshot
    has no rates, because they need two refreshes.
    """
    from inturn.cli.live.look import Looker
    from inturn.cli.live.picture import print_look
    from inturn.cli.output.screen import is_live, open_screen

    connector = find_connector(settings)
    with closing(Looker(connector, limit)) as looker:
        first = looker.look()  # the first look reports errors like other commands
        if form != "table":
            Output(form).record(vars(first))
            return
        if once or not is_live():
            click.echo(iso(first.at))
            print_look(first, None)
            return
        with suppress(KeyboardInterrupt), open_screen() as screen:  # the usual way to end it
            Top(looker, screen, interval).run(first)


class Top:
    """Shows the latest look and, if the next one fails, the reason."""

    def __init__(self, looker: Looker, screen: Screen, interval: float) -> None:
        self._looker = looker
        self._screen = screen
        self._interval = interval
        self._is_paused = False
        self._problem: str | None = None
        self._looked_at = 0.0

    def run(self, look: Look) -> None:
        """Look repeatedly, until the user presses q."""
        self._looked_at = time.monotonic()
        while True:
            self._draw(look)
            if not self._wait(look):
                return
            try:
                look = self._looker.look()
            except DatabaseUnavailable as error:
                self._problem = str(error)
            else:
                self._problem = None
                self._looked_at = time.monotonic()

    def _wait(self, look: Look) -> bool:
        """Return True when it is time for the next look, or False if there is none."""
        next_at = time.monotonic() + self._interval
        while True:
            key = self._screen.wait(None if self._is_paused else next_at)
            if key is None:
                return True
            if key == "q":
                return False
            if key == "p":
                self._is_paused = not self._is_paused
            self._draw(look)

    def _draw(self, look: Look) -> None:
        from inturn.cli.live.picture import print_look
        from inturn.cli.output.screen import capture

        head = self._head(look)
        page = capture(partial(print_look, look, shutil.get_terminal_size().lines - len(head)))
        self._screen.show("\n".join([*head, page]))

    def _head(self, look: Look) -> list[str]:
        every = "paused" if self._is_paused else f"every {self._interval:g}s"
        lines = [f"{look.at.astimezone(UTC):%H:%M:%SZ}  {every}  q quits, p pauses"]
        if self._problem is not None:
            age = span(timedelta(seconds=time.monotonic() - self._looked_at))
            lines.append(click.style(f"No refresh for {age}, retrying.", fg="red", bold=True))
            lines += wrap(visible(self._problem), shutil.get_terminal_size().columns)
        return lines
