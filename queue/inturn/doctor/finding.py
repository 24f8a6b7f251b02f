"""What a check of `queue doctor` found."""

from dataclasses import dataclass
from datetime import timedelta
from math import inf

LONG = timedelta(minutes=10)  # for a job that could start, and for an open transaction
MOST = 1000  # how many workers or suspects to read
NAMED = 3  # how many names to print; the rest are counted


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of `queue doctor`. The advice is a command or another remedy."""

    check: str
    state: str  # ok, warn, fail
    detail: str
    advice: str | None = None


def count_some(count: int, one: str, many: str, bound: float = inf) -> str:
    """Return `1 lane is`, `7 lanes are` or, at the bound, `1,000 or more lanes are`."""
    return f"{count:,}{' or more' if count >= bound else ''} {one if count == 1 else many}"


def name_some(names: list[str]) -> str:
    """Return the first names and the number of others."""
    others = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {others:,} more" if others > 0 else "")
