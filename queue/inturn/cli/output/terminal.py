"""What the output, a terminal or a file, can show."""

import io
import os
import sys
from typing import TextIO


def is_coloured(stream: TextIO) -> bool:
    """Return True if the stream is a terminal with colours that are not turned off."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def prepare() -> None:
    """Escape characters that the output cannot encode."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def find_width() -> int | None:
    """Return the width to fit, or None for a pipe, whose reader wants the full text."""
    if not sys.stdout.isatty() and not {"COLUMNS", "FORCE_COLOR"} & os.environ.keys():
        return None
    from rich.console import Console

    return Console().width
