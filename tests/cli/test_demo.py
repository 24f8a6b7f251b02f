"""`queue demo`: what a newcomer sees first."""

import os
import pty
import re
import signal
import subprocess
from pathlib import Path
from string import ascii_lowercase

import pytest
from click.testing import CliRunner
from rich.console import Console

from inturn.cli import demo_picture
from inturn.cli.commands import demo
from inturn.cli.demo_page import Page
from inturn.errors import InturnError
from tests.cli.conftest import SCRIPT, Run, Start, Until, clean

ALPHABET = " ".join(ascii_lowercase)
COLOUR = re.compile(r"\x1b\[(?:\d+;)*3[0-7]m")


def test_without_a_terminal_it_is_plain_lines_and_exit_0(run: Run, folder: Path) -> None:
    ended = run("demo", TMPDIR=str(folder))
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    assert re.fullmatch(r"[ -~\n]*", ended.stdout), "plain text"
    free, locked = (line for line in ended.stdout.splitlines() if re.search(r" \d\.\d s$", line))
    assert sorted(
        re.findall(r"\b[a-z]\b", free.partition(":")[2].partition("  out")[0])[:26]
    ) == list(ascii_lowercase)
    assert ALPHABET in locked
    assert "in order" in locked
    assert not list(folder.glob("inturn-*"))


def test_on_a_terminal_two_pages_fill_up_in_colour() -> None:
    status, output = on_a_terminal(TERM="xterm-256color")
    assert status == 0
    assert ALPHABET[:25] in bare(output)
    assert ALPHABET[26:] in bare(output)
    assert output.count("without a lock") > 20, "a frame for each look"
    assert COLOUR.search(output)
    assert output.rindex("\x1b[?25h") > output.rindex("\x1b[?25l"), "the cursor is back"


def test_no_color_is_respected() -> None:
    status, output = on_a_terminal(TERM="xterm-256color", NO_COLOR="1")
    assert status == 0
    assert not COLOUR.search(output)


def test_ctrl_c_ends_it_and_its_server(start: Start, folder: Path, until: Until) -> None:
    process = start("demo", TMPDIR=str(folder))
    until(lambda: list(folder.glob("inturn-*/.s.PGSQL.5432")))
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert not list(folder.glob("inturn-*"))
    assert (folder / "log").read_text().strip() == ""


def test_a_reader_that_leaves_early_is_no_error_worth_words() -> None:
    with subprocess.Popen(
        [SCRIPT, "demo"], env=clean({}), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_a_second_alphabet_out_of_order_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def play(pages: list[Page], **_: object) -> None:
        for page in pages:
            page.letters = list(reversed(ascii_lowercase))

    monkeypatch.setattr(demo, "_play", play)
    result = CliRunner().invoke(demo.command)
    assert isinstance(result.exception, InturnError)
    assert "not in order although its jobs shared a lock" in str(result.exception)


def test_a_first_alphabet_in_order_by_chance_is_called_that() -> None:
    pages = [Page(None, list(ascii_lowercase)), Page("alphabet", list(ascii_lowercase))]
    assert demo_picture.conclusion(pages).startswith(
        "By chance the first alphabet is in order too."
    )


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_picture_fits_the_terminal(width: int) -> None:
    console = Console(width=width, record=True, file=open(os.devnull, "w"))  # noqa: SIM115 (closed below)
    pages = [Page(None, list("bac"), {"worker 1": "d"}, began=0.0), Page("alphabet")]
    console.print(demo_picture.picture(pages, console))
    console.file.close()
    text = console.export_text()
    assert max(len(line) for line in text.splitlines()) <= width
    assert "b a c · ·" in text
    assert "workers: d · · ·" in text
    assert (re.search(r"without a lock.*alphabet", text) is not None) == (width >= 80)


def bare(output: str) -> str:
    return re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", output)


def on_a_terminal(**environment: str) -> tuple[int, str]:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [SCRIPT, "demo"],
        env=clean({**environment, "COLUMNS": "80"}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        output = b""
        try:
            while piece := os.read(ours, 65536):
                output += piece
        except OSError:
            pass  # this is how Linux says that the other end is closed
        os.close(ours)
    return process.returncode, output.decode()
