"""List the locks held in a store. They are read one by one, so this is not a snapshot."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from inturn.locks.core.contender import Holder
from inturn.locks.errors import LockBackendError, LockMalformed
from inturn.locks.urls import POSTGRESQL, REDIS, path_of, scheme_of


def list_holders(store: str, prefix: str = "inturn") -> Iterator[Holder]:
    """Yield the holder of each lock in the store at this address. A lock name in it is ignored."""
    address = store.partition("#")[0]
    scheme = scheme_of(address)
    if scheme in REDIS:
        return _list_redis(address, prefix)
    if scheme in POSTGRESQL:
        return _list_postgresql(address)
    if scheme == "file":
        return _list_folder(Path(path_of(address)))
    raise ValueError(
        "this is not a store's address: use redis://…, file:///folder or postgresql://…"
    )


def _list_redis(address: str, prefix: str) -> Iterator[Holder]:
    """Yield the holders of smart locks, and of whatever else is in their place.

    Basic locks have no owner to show.
    """
    from redis.exceptions import RedisError

    from inturn.locks.redis.basic import BasicLock
    from inturn.locks.redis.clients import client_at
    from inturn.locks.redis.ports import translate_error
    from inturn.locks.redis.smart import SmartLock

    with client_at(address, decode_responses=True, encoding_errors="surrogateescape") as client:
        try:
            keys = sorted(set(client.scan_iter(match=f"{prefix}:{{*}}", count=500)))
        except RedisError as error:
            raise translate_error(error) from error
        for key in keys:  # SCAN may return a key twice
            name = key.removeprefix(f"{prefix}:{{").removesuffix("}")
            try:
                holder = SmartLock(client, name, prefix=prefix).holder()
            except LockMalformed:
                holder = BasicLock(client, name, prefix=prefix).holder()
            except ValueError:
                continue  # another program's key, with a name that no lock can have
            if holder is not None:
                yield holder


def _list_postgresql(address: str) -> Iterator[Holder]:
    """Yield the holders of rows only, because an advisory lock does not know its name."""
    from psycopg.errors import UndefinedTable

    from inturn.locks.postgres.ports import PgPort, Query, refuse_malformed_dsn
    from inturn.locks.postgres.statements import ROWS

    refuse_malformed_dsn(address)
    with closing(PgPort(address)) as port:
        try:
            rows = port.do(Query(ROWS))
        except LockBackendError as error:
            if isinstance(error.__cause__, UndefinedTable):
                return
            raise
    for row in rows:
        yield Holder(*row)


def _list_folder(folder: Path) -> Iterator[Holder]:
    from inturn.locks.files.kernel import KernelFileLock

    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder: use file:///folder")
    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.is_symlink():
            try:
                holder = KernelFileLock(path, any_owner=True).holder()
            except LockBackendError:
                continue  # another program's file
            if holder is not None:
                yield holder
