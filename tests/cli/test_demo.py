"""`queue demo`: what a newcomer sees first."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from string import ascii_lowercase

import pytest
from rich.console import Console

from inturn.cli.commands import demo
from inturn.cli.demo import picture as drawing
from inturn.cli.demo.page import DemoPage
from inturn.cli.demo.playground import BUSY, HALTED, PAUSED, RETRYING, STATES
from tests.cli.calling import SCRIPT, clean, invoke, open_page
from tests.cli.conftest import Run, Start, Until

PLAIN = re.compile(
    r"without a lock: \d+ out of place, \d+\.\d s\n(  order:[1-4]  [a-z]{26}\n){4}"
    r"with four locks: in order, \d+\.\d s, worker [1-4] was killed\n"
    rf"(  order:[1-4]  {ascii_lowercase}\n){{4}}"
)
COLOUR = re.compile(r"\x1b\[(?:\d+;)*3[0-7]m")


@pytest.mark.landing
def test_without_a_terminal_it_is_plain_lines_and_exit_0(script: Run, folder: Path) -> None:
    ended = script("demo", TMPDIR=str(folder))
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    assert re.fullmatch(r"[ -~\n]*", ended.stdout), "plain text"
    assert PLAIN.search(ended.stdout), ended.stdout
    story, _, steps = ended.stdout.partition("Next:")
    assert max(map(len, story.splitlines())) <= 80
    assert f"  {SCRIPT} dev" in steps, "it can be typed as it is printed"
    assert not list(folder.glob("inturn-*"))


@pytest.mark.landing
def test_on_a_terminal_two_pages_fill_up_in_colour() -> None:
    status, output = on_a_terminal(TERM="xterm-256color")
    assert status == 0
    for row in range(1, 5):
        assert f"order:{row} {ascii_lowercase}" in bare(output)
    assert "was killed with kill -9" in output
    assert "Red: out of place." in bare(output)
    assert output.count("without a lock") > 20, "a frame for each look"
    assert COLOUR.search(output)
    assert output.rindex("\x1b[?25h") > output.rindex("\x1b[?25l"), "the cursor is back"


@pytest.mark.landing
def test_no_color_is_respected() -> None:
    status, output = on_a_terminal(TERM="xterm-256color", NO_COLOR="1")
    assert status == 0
    assert not COLOUR.search(output)
    assert "Capital: out of place." in bare(output)
    assert re.search(r"order:\d [a-z]*[A-Z]", bare(output))


@pytest.mark.landing
def test_a_terminal_that_cannot_move_its_cursor_gets_lines_that_fit() -> None:
    status, output = on_a_terminal(TERM="dumb")
    assert status == 0
    assert PLAIN.search(output.replace("\r", ""))
    assert max(map(len, output.splitlines())) <= 80


def test_what_it_names_next_is_what_the_shell_finds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(SCRIPT.parents[2])
    monkeypatch.setenv("PATH", "/usr/bin")
    assert f"Next:  {SCRIPT.relative_to(SCRIPT.parents[2])} dev" in drawing.next_steps()
    monkeypatch.setenv("PATH", str(SCRIPT.parent))
    assert "Next:  queue dev" in drawing.next_steps()
    assert "README.md" in drawing.next_steps()
    monkeypatch.chdir(tmp_path)
    assert "README.md" not in drawing.next_steps()


@pytest.mark.landing
def test_ctrl_c_ends_it_and_its_server(start: Start, folder: Path, until: Until) -> None:
    process = start("demo", TMPDIR=str(folder))
    until(lambda: list(folder.glob("inturn-*/.s.PGSQL.5432")))
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert not list(folder.glob("inturn-*"))
    assert (folder / "log").read_text().strip() == ""


@pytest.mark.landing
def test_the_dashboard_shows_lanes_to_free_until_ctrl_c(
    start: Start, run: Run, folder: Path, until: Until
) -> None:
    process = start("demo", "--web", TMPDIR=str(folder), PYTHONUNBUFFERED="1")
    until(lambda: "runs until Ctrl-C" in (folder / "out").read_text())
    said = (folder / "out").read_text()
    (address,) = re.findall(r"^The dashboard: (http://127\.0\.0\.1:\d+/\?key=\S+)$", said, re.M)
    assert said.endswith(f"until Ctrl-C: {address}\n")
    assert PLAIN.search(said.replace(f"The dashboard: {address}\n", "")), said
    assert "order:1" in open_page(address, "lane?lock=order:1")
    try_each_lane(run, until, said)
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 0
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=120)  # noqa: S310 (our own)
    assert not list(folder.glob("inturn-*"))
    assert (folder / "log").read_text().strip() == ""


@pytest.mark.landing
@pytest.mark.parametrize("package", ["starlette", "uvicorn"])
def test_without_the_packages_of_the_dashboard_it_does_not_begin(package: str) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None; sys.argv[1:] = ['demo', '--web']\n"
        "from inturn.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=clean({}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.returncode != 0) == ("", True)
    assert "Run: pip install 'inturn[web]'" in done.stderr


@pytest.mark.landing
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
    def play(_: str, pages: list[DemoPage], **__: object) -> None:
        for page in pages:
            page.rows[1] = list(reversed(ascii_lowercase))

    monkeypatch.setattr(demo, "_open_server", lambda *_, **__: ("", None))
    monkeypatch.setattr(demo, "_play", play)
    ended = invoke("demo")
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: ")
    assert "not in order although its jobs shared a lock" in ended.stderr


def test_a_first_alphabet_in_order_by_chance_is_called_that() -> None:
    pages = [DemoPage(1, has_locks=False), DemoPage(2, has_locks=True)]
    for page in pages:
        page.show([(row, letter) for row in page.rows for letter in ascii_lowercase])
    assert drawing.conclusion(pages).startswith("By chance the first alphabets are in order")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_picture_fits_the_terminal(width: int) -> None:
    console = Console(width=width, record=True, file=open(os.devnull, "w"))  # noqa: SIM115 (closed below)
    pages = [
        DemoPage(1, has_locks=False, holding={"worker 1": {1: "d"}}, began=0.0),
        DemoPage(2, has_locks=True),
    ]
    pages[0].show([(1, letter) for letter in "bac"])
    pages[0].killed = "worker 2"
    console.print(drawing.picture(pages, console))
    console.file.close()
    text = console.export_text()
    assert max(len(line) for line in text.splitlines()) <= width
    assert "order:1 bac··" in text
    assert "workers: d † · ·" in text
    assert (re.search(r"without a lock.*four locks", text) is not None) == (width >= 80)


def try_each_lane(run: Run, until: Until, said: str) -> None:
    """Free each lane by the remedy that the demo names, and watch its jobs run."""
    (dsn,) = re.findall(r"export INTURN_DSN='(\S+)'", said)

    def lanes() -> dict[str, dict[str, object]]:
        listed = json.loads(run("lanes", "list", "--json", INTURN_DSN=dsn).stdout)
        return {lane["lock"]: lane for lane in listed}

    # A machine that stands still makes their worker late for a moment.
    until(lambda: {lock: lane["state"] for lock, lane in lanes().items()} == STATES)
    left = lanes()
    assert all(lock in said for lock in STATES)
    for verb, lock in (("retry-head", HALTED), ("retry-head", RETRYING), ("resume", PAUSED)):
        assert run("lanes", verb, lock, "--yes", INTURN_DSN=dsn).returncode == 0
    hangs = str(left[BUSY]["job_id"])
    assert run("jobs", "cancel", "--abort", hangs, "--yes", INTURN_DSN=dsn).returncode == 0
    until(lambda: not lanes())


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
