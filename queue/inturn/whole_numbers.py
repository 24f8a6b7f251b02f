"""Whole numbers in a range, such as ids."""

from typing import TypeGuard

HIGHEST_ID = 2**63 - 1  # a bigint


def is_whole(value: object, least: int, most: int) -> TypeGuard[int]:
    """Return True for an int in the range. A bool does not count."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def read_id(text: str) -> int | None:
    """Return the number, or None if it is none that PostgreSQL could store as an id."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(HIGHEST_ID))
    return int(text) if is_number and int(text) <= HIGHEST_ID else None
