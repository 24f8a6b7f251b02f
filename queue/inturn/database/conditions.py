"""Translate the driver's errors into inturn's, by their SQLSTATE.

An outage, a failover, a migration under running workers, or a held lock is temporary: the same call
succeeds later. These become DatabaseUnavailable or DatabaseBusy. Every other error is about the
statement itself.
"""

import re

import psycopg
from psycopg import errors as pg

from inturn.database.rights import Tried, describe_refusal
from inturn.errors import (
    BadArgument,
    ConnectorException,
    DatabaseBusy,
    DatabaseUnavailable,
    InturnError,
    LaneBusy,
    SchemaMismatch,
    StaleFence,
    WorkerLost,
)

# The server undid the statement, and the session is fine. A lock was not available, a deadlock or a
# transaction conflict was resolved against us, or a server timeout or a cancel request ended the
# statement.
BUSY = ("55P03", "57014", "40001", "40P01", "40002", "40000")

# The session is lost, and the fate of the statement is unknown: connection lost (08), the server is
# shutting down or ended the session (57), completion unknown (40003).
LOST = ("08", "57", "40003")

# The server undid the statement, and a new session may do better: a primary became a standby
# (25006), a transaction was idle or open for too long (25P03, 25P04), an I/O error (58), an
# internal error, for example while a migration changes what a plan has read (XX), a pooler mixed up
# prepared statements (26000, 42P05), or a migration changed a result's type (42804, 42P13).
READ_ONLY = "25006"
WORN_OUT = (READ_ONLY, "25P03", "25P04", "58", "XX", "26000", "42P05", "42804", "42P13")

FORBIDDEN = "42501"  # the server undid the statement, since a privilege is lacking
WANTING = "53"  # since it temporarily lacks memory, disk space or connections

# The server functions that detect a plan or row older than a migration. Messages cannot identify
# them, because they are translated.
PLAN_CHANGED = (
    "RevalidateCachedQuery",  # cached plan must not change result type
    "CheckVarSlotCompatibility",  # attribute … of type record has been dropped
)

RAISED = "exec_stmt_raise"  # by a function, and not by the server itself
# Where it happened: the innermost function. Our own have our schema first in their search path, so
# no schema precedes their names. A trigger of yours takes no argument.
INNERMOST = re.compile(r'PL/pgSQL[^\n(]*?(?P<schema>[\w"]+\.)?[\w"]+\((?P<takes>[^\n)]*)\)')

AT_LIMIT = ("too many connections", "too many clients", "remaining connection slots")


def translate(
    error: psycopg.Error, *, connecting: bool = False, tried: Tried | None = None
) -> InturnError:
    """Return inturn's error for a driver error.

    `connecting` means that no statement was sent, so nothing can have taken effect. `tried` is the
    statement, if it is one of ours.
    """
    if error.sqlstate == FORBIDDEN:
        who, advice = describe_refusal(tried)
        return DatabaseUnavailable(
            f"{who} lacks a privilege: {first_line(error)}. {advice}",
            connection_lost=False,
            outcome_unknown=False,
        )
    return _condition(error, connecting) or _answer(error)


def _condition(error: psycopg.Error, connecting: bool) -> DatabaseUnavailable | None:
    state, reason = error.sqlstate or "", first_line(error)
    if state.startswith(BUSY):
        return DatabaseBusy(f"The database is busy: {reason}")
    is_worn_out = state.startswith(WORN_OUT) or error.diag.source_function in PLAN_CHANGED
    if is_worn_out or state.startswith(WANTING):
        return DatabaseUnavailable(
            f"The database cannot do this now: {reason}",
            connection_lost=is_worn_out,
            outcome_unknown=False,
        )
    if connecting:
        problem = (
            "The server refuses more connections"
            if refuses_more(error)
            else "The database cannot be reached"
        )
        return DatabaseUnavailable(f"{problem}: {reason}", outcome_unknown=False)
    silent = not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    silent = silent and not isinstance(error, pg.PipelineAborted)
    if silent or state.startswith(LOST):
        return DatabaseUnavailable(f"The database cannot be reached or went away: {reason}")
    return None


def refuses_more(error: BaseException | None) -> bool:
    """Return True if the server, a database or a role has reached its connection limit.

    libpq reports no SQLSTATE for a refused connection. For a server with another language, the
    general message is used.
    """
    return any(words in str(error) for words in AT_LIMIT)


def _answer(error: psycopg.Error) -> InturnError:
    reason = first_line(error)
    innermost = INNERMOST.search(error.diag.context or "")
    is_foreign = innermost is not None and bool(innermost["schema"] or not innermost["takes"])
    is_ours = not is_foreign and error.diag.source_function == RAISED
    match error:
        case (
            pg.InvalidSchemaName()
            | pg.UndefinedTable()
            | pg.UndefinedFunction()
            | pg.UndefinedColumn()
        ) if not is_foreign:
            return SchemaMismatch(
                f"Part of inturn's schema is missing ({reason}). Create or update it: queue migrate"
            )
        case pg.ObjectInUse() if is_ours:
            return LaneBusy(f"{reason}. Abort the job, or wait until it ends")
        case pg.ObjectNotInPrerequisiteState() if is_ours:
            return StaleFence(reason)
        case pg.NoDataFound() if is_ours:
            return WorkerLost(reason)
        case pg.InvalidParameterValue() if is_ours:
            argument, _, problem = reason.partition(": ")
            if argument.isidentifier():
                return BadArgument(argument, problem)
    return ConnectorException(f"The database refused: {reason}")


def first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
