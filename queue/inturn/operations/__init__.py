"""Each calls one SQL function or reads one view.

An operation is a generator that yields statements, receives their rows and returns a value. It
never touches a connection: `drive` runs it, sync or async.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, LiteralString, NamedTuple, TypeVar

T = TypeVar("T")
Rows = Sequence[tuple[Any, ...]]


class Statement(NamedTuple):
    """`{schema}` stands for the schema, `%s` for the parameters."""

    text: LiteralString
    parameters: Sequence[Any] = ()


Operation = Generator[Statement, Rows, T]


def read(kind: Callable[..., T], text: LiteralString, *parameters: Any) -> Operation[list[T]]:
    """Return each row as an object of this kind."""
    return [kind(*row) for row in (yield Statement(text, parameters))]


def read_one(kind: Callable[..., T], text: LiteralString, *parameters: Any) -> Operation[T]:
    """Return the single row as an object of this kind."""
    (row,) = yield Statement(text, parameters)
    return kind(*row)


def find(kind: Callable[..., T], text: LiteralString, *parameters: Any) -> Operation[T | None]:
    """Like `read_one`, but return None if there is no row."""
    rows = yield Statement(text, parameters)
    return kind(*rows[0]) if rows else None


def ask(kind: Callable[[Any], T], text: LiteralString, *parameters: Any) -> Operation[T]:
    """Return the value of a single row and column, converted by `kind`."""
    return kind((yield from get_value(text, *parameters)))


def get_value(text: LiteralString, *parameters: Any) -> Operation[Any]:
    """Return the value of a single row and column, as the driver reads it."""
    ((value,),) = yield Statement(text, parameters)
    return value


def unless_all(default: object, values: Iterable[Any]) -> list[Any] | None:
    """Return the values, or None if all are the default, which the function fills in."""
    column = list(values)
    return None if column.count(default) == len(column) else column
