"""Checks the progress that a task reports."""

from inturn.arguments import check_text
from inturn.errors import BadArgument, kind_of
from inturn.model import Job, ProgressReport
from inturn.whole_numbers import HIGHEST_ID

MAX_CHARACTERS = 200


def check_report(job: Job, done: object, total: object, text: object) -> ProgressReport:
    """Return an attempt's report, or raise BadArgument."""
    return ProgressReport(
        job.id,
        job.fence,
        _check_count("done", done),
        None if total is None else _check_count("total", total),
        None if text is None else _check_text(text),
    )


def _check_count(name: str, count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, int):
        raise BadArgument(name, f"is {kind_of(count)}. Pass a whole number")
    if not 0 <= count <= HIGHEST_ID:
        raise BadArgument(name, f"{count} is not a whole number from 0 to {HIGHEST_ID}")
    return count


def _check_text(text: object) -> str:
    """Return the text, cut if too long: it may be data that the task does not control."""
    if not isinstance(text, str):
        raise BadArgument("text", f"is {kind_of(text)}. Pass text or None")
    text = text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"
    check_text("text", text)
    return text
