"""A progress bar on standard error, if that is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from inturn.cli.output.terminal import is_coloured

Advance = Callable[[int, int | None], object]


@contextmanager
def show_progress(*, counts: bool) -> Iterator[Advance]:
    """Yield a function that takes what is done, and of how much (None: unknown).

    With `counts`, the bar shows both numbers, and otherwise a percentage.
    """
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskProgressColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True, no_color=not is_coloured(sys.stderr))
    how_far = MofNCompleteColumn() if counts else TaskProgressColumn()
    columns = (BarColumn(), how_far, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, total=total, completed=done)
