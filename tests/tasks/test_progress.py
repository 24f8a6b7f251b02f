"""What a task may tell about its progress. Bad input is refused, and the error names the argument."""

from typing import Any

import pytest

from inturn import App, JobContext
from inturn.errors import BadArgument
from inturn.model import Job, ProgressReport

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "negative": ({"done": -1}, "done: -1 is not a whole number from 0 to"),
    "too large": ({"done": 2**63}, "done: 9223372036854775808 is not a whole number from 0 to"),
    "a float": ({"done": 0.5}, "done: 0.5 is not a whole number"),
    "a boolean": ({"done": True}, "done: True is not a whole number"),
    "nothing": ({"done": None}, "done: None is not a whole number"),
    "a negative total": ({"done": 1, "total": -5}, "total: -5 is not a whole number"),
    "a total in words": ({"done": 1, "total": "many"}, "total: 'many' is not a whole number"),
    "a text that is none": ({"done": 1, "text": b"x"}, "text is a bytes. Pass text or None"),
    "NUL": ({"done": 1, "text": "a\0b"}, "text: contains the character NUL"),
    "half a pair": ({"done": 1, "text": "\ud800"}, "contains half of a surrogate pair"),
}
GOOD: dict[str, tuple[dict[str, Any], tuple[int, int | None, str | None]]] = {
    "only how much is done": ({"done": 3}, (3, None, None)),
    "nothing to do": ({"done": 0, "total": 0}, (0, 0, None)),
    "more than was expected": ({"done": 120, "total": 100}, (120, 100, None)),
    "a long text": ({"done": 1, "text": "ä" * 201}, (1, None, "ä" * 199 + "…")),
    "a text that just fits": ({"done": 1, "text": "ä" * 200}, (1, None, "ä" * 200)),
    "the largest": ({"done": 2**63 - 1}, (2**63 - 1, None, None)),
}


@pytest.fixture
def told() -> list[ProgressReport]:
    return []


@pytest.fixture
def context(told: list[ProgressReport]) -> JobContext:
    app = App("postgresql://nowhere.invalid/")
    task = app.task(name="t")(lambda: None)
    return JobContext(app, task, Job(7, fence=9), note_progress=told.append)


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_and_nothing_is_told(
    context: JobContext, told: list[ProgressReport], name: str
) -> None:
    given, problem = BAD[name]
    with pytest.raises(BadArgument) as refused:
        context.progress(**given)
    assert problem in str(refused.value)
    assert refused.value.argument.strip("'") in given
    assert told == []


@pytest.mark.parametrize("name", GOOD)
def test_this_is_told(context: JobContext, told: list[ProgressReport], name: str) -> None:
    given, stored = GOOD[name]
    context.progress(**given)
    assert told == [ProgressReport(7, 9, *stored)]


def test_without_a_worker_the_input_is_checked_and_nothing_else_happens(
    context: JobContext,
) -> None:
    context.note_progress = None
    context.progress(1, 2, "three")
    with pytest.raises(BadArgument):
        context.progress(-1)
