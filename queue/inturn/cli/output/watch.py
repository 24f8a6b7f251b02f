"""`--watch`: print a list repeatedly."""

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial, wraps
from typing import Any, TypeVar

import click

from inturn.cli.output.exit_status import NotFound, Unavailable, print_error
from inturn.cli.values import Seconds
from inturn.errors import DatabaseUnavailable
from inturn.formatting import span, visible

F = TypeVar("F", bound=Callable[..., Any])
INTERVAL = "2"


def watch_option(command: F) -> F:
    @wraps(command)
    def watched(*given: Any, watch: float | None, form: str, **options: Any) -> None:
        once = partial(command, *given, form=form, **options)
        if watch is None:
            once()
            return
        with suppress(KeyboardInterrupt):  # the usual way to end it
            _repeat(partial(_list_cells, once), watch, is_table=form == "table")

    add = click.option(
        "--watch",
        is_flag=False,
        flag_value=INTERVAL,
        type=Seconds(positive=True),
        metavar="[SECONDS]",
        help=f"Refresh every SECONDS until Ctrl-C.  [default: {INTERVAL}]",
    )
    return add(watched)  # type: ignore[return-value]  # the same parameters plus one


def _list_cells(once: Callable[[], object]) -> None:
    """Print the list. If some cells do not answer, it says so, and has those of the others."""
    with suppress(SystemExit):
        once()


def _repeat(once: Callable[[], object], seconds: float, *, is_table: bool) -> None:
    from inturn.cli.output.screen import is_live

    if is_live():
        _repeat_in_place(once, seconds)
        return
    once()
    while True:
        time.sleep(seconds)
        if is_table:
            click.echo()
        _repeat_or_report(once)


def _repeat_in_place(once: Callable[[], object], seconds: float) -> None:
    from inturn.cli.output.screen import capture, open_screen

    page = capture(once)  # errors are reported as without --watch
    with open_screen() as screen:
        while True:
            text = f"{_head(seconds)}\n\n{page}"
            until = time.monotonic() + seconds
            screen.show(text)
            while (key := screen.wait(until)) is not None:
                if key == "q":
                    return
                screen.show(text)
            page = capture(partial(_repeat_or_report, once))


def _head(seconds: float) -> str:
    every = span(timedelta(seconds=seconds)) if seconds >= 1 else f"{seconds:g}s"
    return f"{datetime.now(UTC):%H:%M:%SZ}  every {every}  q quits"


def _repeat_or_report(once: Callable[[], object]) -> None:
    """Print the list, or the error that prevents it."""
    try:
        once()
    except (DatabaseUnavailable, Unavailable, NotFound) as error:
        print_error(f"{visible(str(error))} (retrying)")
