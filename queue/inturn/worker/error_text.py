"""Errors as text that the database can store."""

import traceback
from types import TracebackType

MAX_CHARACTERS = 8192
MAX_LOGGED = 65536  # bytes of a traceback; if it is longer, only the stored end is logged
# The frames between the worker and the task's code tell a reader nothing.
HIDDEN_MODULES = frozenset({"inturn.worker.attempt", "inturn.worker.middleware_chain"})


def describe(error: BaseException) -> str:
    """Return the traceback as text, or its end if it is long.

    If the exception is too broken to print itself, return the name of its class.
    """
    try:
        text = "".join(traceback.format_exception(type(error), error, task_frames(error)))
    except BaseException:  # printing runs code of the user, which may raise KeyboardInterrupt
        text = f"{type(error).__name__} (which cannot be printed)"
    return storable(text)


def task_frames(error: BaseException) -> TracebackType | None:
    """Return the traceback without the worker's own frames."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__name__") in HIDDEN_MODULES:
        frames = frames.tb_next
    return frames


def name(error: BaseException) -> str:
    """Return the class and the first line of the message."""
    try:
        text = str(error).partition("\n")[0]
    except BaseException:  # printing runs code of the user, which may raise KeyboardInterrupt
        text = "(which cannot be printed)"
    return storable(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def can_be_printed(error: BaseException) -> bool:
    """Return False for an error whose traceback no handler could write to a file, or would flood.

    A chain of thousands of causes has tens of thousands of lines.
    """
    try:
        text = "".join(traceback.format_exception(error)).encode()
    except BaseException:  # printing runs code of the user, which may raise KeyboardInterrupt
        return False
    return len(text) <= MAX_LOGGED


def storable(text: str) -> str:
    """Return the text without what the database refuses, such as NUL characters and surrogates."""
    escaped = text.replace("\0", "\\0").encode(errors="backslashreplace").decode()
    return escaped[-MAX_CHARACTERS:].strip()
