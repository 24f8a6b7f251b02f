"""The output of the demo: two pages that fill up on a terminal, plain lines elsewhere."""

from string import ascii_lowercase

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from inturn.cli.demo_page import WORKERS, Page

ROW = 13  # letters
WIDTH = 37  # two pages fit side by side into 80 columns, and one holds a row and its margins

INTRODUCTION = (
    "26 jobs, one per letter: each sleeps for a short random time, then writes its letter.\n"
    "Four workers run them, first without a lock, then with one."
)
STARTING = "Starting a PostgreSQL for this demo ..."
NEXT = (
    "Next:  queue dev   a PostgreSQL server to try things on, with its data in .inturn\n"
    "       README.md   your first task in ten lines"
)


def picture(pages: list[Page], console: Console, remark: str = "") -> RenderableType:
    blank = "." if console.options.ascii_only else "·"
    panels = [_panel(page, blank) for page in pages]
    return Group(
        Text(f"{INTRODUCTION} Red: out of place."),
        "",
        Columns(panels, padding=(0, 1)),
        Text(remark, style="dim"),
    )


def conclusion(pages: list[Page]) -> str:
    """Return the conclusion of the demo."""
    free, locked = pages
    if not locked.in_order:
        return "The second alphabet is not in order although its jobs shared a lock."
    text = (
        f'Same jobs, same workers, but the second time write.configure(lock="{locked.lock}").\n'
        "Jobs that share a lock run one at a time, in the order in which you deferred them."
    )
    if free.in_order:
        return (
            "By chance the first alphabet is in order too. Run the demo again to see a usual one."
            f"\n{text}"
        )
    return text


def plain(page: Page) -> str:
    letters = " ".join(page.letters)
    return f"{_title(page) + ':':<22} {letters}   {_verdict(page)}, {page.seconds:.1f} s"


def _panel(page: Page, blank: str) -> Panel:
    status = _status(page, blank)
    body = Group(_letters(page, blank), "", status)
    style = (
        "dim"
        if page.began is None
        else "green"
        if page.in_order
        else "red"
        if page.ended
        else "default"
    )
    return Panel(
        body,
        title=_title(page),
        title_align="left",
        width=WIDTH,
        padding=(1, 5),
        border_style=style,
    )


def _title(page: Page) -> str:
    return "without a lock" if page.lock is None else f'with lock="{page.lock}"'


def _letters(page: Page, blank: str) -> Text:
    text = Text()
    for index, place in enumerate(ascii_lowercase):
        letter = page.letters[index] if index < len(page.letters) else None
        style = "dim" if letter is None else "green" if letter == place else "bold red"
        text.append(letter or blank, style)
        text.append("\n" if index % ROW == ROW - 1 and index < len(ascii_lowercase) - 1 else " ")
    return text


def _status(page: Page, blank: str) -> Text:
    if page.ended:
        return Text(
            f"{_verdict(page):<19}{page.seconds:4.1f} s",
            style="bold green" if page.in_order else "bold red",
        )
    hands = " ".join(page.holding.get(worker, blank) for worker in WORKERS)
    return Text(
        f"workers: {hands:<10}{page.seconds:4.1f} s", style="dim" if page.began is None else ""
    )


def _verdict(page: Page) -> str:
    return "in order" if page.in_order else f"{page.misplaced} out of place"
