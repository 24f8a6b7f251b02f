"""Checks the progress that a task reports."""

from inturn.arguments import check_text, check_whole
from inturn.errors import BadArgument, kind_of
from inturn.model import Job, ProgressReport
from inturn.whole_numbers import HIGHEST_ID

MAX_CHARACTERS = 200


def check_report(job: Job, done: object, total: object, text: object) -> ProgressReport:
    """Return an attempt's report, or raise BadArgument."""
    return ProgressReport(
        job.id,
        job.fence,
        check_whole("done", done, 0, HIGHEST_ID),
        None if total is None else check_whole("total", total, 0, HIGHEST_ID),
        None if text is None else _check_text(text),
    )


def _check_text(text: object) -> str:
    """Return the text, cut if too long: it may be data that the task does not control."""
    if not isinstance(text, str):
        raise BadArgument("text", f"is {kind_of(text)}. Pass text or None")
    text = text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"
    check_text("text", text)
    return text
