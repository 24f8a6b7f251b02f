"""What an error of the driver means: the driver's errors as inturn's, judged by their SQLSTATE.

An outage, a failover, a migration under running workers and a lock that somebody holds are conditions: they pass, and
the same call succeeds later. They become DatabaseUnavailable or DatabaseBusy. Everything else is an answer to the
statement itself, and stays one.
"""

import psycopg
from psycopg import errors as pg

from inturn.errors import (
    ConnectorException,
    DatabaseBusy,
    DatabaseUnavailable,
    InturnError,
    LaneBusy,
    SchemaMismatch,
    StaleFence,
    WorkerLost,
)

# The server has undone the statement, and the session is fine: a lock was not to be had, a deadlock or a conflict of
# transactions was resolved against us, a time limit of the server's or somebody's cancel request ended the statement.
BUSY = ("55P03", "57014", "40001", "40P01", "40002", "40000")

# The session is over, or will never be right again, and nobody can say what became of the statement: connection
# lost (08), the server shuts down or ended the session (57), completion unknown (40003).
LOST = ("08", "57", "40003")

# The server has undone the statement, and a new session may do better: a primary that became a standby (25006),
# a transaction that was idle or open for too long (25P03, 25P04), an I/O error (58), an internal error, as seen while
# a migration changes what a plan has read (XX), prepared statements that a pooler has mixed up (26000, 42P05), and
# the type of a result that a migration has changed (42804, 42P13).
READ_ONLY = "25006"
WORN_OUT = (READ_ONLY, "25P03", "25P04", "58", "XX", "26000", "42P05", "42804", "42P13")

# The server has undone the statement for want of something that comes back: memory, disk space or connections (53), a
# right that was revoked (42501).
FORBIDDEN = "42501"
WANTING = ("53", FORBIDDEN)

# Where the server says that a plan, or a row, is of a table as it was before a migration; its words have many languages.
PLAN_CHANGED = (
    "RevalidateCachedQuery",  # cached plan must not change result type
    "CheckVarSlotCompatibility",  # attribute … of type record has been dropped
)

MISSING = (pg.InvalidSchemaName, pg.UndefinedTable, pg.UndefinedFunction, pg.UndefinedColumn)


def translate(error: psycopg.Error, *, connecting: bool = False) -> InturnError:
    """Return inturn's error for the driver's. `connecting`: no statement was sent, so nothing can have taken effect."""
    return _condition(error, connecting) or _about_the_schema(error) or _answer(error)


def _condition(error: psycopg.Error, connecting: bool) -> DatabaseUnavailable | None:
    state, reason = error.sqlstate or "", first_line(error)
    if state.startswith(BUSY):
        return DatabaseBusy(
            f"The database is busy: {reason}", connection_lost=False, outcome_unknown=False
        )
    if state.startswith(WORN_OUT) or _plan_has_changed(error):
        return DatabaseUnavailable(
            f"The database cannot do this now: {reason}", outcome_unknown=False
        )
    if state == FORBIDDEN:
        reason += ". If a right is missing: queue schema grants"
    if state.startswith(WANTING):
        return DatabaseUnavailable(
            f"The database cannot do this now: {reason}",
            connection_lost=False,
            outcome_unknown=False,
        )
    if connecting:
        return DatabaseUnavailable(
            f"The database cannot be reached: {reason}", outcome_unknown=False
        )
    silent = not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    if silent or state.startswith(LOST):
        return DatabaseUnavailable(f"The database cannot be reached or went away: {reason}")
    return None


def _about_the_schema(error: psycopg.Error) -> SchemaMismatch | None:
    if isinstance(error, MISSING):
        return SchemaMismatch(
            f"The database lacks a part of inturn's schema ({first_line(error)}). Create or update it: queue migrate"
        )
    return None


def _answer(error: psycopg.Error) -> InturnError:
    reason = first_line(error)
    match error:
        case pg.ObjectInUse():
            return LaneBusy(f"{reason}. Abort the job, or wait until it ends")
        case pg.ObjectNotInPrerequisiteState():
            return StaleFence(reason)
        case pg.NoDataFound():
            return WorkerLost(reason)
    return ConnectorException(f"The database refused: {reason}")


def _plan_has_changed(error: psycopg.Error) -> bool:
    return error.diag.source_function in PLAN_CHANGED


def first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
