"""Parse values that several pages' filters share: numbers and lengths of time."""

import re
from datetime import timedelta

from inturn.formatting import visible
from inturn.whole_numbers import HIGHEST_ID, read_id

LENGTH = re.compile(r"(\d{1,6})(s|m|h|d)", re.ASCII)
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LONGEST_SHOWN = 60  # characters of an invalid value


class BadTerm(ValueError):
    """An invalid filter term. The text gives the remedy."""


def read_length(text: str, example: str) -> timedelta:
    """Parse a length of time such as `5m`. The example is for the error."""
    found = LENGTH.fullmatch(text)
    if found is None:
        raise BadTerm(f"“{show(text)}” is not a length of time. Write {example}, in s, m, h or d.")
    return timedelta(seconds=int(found[1]) * SECONDS[found[2]])


def read_number(text: str, example: str, most: int = HIGHEST_ID) -> int:
    """Parse a non-negative number. The example is for the error."""
    number = read_id(text)
    if number is None or number > most:
        up_to = "" if most == HIGHEST_ID else f" up to {most:,}"
        raise BadTerm(f"“{show(text)}” is not a number{up_to}. Write {example}")
    return number


def show(text: str) -> str:
    """Return the start of a user's text, with all characters visible."""
    return visible(text[:LONGEST_SHOWN])
