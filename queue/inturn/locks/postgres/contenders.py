"""Contenders for locks in PostgreSQL, advisory and in rows, and their SQL."""

from typing import TYPE_CHECKING, Any

import psycopg

from inturn.locks.core.engine import LONGEST_PAUSE, Claim, Grant, Refusal, Renewal
from inturn.locks.core.protocol import Steps
from inturn.locks.errors import LockDeadlock, LockError
from inturn.locks.postgres.ports import Query

if TYPE_CHECKING:
    from inturn.locks.postgres.pg_lock import _Pg

LONGEST_SLICE = 30.0  # seconds that one statement waits in the server's queue

TRY = "SELECT pg_try_advisory_lock(%s)"
TRY_IN_TRANSACTION = "SELECT pg_try_advisory_xact_lock(%s)"
# lock_timeout is set for this statement alone: CASE, because the order of a list's items is not promised.
WAIT = "SELECT CASE WHEN set_config('lock_timeout', %s, false) IS NOT NULL THEN pg_advisory_lock(%s) IS NOT NULL END"
FENCE = "SELECT pg_current_xact_id()::text::bigint, extract(epoch FROM clock_timestamp())::float8"
UNLOCK = "SELECT pg_advisory_unlock(%s)"
LOCKS = """
SELECT pid, extract(epoch FROM state_change)::float8, extract(epoch FROM clock_timestamp())::float8, application_name
FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND objsubid = 1
  AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (classid::bigint << 32) | objid::bigint = %s
"""
MINE = f"SELECT EXISTS ({LOCKS} AND pid = pg_backend_pid())"

TAKE_ROW = """
INSERT INTO inturn_locks AS held (name, lock_id, owner, fence, acquired_at, expires_at)
VALUES (%(name)s, %(lock_id)s, %(owner)s, 1, clock_timestamp(), clock_timestamp() + %(ttl)s * interval '1 second')
ON CONFLICT (name) DO UPDATE SET
  lock_id = excluded.lock_id, owner = excluded.owner,
  fence = held.fence + (held.lock_id IS DISTINCT FROM excluded.lock_id)::int,
  acquired_at = CASE WHEN held.lock_id = excluded.lock_id THEN held.acquired_at ELSE excluded.acquired_at END,
  expires_at = CASE WHEN held.lock_id = excluded.lock_id THEN held.expires_at ELSE excluded.expires_at END
WHERE held.lock_id IS NULL OR held.lock_id = excluded.lock_id OR held.expires_at <= clock_timestamp()
RETURNING fence, extract(epoch FROM acquired_at)::float8
"""
DROP_ROW = """
UPDATE inturn_locks SET lock_id = NULL, owner = NULL, expires_at = NULL, released = %(lock_id)s
WHERE name = %(name)s AND (lock_id = %(lock_id)s AND expires_at > clock_timestamp()
  OR lock_id IS NULL AND released = %(lock_id)s)
RETURNING true
"""
RENEW_ROW = """
UPDATE inturn_locks SET expires_at = clock_timestamp() + %(ttl)s * interval '1 second'
WHERE name = %(name)s AND lock_id = %(lock_id)s AND expires_at > clock_timestamp()
RETURNING true
"""

LOOK_AT_ROW = """
SELECT owner, lock_id, extract(epoch FROM acquired_at)::float8,
  extract(epoch FROM clock_timestamp() - acquired_at)::float8,
  extract(epoch FROM expires_at - clock_timestamp())::float8, fence, released
FROM inturn_locks WHERE name = %(name)s
"""


class AdvisoryClaim(Claim):
    longest_pause = LONGEST_PAUSE

    def __init__(self, lock: "_Pg[Any]", lock_id: str | None) -> None:
        super().__init__(lock.name, lock_id)
        self._lock = lock
        self._taken = False

    def take(self, patience: float) -> Steps[Grant | Refusal]:
        if not self._taken:
            self._taken = yield from self._try(patience)
        if not self._taken:
            return Refusal((yield from self._lock.look()))
        rows = yield Query(FENCE)
        return Grant(self._lock.owner, *rows[0])

    def _try(self, patience: float) -> Steps[bool]:
        key, in_transaction = self._lock.key, self._lock.mode == "transaction"
        rows = yield Query(TRY_IN_TRANSACTION if in_transaction else TRY, (key,))
        if rows[0][0] or not patience or in_transaction:
            return bool(rows[0][0])
        slice_ms = max(1, int(min(patience, LONGEST_SLICE) * 1000))
        try:
            rows = yield Query(WAIT, (str(slice_ms), key), repeatable=False)
        except LockError as error:
            if isinstance(error.__cause__, psycopg.errors.LockNotAvailable):
                return False
            if isinstance(error.__cause__, psycopg.errors.DeadlockDetected):
                raise LockDeadlock("the server found that its holder waits for us", name=self.name) from error
            raise
        return True

    def drop(self) -> Steps[bool]:
        if self._lock.mode == "transaction":
            return (yield from self.owned()) if self._taken else True  # the end of the transaction gives it back
        if not self._taken:
            return True
        rows = yield Query(UNLOCK, (self._lock.key,))
        self._taken = False
        return bool(rows[0][0])

    def renew(self, ttl: float | None) -> Steps[Renewal]:
        return Renewal.RENEWED if (yield from self.owned()) else Renewal.GONE

    def owned(self) -> Steps[bool]:
        rows = yield Query(MINE, (self._lock.key,))
        return bool(rows[0][0])


class RowClaim(Claim):
    def __init__(self, lock: "_Pg[Any]", lock_id: str | None) -> None:
        super().__init__(lock.name, lock_id)
        self._lock = lock

    def _parameters(self, **more: Any) -> dict[str, Any]:
        return {"name": self.name, "lock_id": self.lock_id, **more}

    def take(self, patience: float) -> Steps[Grant | Refusal]:
        rows = yield Query(TAKE_ROW, self._parameters(owner=self._lock.owner, ttl=self._lock.terms.first_ttl))
        if rows:
            return Grant(self._lock.owner, *rows[0])
        holder = yield from self._lock.look()
        return Refusal(holder, holder.ttl if holder else 0.0)

    def drop(self) -> Steps[bool]:
        return bool((yield Query(DROP_ROW, self._parameters())))

    def renew(self, ttl: float | None) -> Steps[Renewal]:
        if (yield Query(RENEW_ROW, self._parameters(ttl=ttl))):
            return Renewal.RENEWED
        rows = yield Query(LOOK_AT_ROW, self._parameters())
        return Renewal.RELEASED if rows and rows[0][6] == self.lock_id else Renewal.GONE

    def owned(self) -> Steps[bool]:
        holder = yield from self._lock.look()
        return holder is not None and holder.lock_id == self.lock_id
