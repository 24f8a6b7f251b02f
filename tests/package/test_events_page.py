"""docs/logging.md has each event that the code logs."""

import re
import sys
from subprocess import run

from tests.events_page import MEANINGS, PAGE, find_events, write_page


def test_the_page_of_the_events_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == write_page(), "run `make docs`"


def test_each_event_has_a_meaning_and_no_meaning_is_of_an_event_that_is_gone() -> None:
    assert list(find_events()) == list(MEANINGS)


def test_the_events_are_found_wherever_they_are_logged() -> None:
    found = find_events()
    assert found["job.failed"] == {"error"}
    assert found["job.lost"] == {"warning"}
    assert found["worker.stopped"] == {"info", "warning"}


def test_the_configuration_on_the_page_shows_the_job_in_each_line() -> None:
    [code] = re.findall(r"^```python\n(.*?)^```$", write_page(), re.M | re.S)
    check = (
        "from inturn import Job\nfrom inturn.logs import running_job\n"
        "running_job.set(Job(id=7))\nlogging.warning('charged')\n"
    )
    done = run([sys.executable, "-c", code + check], check=True, capture_output=True, text=True)
    assert done.stderr == "WARNING charged job=7\n"
