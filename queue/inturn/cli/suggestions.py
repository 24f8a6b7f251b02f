"""Suggest corrections for mistyped names."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from pkgutil import iter_modules

APP = re.compile(r"^(\w+)\s*(?::[^=\n]*)?=\s*(?:\w+\.)*\w*App\(", re.MULTILINE)


def did_you_mean(name: str, known: Iterable[str], spell: Callable[[str], str] = str) -> str:
    """Return ` Did you mean 'worker'?`, or an empty text if no known name is similar.

    `spell` formats the name found.
    """
    from difflib import get_close_matches

    names = list(known)
    # The last part of a task's name is often the name of its function.
    likely = [each for each in names if each.endswith(f".{name}")]
    likely = likely or get_close_matches(name, names, n=1)
    return _question(spell(likely[0])) if likely else ""


def _question(guess: str) -> str:
    return f" Did you mean {guess!r}?"


def likely_app(path: str) -> str:
    """Return a question that suggests an app in this module or in one with a similar name."""
    module, _, attribute = path.rpartition(":")
    if not module:  # a file or a module, without the name of its app
        module = path.removesuffix(".py").strip("./").replace("/", ".")
        return next((_question(f"{module}:{app}") for app in _apps_in(module)), "")
    if module in sys.modules:
        from inturn.app import App

        given = vars(sys.modules[module]).items()
        return next(
            (_question(f"{module}:{name}") for name, it in given if isinstance(it, App)), ""
        )
    names = (found.name for found in iter_modules([str(Path.cwd())]))
    return did_you_mean(
        module,
        (name for name in names if attribute in _apps_in(name)),
        spell=lambda name: f"{name}:{attribute}",
    )


def _apps_in(module: str) -> Iterator[str]:
    """Yield the names of apps in a module of this folder, without importing it."""
    if not module:
        return
    place = Path(*module.split("."))
    for file in (place.with_suffix(".py"), place / "__init__.py"):
        with suppress(OSError):  # usually it does not exist
            text = file.read_text(encoding="utf-8", errors="replace")
            yield from APP.findall(text)
