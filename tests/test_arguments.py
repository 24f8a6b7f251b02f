"""Arguments as JSON: the short way for plain ones, and the closer look for all others."""

import math
from typing import Any

import pytest

from inturn import arguments
from inturn.errors import BadArgument
from inturn.operations.engine.claim import decode_all

PLAIN: dict[str, dict[str, Any]] = {
    "none": {},
    "values of each type": {"a": 1, "b": "ü€😀", "c": 1.5, "d": True, "e": None},
    "a backslash": {"a": "\\"},
}
ODD: dict[str, dict[Any, Any]] = {
    "nested": {"a": [1, {"b": (2,)}]},
    "text that looks like an escape": {"a": "\\u0000"},
    "long": {"a": "x" * arguments.MAX_PLAIN},
    "digits near the limit": {"a": 10**4199},
}
REFUSED: dict[str, dict[Any, Any]] = {
    "NUL": {"a": "\0"},
    "NUL in a name": {"a\0": 1},
    "half of a surrogate pair": {"a": "\ud800"},
    "not a number": {"a": math.nan},
    "infinite": {"a": math.inf},
    "too many digits": {"a": 10**4250},
    "more digits than Python writes": {"a": 10**5000},
    "a name that is a number": {1: 2},
    "an object": {"a": object()},
    "a key that would become text": {"a": {1: 2}},
}


@pytest.mark.parametrize("kwargs", (PLAIN | ODD).values(), ids=PLAIN | ODD)
def test_both_ways_to_encode_arguments_write_the_same(kwargs: dict[str, Any]) -> None:
    text = arguments.encode(kwargs)
    assert text == arguments._encode_checked(kwargs)
    assert arguments.decode(text) == arguments.decode(arguments._encode_checked(kwargs))


@pytest.mark.parametrize("kwargs", PLAIN.values(), ids=PLAIN)
def test_plain_arguments_take_the_short_way(kwargs: dict[str, Any]) -> None:
    assert arguments._encode_plain(kwargs) == arguments._encode_checked(kwargs)


@pytest.mark.parametrize("kwargs", REFUSED.values(), ids=REFUSED)
def test_what_json_cannot_carry_is_refused_on_both_ways(kwargs: dict[Any, Any]) -> None:
    with pytest.raises(BadArgument):
        arguments._encode_checked(kwargs)
    with pytest.raises(BadArgument):
        arguments.encode(kwargs)


GOOD = ['{"a":1}', "{}", '{"a":[{"b":null}],"ä":"],["}']
DIGITS = '{"a":' + "9" * arguments.MAX_INTEGER_BITS + "}"
UNREADABLE = ["[1]", "null", DIGITS, "[" * 100_000 + "]" * 100_000]


def test_a_batch_of_arguments_reads_as_each_of_them_does() -> None:
    assert decode_all([]) == []
    assert decode_all(GOOD) == [arguments.decode(text) for text in GOOD]


def test_arguments_that_cannot_be_read_do_not_spoil_the_others_of_their_batch() -> None:
    for bad in UNREADABLE:
        first, middle, last = decode_all([GOOD[0], bad, GOOD[2]])
        assert (first, last) == (arguments.decode(GOOD[0]), arguments.decode(GOOD[2]))
        assert isinstance(middle, arguments.Unreadable)
        assert middle.reason
