"""All locks that are held in a store, for people who look: it reads bit by bit, so it is no snapshot."""

from collections.abc import Iterator
from pathlib import Path
from typing import LiteralString
from urllib.parse import unquote, urlsplit

from inturn.locks.core.engine import Holder
from inturn.locks.errors import LockBackendError, LockMalformed
from inturn.locks.urls import POSTGRESQL, REDIS, scheme_of

ROWS: LiteralString = """
SELECT name, owner, lock_id, extract(epoch FROM acquired_at)::float8,
  extract(epoch FROM clock_timestamp() - acquired_at)::float8,
  extract(epoch FROM expires_at - clock_timestamp())::float8, fence
FROM inturn_locks WHERE expires_at > clock_timestamp() ORDER BY name"""


def held_at(store: str, prefix: str = "inturn") -> Iterator[Holder]:
    address = store.partition("#")[0]
    scheme = scheme_of(address)
    if scheme in REDIS:
        return _in_redis(address, prefix)
    if scheme in POSTGRESQL:
        return _in_postgresql(address)
    if scheme == "file":
        return _in_folder(Path(unquote(urlsplit(address).path)))
    raise ValueError("name a store: redis://…, file:///folder or postgresql://…")


def _in_redis(address: str, prefix: str) -> Iterator[Holder]:
    """Smart locks, and what else stands in their place; basic locks have no owner to show."""
    from redis.exceptions import RedisError

    from inturn.locks.redis.basic import BasicLock
    from inturn.locks.redis.ports import client_at, translated
    from inturn.locks.redis.smart import SmartLock

    with client_at(address, decode_responses=True) as client:
        keys = client.scan_iter(match=f"{prefix}:{{*}}", count=500)
        while True:
            try:
                key = next(keys, None)
            except RedisError as error:
                raise translated(error) from error
            if key is None:
                return
            name = key.removeprefix(f"{prefix}:{{").removesuffix("}")
            try:
                holder = SmartLock(client, name, prefix=prefix).holder()
            except LockMalformed:
                holder = BasicLock(client, name, prefix=prefix).holder()
            if holder is not None:
                yield holder


def _in_postgresql(address: str) -> Iterator[Holder]:
    """Rows only: an advisory lock does not know its name."""
    import psycopg

    from inturn.locks.postgres.pg_lock import refuse_malformed
    from inturn.locks.postgres.ports import connect

    refuse_malformed(address)
    try:
        with connect(address) as connection:
            for row in connection.execute(ROWS):
                yield Holder(*row)
    except psycopg.errors.UndefinedTable:
        return
    except psycopg.OperationalError as error:
        raise LockBackendError(f"PostgreSQL: {str(error).strip()}") from error


def _in_folder(folder: Path) -> Iterator[Holder]:
    from inturn.locks.files.kernel import KernelFileLock

    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.is_symlink():
            try:
                holder = KernelFileLock(path, any_owner=True).holder()
            except LockBackendError:
                continue  # another program's file
            if holder is not None:
                yield holder
