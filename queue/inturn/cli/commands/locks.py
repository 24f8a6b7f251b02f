"""`queue locks`: see, wait for, break and hold locks, by their addresses, which may hold passwords and are not repeated."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from inturn.cli.formatting import visible
from inturn.locks.errors import LockBackendError, LockError, LockTimeout

USAGE, NOT_FOUND, CONFLICT, UNAVAILABLE = 2, 3, 4, 69
VARIABLE = "INTURN_LOCKS_URL"


@click.group("locks", epilog="Example: queue locks ls redis://localhost/0")
def command() -> None:
    """See, wait for, break and hold locks.

    \b
    LOCK is an address: redis://host/0#name, file:///path or postgresql://host/db#name

    A process list shows it to everybody. If it has a password, set INTURN_LOCKS_URL to the address without a name,
    and give LOCK as '#name'.
    """


@command.command(epilog="Example: queue locks ls redis://localhost/0")
@click.argument("store", envvar=VARIABLE)
@click.option(
    "-o", "output", type=click.Choice(["table", "json"]), default="table", help="How to print."
)
@click.option("--prefix", default="inturn", show_default=True, help="Of the keys in Redis.")
def ls(store: str, output: str, prefix: str) -> None:
    """List the locks that are held in STORE: an address without a name, by default INTURN_LOCKS_URL."""
    from inturn.locks.listing import list_holders

    with ended():
        rows = [facts(holder) for holder in list_holders(store, prefix)]
    if output == "json":
        click.echo(json.dumps(rows))
        return
    for row in rows:
        click.echo(line(row))
    if not rows:
        click.echo("no lock is held there", err=True)


@command.command(epilog="Example: queue locks show redis://localhost/0#report")
@click.argument("lock")
@click.option(
    "-o", "output", type=click.Choice(["table", "json"]), default="table", help="How to print."
)
def show(lock: str, output: str) -> None:
    """Who holds LOCK; exit status 3 if nobody does."""
    with ended():
        target = made(lock)
        holder = target.holder()
    if holder is None:
        fail(NOT_FOUND, f"{target.name} is free")
    row = facts(holder)
    click.echo(json.dumps(row) if output == "json" else line(row))


@command.command(epilog="Example: queue locks wait file:///run/report.lock --timeout 60")
@click.argument("lock")
@click.option("--timeout", type=float, help="Seconds; by default for ever.")
def wait(lock: str, timeout: float | None) -> None:
    """Wait until LOCK is free; exit status 4 if it is not in time."""
    deadline = None if timeout is None else time.monotonic() + timeout
    with ended():
        target = made(lock)
        while (holder := target.holder()) is not None:
            if deadline is not None and time.monotonic() >= deadline:
                fail(CONFLICT, f"{target.name} is still held: {said(facts(holder))}")
            time.sleep(0.1 if deadline is None else min(0.1, max(0.0, deadline - time.monotonic())))


@command.command("break", epilog="Example: queue locks break redis://localhost/0#report")
@click.argument("lock")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only say what would be broken.")
def break_(lock: str, yes: bool, dry_run: bool) -> None:
    """Free LOCK by force; its holder, if it lives, is refused by its fence from then on."""
    with ended():
        target = made(lock)
        holder = target.holder()
        if holder is None:
            fail(NOT_FOUND, f"{target.name} is free")
        click.echo(line(facts(holder)), err=True)
        if dry_run:
            return
        if not yes:
            if not sys.stdin.isatty():
                fail(USAGE, "nobody is there to confirm; say --yes")
            click.confirm("Break it?", abort=True, err=True)
        target.break_()


@command.command(
    context_settings={"ignore_unknown_options": True},
    epilog="Example: queue locks run --timeout 0 redis://localhost/0#backup -- pg_dump -f dump.sql",
)
@click.argument("lock")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--timeout", type=float, help="Seconds to wait for the lock; by default for ever.")
@click.option(
    "--ttl", type=float, help="Seconds that it lives without renewal, where it has a time to live."
)
def run(lock: str, command: tuple[str, ...], timeout: float | None, ttl: float | None) -> None:
    """Run COMMAND while holding LOCK; its exit status, or 4 if the lock was not free in time."""
    with ended():
        target = made(lock, **({} if ttl is None else {"ttl": ttl}))
        lease, refusal = target.try_acquire(timeout)
        if lease is None:
            raise target.busy(refusal)
        with target.until_released(lease), subprocess.Popen(command) as process:
            # Nothing may run on that believes to be alone.
            lease.on_lost(process.terminate)
            status = process.wait()
    sys.exit(status if status >= 0 else 128 - status)


@contextmanager
def ended() -> Iterator[None]:
    """Errors as one line and an exit status."""
    try:
        yield
    except LockTimeout as error:
        fail(CONFLICT, str(error))
    except LockBackendError as error:
        fail(UNAVAILABLE, str(error))
    except (LockError, ValueError, FileNotFoundError) as error:
        fail(USAGE, str(error))
    except TypeError as error:  # an option in the address that its driver does not know
        fail(USAGE, f"the address cannot be used: {error}")


def made(address: str, **options: Any) -> Any:
    from inturn.locks.urls import lock_from_url

    if address.startswith("#"):
        store = os.environ.get(VARIABLE)
        if store is None:
            raise ValueError(
                f"{address} is the name of a lock only. Set {VARIABLE} to the address of its store"
            )
        address = store.partition("#")[0] + address
    return lock_from_url(address, **options)


def facts(holder: Any) -> dict[str, Any]:
    names = ("name", "owner", "lock_id", "acquired_at", "age", "ttl", "fence")
    return {name: getattr(holder, name) for name in names}


def line(row: dict[str, Any]) -> str:
    return visible(f"{row['name']}  {said(row)}")


def said(row: dict[str, Any]) -> str:
    parts = [
        f"held by {row['owner'] or 'somebody'}",
        "" if row["age"] is None else f"for {row['age']:.0f} s",
        "without expiry" if row["ttl"] is None else f"{row['ttl']:.0f} s to live",
        "" if row["fence"] is None else f"fence {row['fence']}",
    ]
    return ", ".join(part for part in parts if part)


def fail(status: int, message: str) -> NoReturn:
    click.echo(f"error: {visible(message)}", err=True)
    sys.exit(status)
