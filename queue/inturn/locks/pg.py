"""Locks in PostgreSQL.

`mode="session"` (mutex): an advisory lock on a connection of its own, never a pooled one. Lost only with that
connection, which is looked at every few seconds. The server queues the waiters and tells the next one at once.
`mode="transaction"` (mutex): an advisory lock in the caller's transaction, given back by its commit or roll-back.
`mode="table"` (lease): a row with a time to live, by the server's clock; survives its connection, also through a pooler.

Fences grow from holder to holder: of an advisory lock it is the id of a transaction begun while holding it, of a row
a counter in it. Advisory locks are known by a 64-bit hash of their names, shared by all users of one database.
"""

import hashlib
import os
import socket
from typing import Any, Literal

from psycopg.pq import TransactionStatus

from inturn.locks.baselock import BaseLock, L
from inturn.locks.engine import Claim, Holder
from inturn.locks.errors import LockError
from inturn.locks.lock import Lock
from inturn.locks.lock_async import AsyncLock
from inturn.locks.pg_claims import LOCKS, LOOK_AT_ROW, AdvisoryClaim, RowClaim
from inturn.locks.pg_port import AsyncPgPort, PgPort, Query
from inturn.locks.steps import Steps
from inturn.locks.terms import OnTimeout, Terms

Mode = Literal["session", "transaction", "table"]
ROW_TTL = 30.0
END = f"SELECT bool_or(pg_terminate_backend(pid)) FROM ({LOCKS}) AS holders"  # noqa: S608
BREAK_ROW = """
UPDATE inturn_locks SET lock_id = NULL, owner = NULL, expires_at = NULL, fence = fence + 1
WHERE name = %(name)s AND lock_id IS NOT NULL AND expires_at > clock_timestamp()
RETURNING true
"""


class _Pg(BaseLock[L]):
    def __init__(
        self,
        where: Any,
        name: str,
        *,
        mode: Mode = "session",
        ttl: float | None = None,
        timeout: float | None = None,
        on_timeout: OnTimeout = "raise",
        owner: str | None = None,
        **terms: Any,
    ) -> None:
        """`where`: a DSN; for `mode="transaction"` the connection whose transaction it is."""
        if mode not in ("session", "transaction", "table"):
            raise ValueError(f"mode={mode!r}: choose 'session', 'transaction' or 'table'")
        if isinstance(where, str) == (mode == "transaction"):
            raise ValueError("give the caller's connection for mode='transaction', and a DSN for the others")
        if isinstance(where, str):
            refuse_malformed(where)
        if ttl is not None and mode != "table":
            raise ValueError(f"ttl={ttl}: an advisory lock has no time to live; choose mode='table'")
        if mode == "transaction":
            terms["renew"] = False  # the connection is the caller's: no watchdog talks on it
        if mode == "table" and ttl is None:
            ttl = ROW_TTL
        super().__init__(name, Terms(ttl, timeout, on_timeout, **terms))
        self.where = where
        self.mode = mode
        self.owner = owner or f"{socket.gethostname()} pid {os.getpid()}"
        self.key = int.from_bytes(hashlib.blake2b(f"inturn:{name}".encode(), digest_size=8).digest(), signed=True)
        self.portable = mode == "table"

    def claim(self, lock_id: str | None = None) -> Claim:
        if self.mode == "table":
            return RowClaim(self.settings(), lock_id)
        if self.mode == "transaction" and self.where.autocommit and self._is_idle():
            raise LockError("the connection is in no transaction that could hold it", name=self.name)
        return AdvisoryClaim(self.settings(), lock_id)

    def _is_idle(self) -> bool:
        return bool(self.where.info.transaction_status == TransactionStatus.IDLE)

    def look(self) -> Steps[Holder | None]:
        if self.mode == "table":
            rows = yield Query(LOOK_AT_ROW, {"name": self.name})
            if not rows or rows[0][1] is None or rows[0][4] <= 0:
                return None
            return Holder(self.name, *rows[0][:6])
        rows = yield Query(LOCKS, (self.key,))
        if not rows:
            return None
        pid, since, now, application = rows[0]
        return Holder(self.name, f"backend {pid} {application}".strip(), str(pid), since, now - since)

    def break_steps(self) -> Steps[bool]:
        if self.mode == "table":
            return bool((yield Query(BREAK_ROW, {"name": self.name})))
        rows = yield Query(END, (self.key,))  # nothing but the end of its session frees it
        return bool(rows[0][0])


def refuse_malformed(dsn: str) -> None:
    # Imported here, so that importing the locks imports nothing of the database package.
    from inturn.database.dsn import find_problem

    wrong = find_problem(dsn)
    if wrong is not None:
        raise ValueError(f"this {wrong}")


class PgLock(_Pg[Any], Lock):
    """Mutex; `mode="table"`: lease. In PostgreSQL, for a session, a transaction, or by a row."""

    def port(self) -> PgPort:
        return PgPort(self.where)


class AsyncPgLock(_Pg[Any], AsyncLock):
    """Mutex; `mode="table"`: lease. The async twin of PgLock."""

    def port(self) -> AsyncPgPort:
        return AsyncPgPort(self.where)
