"""Translates cron spellings that other programs accept into those of cronsim."""

import re

MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
# For each field: the first and last value, the names of values, and the number of the first name.
SPANS: list[tuple[int, int, list[str], int]] = [
    (0, 59, [], 0),
    (0, 23, [], 0),
    (1, 31, [], 0),
    (1, 12, MONTHS, 1),
    (0, 6, WEEKDAYS, 0),
    (0, 59, [], 0),
]
DAY, WEEKDAY = 2, 4
RANGE = re.compile(r"(\w+)-(\w+)")
LAST = re.compile(r"L([0-7])", re.IGNORECASE)


def respell(fields: list[str]) -> list[str]:
    """Return the fields with `?`, `L5`, `MON-SUN` and ranges such as `20-4` spelled for cronsim."""
    return [
        ",".join(_respell(place, item) for item in field.split(","))
        for place, field in enumerate(fields)
    ]


def _respell(place: int, item: str) -> str:
    if item == "?" and place in (DAY, WEEKDAY):
        return "*"
    if place == WEEKDAY and (last := LAST.fullmatch(item)):
        return f"{last[1]}L"
    if given := RANGE.fullmatch(item):
        return _unroll(place, item, given[1], given[2])
    return item


def _unroll(place: int, item: str, start: str, end: str) -> str:
    """Return a range that wraps past the last value, such as 20-4, as two ranges."""
    lowest, highest, names, offset = SPANS[place]
    first, last = _number(start, names, offset), _number(end, names, offset)
    if first is None or last is None or first <= last or first > highest:
        return item
    return f"{first}-{highest},{lowest}-{last}"


def _number(text: str, names: list[str], offset: int) -> int | None:
    if text.upper() in names:
        return names.index(text.upper()) + offset
    return int(text) if text.isdecimal() else None
