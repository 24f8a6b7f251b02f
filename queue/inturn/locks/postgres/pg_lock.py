"""Locks in PostgreSQL.

`mode="session"` (mutex): an advisory lock on its own connection, never a pooled one. It is lost
only with that connection, which is checked every few seconds. The server queues the waiters and
wakes the next one at once.

`mode="transaction"` (mutex): an advisory lock in the caller's transaction. Commit or rollback
releases the lock. It has no fence if the transaction had an id before, since it had written, or
taken such a lock.

`mode="table"` (lease): a row with a time to live by the server's clock. It survives its connection,
and works through a pooler.

Fences grow from holder to holder. For an advisory lock, the fence is the id of a transaction that
began while the lock was held. For a row, it is a counter in the row. An advisory lock is identified
by a 64-bit hash of its name, and all users of a database share these numbers.
"""

import hashlib
import os
import socket
from typing import Any, Literal

import psycopg
from psycopg.pq import TransactionStatus

from inturn.locks.core.base_lock import BaseLock, L
from inturn.locks.core.contender import Contender, Grant, Holder, Refusal, Renewal
from inturn.locks.core.lock import Lock
from inturn.locks.core.lock_async import AsyncLock
from inturn.locks.core.protocol import Steps
from inturn.locks.core.settings import LockSettings, OnTimeout
from inturn.locks.errors import LockDeadlock, LockError
from inturn.locks.postgres import statements
from inturn.locks.postgres.ports import AsyncPgPort, PgPort, Query, refuse_malformed_dsn

Mode = Literal["session", "transaction", "table"]
ROW_TTL = 30.0
LONGEST_SLICE = 30.0  # seconds that one statement waits in the server's queue


class AdvisoryContender(Contender):
    _lock: "_Pg[Any]"
    _taken = False

    def take(self, patience: float) -> Steps[Grant | Refusal]:
        rows = yield from self._try(patience)
        self._taken = bool(rows)
        if not rows:
            return Refusal((yield from self._lock.look()))
        return Grant(self._lock.owner, *rows[0])

    def _try(self, patience: float) -> Steps[list[Any]]:
        key, in_transaction = self._lock.key, self._lock.mode == "transaction"
        statement = statements.TRY_IN_TRANSACTION if in_transaction else statements.TRY
        rows: list[Any] = yield Query(statement, (key,))
        if rows or not patience or in_transaction:
            return rows
        slice_ms = max(1, int(min(patience, LONGEST_SLICE) * 1000))
        try:
            rows = yield Query(statements.WAIT, (str(slice_ms), key), repeatable=False)
        except LockError as error:
            if isinstance(error.__cause__, psycopg.errors.LockNotAvailable):
                return []
            if isinstance(error.__cause__, psycopg.errors.DeadlockDetected):
                raise LockDeadlock(
                    "the server detected that its holder waits for us. Take locks in the same "
                    "order everywhere",
                    name=self.name,
                ) from error
            raise
        return rows

    def drop(self) -> Steps[bool]:
        if not self._taken:
            return True
        if self._lock.mode == "transaction":  # the end of the transaction releases it
            return (yield from self.owned())
        rows = yield Query(statements.UNLOCK, (self._lock.key,))
        self._taken = False
        return bool(rows[0][0])

    def owned(self) -> Steps[bool]:
        rows = yield Query(statements.IS_OURS, (self._lock.key,))
        return bool(rows[0][0])


class RowContender(Contender):
    _lock: "_Pg[Any]"

    def _parameters(self, **more: Any) -> dict[str, Any]:
        return {"name": self.name, "lock_id": self.lock_id, **more}

    def take(self, patience: float) -> Steps[Grant | Refusal]:
        lock = self._lock
        parameters = self._parameters(owner=lock.owner, ttl=lock.settings.first_ttl)
        rows = yield Query(statements.TAKE_ROW, parameters)
        if rows:
            return Grant(lock.owner, *rows[0])
        holder = yield from lock.look()
        return Refusal(holder, holder.ttl if holder else 0.0)

    def drop(self) -> Steps[bool]:
        return bool((yield Query(statements.DROP_ROW, self._parameters())))

    def renew(self, ttl: float | None) -> Steps[Renewal]:
        if (yield Query(statements.RENEW_ROW, self._parameters(ttl=ttl))):
            return Renewal.RENEWED
        rows = yield Query(statements.LOOK_AT_ROW, self._parameters())
        return Renewal.RELEASED if rows and rows[0][6] == self.lock_id else Renewal.GONE

    def owned(self) -> Steps[bool]:
        holder = yield from self._lock.look()
        return holder is not None and holder.lock_id == self.lock_id


class _Pg(BaseLock[L]):
    place = "in PostgreSQL"

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
        **settings: Any,
    ) -> None:
        """`where` is a DSN or, for `mode="transaction"`, the connection of that transaction."""
        if mode not in ("session", "transaction", "table"):
            raise ValueError(f"mode={mode!r}: choose 'session', 'transaction' or 'table'")
        if isinstance(where, str) == (mode == "transaction"):
            raise ValueError(
                "pass your connection for mode='transaction', and a DSN for the other modes"
            )
        if isinstance(where, str):
            refuse_malformed_dsn(where)
        if ttl is not None and mode != "table":
            raise ValueError(
                f"ttl={ttl}: an advisory lock has no time to live; choose mode='table'"
            )
        if mode == "transaction":
            settings["renew"] = False  # no watchdog may use the caller's connection
        if mode == "table" and ttl is None:
            ttl = ROW_TTL
        super().__init__(name, LockSettings(ttl, timeout, on_timeout, **settings))
        self.where = where
        self.mode = mode
        self.owner = owner or f"{socket.gethostname()} pid {os.getpid()}"
        digest = hashlib.blake2b(f"inturn:{name}".encode(), digest_size=8).digest()
        self.key = int.from_bytes(digest, signed=True)
        self.portable = mode == "table"

    def new_contender(self, lock_id: str | None = None) -> Contender:
        if self.mode == "table":
            return RowContender(self.template(), lock_id)
        if self.mode == "transaction" and self.where.autocommit and self._is_idle():
            raise LockError(
                "the connection has no open transaction to hold the lock; begin one first",
                name=self.name,
            )
        return AdvisoryContender(self.template(), lock_id)

    def _is_idle(self) -> bool:
        return bool(self.where.info.transaction_status == TransactionStatus.IDLE)

    def look(self) -> Steps[Holder | None]:
        if self.mode == "table":
            rows = yield Query(statements.LOOK_AT_ROW, {"name": self.name})
            if not rows or rows[0][1] is None or rows[0][4] <= 0:
                return None
            return Holder(self.name, *rows[0][:6])
        rows = yield Query(statements.HOLDERS, (self.key,))
        if not rows:
            return None
        pid, since, now, application = rows[0]
        owner = f"backend {pid} {application}".strip()
        return Holder(self.name, owner, str(pid), since, now - since)

    def break_steps(self) -> Steps[bool]:
        if self.mode == "table":
            return bool((yield Query(statements.BREAK_ROW, {"name": self.name})))
        # Only the end of its session frees an advisory lock.
        rows = yield Query(statements.END_HOLDER, (self.key,))
        return bool(rows[0][0])


class PgLock(_Pg[Any], Lock):
    """Mutex; `mode="table"`: lease. In PostgreSQL, for a session, a transaction, or by a row."""

    def port(self) -> PgPort:
        return PgPort(self.where)


class AsyncPgLock(_Pg[Any], AsyncLock):
    """Mutex; `mode="table"`: lease. The async twin of PgLock."""

    def port(self) -> AsyncPgPort:
        return AsyncPgPort(self.where)
