"""Parse option and argument values: numbers, times, and task arguments."""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import click

from inturn.arguments import check_moment
from inturn.errors import BadArgument
from inturn.whole_numbers import HIGHEST_ID

LONGEST = timedelta(days=365 * 1000)  # so that a time as long ago is still a date
UNITS = {"w": "weeks", "d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
PART = re.compile(r"(\d+(?:\.\d+)?)([wdhms])")


if TYPE_CHECKING:
    NumberType = click.ParamType[int]
    SecondsType = click.ParamType[float]
else:  # older versions of click are not generic
    NumberType = SecondsType = click.ParamType


class Number(NumberType):
    """A whole number in a range, by default of ids. Help shows its name in capitals."""

    def __init__(self, least: int = 1, most: int = HIGHEST_ID, name: str = "n") -> None:
        self._least, self._most = least, most
        self.name = name

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> int:
        with suppress(ValueError):  # int() refuses nan and a billion digits too
            if self._least <= (number := int(value)) <= self._most:
                return number
        self.fail(
            f"{value!r} is not a whole number from {self._least} to {self._most}.",
            parameter,
            context,
        )


ID = Number(name="id")
PORT_NUMBER = Number(1, 65535, "port")
ANY_PORT = Number(0, 65535, "port")  # 0: one that is free
PRIORITY = Number(-(2**31), 2**31 - 1)


class Seconds(SecondsType):
    """Seconds as a number (30, 0.5) or a length of time (90s, 10m)."""

    name = "seconds"

    def __init__(self, *, positive: bool = False) -> None:
        self._positive = positive

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> float:
        seconds = value if isinstance(value, int | float) else read_duration(value).total_seconds()
        if seconds == 0 and self._positive:
            self.fail("It must be more than 0.", parameter, context)
        return float(seconds)


def duration(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> timedelta | None:
    """Parse a length of time such as 90s, 10m, 1h30m, 2d or 1.5h. A bare number means seconds."""
    return None if text is None else read_duration(text)


def read_duration(text: str) -> timedelta:
    """Return a length of time. Raise BadParameter for anything else, such as -1, nan and inf."""
    spelled = f"{text}s" if re.fullmatch(r"\d+(\.\d+)?", text) else text
    parts = {unit: number for number, unit in PART.findall(spelled)}
    if not parts or "".join(number + unit for unit, number in parts.items()) != spelled:
        raise click.BadParameter(
            f"{text!r} is not a valid length of time. Use for example 90s, 10m or 1h30m."
        )
    with suppress(OverflowError):
        length = timedelta(**{UNITS[unit]: float(number) for unit, number in parts.items()})
        if length <= LONGEST:
            return length
    raise click.BadParameter(f"{text!r} is more than a thousand years.")


def moment(
    _context: click.Context, parameter: click.Parameter, text: str | None
) -> datetime | None:
    """Parse an ISO 8601 time. It needs a time zone, so that it means the same on all machines."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.utcoffset() is None:
        raise click.BadParameter(
            f"{text!r} is not a time with a time zone. Use for example 2030-01-31T12:00:00Z."
        )
    return check_moment(parameter.opts[0], at)


duration_option = partial(click.option, callback=duration, metavar="TIME")
moment_option = partial(click.option, callback=moment, metavar="TIME")


def task_arguments(words: Sequence[str]) -> dict[str, Any]:
    """Parse a task's arguments: one JSON object, or any number of key=value."""
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        try:
            given = _json(words[0])
        except json.JSONDecodeError as error:
            raise BadArgument("arguments", f"not valid JSON: {error}") from None
        assert isinstance(given, dict)  # it starts with a brace
        return given
    return unique([_pair(word) for word in words])


def _pair(word: str) -> tuple[str, Any]:
    key, equals, text = word.partition("=")
    if not equals or not key:
        raise BadArgument(
            "arguments",
            f"{word!r} cannot be read. Use one JSON object, or any number of key=value",
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
            raise BadArgument(key, "given twice")
        seen[key] = value
    return seen


def _refuse(text: str, name: str) -> NoReturn:
    # NaN and Infinity are not JSON, although Python reads them.
    raise json.JSONDecodeError(f"{name} is not JSON", text, 0)
