"""`queue locks`: list, wait for and break locks, and run a program while holding one.

The address of a lock may contain a password, so no message repeats it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from inturn.cli.arguments.confirm import confirm, yes_option
from inturn.cli.output.exit_status import Conflict, NotFound, Unavailable, print_error
from inturn.cli.output.printing import Output, output_options
from inturn.cli.settings import verbose_option
from inturn.cli.values import Seconds
from inturn.errors import ConfigurationError
from inturn.formatting import argument, span, visible
from inturn.locks.errors import LockBackendError, LockError, LockTimeout

if TYPE_CHECKING:
    from inturn.locks import Holder

VARIABLE = "INTURN_LOCKS_URL"
POLL_SECONDS = 0.1
PASSED_ON = (signal.SIGTERM, signal.SIGHUP)


@click.group(
    "locks",
    epilog="""\b
Examples:
  queue locks list redis://localhost/0
  queue locks show redis://localhost/0#report
  queue locks run file:///run/backup.lock -- pg_dump -f dump.sql""",
)
def command() -> None:
    """List, wait for and break locks, or run a program while holding one.

    \b
    LOCK is an address:
      redis://host/0#name, file:///path or postgresql://host/db#name

    All users of this machine can see an address in the process list. If it contains a password, set
    INTURN_LOCKS_URL to the address without the name, and give LOCK as '#name'.
    """


@command.command("list", epilog="Example: queue locks list redis://localhost/0")
@click.argument("store", envvar=VARIABLE)
@click.option(
    "--prefix",
    metavar="PREFIX",
    default="inturn",
    show_default=True,
    help="The prefix of keys in Redis.",
)
@output_options
@verbose_option
def list_locks(store: str, prefix: str, form: str) -> None:
    """List the locks held in STORE.

    STORE is an address without a name. You can also set INTURN_LOCKS_URL.
    """
    from inturn.locks.listing import list_holders

    with _translate_errors():
        found = [_with_time(holder) for holder in list_holders(store, prefix)]
    columns = {
        "NAME": lambda holder: holder["name"],
        "OWNER": lambda holder: holder["owner"] or "",
        "FOR": lambda holder: _format_seconds(holder["age"]),
        "TO LIVE": lambda holder: _format_seconds(holder["ttl"]),
        "FENCE": lambda holder: "" if holder["fence"] is None else str(holder["fence"]),
    }
    Output(form).records(found, columns, "No lock is held in this store.")


@command.command(epilog="Example: queue locks show redis://localhost/0#report")
@click.argument("lock")
@output_options
@verbose_option
def show(lock: str, form: str) -> None:
    """Show who holds LOCK.

    Exits with status 3 if LOCK is free.
    """
    with _translate_errors():
        target = _make_lock(lock)
        holder = target.holder()
    if holder is None:
        raise _not_held(target.name)
    Output(form).record(_with_time(holder), f"{visible(holder.name)}  {_describe(holder)}")


@command.command(epilog="Example: queue locks wait file:///run/report.lock --timeout 60")
@click.argument("lock")
@click.option("--timeout", type=Seconds(), help="How long to wait.  [default: forever]")
@verbose_option
def wait(lock: str, timeout: float | None) -> None:
    """Wait until LOCK is free.

    Exits with status 4 if it is still held after the timeout.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    with _translate_errors():
        target = _make_lock(lock)
        while (holder := target.holder()) is not None:
            left = POLL_SECONDS if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise Conflict(
                    f"The lock {visible(target.name)} was not free in time: {_describe(holder)}."
                )
            time.sleep(min(POLL_SECONDS, left))


@command.command("break", epilog="Example: queue locks break redis://localhost/0#report")
@click.argument("lock")
@click.option("--dry-run", is_flag=True, help="Only show what would be broken.")
@yes_option
@verbose_option
def break_(lock: str, yes: bool, dry_run: bool) -> None:
    """Free LOCK by force.

    If its holder is still alive, its `lease.ensure()` fails from now on, and its fence is stale.
    """
    with _translate_errors():
        target = _make_lock(lock)
        _check_breakable(target)
        holder = target.holder()
    if holder is None:
        raise _not_held(target.name)
    state = f"{visible(holder.name)}  {_describe(holder)}"
    if dry_run:
        click.echo(state)
        return
    click.echo(state, err=True)
    # The address may contain a password, so repeat it only if it is just a name.
    again = argument(lock) if lock.startswith("#") else "LOCK"
    confirm(
        f"Break the lock {visible(target.name)}?",
        yes=yes,
        command=f"queue locks break --yes {again}",
    )
    with _translate_errors():
        target.break_()
    click.echo(f"broke {visible(target.name)}")


@command.command(
    context_settings={"ignore_unknown_options": True},
    epilog="Example: queue locks run --timeout 0 redis://localhost/0#backup -- pg_dump -f dump.sql",
)
@click.argument("lock")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--timeout", type=Seconds(), help="How long to wait for the lock.  [default: forever]"
)
@click.option(
    "--ttl",
    type=Seconds(positive=True),
    help="How long the lock lives without renewal, if it can expire.",
)
@verbose_option
def run(lock: str, command: tuple[str, ...], timeout: float | None, ttl: float | None) -> None:
    """Run COMMAND while holding LOCK.

    Exits with the status of COMMAND, with 127 if COMMAND is not found, or with 4 if
    LOCK was not free in time. If LOCK is lost, COMMAND is terminated. SIGTERM is passed on to
    COMMAND, and LOCK stays held until COMMAND ends.
    """
    with _translate_errors():
        target = _make_lock(lock, **({} if ttl is None else {"ttl": ttl}))
        lease, refusal = target.try_acquire(timeout)
        if lease is None:
            raise target.busy(refusal)
        with target.until_released(lease), _start(command) as process:
            # COMMAND must not continue without the lock.
            lease.on_lost(process.terminate)
            status = process.wait()
    raise SystemExit(status if status >= 0 else 128 - status)


def _with_time(holder: Holder) -> dict[str, Any]:
    """Return the holder for JSON, with its time as in other commands."""
    at = holder.acquired_at
    moment = None if at is None else datetime.fromtimestamp(at, UTC)
    return {**asdict(holder), "acquired_at": moment}


def _start(command: tuple[str, ...]) -> subprocess.Popen[bytes]:
    """Start the command, or exit as a shell would if that is impossible.

    Signals are passed on to it, because the lock is held until it ends.
    """
    early: list[int] = []  # signals that come before the command is there to get them
    signal.signal(signal.SIGINT, lambda *_: None)  # a terminal sends Ctrl-C to the command too
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: early.append(number))
    try:
        process = subprocess.Popen(command)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        print_error(f"{visible(command[0])} cannot be started: {reason}")
        raise SystemExit(127 if isinstance(error, FileNotFoundError) else 126) from error
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: process.send_signal(number))
    for missed in early:
        process.send_signal(missed)
    return process


def _format_seconds(seconds: float | None) -> str:
    return "" if seconds is None else span(timedelta(seconds=seconds))


@contextmanager
def _translate_errors() -> Iterator[None]:
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


def _make_lock(address: str, **options: Any) -> Any:
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


def _check_breakable(lock: Any) -> None:
    """Raise ConfigurationError if locks of this kind cannot be broken."""
    from inturn.locks.core.base_lock import BaseLock

    if type(lock).break_steps is BaseLock.break_steps:
        raise ConfigurationError(
            f"The lock {visible(lock.name)} cannot be broken. It is freed when its holder ends: "
            "end that process or connection."
        )


def _not_held(name: str) -> NotFound:
    return NotFound(f"The lock {visible(name)} is free.")


def _describe(holder: Holder) -> str:
    """Return `held by ann, for 12 s, 18 s to live, fence 4`."""
    parts = [
        f"held by {holder.owner or 'an unknown owner'}",
        "" if holder.age is None else f"for {holder.age:.0f} s",
        "without expiry" if holder.ttl is None else f"{holder.ttl:.0f} s to live",
        "" if holder.fence is None else f"fence {holder.fence}",
    ]
    return visible(", ".join(filter(None, parts)))
