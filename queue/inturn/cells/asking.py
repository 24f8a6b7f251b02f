"""Ask all cells side by side, and merge what they answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import reduce
from typing import Any, TypeVar

from inturn.errors import CellsUnanswered, InturnError

T = TypeVar("T")
MOST_THREADS = 64


def ask_all(
    cells: Sequence[int], ask: Callable[[int], T], *, most_at_once: int = MOST_THREADS
) -> dict[int, T]:
    """Return the answer of each cell, or raise CellsUnanswered."""
    most = min(most_at_once, len(cells))
    if most <= 1:  # here, since a connection of Django's belongs to its thread
        return _sort_answers(cells, [_try(ask, cell) for cell in cells])
    contexts = [copy_context() for _ in cells]  # with the caller's trace, if there is one
    with ThreadPoolExecutor(most, "inturn cells") as threads:
        found = threads.map(lambda context, cell: context.run(_try, ask, cell), contexts, cells)
        return _sort_answers(cells, list(found))


async def ask_all_async(
    cells: Sequence[int], ask: Callable[[int], Awaitable[T]], *, most_at_once: int = MOST_THREADS
) -> dict[int, T]:
    turns = asyncio.Semaphore(most_at_once)

    async def ask_in_turn(cell: int) -> T:
        async with turns:
            return await ask(cell)

    found = await asyncio.gather(*map(ask_in_turn, cells), return_exceptions=True)
    return _sort_answers(cells, found)


def _try(ask: Callable[[int], T], cell: int) -> T | BaseException:
    try:
        return ask(cell)
    except Exception as error:
        return error


def _sort_answers(cells: Sequence[int], found: Sequence[T | BaseException]) -> dict[int, T]:
    """Return the answers, or raise CellsUnanswered, or the error itself if all refused."""
    answers: dict[int, T] = {}
    errors: dict[int, InturnError] = {}
    for cell, each in zip(cells, found, strict=True):
        if isinstance(each, InturnError):
            errors[cell] = each
        elif isinstance(each, BaseException):
            raise each
        else:
            answers[cell] = each
    refused = next((each for each in errors.values() if isinstance(each, ValueError)), None)
    if refused is not None and not answers:
        raise refused
    if errors:
        raise CellsUnanswered(errors, answers)
    return answers


def merge(answers: Sequence[Any]) -> Any:
    """Return one answer for all cells: sums of numbers, True if any is, all rows of lists."""
    merged = reduce(_add, answers)
    return _merge_rows(merged) if isinstance(merged, list) else merged


def _add(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, bool):
        return one or other
    if isinstance(one, datetime):
        return max(one, other)
    if isinstance(one, int | float | list | Counter):
        return one + other
    if is_dataclass(one) and not isinstance(one, type):
        names = [field.name for field in fields(one)]
        return type(one)(**{name: _add(getattr(one, name), getattr(other, name)) for name in names})
    raise TypeError(f"answers of the type {type(one).__name__} cannot be merged")


def _merge_rows(rows: list[Any]) -> list[Any]:
    """Return one row for what each cell has one of, such as a limit or a metric."""
    made = type(rows[0]) if rows else None
    if made is None or not (made is dict or hasattr(made, "BY_CELL")):
        return rows
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        given = row if made is dict else {name: getattr(row, name) for name in row.__slots__}
        added = given.keys() - {"name"} if made is dict else made.BY_CELL
        key = tuple(value for name, value in given.items() if name not in added)
        known = found.setdefault(key, given)
        if known is not given:
            found[key] = given | {name: _add(given[name], known[name]) for name in added}
    return [made(**values) for values in found.values()]
