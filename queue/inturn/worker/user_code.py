"""What must be seen to wherever code of a task returns."""

import os
from collections.abc import Callable, Mapping
from typing import Any


def catch(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[BaseException | None, Any]:
    """Return what the function raised and what it returned.

    The error is a value because StopIteration and SystemExit do not survive the way out of a
    thread.
    """
    process = os.getpid()
    try:
        return None, function(*args, **kwargs)
    except BaseException as error:
        return error, None
    finally:
        end_copy_of(process)


def end_copy_of(process: int) -> None:
    """End this process if the task has forked it, and has returned in the child.

    The copy is no worker, but would write to the connections of the one that it was made from.
    """
    if os.getpid() != process:
        os._exit(1)
