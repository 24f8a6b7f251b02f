"""Each example of docs/flow.md runs, in the order of the page."""

import re
from pathlib import Path
from typing import Any

from inturn import App, JobContext

PAGE = (Path(__file__).parents[2] / "docs" / "flow.md").read_text(encoding="utf-8")


def test_the_examples_of_the_page_about_flow_run(app: App) -> None:
    examples = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(examples) == 4
    names: dict[str, Any] = {"app": app, "JobContext": JobContext}
    for example in examples:
        exec(compile(example, "docs/flow.md", "exec"), names)  # noqa: S102 (our own page)
    app.run_worker()
    statuses = {job.status for job in app.job_manager.list_jobs()}
    assert statuses == {"succeeded"}
