"""What people write on a command line, as values."""

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
    """90s, 10m, 1h30m, 2d, 1.5h; a bare number is seconds."""
    if text is None:
        return None
    spelled = f"{text}s" if re.fullmatch(r"\d+(\.\d+)?", text) else text
    parts = {unit: number for number, unit in PART.findall(spelled)}
    if not parts or "".join(number + unit for unit, number in parts.items()) != spelled:
        raise click.BadParameter(
            f"{text!r} is no length of time. Write for example 90s, 10m or 1h30m."
        )
    try:
        return timedelta(**{UNITS[unit]: float(number) for unit, number in parts.items()})
    except OverflowError:
        raise click.BadParameter(f"{text!r} is too long.") from None


def moment(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> datetime | None:
    """ISO 8601 with a zone: without one it would mean something else on every machine."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.utcoffset() is None:
        raise click.BadParameter(
            f"{text!r} is no time with a zone. Write for example 2030-01-31T12:00:00Z."
        )
    return at


def task_arguments(words: Sequence[str]) -> dict[str, Any]:
    """One JSON object, or key=value as often as you like."""
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        try:
            given = _json(words[0])
        except json.JSONDecodeError as error:
            raise BadArgument("arguments", f"are no JSON: {error}") from None
        assert isinstance(given, dict)  # it began with a brace
        return given
    return unique([_pair(word) for word in words])


def _pair(word: str) -> tuple[str, Any]:
    key, equals, text = word.partition("=")
    if not equals or not key:
        raise BadArgument("arguments", f"{word!r} is neither key=value nor the one JSON object")
    try:
        return key, _json(text)
    except json.JSONDecodeError:
        return key, text


def _json(text: str) -> Any:
    try:
        return json.loads(
            text, object_pairs_hook=unique, parse_constant=lambda name: _no_json(text, name)
        )
    except (json.JSONDecodeError, BadArgument):
        raise
    except (RecursionError, ValueError) as error:  # thousands of brackets or digits
        raise BadArgument("arguments", f"cannot be read: {error}") from None


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Python's JSON would let the last of two equal keys win in silence."""
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise BadArgument(key, "is given twice")
        seen[key] = value
    return seen


def _no_json(text: str, name: str) -> NoReturn:
    # NaN and Infinity, which Python's JSON reads and nobody else's.
    raise json.JSONDecodeError(f"{name} is no JSON", text, 0)
