"""Read the values of options and arguments: lengths of time, times, and task arguments."""

import json
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NoReturn

import click

from inturn.errors import BadArgument

UNITS = {"w": "weeks", "d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
PART = re.compile(r"(\d+(?:\.\d+)?)([wdhms])")


def duration(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> timedelta | None:
    """Read a length of time such as 90s, 10m, 1h30m, 2d or 1.5h. A bare number means seconds."""
    if text is None:
        return None
    spelled = f"{text}s" if re.fullmatch(r"\d+(\.\d+)?", text) else text
    parts = {unit: number for number, unit in PART.findall(spelled)}
    if not parts or "".join(number + unit for unit, number in parts.items()) != spelled:
        raise click.BadParameter(
            f"{text!r} is not a valid length of time. Write for example 90s, 10m or 1h30m."
        )
    try:
        return timedelta(**{UNITS[unit]: float(number) for unit, number in parts.items()})
    except OverflowError:
        raise click.BadParameter(f"{text!r} is too long.") from None


def moment(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> datetime | None:
    """Read a time in ISO 8601. It needs a zone, or it would mean another time on each machine."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.utcoffset() is None:
        raise click.BadParameter(
            f"{text!r} is not a time with a zone. Write for example 2030-01-31T12:00:00Z."
        )
    return at


def task_arguments(words: Sequence[str]) -> dict[str, Any]:
    """Read a task's arguments: one JSON object, or any number of key=value."""
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        try:
            given = _json(words[0])
        except json.JSONDecodeError as error:
            raise BadArgument("arguments", f"not valid JSON: {error}") from None
        assert isinstance(given, dict)  # it began with a brace
        return given
    return unique([_pair(word) for word in words])


def _pair(word: str) -> tuple[str, Any]:
    key, equals, text = word.partition("=")
    if not equals or not key:
        raise BadArgument(
            "arguments",
            f"{word!r} cannot be read. Write one JSON object, or any number of key=value",
        )
    try:
        return key, _json(text)
    except json.JSONDecodeError:
        return key, text


def _json(text: str) -> Any:
    try:
        return json.loads(
            text, object_pairs_hook=unique, parse_constant=lambda name: _refuse(text, name)
        )
    except (json.JSONDecodeError, BadArgument):
        raise
    except (RecursionError, ValueError) as error:  # thousands of brackets or digits
        raise BadArgument("arguments", f"they cannot be read: {error}") from None


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as a dict. Raise BadArgument if a key occurs twice.

    Python's JSON reader would silently let the last one win.
    """
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise BadArgument(key, "it is given twice")
        seen[key] = value
    return seen


def _refuse(text: str, name: str) -> NoReturn:
    # NaN and Infinity are not JSON, although Python reads them.
    raise json.JSONDecodeError(f"{name} is not JSON", text, 0)
