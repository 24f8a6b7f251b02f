"""Limits: how many jobs of a key may run at once, and how often one may start."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from inturn.arguments import check_lock, check_whole
from inturn.errors import BadArgument
from inturn.model import Limit
from inturn.operations import Operation, Statement, ask, read

SET = "SELECT {schema}.set_limit(%s, %s::int, %s::int, %s::interval, %s::int, %s)"
CHANGE = """
SELECT slots, rate, period, burst
FROM {schema}.change_limit(%s, %s::int, %s::int, %s::interval, %s::int, %s::text[], %s)
"""
REMOVE = "SELECT {schema}.remove_limit(%s, %s)"
LIST = "SELECT pattern, slots, rate, period, burst, running, limited FROM {schema}.list_limits(%s)"
KEYS = """
SELECT key, pattern, slots, running, limited FROM {schema}.list_limit_keys(%s, %s)
"""
REPAIRED = "SELECT DISTINCT key FROM {schema}.repaired_limits ORDER BY key"
MISCOUNTED = "SELECT key, counted, running FROM {schema}.miscounted_limits"

MOST = 2**31 - 1
PERIODS = {
    "s": timedelta(seconds=1),
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "day": timedelta(days=1),
}
_RATE = re.compile(r"(\d{1,10})\s*/\s*(s|min|h|day)")


@dataclass(frozen=True, slots=True)
class LimitKey:
    """A key, and the limit that is in force for it. `limited` counts at most 1,001 jobs."""

    key: str
    pattern: str | None  # None: its limit was removed
    concurrency: int | None
    running: int
    limited: int


def set_limit(
    pattern: str, concurrency: int | None, rate: str | None, burst: int | None, by: str | None
) -> Operation[None]:
    count, period = _check_limit(pattern, concurrency, rate, burst)
    if concurrency is None and rate is None:
        raise BadArgument("concurrency", "is missing. Give a concurrency, a rate or both")
    if burst is not None and rate is None:
        raise BadArgument("burst", "was given without a rate")
    yield Statement(SET, [pattern, concurrency, count, period, burst, by])


def change_limit(
    pattern: str,
    concurrency: int | None,
    rate: str | None,
    burst: int | None,
    without: Sequence[str],
    by: str | None,
) -> Operation[list[str]]:
    """Set the given parts of a limit, and keep the others.

    Return the previous limit, if any, and the new one, as people write them.
    """
    count, period = _check_limit(pattern, concurrency, rate, burst)
    return read(format_limit, CHANGE, pattern, concurrency, count, period, burst, list(without), by)


def remove_limit(pattern: str, by: str | None) -> Operation[bool]:
    return ask(bool, REMOVE, check_pattern(pattern), by)


def list_limits(limit: int) -> Operation[list[Limit]]:
    rows = yield Statement(LIST, [limit])
    return [
        Limit(pattern, slots, rate and format_rate(rate, period), burst, running, limited)
        for pattern, slots, rate, period, burst, running, limited in rows
    ]


def list_limit_keys(after: str, limit: int) -> Operation[list[LimitKey]]:
    """Return keys with a limit, sorted by name, starting after a key."""
    return read(LimitKey, KEYS, after, limit)


def list_repaired_limits() -> Operation[list[str]]:
    """Return the keys whose counts the reconciler repaired in the last day."""
    return read(str, REPAIRED)


def list_miscounted_limits() -> Operation[list[tuple[str, int, int]]]:
    """Return keys with wrong counts, the count and the number of running jobs, at most 1,000."""
    return list((yield Statement(MISCOUNTED)))


def check_pattern(pattern: object) -> str:
    text = check_lock(None if pattern == "" else pattern, "pattern")
    if text is None:
        raise BadArgument("pattern", "is missing. Give a key, or a prefix of keys and a *")
    if "*" in text[:-1]:
        raise BadArgument("pattern", f"{text!r} may have a * only at its end, as in customer:*")
    return text


def parse_rate(rate: object) -> tuple[int, timedelta]:
    """Return a count and its period, or raise BadArgument."""
    match = _RATE.fullmatch(rate) if isinstance(rate, str) else None
    if match is None:
        raise BadArgument("rate", f"{rate!r} is not a rate. Write 100/min, or use s, h or day")
    return check_whole("rate", int(match[1]), 1, MOST), PERIODS[match[2]]


def format_rate(count: int, period: timedelta) -> str:
    """Return a rate as people write it."""
    names = {span: name for name, span in PERIODS.items()}
    return f"{count}/{names.get(period, period)}"


def format_limit(
    slots: int | None, rate: int | None, period: timedelta | None, burst: int | None
) -> str:
    """Return a limit as people write it: "concurrency 5, rate 100/min, burst 20"."""
    parts = []
    if slots is not None:
        parts.append(f"concurrency {slots}")
    if rate is not None and period is not None:
        parts.append(f"rate {format_rate(rate, period)}, burst {burst}")
    return ", ".join(parts)


def _check_limit(
    pattern: object, concurrency: object, rate: object, burst: object
) -> tuple[int | None, timedelta | None]:
    """Return the count and the period of the rate, or raise BadArgument."""
    check_pattern(pattern)
    for name, count in (("concurrency", concurrency), ("burst", burst)):
        if count is not None:
            check_whole(name, count, 1, MOST)
    return (None, None) if rate is None else parse_rate(rate)
