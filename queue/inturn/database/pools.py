"""psycopg's pools, made to report an outage and to recover from it quickly.

By default a pool waits half a minute without giving a reason, and after an outage it backs off
between its attempts to connect. Here an outage is reported with its reason, and the pool tries to
connect every second while a caller waits for a connection, and not at all otherwise.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import TupleRow, tuple_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolTimeout

from inturn.database import conditions, drive
from inturn.database.deadlines import Terms
from inturn.database.session import AsyncSession, Session
from inturn.errors import DatabaseUnavailable, InturnError

Pool = ConnectionPool[psycopg.Connection[Any]]
AsyncPool = AsyncConnectionPool[psycopg.AsyncConnection[Any]]
RECONNECT = 1.0  # seconds after which the pool gives up an attempt


class PoolUse(NamedTuple):
    """How many connections exist, how many are free, and how many calls wait for one."""

    size: int = 0
    available: int = 0
    waiting: int = 0


def open_sync(terms: Terms, session: dict[str, Any], options: dict[str, Any]) -> Pool:
    """Open a pool, or raise DatabaseUnavailable at once if the database cannot be reached.

    The pool itself would only report a timeout, without the reason.
    """
    with drive.translate_errors(connecting=True):
        Session.connect(terms.address, terms=terms, **session).close()
        pool: Pool = ConnectionPool(
            terms.address,
            connection_class=Session,
            kwargs={**session, "terms": terms},
            open=False,
            **options,
            reconnect_timeout=RECONNECT,
            reconnect_failed=_try_again,
        )
        pool.open()
    return pool


async def open_async(terms: Terms, session: dict[str, Any], options: dict[str, Any]) -> AsyncPool:
    with drive.translate_errors(connecting=True):
        await (await AsyncSession.connect(terms.address, terms=terms, **session)).close()
        pool = new_async(terms, session, options)
        await pool.open()
    return pool


def new_async(terms: Terms, session: dict[str, Any], options: dict[str, Any]) -> AsyncPool:
    """Return a pool that is not open yet. Opening it does not wait for the database."""
    return AsyncConnectionPool(
        terms.address,
        connection_class=AsyncSession,
        kwargs={**session, "terms": terms},
        open=False,
        **options,
        reconnect_timeout=RECONNECT,
        reconnect_failed=_try_again_async,
    )


def take(pool: Pool, seconds: float, since: float = 0.0) -> psycopg.Connection[Any]:
    """Take an open connection from the pool. Drop those that were closed while idle.

    Also drop those that the pool began to open before `since`, when another one was lost.
    """
    try:
        while True:
            own = pool.getconn(seconds)
            if not has_ended(own) and not _is_older(own, since):
                return own
            own.close()
            pool.putconn(own)
    except psycopg.Error as error:
        raise _explain(pool, seconds, error) from _cause(pool, error)


async def take_async(
    pool: AsyncPool, seconds: float, since: float = 0.0
) -> psycopg.AsyncConnection[Any]:
    try:
        while True:
            own = await pool.getconn(seconds)
            if not has_ended(own) and not _is_older(own, since):
                return own
            await own.close()
            await pool.putconn(own)
    except psycopg.Error as error:
        raise _explain(pool, seconds, error) from _cause(pool, error)


def find_cursor(own: psycopg.Connection[Any]) -> psycopg.Cursor[TupleRow]:
    """Return a cursor for one call on a connection from the pool."""
    return own.kept_cursor() if isinstance(own, Session) else own.cursor(row_factory=tuple_row)


def find_cursor_async(own: psycopg.AsyncConnection[Any]) -> psycopg.AsyncCursor[TupleRow]:
    if isinstance(own, AsyncSession):
        return own.kept_cursor()
    return own.cursor(row_factory=tuple_row)


def distrust(pool: Pool, own: psycopg.Connection[Any], reason: BaseException | None = None) -> None:
    """Close a connection that is lost or read-only, and make the pool replace all others.

    The others probably have the same problem.
    """
    _note(pool, reason)
    own.close()
    pool.drain()


async def distrust_async(
    pool: AsyncPool, own: psycopg.AsyncConnection[Any], reason: BaseException | None = None
) -> None:
    _note(pool, reason)
    await own.close()
    await pool.drain()


@contextmanager
def lend(own: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> Iterator[None]:
    """Let the caller use a connection inside the block.

    The caller's own errors pass unchanged. A lost connection raises DatabaseUnavailable.
    """
    terms = None
    if isinstance(own, Session | AsyncSession):
        # A statement of the caller may take as long as it needs.
        terms, own.terms = own.terms, replace(own.terms, give_up_after=None)
    try:
        yield
    except psycopg.Error as error:
        if not own.closed and error.sqlstate != conditions.READ_ONLY:
            raise
        own.pgconn.finish()
        raise conditions.translate(error) from error
    finally:
        if terms is not None and isinstance(own, Session | AsyncSession):
            own.terms = terms


def _is_older(own: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], since: float) -> bool:
    return isinstance(own, Session | AsyncSession) and own.connecting_since < since


def has_ended(own: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Return True if the server has closed the connection.

    This reads the socket and sends nothing.
    """
    try:
        own.pgconn.consume_input()  # perhaps a last message ...
        own.pgconn.consume_input()  # ... and then the end
    except psycopg.Error:
        return True
    return own.closed


def _explain(pool: Pool | AsyncPool, seconds: float, error: psycopg.Error) -> InturnError:
    cause = _cause(pool, error)
    if not isinstance(error, PoolTimeout):
        return conditions.translate(error, connecting=True)
    reason = (
        f"none of the pool's {pool.max_size} became free"
        if cause is error
        else conditions.first_line(cause)
    )
    return DatabaseUnavailable(
        f"No connection to the database within {seconds:g} s: {reason}", outcome_unknown=False
    )


def _cause(pool: Pool | AsyncPool, error: psycopg.Error) -> BaseException:
    """Return why the last attempt to connect failed, which a PoolTimeout does not tell."""
    terms = _terms(pool)
    return terms.failure if isinstance(error, PoolTimeout) and terms and terms.failure else error


def _note(pool: Pool | AsyncPool, reason: BaseException | None) -> None:
    """Keep the reason until the next attempt to connect has a result."""
    terms = _terms(pool)
    if terms is not None and reason is not None:
        terms.failure = reason


def _terms(pool: Pool | AsyncPool) -> Terms | None:
    """Return the terms of a pool, or None if the pool belongs to the caller."""
    terms = pool.kwargs.get("terms") if isinstance(pool.kwargs, dict) else None
    return terms if isinstance(terms, Terms) else None


def _try_again(pool: Pool) -> None:
    """Retry to connect if a caller waits. The pool calls this when it has given up."""
    if pool.get_stats().get("requests_waiting"):
        pool.check()


async def _try_again_async(pool: AsyncPool) -> None:
    if pool.get_stats().get("requests_waiting"):
        await pool.check()
