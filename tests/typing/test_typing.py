"""Users' calls under two type checkers: both accept what is right and refuse what is wrong.

In `cases`, a line with a mistake ends in `# error`. `# reveals: X` follows a reveal_type, or stands
above it. Where the two checkers differ, `# mypy reveals: X` and `# basedpyright reveals: Y` stand
above it.
"""

import inspect
import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_type_hints

import pytest

from inturn import Blueprint, JobOptions, Task, TaskOptions
from inturn.tasks.options import CheckedOptions
from inturn.worker import Options, WorkerOptions

ROOT = Path(__file__).parents[2]
CASES = sorted(Path(__file__).with_name("cases").glob("*.py"))
MODULE = re.compile(r"\b(?:\w+\.)+(?=[A-Z])")  # mypy names classes in full

Line = tuple[str, int]


@dataclass
class Verdict:
    errors: set[Line] = field(default_factory=set)
    revealed: dict[Line, str] = field(default_factory=dict)


def expected(checker: str) -> Verdict:
    verdict = Verdict()
    for path in CASES:
        above = ""
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if text.endswith("  # error"):
                verdict.errors.add((path.name, number))
            if marker := re.search(rf"# (?:{checker} )?reveals: (.*)", text):
                above = marker[1]
            if above and "reveal_type(" in text:
                verdict.revealed[path.name, number] = above
                above = ""
    return verdict


def run_mypy() -> Verdict:
    verdict = Verdict()
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--hide-error-context", "--no-error-summary", *CASES],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr
    for path, number, kind, message in re.findall(
        r"(?m)^(.+?):(\d+): (error|note): (.*)$", done.stdout
    ):
        line = (Path(path).name, int(number))
        if kind == "error":
            verdict.errors.add(line)
        elif message.startswith("Revealed type is"):
            revealed = MODULE.sub("", message.split('"')[1])
            verdict.revealed[line] = revealed.replace(
                "[*Any, **Any]", "..."
            )  # one or the other, by the state of its cache
    return verdict


def run_basedpyright(folder: Path) -> Verdict:
    verdict = Verdict()
    config = folder / "pyrightconfig.json"
    config.write_text(
        json.dumps(
            {
                "include": [str(path) for path in CASES],
                "extraPaths": [str(ROOT / "queue")],
                "typeCheckingMode": "standard",
            }
        )
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "basedpyright",
            "--outputjson",
            "--pythonpath",
            sys.executable,
            "--project",
            config,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    for diagnostic in json.loads(done.stdout)["generalDiagnostics"]:
        line = (Path(diagnostic["file"]).name, diagnostic["range"]["start"]["line"] + 1)
        if diagnostic["severity"] == "error":
            verdict.errors.add(line)
        elif diagnostic["message"].startswith("Type of "):
            verdict.revealed[line] = diagnostic["message"].rpartition(' is "')[2].removesuffix('"')
    return verdict


def test_mypy_finds_the_mistakes_and_nothing_else_and_knows_the_types() -> None:
    found, known = run_mypy(), expected("mypy")
    assert found.errors == known.errors
    assert found.revealed == known.revealed


@pytest.mark.landing
def test_basedpyright_finds_the_mistakes_and_nothing_else_and_knows_the_types(
    tmp_path: Path,
) -> None:
    found, known = run_basedpyright(tmp_path), expected("basedpyright")
    assert found.errors == known.errors
    assert found.revealed == known.revealed


def test_help_shows_the_options_that_the_checkers_know() -> None:
    options = inspect.signature(Task.configure).parameters.keys() - {"self", "task_kwargs"}
    assert options == set(JobOptions.__annotations__)
    of_task = inspect.signature(Blueprint.task).parameters.keys()
    assert of_task - {"self", "_func", "pass_context"} == set(TaskOptions.__annotations__)


def test_the_keywords_of_a_worker_are_its_options() -> None:
    assert get_type_hints(WorkerOptions) == get_type_hints(Options)


def test_every_option_of_a_job_is_stored_with_it_except_its_connection() -> None:
    assert set(CheckedOptions._fields) == JobOptions.__annotations__.keys() - {"connection"}
