"""How the command line words what it shows: times that people compare, text that cannot act on a terminal, commands to copy."""

import re
import shlex
from datetime import UTC, datetime, timedelta

STAMP = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?[+-]\d\d(?::\d\d)?"
)  # as PostgreSQL writes a time
MINUTE, HOUR, DAY = 60, 3600, 86400


def visible(text: str) -> str:
    """On one line, with escapes for what a terminal would act on or not show."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def argument(text: str) -> str:
    """As one argument in a command to copy into a shell."""
    if text.isprintable():
        return f"-- {shlex.quote(text)}" if text.startswith("-") else shlex.quote(text)
    # bash, zsh and POSIX 2024 read $'…', with the bytes of a character one by one.
    escaped = "".join(
        char
        if char.isprintable() and char not in "'\\"
        else "".join(f"\\x{byte:02x}" for byte in char.encode())
        for char in text
    )
    return f"{'-- ' if text.startswith('-') else ''}$'{escaped}'"


def span(length: timedelta) -> str:
    """48s, 12m04s, 3h05m, 2d04h."""
    seconds = max(0, int(length.total_seconds()))
    if seconds < MINUTE:
        return f"{seconds}s"
    if seconds < HOUR:
        return f"{seconds // MINUTE}m{seconds % MINUTE:02}s"
    if seconds < DAY:
        return f"{seconds // HOUR}h{seconds % HOUR // MINUTE:02}m"
    return f"{seconds // DAY:,}d{seconds % DAY // HOUR:02}h"


def relative(at: datetime | None, now: datetime) -> str:
    """48s ago, in 3m12s."""
    if at is None:
        return ""
    return f"in {span(at - now)}" if at > now else f"{span(now - at)} ago"


def iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def on_clock(at: datetime, now: datetime) -> str:
    """14:32:10Z (in 3m12s), with the date unless it is of today."""
    utc, today = at.astimezone(UTC), now.astimezone(UTC).date()
    return (
        f"{utc:%H:%M:%SZ} ({relative(at, now)})"
        if utc.date() == today
        else f"{utc:%Y-%m-%d %H:%M:%SZ} ({relative(at, now)})"
    )


def with_times(text: str, now: datetime | None = None) -> str:
    """The times in what the database says, for people if we know when they read it, else ISO 8601."""

    def worded(found: re.Match[str]) -> str:
        at = datetime.fromisoformat(found[0])
        return iso(at) if now is None else on_clock(at, now)

    return STAMP.sub(worded, text)


def last_line(error: str | None) -> str:
    """Of a traceback the line that says what happened."""
    lines = (error or "").strip().splitlines()
    return visible(lines[-1]) if lines else ""


def amount(count: int, noun: str) -> str:
    """1 job, 4,762 jobs."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
