"""Record `queue demo` as an animated picture, docs/images/demo.svg: `make recording`.

What one real run writes to a terminal, at the times at which it did so. Each run of characters that
appear and vanish together is one text of the picture, which an animation in CSS shows and hides.
"""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import tempfile
import termios
import time
from collections import defaultdict
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

from tests.cli.calling import SCRIPT

FILE = Path(__file__).parents[2] / "docs" / "images" / "demo.svg"
PROMPT = "$ queue demo"
COLUMNS, ROWS = 80, 40
FRAME = 0.1  # seconds, at least
PAUSE = 0.02  # a frame of the demo is written at once
HOLD = 6  # seconds for the last frame
WIDTH, HEIGHT, MARGIN = 8.4, 17, 16  # of a character, and around all
STYLES = {"0": "", "1": "b", "2": "d", "31": "r", "32": "g", "39": ""}
TOKEN = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n]+)")
# A window of its own colour can be read on a light page and on a dark one.
CSS = """\
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre;fill:#e6edf3}
.g{fill:#3fb950}.r{fill:#ff7b72}.d{fill:#8b949e}.b{font-weight:bold}.h{opacity:0}"""

Cell = tuple[str, str]  # a character and its style
Lines = tuple[tuple[Cell, ...], ...]


class Frame(NamedTuple):
    """What the terminal shows from a time on."""

    at: float
    lines: Lines


class Shown(NamedTuple):
    """Characters side by side that appear in one frame and vanish in another."""

    row: int
    column: int
    text: str
    style: str


class Screen:
    """A terminal that knows only what the demo uses, and refuses everything else."""

    def __init__(self) -> None:
        self._lines: dict[int, dict[int, Cell]] = defaultdict(dict)
        self._row = self._column = 0
        self._style = ""

    def write(self, text: str) -> None:
        end = 0
        for token in TOKEN.finditer(text):
            if token.start() != end:
                break
            end = token.end()
            parameters, command, back, down, plain = token.groups()
            if command:
                self._obey(parameters, command)
            elif back:
                self._column = 0
            elif down:
                self._row += 1
            else:
                for char in plain:
                    self._lines[self._row][self._column] = (char, self._style)
                    self._column += 1
        if end != len(text):
            raise ValueError(f"not known: {text[end : end + 20]!r}")

    def _obey(self, parameters: str, command: str) -> None:
        if command == "m":
            styles = [STYLES[number] for number in parameters.split(";")]
            self._style = " ".join(filter(None, styles))
        elif (parameters, command) == ("2", "K"):
            self._lines[self._row].clear()
        elif command == "A":
            self._row -= int(parameters)
        elif parameters != "?25":  # the cursor, which the picture leaves out
            raise ValueError(f"not known: {parameters}{command}")

    def lines(self) -> Lines:
        return tuple(
            tuple(
                self._lines[row].get(column, (" ", ""))
                for column in range(max(self._lines[row], default=-1) + 1)
            )
            for row in range(max(self._lines, default=-1) + 1)
        )


def run_demo() -> Iterator[tuple[float, str]]:
    """Yield what the demo writes to a terminal, and when. Text in one piece was written at once."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {
        **{name: value for name, value in os.environ.items() if name != "NO_COLOR"},
        "PATH": f"{SCRIPT.parent}:{os.environ['PATH']}",
        "TERM": "xterm-256color",
    }
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        process = subprocess.Popen(
            [SCRIPT, "demo"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder,
            env=environment,
        )  # fmt: skip
        os.close(theirs)
        written = b""
        while True:
            if written and not select.select([ours], [], [], PAUSE)[0]:
                yield time.monotonic() - began, written.decode()
                written = b""
            try:
                written += os.read(ours, 65536)
            except OSError:  # Linux, when the other side is closed
                break
        yield time.monotonic() - began, written.decode()
        os.close(ours)
        if process.wait() != 0:
            raise RuntimeError("the demo failed")


def take_frames(pieces: Iterator[tuple[float, str]]) -> list[Frame]:
    """Return what the screen shows, at most every tenth of a second, and at the end."""
    screen = Screen()
    screen.write(f"{PROMPT}\r\n")
    frames = [Frame(0.0, screen.lines())]
    for at, text in pieces:
        screen.write(text)
        if at - frames[-1].at < FRAME and len(frames) > 1:
            frames[-1] = Frame(frames[-1].at, screen.lines())
        else:
            frames.append(Frame(at, screen.lines()))
    return frames


def find_runs(frames: list[Frame]) -> dict[tuple[int, int], list[Shown]]:
    """Return the characters by the frames in which they appear and vanish."""
    runs: dict[tuple[int, int], list[Shown]] = defaultdict(list)
    for row in range(max(len(frame.lines) for frame in frames)):
        for column in range(COLUMNS):
            cells = [look_up(frame.lines, row, column) for frame in frames]
            starts = [n for n, cell in enumerate(cells) if n == 0 or cell != cells[n - 1]]
            for start, end in zip(starts, [*starts[1:], len(frames)], strict=True):
                if cells[start][0] != " ":
                    append(runs[start, end], Shown(row, column, *cells[start]))
    return runs


def look_up(lines: Lines, row: int, column: int) -> Cell:
    return lines[row][column] if row < len(lines) and column < len(lines[row]) else (" ", "")


def append(shown: list[Shown], new: Shown) -> None:
    """Append a character, to the text before it if that is at most a space away."""
    last = shown[-1] if shown else None
    if last and (last.row, last.style) == (new.row, new.style):
        gap = new.column - last.column - len(last.text)
        if gap <= 1:
            shown[-1] = last._replace(text=last.text + " " * gap + new.text)
            return
    shown.append(new)


def draw(frames: list[Frame]) -> str:
    """Return the picture. Without its animations it shows the last frame."""
    rules, groups = [], []
    for number, ((start, end), shown) in enumerate(find_runs(frames).items()):
        texts = "".join(map(draw_text, shown))
        if (start, end) == (0, len(frames)):
            groups.append(texts)
            continue
        rules.append(animate(f"k{number}", frames, start, end))
        hidden = "" if end == len(frames) else ' class="h"'
        groups.append(f'<g id="k{number}"{hidden}>{texts}</g>')
    width = COLUMNS * WIDTH + 2 * MARGIN
    height = len(frames[-1].lines) * HEIGHT + 2 * MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">',
            "<title>A recording of queue demo in a terminal</title>",
            f"<style>{CSS}",
            "@media (prefers-reduced-motion:no-preference){"
            f"g{{animation:{duration(frames):.1f}s step-end infinite}}",
            *rules,
            "}</style>",
            '<rect width="100%" height="100%" rx="8" fill="#0d1117"/>',
            *groups,
            "</svg>\n",
        ]
    )


def duration(frames: list[Frame]) -> float:
    return frames[-1].at + HOLD


def animate(name: str, frames: list[Frame], start: int, end: int) -> str:
    """Return the rule that shows a group from one frame until another."""
    total = duration(frames)
    steps = f"0%{{opacity:{int(start == 0)}}}"
    if start > 0:
        steps += f"{frames[start].at / total:.2%}{{opacity:1}}"
    if end < len(frames):
        steps += f"{frames[end].at / total:.2%}{{opacity:0}}"
    return f"@keyframes {name}{{{steps}}}#{name}{{animation-name:{name}}}"


def draw_text(shown: Shown) -> str:
    x = MARGIN + shown.column * WIDTH
    y = MARGIN + shown.row * HEIGHT + 13
    style = f' class="{shown.style}"' if shown.style else ""
    # Fonts differ in their widths.
    length = f' textLength="{len(shown.text) * WIDTH:.5g}"' if len(shown.text) > 1 else ""
    return f'<text x="{x:.5g}" y="{y}"{style}{length}>{escape(shown.text, quote=False)}</text>'


def main() -> None:
    frames = take_frames(run_demo())
    FILE.write_text(draw(frames), encoding="utf-8")
    print(f"{FILE.name}: {len(frames)} frames, {FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
