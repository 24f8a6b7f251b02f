"""Hide likely secrets in the arguments of jobs."""

import re
from collections.abc import Callable, Mapping
from typing import Any

# A hook receives a task's name and arguments, and returns what to show.
Redact = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
SECRET = re.compile(
    r"passw|secret|token|api_?key|authorization|credential|cookie|private_?key", re.I
)
HIDDEN = "(hidden)"
DEEPEST = 20  # levels; deeper values are hidden


def redact(value: Any, depth: int = 0) -> Any:
    """Return the value with likely secrets, judged by their keys, hidden."""
    if depth > DEEPEST:
        return HIDDEN
    if isinstance(value, Mapping):
        return {
            key: HIDDEN if SECRET.search(str(key)) else redact(each, depth + 1)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [redact(each, depth + 1) for each in value]
    return value


def show_arguments(task: str, arguments: Mapping[str, Any], hook: Redact | None) -> Any:
    """Return the arguments of a job as a page may show them."""
    if hook is not None:
        try:
            arguments = dict(hook(task, arguments))
        except Exception:  # show nothing rather than a secret
            return HIDDEN
    return redact(arguments)
