"""Values that the filters of several pages have: numbers and lengths of time."""

from __future__ import annotations

import re
from datetime import timedelta

from inturn.formatting import visible
from inturn.web.page import HIGHEST_ID

LENGTH = re.compile(r"(\d{1,6})(s|m|h|d)", re.ASCII)
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LONGEST_SHOWN = 60  # characters of what cannot be understood


class BadTerm(ValueError):
    """A word of a filter that cannot be understood. The text says what to write instead."""


def read_length(text: str, example: str) -> timedelta:
    """Return a length of time that is written as `5m`. The example is for the error."""
    found = LENGTH.fullmatch(text)
    if found is None:
        raise BadTerm(
            f"“{show(text)}” is not a length of time. Write {example}, with s, m, h or d."
        )
    return timedelta(seconds=int(found[1]) * SECONDS[found[2]])


def read_number(text: str, example: str, most: int = HIGHEST_ID) -> int:
    """Return a number that is not negative. The example is for the error."""
    if not re.fullmatch(r"[0-9]{1,19}", text) or int(text) > most:
        up_to = "" if most == HIGHEST_ID else f" up to {most:,}"
        raise BadTerm(f"“{show(text)}” is not a number{up_to}. Write {example}")
    return int(text)


def show(text: str) -> str:
    """Return the beginning of what somebody wrote, so that it can be seen."""
    return visible(text[:LONGEST_SHOWN])
