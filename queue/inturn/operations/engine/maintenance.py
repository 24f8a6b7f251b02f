"""Keeping the database in order: lanes, the history, the schema, clocks and sequences."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import LiteralString, NamedTuple

from inturn import sql
from inturn.errors import SchemaMismatch
from inturn.operations import Operation, Statement, ask, find, get_value, read

DAYS_AHEAD = 3  # for which the history has partitions
RECONCILE = "SELECT {schema}.reconcile(%s, %s)"
UPKEEP_IS_DUE = "SELECT {schema}.upkeep_is_due()"
PREPARE_HISTORY = "SELECT {schema}.prepare_history(%s)"
PRUNE_HISTORY = "SELECT {schema}.prune_history(%s, %s)"
ROLL_UP = "SELECT {schema}.roll_up(%s)"
# to_regclass: asking must not fail on a database that was never migrated.
IS_MIGRATED = "SELECT to_regclass(quote_ident(%s) || '.applied_code') IS NOT NULL"
HAS_VERSION = "SELECT to_regclass(quote_ident(%s) || '.schema_version') IS NOT NULL"
REVISION = "SELECT max(version_num) FROM {schema}.schema_version"
# Tables, not a view: views are replaced with the functions, and this must work before that.
VERSION: LiteralString = "SELECT version_num FROM {schema}.schema_version"
SERVED: LiteralString = "SELECT checksum AS item FROM {schema}.applied_code"
APPLIED: LiteralString = "SELECT (" + VERSION + "), ARRAY(" + SERVED + ")"
NOW = "SELECT {schema}.clock()"
SERVER_TIME = "SELECT clock_timestamp()"
AHEAD_OF_CLOCK = """
SELECT greatest(
    interval '0', max(started_at) - {schema}.clock(), max(heartbeat_at) - {schema}.clock(),
    (SELECT created_at FROM {schema}.live_jobs ORDER BY id DESC LIMIT 1) - {schema}.clock())
FROM {schema}.worker_status
"""
USER = "SELECT session_user::text"
SEQUENCES_BEHIND = "SELECT sequence, last, needed FROM {schema}.sequences_behind()"
CACHED_IDS = """
SELECT cache_size FROM pg_sequences WHERE schemaname = %s AND sequencename = 'jobs_id_seq'
"""
TRANSACTIONS = """
SELECT pid, application, state, age FROM {schema}.open_transactions WHERE age IS NOT NULL LIMIT %s
"""
STANDBY_QUERY = """
SELECT application, state, transactions FROM {schema}.open_transactions
WHERE age IS NULL ORDER BY transactions DESC LIMIT 1
"""
# A waiting request blocks those behind it. It matters less than the lock it waits for.
TABLE_LOCK = """
SELECT pid, application, state, age, tables FROM {schema}.open_transactions
WHERE tables IS NOT NULL
ORDER BY EXISTS (
    SELECT FROM pg_locks WHERE pg_locks.pid = open_transactions.pid AND NOT granted), age DESC
LIMIT 1
"""
READ_ONLY = "SELECT {schema}.explain_read_only()"


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A row of the view open_transactions."""

    pid: int | None  # None: it is prepared
    application: str
    state: str
    age: timedelta
    tables: Sequence[str] = ()  # that others cannot write


class StandbyQuery(NamedTuple):
    """The oldest query of a standby with hot_standby_feedback."""

    name: str  # of the standby, or of its slot
    state: str  # "standby" or "slot"
    transactions: int  # that have begun since


def reconcile_lanes(after: str, limit: int) -> Operation[str]:
    """Repair stranded lanes. Return where to continue; empty means from the start."""
    return (yield from get_value(RECONCILE, after, limit)) or ""


def is_upkeep_due() -> Operation[bool]:
    """Return True if jobs have lost their worker, or the history lacks a partition."""
    return ask(bool, UPKEEP_IS_DUE)


def prepare_history(days: int) -> Operation[int | None]:
    """Return how many daily partitions were created.

    None means that the history is in use: try again soon.
    """
    return get_value(PREPARE_HISTORY, days)


def prune_history(keep: timedelta, is_default: bool = False) -> Operation[int | None]:
    """Return how many days were dropped, perhaps not all.

    None means that the history is being read and nothing was dropped. With `is_default`, a longer
    time set on a live worker takes precedence.
    """
    return get_value(PRUNE_HISTORY, keep, is_default)


def roll_up_history(pages: int) -> Operation[bool]:
    """Count ended jobs for the rollup, in so many pages. Return True if there is more to do."""
    return ask(bool, ROLL_UP, pages)


def check_connection(schema: str) -> Operation[bool]:
    """Check the schema if there is one. Return False if nothing was ever migrated here."""
    if not (yield from ask(bool, IS_MIGRATED, schema)):
        return False
    yield from check_schema(schema)
    return True


def check_schema(schema: str) -> Operation[None]:
    """Raise SchemaMismatch unless the database has the tables and functions of this version.

    Those of a later version also match, if it has recorded that they serve this one.
    """
    if not (yield from ask(bool, IS_MIGRATED, schema)):
        raise SchemaMismatch(
            f"The database has no tables of inturn in the schema {schema!r}. "
            "Create them: queue migrate"
        )
    ((revision, served),) = yield Statement(APPLIED)
    _check_version(schema, revision, served)


def check_unless_absent(schema: str) -> Operation[None]:
    """Check the schema like `check_schema`, unless it does not exist yet.

    A restore makes the tables first, and fills them one by one.
    """
    if (yield from ask(bool, HAS_VERSION, schema)) and (yield from get_value(REVISION)):
        yield from check_schema(schema)


def judge_schema(
    schema: str, revision: str | None, served: Sequence[str]
) -> tuple[str, str] | None:
    """Return why tables at this revision do not match, and the remedy, or None."""
    try:
        _check_version(schema, revision, served)
    except SchemaMismatch as error:
        return _split_advice(error)
    return None


def _check_version(schema: str, revision: str | None, served: Sequence[str]) -> None:
    ours = sql.revision()
    if revision is None or revision < ours:
        raise SchemaMismatch(
            f"The schema {schema!r} is at revision {revision}, "
            f"this version needs {ours}. Bring it up to date: queue migrate"
        )
    if sql.checksum() in served:
        return
    check_is_known(schema, revision)
    raise SchemaMismatch(
        f"The functions in schema {schema!r} are not those of this version. "
        "Run the version that was last migrated, or apply them: queue migrate"
    )


def check_is_known(schema: str, revision: str | None) -> None:
    """Raise if a newer version of inturn has migrated the schema."""
    if revision is not None and revision > sql.revision():
        raise SchemaMismatch(
            f"The schema {schema!r} is at revision {revision}, newer than this version knows "
            f"({sql.revision()}). Upgrade: pip install --upgrade inturn"
        )


def find_mismatch(schema: str) -> Operation[tuple[str, str] | None]:
    """Return why the schema does not match, and the remedy, or None if it matches."""
    try:
        yield from check_schema(schema)
    except SchemaMismatch as error:
        return _split_advice(error)
    return None


def _split_advice(error: SchemaMismatch) -> tuple[str, str]:
    problem, _, command = str(error).rpartition(": ")
    return problem, command


def get_now() -> Operation[datetime]:
    """Return the time of the engine's clock."""
    return get_value(NOW)


def get_user() -> Operation[str]:
    return ask(str, USER)


def get_ahead_of_clock() -> Operation[timedelta]:
    """Return how far recorded events are ahead of the server's clock, if it was set back."""
    return get_value(AHEAD_OF_CLOCK)


def get_server_time() -> Operation[datetime]:
    """Return the time of the server's clock, even if the engine's clock was set."""
    return get_value(SERVER_TIME)


def list_sequences_behind() -> Operation[list[tuple[str, int, int]]]:
    """Return the sequences that would repeat a number: their value, and the value they need."""
    return list((yield Statement(SEQUENCES_BEHIND)))


def count_cached_ids(schema: str) -> Operation[int]:
    """Return how many ids of jobs a session draws at once."""
    return ask(int, CACHED_IDS, schema)


def list_transactions(limit: int) -> Operation[list[OpenTransaction]]:
    """Return the open transactions of this database that you may see, oldest first."""
    return read(OpenTransaction, TRANSACTIONS, limit)


def get_standby_query() -> Operation[StandbyQuery | None]:
    """Return the oldest query of the standbys whose old rows this server keeps, if any."""
    return find(StandbyQuery, STANDBY_QUERY)


def get_table_lock() -> Operation[OpenTransaction | None]:
    """Return the transaction that locks a table of the queue, so that all its users wait, if any.

    It reads no table of the queue, so it does not wait.
    """
    return find(OpenTransaction, TABLE_LOCK)
