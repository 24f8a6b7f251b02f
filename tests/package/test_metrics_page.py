"""docs/metrics.md has each metric of the catalogue, and what it says can be run."""

import re
import sys
from subprocess import run

from inturn.metrics.catalogue import METRICS
from tests.metrics_page import PAGE, write_page


def test_the_page_of_the_metrics_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == write_page(), "run `make docs`"


def test_the_page_names_no_other_metric() -> None:
    named = set(re.findall(r"\binturn_\w+", write_page()))
    assert named == METRICS.keys()


def test_the_files_that_the_page_names_are_there() -> None:
    for path in re.findall(r"\]\((.+?)\)", write_page()):
        assert (PAGE.parent / path).exists(), path


def test_the_code_on_the_page_runs() -> None:
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", write_page(), re.M | re.S))
    assert "count_deferred_jobs" in code
    run([sys.executable, "-c", code], check=True)
