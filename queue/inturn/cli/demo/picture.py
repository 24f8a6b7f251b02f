"""The output of the demo: two live pages on a terminal, plain lines elsewhere."""

import os
import shutil
import sys
from pathlib import Path
from string import ascii_lowercase

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from inturn.cli.demo.page import ROWS, WORKERS, DemoPage

WIDTH = 39  # two pages fit side by side in 80 columns

INTRODUCTION = (
    "Four alphabets. Each letter is a job: it sleeps for a short random time, then\n"
    "writes its letter. Four worker processes run them, first without locks, then\n"
    "with a lock for each alphabet. Then one worker is killed with kill -9."
)
STARTING = "Starting a PostgreSQL and four workers for this demo ..."


def picture(pages: list[DemoPage], console: Console, remark: str = "") -> RenderableType:
    blank = "." if console.options.ascii_only else "·"
    mark = "Capital" if console.no_color else "Red"
    panels = [_panel(page, blank, console.no_color) for page in pages]
    return Group(
        Text(f"{INTRODUCTION}\n{mark}: out of place."),
        "",
        Columns(panels, padding=(0, 1)),
        Text(remark or _remark(pages), style="dim"),
    )


def conclusion(pages: list[DemoPage]) -> str:
    free, locked = pages
    if not locked.in_order:
        return "An alphabet is not in order although its jobs shared a lock."
    text = (
        'The same jobs and workers, but then with write.configure(lock="order:1").\n'
        "Jobs that share a lock run one at a time, in the order in which you deferred\n"
        "them. Jobs of different locks run in parallel. "
    )
    if locked.killed:
        text += f"{locked.killed.capitalize()} died in mid-letter\n"
        text += "and another took over: no letter is lost, and none is written twice."
    if free.in_order:
        return f"By chance the first alphabets are in order too. Run the demo again.\n{text}"
    return text


def next_steps() -> str:
    """Return the next commands, as you can type them in this folder."""
    script = find_script()
    steps = {
        f"{script} dev": "a PostgreSQL server for experiments",
        f"{script} --help": "all commands",
    }
    readme = Path("README.md")
    if readme.is_file() and readme.read_text(encoding="utf-8", errors="replace").startswith(
        "# inturn\n"
    ):
        steps["README.md"] = "your first task in ten lines"
    width = max(map(len, steps))
    lines = [f"{what:<{width}}  {meaning}" for what, meaning in steps.items()]
    return "Next:  " + "\n       ".join(lines)


def plain(page: DemoPage) -> str:
    rows = [f"  order:{row}  {''.join(letters)}" for row, letters in page.rows.items()]
    death = f", {page.killed} was killed" if page.killed else ""
    return "\n".join([f"{_title(page)}: {_verdict(page)}, {page.seconds:.1f} s{death}", *rows])


def find_script() -> str:
    """Return the shortest name by which the shell finds the script of this interpreter."""
    script = Path(sys.executable).with_name("queue")
    found = shutil.which("queue")
    if found is not None and Path(found).absolute() == script:
        return "queue"
    if not script.exists():
        return "python -m inturn"
    near = os.path.relpath(script)
    return str(script) if near.startswith("..") else near


def _remark(pages: list[DemoPage]) -> str:
    killed = next((page.killed for page in pages if page.killed and not page.ended), None)
    return f"{killed} was killed with kill -9. Another worker takes over its job." if killed else ""


def _panel(page: DemoPage, blank: str, no_color: bool) -> Panel:
    body = Group(_letters(page, blank, no_color), "", _status(page, blank))
    if page.ended:
        style = "green" if page.in_order else "red"
    else:
        style = "dim" if page.began is None else "default"
    return Panel(
        body,
        title=_title(page),
        title_align="left",
        width=WIDTH,
        padding=(1, 1),
        border_style=style,
    )


def _title(page: DemoPage) -> str:
    return "with four locks" if page.has_locks else "without a lock"


def _letters(page: DemoPage, blank: str, no_color: bool) -> Text:
    text = Text()
    for row in ROWS:
        text.append(f"order:{row} ")
        letters = page.rows[row]
        for index, place in enumerate(ascii_lowercase):
            letter = letters[index] if index < len(letters) else None
            is_misplaced = letter is not None and letter != place
            style = "dim" if letter is None else "bold red" if is_misplaced else "green"
            shown = letter or blank
            text.append(shown.upper() if is_misplaced and no_color else shown, style)
        text.append("" if row == ROWS[-1] else "\n")
    return text


def _status(page: DemoPage, blank: str) -> Text:
    if page.ended:
        return Text(
            f"{_verdict(page):<24}{page.seconds:4.1f} s",
            style="bold green" if page.in_order else "bold red",
        )
    hands = " ".join(
        "†" if worker == page.killed and blank == "·"
        else "x" if worker == page.killed
        else "".join(page.holding.get(worker, {}).values()) or blank
        for worker in WORKERS
    )  # fmt: skip
    return Text(
        f"workers: {hands:<15}{page.seconds:4.1f} s", style="dim" if page.began is None else ""
    )


def _verdict(page: DemoPage) -> str:
    return "in order" if page.in_order else f"{page.misplaced} out of place"
