"""What must be handled wherever a task's code returns."""

import os
from collections.abc import Callable, Mapping
from typing import Any


def catch(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[BaseException | None, Any]:
    """Return what the function raised and what it returned.

    The error is returned because StopIteration and SystemExit cannot be raised out of a thread.
    """
    process = os.getpid()
    try:
        return None, function(*args, **kwargs)
    except BaseException as error:
        return error, None
    finally:
        end_copy_of(process)


def end_copy_of(process: int) -> None:
    """End this process if the task forked it and returned in the child.

    The copy is not a worker, but would write to its parent's connections.
    """
    if os.getpid() != process:
        os._exit(1)
