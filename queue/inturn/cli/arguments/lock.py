"""The lock argument of commands, given as an address, and the errors of its store.

An address may contain a password, so no message repeats it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from inturn.cli.output.exit_status import Conflict, NotFound, Unavailable
from inturn.errors import ConfigurationError
from inturn.formatting import visible
from inturn.locks.errors import LockBackendError, LockError, LockTimeout

if TYPE_CHECKING:
    from inturn.locks import Holder

VARIABLE = "INTURN_LOCKS_URL"


@contextmanager
def translate_errors() -> Iterator[None]:
    """Turn lock errors into errors with an exit status."""
    try:
        yield
    except LockTimeout as error:
        raise Conflict(str(error)) from error
    except LockBackendError as error:
        raise Unavailable(str(error)) from error
    except (LockError, ValueError, FileNotFoundError) as error:
        raise ConfigurationError(str(error)) from error
    except TypeError as error:  # the address has an option that its driver does not know
        raise ConfigurationError(f"The address cannot be used: {error}") from error


def make_lock(address: str, **options: Any) -> Any:
    """Return the lock with this address. An address `#name` completes INTURN_LOCKS_URL."""
    from inturn.locks.urls import lock_from_url

    if address.startswith("#"):
        store = os.environ.get(VARIABLE)
        if store is None:
            raise ConfigurationError(
                f"{visible(address)} is only the name of a lock. "
                f"Set {VARIABLE} to the address of its store."
            )
        address = store.partition("#")[0] + address
    return lock_from_url(address, **options)


def check_breakable(lock: Any) -> None:
    """Raise ConfigurationError if locks of this kind cannot be broken."""
    from inturn.locks.core.base_lock import BaseLock

    if type(lock).break_steps is BaseLock.break_steps:
        raise ConfigurationError(
            f"The lock {visible(lock.name)} cannot be broken. It is freed when its holder ends: "
            "end that process or connection."
        )


def lock_not_held(name: str) -> NotFound:
    return NotFound(f"The lock {visible(name)} is free.")


def describe(holder: Holder) -> str:
    """Return `held by ann, for 12 s, 18 s to live, fence 4`."""
    parts = [
        f"held by {holder.owner or 'an unknown owner'}",
        "" if holder.age is None else f"for {holder.age:.0f} s",
        "without expiry" if holder.ttl is None else f"{holder.ttl:.0f} s to live",
        "" if holder.fence is None else f"fence {holder.fence}",
    ]
    return visible(", ".join(part for part in parts if part))
