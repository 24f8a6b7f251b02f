"""Values that JSON lacks: how they are stored, and how a task's annotations restore them.

A datetime, date, time, timedelta, UUID or Decimal is stored as text, an Enum as its value, and a
dataclass or pydantic model as an object. JSON does not record the type, so only a parameter's
annotation can restore the value.
"""

import dataclasses
import inspect
import json
import re
import types
from collections import abc
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cached_property
from inspect import Parameter, Signature
from operator import is_
from typing import Annotated, Any, NewType, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from inturn.errors import kind_of

Decoder = Callable[[Any], Any]
DURATION = re.compile(r"P(?P<days>[+-]?\d+)DT(?P<seconds>\d+)(?:\.(?P<microseconds>\d{6}))?S")
DEEPEST = 64  # levels, the most that an argument may have
JsonDumps = Callable[[Any], str | bytes]
JsonLoads = Callable[[str], Any]
_PLAIN = (str, int, float, bool, None, dict, list, Any, object, Parameter.empty)
_PLAIN_NAMES = ("str", "int", "float", "bool", "None", "dict", "list", "Any", "object")
_LISTS = (list, abc.Sequence, abc.Iterable, abc.Collection, abc.MutableSequence)
_MAPPINGS = (dict, abc.Mapping, abc.MutableMapping)


class UndecodableArgument(Exception):
    """A stored argument does not match the task's annotation."""


# ------------------------------------------------------------------ storing


def simplify(value: Any, depth: int = 0) -> Any:
    """Return the value in a form that JSON can represent: the same object if it already is."""
    if depth > DEEPEST or value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, dict):
        simple = {key: simplify(item, depth + 1) for key, item in value.items()}
        return value if all(simple[key] is value[key] for key in value) else simple
    if isinstance(value, list | tuple):
        items = [simplify(item, depth + 1) for item in value]
        return value if all(map(is_, items, value)) else items
    write = _find_writer(type(value))
    return value if write is None else simplify(write(value), depth + 1)


def _find_writer(kind: type) -> Callable[[Any], Any] | None:
    for base, write in _WRITERS.items():
        if issubclass(kind, base):
            return write
    if dataclasses.is_dataclass(kind):
        return _write_dataclass
    return _write_model if _is_model(kind) else None


def _write_duration(value: timedelta) -> str:
    """Return an ISO 8601 duration, which PostgreSQL reads as an interval."""
    fraction = f".{value.microseconds:06}" if value.microseconds else ""
    return f"P{value.days}DT{value.seconds}{fraction}S"


def _write_dataclass(value: Any) -> dict[str, Any]:
    fields = dataclasses.fields(value)
    return {field.name: getattr(value, field.name) for field in fields if field.init}


def _write_model(value: Any) -> Any:
    return value.model_dump(mode="json", by_alias=True, round_trip=True)


_WRITERS: dict[type, Callable[[Any], Any]] = {
    datetime: datetime.isoformat,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: _write_duration,
    UUID: str,
    Decimal: str,
    Enum: lambda member: member.value,
}


# ------------------------------------------------------------------ reading back


class Decoders:
    """Decodes the arguments and the result of one task.

    Annotations are resolved on first use, since they may refer to later imports.
    """

    def __init__(self, func: Callable[..., Any], signature: Signature) -> None:
        self._func = func
        self._parameters = signature.parameters
        # True if no argument seems to need a decoder. Names in annotations are not resolved yet.
        self.are_plain = all(
            _is_plain(parameter.annotation) for parameter in self._parameters.values()
        )

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return _find_hints(inspect.unwrap(self._func))

    @cached_property
    def _by_name(self) -> dict[str, Decoder | None]:
        return {name: find_decoder(self._hints.get(name)) for name in self._parameters}

    @cached_property
    def _of_others(self) -> Decoder | None:
        """The decoder of `**kwargs`."""
        for name, parameter in self._parameters.items():
            if parameter.kind is Parameter.VAR_KEYWORD:
                return self._by_name[name]
        return None

    def _find(self, name: str) -> Decoder | None:
        return self._by_name.get(name, self._of_others)

    def decode(self, kwargs: Mapping[str, Any], loads: JsonLoads | None = None) -> dict[str, Any]:
        """Return the arguments decoded by the task's annotations, or raise UndecodableArgument.

        `loads` is the connector's `json_loads`, which reads them first.
        """
        if loads is not None:
            kwargs = _load(loads, kwargs)
        if not any(self._by_name.values()):
            self.are_plain = True
        return {name: self._decode(name, value) for name, value in kwargs.items()}

    def _decode(self, name: str, value: Any) -> Any:
        decode = self._find(name)
        if decode is None:
            return value
        try:
            return decode(value)
        except Exception as error:  # user classes may raise anything
            raise UndecodableArgument(
                f"the argument {name} is {value!r:.80}, which cannot be read as "
                f"{self._format(name)}: {type(error).__name__}: {error}"
            ) from error

    def _format(self, name: str) -> str:
        hint = self._hints.get(name)
        return hint.__name__ if isinstance(hint, type) else str(hint)

    def explain_loss(self, name: str, value: Any, simple: Any) -> str | None:
        """Return why the value would not come back to the task unchanged, or None if it would."""
        kind = type(value).__name__
        if self._find(name) is None:
            return (
                f"JSON cannot represent a {kind} without a type hint. Annotate the task's "
                f"parameter ({name}: {kind}), or pass text"
            )
        text = json.dumps(simple)
        try:
            again = json.dumps(simplify(self._decode(name, json.loads(text))))
        except UndecodableArgument as error:
            return f"a {kind} does not match the task: {error}"
        if again != text:
            return f"the {kind} would come back changed, as {again:.80}. Check the annotation"
        return None

    @cached_property
    def _of_result(self) -> Decoder | None:
        return find_decoder(self._hints.get("return"))

    def decode_result(self, value: Any) -> Any:
        """Return a result decoded by the task's return annotation."""
        return value if self._of_result is None or value is None else self._of_result(value)


def _is_plain(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation in _PLAIN_NAMES
    return any(annotation is kind for kind in _PLAIN)


def _load(loads: JsonLoads, kwargs: Mapping[str, Any]) -> Any:
    try:
        return loads(json.dumps(kwargs, ensure_ascii=False))
    except Exception as error:
        raise UndecodableArgument(
            f"the connector's json_loads cannot read the arguments: {type(error).__name__}: {error}"
        ) from error


def _find_hints(holder: Any) -> dict[str, Any]:
    """Return the annotations that can be resolved. Some names exist for type checkers only."""
    names = getattr(holder, "__globals__", None) or vars(inspect.getmodule(holder) or object)
    hints: dict[str, Any] = {}
    for name, annotation in getattr(holder, "__annotations__", {}).items():
        single = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            hints |= get_type_hints(single, globalns=dict(names), include_extras=True)
        except Exception:  # noqa: S112 (an annotation can be any expression)
            continue
    return hints


def find_decoder(annotation: Any) -> Decoder | None:
    """Return the function that reads values of this type from JSON, or None if JSON has the type.

    Also return None for unknown types and for unions of several types.
    """
    if isinstance(annotation, NewType):
        return find_decoder(annotation.__supertype__)
    if type(annotation).__name__ == "TypeAliasType":
        return find_decoder(annotation.__value__)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return find_decoder(args[0])
    if origin in (Union, types.UnionType):
        return _find_optional([each for each in args if each is not type(None)])
    if origin is not None:
        return _find_container(origin, args)
    return _find_class(annotation) if isinstance(annotation, type) else None


def _find_optional(kinds: list[Any]) -> Decoder | None:
    decode = find_decoder(kinds[0]) if len(kinds) == 1 else None
    return None if decode is None else lambda value: None if value is None else decode(value)


def _find_container(origin: Any, args: tuple[Any, ...]) -> Decoder | None:
    if origin is tuple:
        return _find_tuple(args)
    decode = find_decoder(args[-1]) if args else None
    if decode is None:
        return None
    if origin in _MAPPINGS:
        return lambda value: {key: decode(item) for key, item in _check(value, dict).items()}
    if origin in _LISTS:
        return lambda value: [decode(item) for item in _check(value, list)]
    return None


def _find_tuple(args: tuple[Any, ...]) -> Decoder:
    def keep(value: Any) -> Any:
        return value

    if len(args) == 2 and args[1] is ...:
        each = find_decoder(args[0]) or keep
        return lambda value: tuple(each(item) for item in _check(value, list))
    decoders = [find_decoder(arg) or keep for arg in args]

    def decode(value: Any) -> tuple[Any, ...]:
        pairs = zip(decoders, _check(value, list), strict=True)
        return tuple(decode(item) for decode, item in pairs)

    return decode


def _find_class(kind: type) -> Decoder | None:
    read = _READERS.get(kind) or _make_reader(kind)
    if read is None:
        return None
    # A connector's json_loads may already have created the value.
    return lambda value: value if isinstance(value, kind) else read(value)


def _make_reader(kind: Any) -> Decoder | None:
    if issubclass(kind, Enum):
        return lambda value: _read_member(kind, value)
    if dataclasses.is_dataclass(kind):
        return _DataclassReader(kind)
    if _is_model(kind):
        return lambda value: kind.model_validate_json(json.dumps(value))
    return None


class _DataclassReader:
    """Reads a dataclass. It finds the fields' decoders late, since a class may contain itself."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind

    @cached_property
    def _by_name(self) -> dict[str, Decoder | None]:
        hints: dict[str, Any] = {}
        for base in reversed(self._kind.__mro__):
            hints |= _find_hints(base)
        return {name: find_decoder(hint) for name, hint in hints.items()}

    def __call__(self, value: Any) -> Any:
        fields = {}
        for name, item in _check(value, dict).items():
            decode = self._by_name.get(name)
            fields[name] = item if decode is None else decode(item)
        return self._kind(**fields)


def _read_member(kind: type[Enum], value: Any) -> Enum:
    text = json.dumps(value)
    for member in kind:
        if json.dumps(simplify(member.value)) == text:
            return member
    return kind(value)


def _read_duration(value: Any) -> timedelta:
    if not isinstance(value, str):
        return timedelta(seconds=float(value))
    found = DURATION.fullmatch(value)
    if found is None:
        raise ValueError("a duration looks like P1DT3600S, or is a number of seconds")
    return timedelta(**{unit: int(number or 0) for unit, number in found.groupdict().items()})


def _read_decimal(value: Any) -> Decimal:
    return Decimal(str(value) if isinstance(value, float) else _check(value, str | int))


_READERS: dict[type, Decoder] = {
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    time: time.fromisoformat,
    timedelta: _read_duration,
    UUID: UUID,
    Decimal: _read_decimal,
}


def _is_model(kind: type) -> bool:
    """Return True for a pydantic model. pydantic need not be installed."""
    return any(base.__module__ == "pydantic.main" for base in kind.__mro__)


def _check(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"this is {kind_of(value)}")
    return value
