"""Each example of docs/flow.md and docs/several-locks.md runs, in the order of the page."""

import re
from pathlib import Path
from typing import Any

from inturn import App, JobContext

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


def test_the_examples_of_the_page_about_flow_run(app: App) -> None:
    assert run_examples(app, "flow.md") == 4


def test_the_example_of_the_page_about_several_locks_runs(app: App) -> None:
    assert run_examples(app, "several-locks.md") == 1
