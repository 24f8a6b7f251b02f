"""Several questions in one statement: each field of a dataclass declares its own."""

from collections.abc import Callable
from functools import cache
from typing import Any, LiteralString, TypeVar, get_args, get_origin, get_type_hints

from inturn.operations import Operation, Statement
from inturn.values import Decoder, find_decoder

T = TypeVar("T")
MOST = 1000
SCHEMA = object()  # as a parameter: the name of the schema
_BEGIN: LiteralString = "SELECT ("
_NEXT: LiteralString = "), ("
_END: LiteralString = ")"
# Rows become objects. A column `item` stands for the whole row.
_ROWS: LiteralString = "SELECT coalesce(jsonb_agg(item), '[]') FROM ("
_OF_ROWS: LiteralString = ") AS item"


def read_parts(kind: Callable[..., T], schema: str) -> Operation[T]:
    """Return a dataclass whose fields are `Annotated[type, SQL, *parameters]`.

    A field with a list takes all rows, another one a single value. JSON shows an interval as the
    session is set, so ask for its seconds.
    """
    text, parameters, decoders = _compose(kind)
    (row,) = yield Statement(text, [schema if each is SCHEMA else each for each in parameters])
    cells = zip(decoders.items(), row, strict=True)
    return kind(**{name: decode(cell) if decode else cell for (name, decode), cell in cells})


@cache
def _compose(kind: Any) -> tuple[LiteralString, list[Any], dict[str, Decoder | None]]:
    """Return the statement, its parameters, and how to read each field from JSON."""
    texts: list[LiteralString] = []
    parameters: list[Any] = []
    decoders = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        what, text, *given = get_args(hint)
        texts.append(_ROWS + text + _OF_ROWS if get_origin(what) is list else text)
        parameters += given
        decoders[name] = find_decoder(what)
    return _BEGIN + _NEXT.join(texts) + _END, parameters, decoders
