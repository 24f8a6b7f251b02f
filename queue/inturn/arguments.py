"""Check what a caller passes when deferring, and decode stored arguments.

A task's arguments are bound to its signature and stored by name, as JSON that decodes unchanged.
"""

import inspect
import json
import math
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from inspect import Parameter, Signature
from typing import Any, TypeVar
from uuid import UUID

from inturn.errors import BadArgument, TaskDefinitionError, kind_of
from inturn.values import Decoders, JsonDumps, simplify
from inturn.whole_numbers import is_whole

Choice = TypeVar("Choice", bound=StrEnum)

MAX_BYTES = 2**20
MAX_DEPTH = 64
MAX_LOCK_BYTES = 1024
QUEUE = re.compile(r"[A-Za-z0-9_.:-]{1,63}")
LONGEST_TIMEOUT = timedelta(days=365)
MAX_HOURS = 24 * 366 * 1000
UNITS = ("weeks", "days", "hours", "minutes", "seconds", "milliseconds", "microseconds")
# Drivers cannot read years outside 1 to 9999. This leaves room for all time zones.
EARLIEST_YEAR, LATEST_YEAR = 3, 9997
MAX_INTEGER_BITS = 14_000  # Python parses at most 4,300 digits
MAX_PLAIN = 4_000  # characters; no number in them can exceed the limit on digits
_NAME_TYPES = frozenset({str})
_PLAIN_TYPES = frozenset({str, int, float, bool, type(None)})
# Created once: json.dumps creates an encoder per call, and json.loads checks for a BOM. A database
# with the encoding SQL_ASCII does not know what \u stands for.
to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_read = json.JSONDecoder().decode


class Unreadable(dict[str, Any]):
    """Replaces stored arguments that Python cannot read. It is empty but knows the reason.

    PostgreSQL stores integers of any length, nested as deeply as its stack allows, so a job that
    was deferred in SQL can have unreadable arguments.
    """

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason


def decode(text: str) -> dict[str, Any]:
    """Return the arguments in a JSON text. Return an `Unreadable` if Python cannot read them."""
    try:
        kwargs = _read(text)
    except (ValueError, RecursionError) as error:
        return Unreadable(f"Python cannot read the arguments ({len(text):,} characters): {error}")
    if isinstance(kwargs, dict):
        return kwargs
    return Unreadable(f"the arguments are not a JSON object: {text[:80]}")


def check_signature(name: str, signature: Signature) -> Signature:
    """Return the signature, or raise TaskDefinitionError if a parameter has no name to store it by.

    In decorators' usual `*args, **kwargs`, `*args` stays empty.
    """
    takes_any_name = names(signature) is None
    kept = []
    for parameter in signature.parameters.values():
        if takes_any_name and parameter.kind is Parameter.VAR_POSITIONAL:
            continue
        if parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL):
            raise TaskDefinitionError(
                f"Task {name} takes {parameter}, which has no name to store it by. "
                "Declare ordinary or keyword arguments."
            )
        kept.append(parameter)
    return signature.replace(parameters=kept)


def names(signature: Signature) -> frozenset[str] | None:
    """Return the names of all arguments, or None if the function takes any name."""
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in signature.parameters.values()):
        return None
    return frozenset(signature.parameters)


def bind(
    name: str,
    func: Callable[..., Any],
    signature: Signature,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the arguments of a call by name. Defaults are filled in when the task runs."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        usage = f"Call it as {name}{signature}{_explain_decorator(func)}"
        raise BadArgument(f"task {name}", f"{error}. {usage}") from None
    given: dict[str, Any] = {}
    for key, value in bound.arguments.items():
        if signature.parameters[key].kind is Parameter.VAR_KEYWORD:
            given |= value
        else:
            given[key] = value
    return given


def _explain_decorator(func: Callable[..., Any]) -> str:
    """Return what to do if the function's decorator changes its arguments."""
    is_wrapper = hasattr(func, "__wrapped__")
    if not is_wrapper or names(inspect.signature(func, follow_wrapped=False)) is not None:
        return ""
    return (
        ". If its decorator takes other arguments, write `del wrapper.__wrapped__` at the end of "
        "the decorator"
    )


def check_mapping(kwargs: object) -> Mapping[str, Any]:
    if isinstance(kwargs, Mapping):
        return kwargs
    raise BadArgument("arguments", f"are {kind_of(kwargs)}. Give a mapping of names to values")


def encode(kwargs: Mapping[str, Any], decoders: Decoders | None = None) -> str:
    """Return the arguments as JSON text, or raise BadArgument.

    The task's decoders restore values that JSON lacks. They are None if the task is unknown here.
    """
    return _encode_plain(kwargs) or _encode_checked(kwargs, decoders)


def encode_with(dumps: JsonDumps, kwargs: Mapping[str, Any]) -> str:
    """Return the arguments as JSON text, written by the connector's `json_dumps`."""
    text = dumps(kwargs)
    # What is not UTF-8 becomes half of a surrogate pair, which the checks below refuse.
    stored = decode(text.decode(errors="surrogateescape") if isinstance(text, bytes) else str(text))
    if isinstance(stored, Unreadable):
        raise BadArgument("json_dumps", f"returned something other than arguments: {stored.reason}")
    return _encode_checked(stored)


def _encode_plain(kwargs: Mapping[str, Any]) -> str | None:
    """Return the text of plain arguments, or None if they need closer checks.

    Most arguments are short and not nested. For these the encoder's own checks are enough, and take
    half the time.
    """
    names, types = map(type, kwargs), map(type, kwargs.values())
    if not (_NAME_TYPES.issuperset(names) and _PLAIN_TYPES.issuperset(types)):
        return None
    try:
        text = to_json(kwargs)
        text.encode()
    except ValueError:  # such as NaN, or half of a surrogate pair
        return None
    return text if len(text) <= MAX_PLAIN and "\\u0000" not in text else None


def _encode_checked(kwargs: Mapping[str, Any], decoders: Decoders | None = None) -> str:
    simple = {}
    for key, value in kwargs.items():
        if not isinstance(key, str):
            raise BadArgument("argument name", f"{key!r} is {kind_of(key)}. Use text")
        check_text("argument name", key)
        simple[key] = simplify(value)
        _check_value(key, simple[key], 1)
        if decoders is not None and simple[key] is not value:
            loss = decoders.explain_loss(key, value, simple[key])
            if loss is not None:
                raise BadArgument(key, loss)
    return _encode("arguments", simple, MAX_BYTES)


def encode_value(name: str, value: object, max_bytes: int) -> str:
    """Return a single value as JSON text, or raise BadArgument."""
    simple = simplify(value)
    _check_value(name, simple, 1)
    return _encode(name, simple, max_bytes)


def _encode(name: str, value: object, max_bytes: int) -> str:
    text = to_json(value)
    size = len(text.encode())
    if size > max_bytes:
        raise BadArgument(
            name,
            f"has {size:,} bytes of JSON; the limit is {max_bytes:,}. Store the data and pass a "
            "reference",
        )
    return text


def _check_value(path: str, value: object, depth: int) -> None:
    if isinstance(value, str):
        check_text(path, value)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise BadArgument(path, f"JSON has no {value}. Pass None or text")
    elif isinstance(value, dict | list | tuple):
        if depth >= MAX_DEPTH:
            raise BadArgument(
                path[:80] + " …",
                f"is nested deeper than {MAX_DEPTH} levels. Store the data and pass a reference",
            )
        for step, item in _items(path, value):
            _check_value(step, item, depth + 1)
    elif isinstance(value, int):
        if value.bit_length() > MAX_INTEGER_BITS:
            raise BadArgument(path, "is an integer with more than 4,200 digits. Pass text")
    elif value is not None:
        raise BadArgument(
            path,
            f"JSON cannot represent a {type(value).__name__}. Pass text, numbers, lists or dicts",
        )


def _items(
    path: str, value: dict[Any, Any] | list[Any] | tuple[Any, ...]
) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        for index, item in enumerate(value):
            yield f"{path}[{index}]", item
        return
    for key, item in value.items():
        if not isinstance(key, str):
            raise BadArgument(
                path, f"the key {key!r} would come back as {str(key)!r}. Use text as keys"
            )
        check_text(f"{path}.{key}", key)
        yield f"{path}.{key}", item


def check_text(path: str, text: str) -> None:
    if "\0" in text:
        raise BadArgument(
            path.replace("\0", "\\0"),
            "contains the character NUL (\\u0000), which PostgreSQL cannot store. Remove it",
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadArgument(
            ascii(path), "contains half of a surrogate pair, which is not a character. Remove it"
        ) from None


def check_lock(lock: object, name: str = "lock") -> str | None:
    """Return a lock or queueing lock as text, or raise BadArgument.

    Integers and UUIDs are accepted too, since each has only one spelling.
    """
    if lock is None:
        return None
    if isinstance(lock, UUID) or (isinstance(lock, int) and not isinstance(lock, bool)):
        lock = str(lock)
    if not isinstance(lock, str):
        raise BadArgument(name, f"is {kind_of(lock)}, not text. Write {name}=str(…)")
    check_text(name, lock)
    size = len(lock.encode())
    if not size:
        raise BadArgument(name, f"is empty. Omit it for a job without a {name}")
    if size > MAX_LOCK_BYTES:
        raise BadArgument(
            name, f"has {size:,} bytes; the limit is {MAX_LOCK_BYTES:,}. Hash the long part"
        )
    return lock


def check_queue(queue: object) -> str:
    if not isinstance(queue, str) or not QUEUE.fullmatch(queue):
        raise BadArgument(
            "queue", f"{queue!r} is not a valid queue name. Use 1 to 63 letters, digits and _ . : -"
        )
    return queue


def check_task_name(name: object) -> str:
    if not isinstance(name, str) or not 1 <= len(name.encode(errors="replace")) <= 512:
        raise BadArgument(
            "task name", f"{str(name)[:80]!r} is not a valid name. Use 1 to 512 bytes of text"
        )
    check_text("task name", name)
    return name


def check_aliases(aliases: Sequence[str] | None) -> tuple[str, ...]:
    if isinstance(aliases, str):
        raise BadArgument("aliases", f"is the text {aliases!r}. Pass a list of names")
    return tuple(check_task_name(alias) for alias in aliases or ())


def check_whole(name: str, number: object, least: int, most: int) -> int:
    if not is_whole(number, least, most):
        shown = reprlib.repr(number)  # it may be a list of rows
        raise BadArgument(name, f"{shown} is not a whole number from {least} to {most}")
    return number


def check_priority(priority: object) -> int:
    return check_whole("priority", priority, -(2**31), 2**31 - 1)


def check_timeout(timeout: object) -> timedelta:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float | timedelta):
        raise BadArgument("timeout", f"is {kind_of(timeout)}. Give seconds or a timedelta")
    try:
        span = timeout if isinstance(timeout, timedelta) else timedelta(seconds=timeout)
    except (ValueError, OverflowError) as error:  # NaN, infinity
        raise BadArgument("timeout", f"{timeout}: {error}. Omit it for no limit") from None
    if not timedelta(milliseconds=1) <= span <= LONGEST_TIMEOUT:
        raise BadArgument("timeout", f"{timeout} is not between a millisecond and a year")
    return span


def check_hours(hours: object) -> timedelta:
    if isinstance(hours, bool) or not isinstance(hours, int | float) or not 0 <= hours <= MAX_HOURS:
        raise BadArgument("nb_hours", f"{hours!r} is not a number of hours from 0 to {MAX_HOURS:,}")
    return timedelta(hours=hours)


def check_choice(name: str, choices: type[Choice], value: str) -> Choice:
    try:
        return choices(value)
    except ValueError:
        raise BadArgument(
            name, f"{value!r} is not one of {', '.join(repr(choice.value) for choice in choices)}"
        ) from None


def check_moment(name: str, at: object) -> datetime | None:
    if at is None:
        return None
    if not isinstance(at, datetime):
        raise BadArgument(name, f"is {kind_of(at)}. Give a datetime with a zone")
    if at.utcoffset() is None:
        raise BadArgument(
            name, f"{at} has no zone. Write, for example, datetime.now(timezone.utc) + …"
        )
    if at.year > LATEST_YEAR:
        raise BadArgument(name, f"{at} is after the year {LATEST_YEAR}. Give an earlier time")
    if at.year < EARLIEST_YEAR:
        raise BadArgument(name, f"{at} is before the year {EARLIEST_YEAR}. Give a later time")
    return at


def check_span(name: str, delay: timedelta | Mapping[str, float] | None) -> timedelta | None:
    if delay is None:
        return None
    return max(timedelta(0), check_wait(name, delay))  # a time in the past means now


def check_wait(name: str, delay: timedelta | Mapping[str, float]) -> timedelta:
    """Return the wait, which may be negative, or raise BadArgument.

    Waits are often computed as the time left until some moment, so they may be negative.
    """
    hint = "Give a timedelta or, for example, {'hours': 1}"
    if isinstance(delay, Mapping) and (unknown := [unit for unit in delay if unit not in UNITS]):
        raise BadArgument(name, f"{unknown[0]!r} is not one of {', '.join(UNITS)}")
    try:
        span = timedelta(**delay) if isinstance(delay, Mapping) else delay
    except (TypeError, ValueError, OverflowError) as error:
        raise BadArgument(name, f"{delay!r}: {error}. {hint}") from None
    if not isinstance(span, timedelta):
        raise BadArgument(name, f"is {kind_of(span)}. {hint}")
    if span > timedelta(days=365 * 1000):
        raise BadArgument(name, f"{span} is more than a thousand years")
    return span
