"""Guess the name that somebody meant but mistyped."""

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'worker'?`, or an empty text if no known name is like this one."""
    from difflib import get_close_matches

    likely = get_close_matches(name, known, n=1)
    return f" Did you mean {likely[0]!r}?" if likely else ""
