"""What the output, a terminal or a file, can show."""

import io
import os
import sys
from typing import TextIO


def is_coloured(stream: TextIO) -> bool:
    """Return True if the stream is a terminal with colours that are not turned off."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def prepare() -> None:
    """Let the standard streams escape what they cannot encode, and replace those that are closed.

    Otherwise, a connection would get the number of a closed one, and programs that we start would
    write into it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            # It gets the lowest free number, until the process ends.
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper) and mode == "w":
            stream.reconfigure(errors="backslashreplace")


def find_width() -> int | None:
    """Return the width to fit, or None for a pipe, whose reader wants the full text."""
    if not sys.stdout.isatty() and not {"COLUMNS", "FORCE_COLOR"} & os.environ.keys():
        return None
    from rich.console import Console

    return Console().width or None  # COLUMNS may be 0
