"""The errors and the defaults of `openlock`, under the same names."""

import copy
from typing import TypedDict, Unpack

from inturn.locks.errors import LockError


class OpenLockException(LockError):
    """The base of every error here."""


class Timeout(OpenLockException):
    """The lock was held elsewhere for as long as the caller would wait."""


class InvalidRelease(OpenLockException):
    """The lock to release is not ours."""


class InvalidLockFile(OpenLockException):
    """No valid lock file could be created."""


class InvalidOption(OpenLockException):
    """There is no such option."""


class Defaults(TypedDict, total=False):
    """How lock files are created and waited for."""

    race_delay: float  # seconds before our own file is confirmed
    tries: int  # attempts to create a valid one
    retry_period: float  # seconds between two tries


_defaults: Defaults = {"race_delay": 0.2, "tries": 2, "retry_period": 0.3}


def get_defaults() -> Defaults:
    return copy.copy(_defaults)


def set_defaults(**kw: Unpack[Defaults]) -> None:
    """Change the defaults for locks created from now on."""
    for key in kw:
        if key not in _defaults:
            raise InvalidOption(f"Invalid option: '{key}'")
    _defaults.update(kw)
