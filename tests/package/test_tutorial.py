"""docs/tutorial.md works: every block runs, in order, and prints what the page shows."""

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.chaos.server import free_port
from tests.cli.calling import clean

pytestmark = pytest.mark.landing

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INSTALLATION = ("python3 -m venv", ". .venv/bin/activate", "pip install")  # already done here
UNTIL_STOPPED = ("queue dev", "queue worker --concurrency 10")
PORT = "8081"  # on the page; the test takes a free one


def test_the_tutorial_works_from_the_first_block_to_the_last() -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)  # the server of root runs as an account that must enter it
        reader = Reader(folder, stack)
        for language, text in BLOCK.findall(PAGE):
            if language == "console":
                for command, shown in re.findall(
                    r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE
                ):
                    reader.type(command, shown)
            else:
                name = re.match(r"# (\S+)\n", text)
                assert name, f"this block is no file: {text}"
                (folder / name[1]).write_text(text.removeprefix(name[0]), encoding="utf-8")
    assert reader.statuses == [0, 0], "the worker and the server end cleanly at Ctrl-C"
    assert len(reader.typed) > 20


class Reader:
    """Somebody who types what the page says, and compares what comes."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self.stack = folder, stack
        self.typed: list[str] = []
        self.statuses: list[int] = []
        self.printed = ""
        path = [str(Path(sys.executable).parent), os.environ["PATH"]]
        self.environment = {
            **clean({}),
            "PATH": os.pathsep.join(path),
            "PYTHONPATH": str(ROOT / "queue"),
            "PYTHONUNBUFFERED": "1",
        }
        self.port = str(free_port())

    def type(self, command: str, shown: str) -> None:
        self.typed.append(command)
        words, shown = command.replace(PORT, self.port), shown.replace(PORT, self.port)
        if command.startswith(INSTALLATION):
            return
        if command.startswith("export "):
            self.export(command.removeprefix("export "))
        elif command.startswith(UNTIL_STOPPED):
            self.printed = self.stack.enter_context(self.run_beside(words, shown))
        else:
            done = subprocess.run(
                ["bash", "-c", words],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=120,
                check=False,
            )
            compare(command, done.stdout, shown)

    def export(self, assignment: str) -> None:
        name, _, value = assignment.partition("=")
        if "…" in value:  # the reader copies what `queue dev` has printed
            (value,) = re.findall(rf"^export {name}=(.*)$", self.printed, re.MULTILINE)
        (self.environment[name],) = shlex.split(value)

    @contextmanager
    def run_beside(self, command: str, shown: str) -> Iterator[str]:
        """Run a command of another terminal until the end of the page."""
        with subprocess.Popen(
            shlex.split(command),
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                assert process.stdout is not None
                last = pattern(shown.splitlines()[-1])
                printed = ""
                for line in process.stdout:
                    printed += line
                    if last.fullmatch(line.rstrip("\n")):
                        break
                compare(command, printed, shown)
                yield printed
            finally:
                process.send_signal(signal.SIGINT)
                self.statuses.append(process.wait(timeout=60))


def compare(command: str, printed: str, shown: str) -> None:
    if shown.startswith("order 7:"):  # lanes side by side: only the order of each is sure
        assert by_lane(printed) == by_lane(shown), command
    else:
        assert pattern(shown).fullmatch(printed), f"{command}\nprinted:\n{printed}\nnot:\n{shown}"


def by_lane(text: str) -> dict[str, list[str]]:
    lanes = defaultdict(list)
    # Threads that print at once may end their lines together.
    for line in re.sub(r"(?<=\w)(?=order \d)", "\n", text).split("\n"):
        if line:
            lanes[line.partition(":")[0]].append(line)
    return lanes


def pattern(shown: str) -> re.Pattern[str]:
    """Return what the page shows as a pattern.

    "…" is any text, a duration is any duration, and columns may be wider.
    """
    text = re.escape(shown).replace("…", ".*?")
    text = re.sub(r"\b(?:\d+[hms])+\b", r"(?:\\d+[hms])+", text)
    text = re.sub(r"(?:\\ ){2,}", r"\\s+", text)
    return re.compile(text, re.DOTALL)
