"""One call of one SQL function each, as generators: they yield statements, receive rows, return a value, and touch no
connection. `drive` runs them, sync or async.
"""

from collections.abc import Generator, Sequence
from typing import Any, LiteralString, NamedTuple, TypeVar

T = TypeVar("T")
Rows = Sequence[tuple[Any, ...]]


class Statement(NamedTuple):
    """`{schema}` stands for the schema, `%s` for the parameters."""

    text: LiteralString
    parameters: Sequence[Any] = ()


Operation = Generator[Statement, Rows, T]
