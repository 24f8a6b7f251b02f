"""Suggest corrections for mistyped names."""

from collections.abc import Callable, Iterable


def did_you_mean(name: str, known: Iterable[str], spell: Callable[[str], str] = str) -> str:
    """Return ` Did you mean 'worker'?`, or an empty text if no known name is similar.

    `spell` formats the name found.
    """
    from difflib import get_close_matches

    names = list(known)
    # The last part of a task's name is often the name of its function.
    likely = [each for each in names if each.endswith(f".{name}")]
    likely = likely or get_close_matches(name, names, n=1)
    return question(spell(likely[0])) if likely else ""


def question(guess: str) -> str:
    return f" Did you mean {guess!r}?"
