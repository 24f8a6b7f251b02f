"""Formats times, counts, untrusted text and commands to copy for people."""

import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from math import ceil

# A timestamp as PostgreSQL writes it.
STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?[+-]\d\d(?::\d\d)?")
MINUTE, HOUR, DAY = 60, 3600, 86400
UNITS = ("B", "KB", "MB", "GB", "TB")  # each is 1,024 times the previous one
# Commands from the database that end with a name.
NAMED = ("queue lanes ", "queue limits set ", "queue jobs move ")
# A command in such a text, up to a following sentence, command, or remark in brackets. Quoted text
# is part of it.
COMMAND = re.compile(
    r"""(?:^|(?<=[:;] ))(?:kill -9 \d+|(?:queue|SELECT|UPDATE)"""
    r"""(?:\s(?!\()|'[^']*'|"[^"]*"|;(?! [a-z])|[^\s'";])+)"""
)

GROUPS = "batches|groups|jobs|lanes|limits|locks|queues|schedules|schema|tasks|workers"
SUBCOMMAND = re.compile(rf"^queue (?:(?:{GROUPS}) [a-z-]+|(?!cells )[a-z]+)")


def visible(text: str) -> str:
    """Return the text on one line, with control and invisible characters escaped."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def argument(text: str) -> str:
    """Quote the text as one argument of a command to copy into a shell."""
    return f"{'-- ' if text.startswith('-') else ''}{option_value(text)}"


def option_value(text: str) -> str:
    """Quote the text as the value of an option in such a command."""
    if text.isprintable():
        return shlex.quote(text)
    # bash, zsh and POSIX 2024 read $'…' with one escape per byte.
    escaped = "".join(
        char
        if char.isprintable() and char not in "'\\"
        else "".join(f"\\x{byte:02x}" for byte in char.encode())
        for char in text
    )
    return f"$'{escaped}'"


def requote(command: str | None) -> str | None:
    """Quote the name in a command from the database, so that a terminal shows all of it."""
    for beginning in NAMED:
        condition, found, rest = (command or "").partition(beginning)
        if found:
            *words, name = shlex.split(rest)  # the server has quoted the lock or pattern
            options = " ".join(word for word in words if word != "--")
            return f"{condition}{beginning}{options} {argument(name)}"
    return command


def name_command(command: str, program: str, cell: int | None = None) -> str:
    """Return a `queue …` command as you type it, such as `manage.py queue …`.

    If there are cells, it is about this one alone.
    """
    if cell is not None:
        option = "--cells" if command.startswith("queue worker") else "--cell"
        command = SUBCOMMAND.sub(rf"\g<0> {option} {cell}", command)
    manage = program.removesuffix(" queue")
    if manage != program and command == "queue migrate":
        return f"{manage} migrate"  # Django's own command also records it
    return re.sub("^queue ", lambda _: f"{program} ", command)


def list_remedies(advice: str | None) -> list[tuple[str, bool]]:
    """Return the parts of an advice text, each with whether it is a command to copy."""
    parts, at = [], 0
    for found in COMMAND.finditer(advice or ""):
        parts += [((advice or "")[at : found.start()], False), (found[0].rstrip(), True)]
        at = found.start() + len(found[0].rstrip())
    parts.append(((advice or "")[at:], False))
    told = [(text.strip().removeprefix(";").lstrip(), is_command) for text, is_command in parts]
    return [each for each in told if each[0]]


def span(length: timedelta) -> str:
    """Return a duration as 48s, 12m04s, 3h05m or 2d04h."""
    seconds = max(0, int(length.total_seconds()))
    if seconds < MINUTE:
        return f"{seconds}s"
    if seconds < HOUR:
        return f"{seconds // MINUTE}m{seconds % MINUTE:02}s"
    if seconds < DAY:
        return f"{seconds // HOUR}h{seconds % HOUR // MINUTE:02}m"
    return f"{seconds // DAY:,}d{seconds % DAY // HOUR:02}h"


def brief(length: timedelta | None) -> str:
    """Return a duration as 12ms, 4.2s or 12m04s, or "" for None."""
    if length is None:
        return ""
    seconds = length.total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    return f"{seconds:.1f}s" if seconds < MINUTE else span(length)


def exact(length: timedelta) -> str:
    """Return all of a duration as commands read it: 0.05s, 90s, 10m, 2h or 7d."""
    seconds = length.total_seconds()
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "m")):
        if seconds % unit == 0:
            return f"{seconds / unit:.0f}{name}"
    return f"{seconds:.15g}s"


def relative(at: datetime | None, now: datetime) -> str:
    """Return a time as `48s ago` or `in 3m12s`, or "" for None."""
    if at is None:
        return ""
    if at <= now:
        return f"{span(now - at)} ago"
    # Rounded up: right after you pause a lane for 2h, it is `in 2h00m`.
    return f"in {span(timedelta(seconds=ceil((at - now).total_seconds())))}"


def iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def on_clock(at: datetime, now: datetime) -> str:
    """Return a time as `14:32:10Z (in 3m12s)`, with the date unless it is today."""
    utc, today = at.astimezone(UTC), now.astimezone(UTC).date()
    day = "" if utc.date() == today else f"{utc:%Y-%m-%d} "
    return f"{day}{utc:%H:%M:%SZ} ({relative(at, now)})"


def with_times(text: str, now: datetime | None = None) -> str:
    """Rewrite times in text from the database: with `on_clock` if `now` is given, else as ISO."""

    def format_time(found: re.Match[str]) -> str:
        at = datetime.fromisoformat(found[0])
        return iso(at) if now is None else on_clock(at, now)

    return STAMP.sub(format_time, text)


def name_locks(lock: str | None, locks: Sequence[str] | None, shared: Sequence[str] | None) -> str:
    """Return all locks of a job, marking shared ones."""
    named = locks or [lock or ""]
    return ", ".join(f"{each} (shared)" if each in (shared or ()) else each for each in named)


def last_line(error: str | None) -> str:
    """Return the last line of a traceback, which names the error."""
    lines = (error or "").strip().splitlines()
    return visible(lines[-1]) if lines else ""


def size(count: int) -> str:
    """Return a number of bytes as 17.3 MB."""
    exponent = min((max(count, 1).bit_length() - 1) // 10, len(UNITS) - 1)
    return f"{count / 1024**exponent:.1f} {UNITS[exponent]}" if exponent else f"{count} B"


def at_least(count: int, more: bool = False) -> str:
    """Return a count as `4,711`, as `1,000+` if there may be more, or as `?` if none was seen."""
    return "?" if more and not count else f"{count:,}{'+' if more else ''}"


def amount(count: int, noun: str, *, or_more: bool = False) -> str:
    """Return `1 job`, `4,762 jobs` or `4,762 jobs or more`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}{' or more' if or_more else ''}"
