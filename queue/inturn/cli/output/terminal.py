"""What the output, a terminal or a file, can show."""

import io
import os
import sys
from typing import TextIO


def is_coloured(stream: TextIO) -> bool:
    """Return True if the stream is a terminal with colours that are not turned off."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def open_closed() -> None:
    """Replace standard streams that the caller has closed by ones that hold nothing.

    Otherwise, a connection would get the number of one, and programs that we start would write
    into it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # It gets the lowest free number, until the process ends.
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115


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
