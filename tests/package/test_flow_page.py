"""Each example of docs/flow.md and of the pages that its table names runs, in the page's order."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inturn import App, JobContext
from tests.cli.calling import invoke
from tests.conftest import Query

DOCS = Path(__file__).parents[2] / "docs"


def run_examples(app: App, page: str) -> int:
    """Run each example of a page and then the jobs, and return how many examples there are."""
    text = (DOCS / page).read_text(encoding="utf-8")
    examples = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"app": app, "JobContext": JobContext}
    for example in examples:
        exec(compile(example, page, "exec"), names)  # noqa: S102 (our own page)
    app.run_worker()
    assert {job.status for job in app.job_manager.list_jobs()} == {"succeeded"}
    return len(examples)


PAGES = {  # and how many examples each has
    "flow.md": 4,
    "several-locks.md": 1,
    "limits.md": 1,
    "fair-shares.md": 1,
    "progress.md": 1,
}


def find_spans(page: str, start: str) -> list[str]:
    """Return the pieces of code within the text of a page that begin so and are whole."""
    text = re.sub(r"^ *```.*?^ *```", "", (DOCS / page).read_text("utf-8"), flags=re.M | re.S)
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)]
    return [span for span in spans if span.startswith(start) and "…" not in span]


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(app: App, page: str) -> None:
    assert run_examples(app, page) == PAGES[page]


def test_the_example_of_the_first_page_prints_what_the_page_shows(
    app: App, dsn: str, tmp_path: Path
) -> None:
    code, shown = re.findall(
        r"^```(?:python|console)\n(.*?)^```", (DOCS / "index.md").read_text("utf-8"), re.M | re.S
    )
    assert len([line for line in code.splitlines() if line]) == 12
    (tmp_path / "shop.py").write_text(code, encoding="utf-8")
    command, *errors, dots, printed = shown.splitlines()
    assert (command, dots) == ("$ python shop.py", "…")
    done = subprocess.run(
        [sys.executable, "shop.py"],
        cwd=tmp_path, env=os.environ | {"INTURN_DSN": dsn}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == [printed]
    assert done.stderr.splitlines()[: len(errors)] == errors
    assert [(lane.lock, lane.state, lane.waiting) for lane in app.lanes.list()] == [
        ("customer:ann", "halted", 1)
    ]


@pytest.mark.parametrize("page", [page for page in PAGES if page != "several-locks.md"])
def test_a_page_says_what_its_tool_does_not_promise(page: str) -> None:
    text = (DOCS / page).read_text("utf-8")
    tools = 3 if page == "flow.md" else 1
    assert len(re.findall(r"^(?:## )?What it does not promise:?$", text, re.M)) == tools


@pytest.mark.parametrize("page", PAGES)
def test_the_sql_of_a_page_runs(app: App, query: Query, page: str) -> None:
    run_examples(app, page)
    query("SELECT defer('other') FROM generate_series(1, 9)")  # jobs 7 and 8 exist
    text = (DOCS / page).read_text("utf-8")
    blocks = re.findall(r"^ *```sql\n(.*?)```", text, re.M | re.S)
    calls = [f"SELECT {call}" for call in find_spans(page, "inturn.")]
    assert blocks or calls
    for statement in blocks + calls:
        query(statement.replace("%", "%%"))


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run(app: App, dsn: str, query: Query, page: str) -> None:
    run_examples(app, page)
    query("SELECT defer('other') FROM generate_series(1, 9)")
    query("SELECT open_batch('other') FROM generate_series(1, 9)")
    for command in find_spans(page, "queue "):
        _, *words = shlex.split(command)
        is_whole = words[0] == "defer" or words[1:2] == ["set"] or words[1:] == ["list"]
        ended = invoke(*words, *(["--dsn", dsn] if is_whole else ["--help"]))
        assert ended.returncode == 0, f"{command}: {ended.output}"
