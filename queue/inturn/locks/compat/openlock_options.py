"""The errors and the defaults of `openlock`, by their names."""

import copy
from typing import TypedDict

from inturn.locks.errors import LockError


class OpenLockException(LockError):
    """The base of all that is raised here."""


class Timeout(OpenLockException):
    """The lock was held for all of the time that the caller would wait."""


class InvalidRelease(OpenLockException):
    """The lock to be released is not ours."""


class InvalidLockFile(OpenLockException):
    """No valid lock file came about."""


class InvalidOption(OpenLockException):
    """There is no such option."""


class Defaults(TypedDict, total=False):
    """Seconds to wait before an own file is confirmed; attempts to create a valid one; seconds between two tries."""

    race_delay: float
    tries: int
    retry_period: float


_defaults: Defaults = {"race_delay": 0.2, "tries": 2, "retry_period": 0.3}


def get_defaults() -> Defaults:
    return copy.copy(_defaults)


def set_defaults(**kw: float) -> None:
    """For locks that are made from now on."""
    for key in kw:
        if key not in _defaults:
            raise InvalidOption(f"Invalid option: '{key}'")
    _defaults.update(kw)  # type: ignore[typeddict-item]
