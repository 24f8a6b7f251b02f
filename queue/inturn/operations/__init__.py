"""One call of one SQL function each, as generators: they yield statements, receive rows, return a value, and touch no
connection. `drive` runs them, sync or async.
"""

from collections.abc import Generator, Iterable, Sequence
from typing import Any, LiteralString, NamedTuple, TypeVar

from inturn.arguments import decode

T = TypeVar("T")
Rows = Sequence[tuple[Any, ...]]


class Statement(NamedTuple):
    """`{schema}` stands for the schema, `%s` for the parameters."""

    text: LiteralString
    parameters: Sequence[Any] = ()


Operation = Generator[Statement, Rows, T]


def unless_all(default: object, values: Iterable[Any]) -> list[Any] | None:
    """Nothing instead of a column that says nothing: the function fills in the default."""
    column = list(values)
    return column if any(value is not default for value in column) else None


def decode_column(row: Sequence[Any], place: int) -> list[Any]:
    """Return the row with the arguments at that place, which came as text, decoded: one that cannot be read spoils no others."""
    cells = list(row)
    cells[place] = decode(cells[place])
    return cells
