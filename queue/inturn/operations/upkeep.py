"""What keeps a worker known and the house in order."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from inturn import sql
from inturn.errors import SchemaMismatch
from inturn.operations import Operation, Statement

REGISTER = "SELECT {schema}.register_worker(%s, %s, %s, %s::text[], %s, %s::text[])"
HEARTBEAT = "SELECT {schema}.heartbeat(%s, %s)"
LAST_HEARTBEATS = "SELECT id, heartbeat_at, late, locked FROM {schema}.last_heartbeats(%s)"
DECLARE_DEAD = "SELECT {schema}.declare_dead(%s, %s)"
RESCUE = "SELECT id, worker_id, failed FROM {schema}.rescue(%s)"
LEAVE = "SELECT {schema}.unregister_worker(%s, %s, %s)"
RECONCILE = "SELECT {schema}.reconcile(%s, %s)"
PREPARE_HISTORY = "SELECT {schema}.prepare_history(%s)"
PRUNE_HISTORY = "SELECT {schema}.prune_history(%s)"
# to_regclass: asking must not fail on a database that was never migrated.
IS_MIGRATED = "SELECT to_regclass(quote_ident(%s) || '.applied_code') IS NOT NULL"
APPLIED = "SELECT (SELECT version_num FROM {schema}.schema_version), (SELECT checksum FROM {schema}.applied_code)"


class Heard(NamedTuple):
    """When a worker was last heard of.

    `late`: it has jobs in hand and was silent for longer than one may be. `locked`: somebody has its row locked, so it cannot be
    heard of.
    """

    worker_id: UUID
    heartbeat_at: datetime
    late: bool
    locked: bool


def register(
    name: str,
    hostname: str,
    pid: int,
    queues: Sequence[str] | None,
    concurrency: int,
    tasks: Iterable[str],
) -> Operation[UUID]:
    names = None if queues is None else list(queues)
    ((worker_id,),) = yield Statement(
        REGISTER, [name, hostname, pid, names, concurrency, list(tasks)]
    )
    assert isinstance(worker_id, UUID)
    return worker_id


def heartbeat(worker_id: UUID, blocked: timedelta = timedelta(0)) -> Operation[bool]:
    """Return False if the worker was taken for dead. `blocked`: for how long its event loop has not turned."""
    ((alive,),) = yield Statement(HEARTBEAT, [worker_id, blocked])
    return bool(alive)


def last_heartbeats(late_after: timedelta) -> Operation[list[Heard]]:
    """When each worker was last heard of."""
    rows = yield Statement(LAST_HEARTBEATS, [late_after])
    return [Heard(*row) for row in rows]


def declare_dead(silent: Mapping[UUID, datetime]) -> Operation[set[UUID]]:
    """Return the workers that are dead now: those that were not heard of again since these heartbeats."""
    rows = yield Statement(DECLARE_DEAD, [list(silent), list(silent.values())])
    return {id for (id,) in rows}


def rescue(max_lost: int | None) -> Operation[list[tuple[int, UUID, bool]]]:
    """The jobs taken back, the dead workers that had them, and whether that was once too often."""
    rows = yield Statement(RESCUE, [max_lost])
    return [(id, worker_id, failed) for id, worker_id, failed in rows]


def leave(worker_id: UUID, error: str | None = None, max_lost: int | None = None) -> Operation[int]:
    """Return how many jobs were given back. After an error they are lost to the worker, as if it had died."""
    ((count,),) = yield Statement(LEAVE, [worker_id, error, max_lost])
    return int(count)


def reconcile(after: str, limit: int) -> Operation[str]:
    """Where to go on with the next call; empty: from the beginning."""
    ((last,),) = yield Statement(RECONCILE, [after, limit])
    return last or ""


def prepare_history(days: int) -> Operation[int | None]:
    """How many daily partitions were created; None: somebody is reading the history, try again soon."""
    ((created,),) = yield Statement(PREPARE_HISTORY, [days])
    return None if created is None else int(created)


def prune_history(keep: timedelta) -> Operation[int | None]:
    """How many days were dropped, perhaps not all; None: the history is being read, so none."""
    ((dropped,),) = yield Statement(PRUNE_HISTORY, [keep])
    return None if dropped is None else int(dropped)


def check_connection(schema: str) -> Operation[bool]:
    """False: nothing was ever migrated here."""
    ((migrated,),) = yield Statement(IS_MIGRATED, [schema])
    if migrated:
        yield from check_schema(schema)
    return bool(migrated)


def check_schema(schema: str) -> Operation[None]:
    """Raise SchemaMismatch unless the database has the tables and functions of this version."""
    ((migrated,),) = yield Statement(IS_MIGRATED, [schema])
    if not migrated:
        raise SchemaMismatch(
            f"The database has no schema {schema!r} of inturn. Create it: queue migrate"
        )
    ((revision, checksum),) = yield Statement(APPLIED)
    ours = sql.revision()
    if revision is None or revision < ours:
        raise SchemaMismatch(
            f"The schema {schema!r} is at revision {revision}, this version needs {ours}. Bring it up to date: queue migrate"
        )
    if revision > ours:
        raise SchemaMismatch(
            f"The schema {schema!r} is at revision {revision}, newer than this version knows ({ours}). Upgrade: "
            "pip install --upgrade inturn"
        )
    if checksum != sql.checksum():
        raise SchemaMismatch(
            f"The functions in schema {schema!r} are not those of this version. Apply them: queue migrate "
            "(or run the version that was last migrated)"
        )
