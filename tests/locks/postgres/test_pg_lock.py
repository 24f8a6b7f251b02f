"""What only the locks in PostgreSQL do."""

import asyncio
import threading
from typing import Any

import psycopg
import pytest

from inturn.locks import (
    AsyncPgLock,
    LockBackendError,
    LockDeadlock,
    LockError,
    LockLost,
    PgLock,
    check_lock_fence,
    highest_fence,
    install,
)
from inturn.locks.postgres import statements
from inturn.locks.postgres.ports import AsyncPgPort, PgPort
from tests.locks.conftest import in_threads, until


def test_a_transactions_lock_ends_with_the_transaction(pg: str) -> None:
    for end in ("commit", "rollback"):
        with psycopg.connect(pg) as connection:
            with PgLock(connection, "it", mode="transaction") as lease:
                assert lease is not None
                assert PgLock(pg, "it").acquire(timeout=0) is None
            # Still held: what it protects is not committed yet.
            assert PgLock(pg, "it").acquire(timeout=0) is None
            getattr(connection, end)()
            with PgLock(pg, "it", timeout=0):
                pass


def test_a_transaction_that_has_an_id_gets_no_fence(pg: str) -> None:
    """Its id is lower than the fence of a holder that came and went meanwhile."""
    with psycopg.connect(pg) as connection:

        def fence(where: Any, **mode: Any) -> int | None:
            with PgLock(where, "it", **mode) as lease:
                assert lease is not None
                return lease.fence

        with connection.transaction():
            first = fence(connection, mode="transaction")
        with connection.transaction():
            connection.execute("SELECT pg_current_xact_id()")
            between = fence(pg)
            assert fence(connection, mode="transaction") is None
    assert first is not None
    assert between is not None
    assert first < between


def test_a_transactions_lock_needs_a_transaction(pg: str) -> None:
    with psycopg.connect(pg, autocommit=True) as connection:
        with pytest.raises(LockError, match="no open transaction"):
            PgLock(connection, "it", mode="transaction").acquire()
        with connection.transaction(), PgLock(connection, "it", mode="transaction"):
            pass


def test_a_session_lock_has_its_own_connection_and_leaves_none(pg: str) -> None:
    with psycopg.connect(pg, autocommit=True) as watcher:

        def sessions() -> int:
            row = watcher.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'inturn lock'"
                " AND datname = current_database()"
            ).fetchone()
            assert row is not None
            return int(row[0])

        with PgLock(pg, "it"):
            assert sessions() == 1
            assert PgLock(pg, "it").acquire(timeout=0) is None
        until(lambda: sessions() == 0)


def test_waiters_stand_in_the_servers_queue(pg: str) -> None:
    with psycopg.connect(pg, autocommit=True) as watcher:
        held = PgLock(pg, "it").acquire()
        assert held is not None

        def release() -> None:
            until(
                lambda: watcher.execute(
                    "SELECT 1 FROM pg_locks WHERE locktype='advisory' AND NOT granted"
                ).fetchone()
            )
            held.release()

        def wait() -> None:
            with PgLock(pg, "it", timeout=20):
                pass

        in_threads(release, wait)


def test_a_deadlock_that_the_server_finds_is_named(pg: str) -> None:
    """Each of two sessions holds what the other one wants, and one of them gets an error."""
    from inturn.locks.postgres.ports import PgPort, Query

    a, b = PgLock(pg, "a"), PgLock(pg, "b")
    ports = [PgPort(pg), PgPort(pg)]
    for port, lock in zip(ports, (a, b), strict=True):
        port.do(Query("SELECT pg_advisory_lock(%s)", (lock.key,)))
    from inturn.locks.core.protocol import run

    def want(lock: Any, port: Any) -> Any:
        try:
            return run(lock.new_contender().take(10.0), port)
        except LockDeadlock:
            port.close()  # it gives way
            return "deadlock"

    results = in_threads(lambda: want(b, ports[0]), lambda: want(a, ports[1]))
    assert results.count("deadlock") == 1
    for port in ports:
        port.close()


def test_waiting_for_oneself_is_a_deadlock_and_not_for_ever(pg: str) -> None:
    lock = PgLock(pg, "it")
    with lock, pytest.raises(LockDeadlock, match="yourself"):
        lock.acquire()


def test_without_its_table_it_says_what_to_do(empty_dsn: str) -> None:
    with pytest.raises(LockBackendError, match=r"inturn\.locks\.install"):
        PgLock(empty_dsn, "it", mode="table").acquire()
    with pytest.raises(LockBackendError, match=r"inturn\.locks\.install"):
        highest_fence(empty_dsn, "it")
    in_threads(*[lambda: install(empty_dsn)] * 4)


@pytest.mark.parametrize(
    "wrong", [{"mode": "row"}, {"ttl": 5}, {"mode": "table", "ttl": 0}, {"mode": "transaction"}]
)
def test_terms_that_make_no_sense_are_refused(pg: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"mode|ttl"):
        PgLock(pg, "it", **wrong)


def test_a_fence_check_keeps_later_holders_waiting_until_the_commit(pg: str) -> None:
    with psycopg.connect(pg) as first, psycopg.connect(pg) as second:
        check_lock_fence(first, "it", 1)
        passed = threading.Event()

        def later() -> None:
            check_lock_fence(second, "it", 2)
            passed.set()
            second.commit()

        def commit() -> None:
            with psycopg.connect(pg, autocommit=True) as watcher:
                until(
                    lambda: watcher.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone()
                )
            assert not passed.is_set()
            first.commit()

        in_threads(later, commit)
        with pytest.raises(LockLost):
            check_lock_fence(first, "it", 1)


def test_the_table_can_be_installed_again(pg: str) -> None:
    install(pg)
    with psycopg.connect(pg) as connection:
        assert connection.execute("SELECT count(*) FROM inturn_locks").fetchone() == (0,)


def test_it_is_free_although_its_release_was_cancelled(
    pg: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    do, releasing = AsyncPgPort.do, asyncio.Event()

    async def hang(port: AsyncPgPort, request: Any) -> Any:
        if request.text is statements.UNLOCK:
            releasing.set()
            await asyncio.Event().wait()
        return await do(port, request)

    async def main() -> None:
        async def hold() -> None:
            async with AsyncPgLock(pg, "it"):
                pass

        holding = asyncio.create_task(hold())
        await releasing.wait()
        holding.cancel()
        await asyncio.wait([holding])
        assert holding.cancelled()

    monkeypatch.setattr(AsyncPgPort, "do", hang)
    asyncio.run(main())
    with PgLock(pg, "it", timeout=10):
        pass


@pytest.mark.parametrize("number", [1, 2])
def test_it_is_held_although_its_session_ended_while_it_was_acquired(pg: str, number: int) -> None:
    asked, losses = [], {number}

    class Ending(PgPort):
        """A port whose session ends right after one of its requests."""

        def do(self, request: Any) -> Any:
            reply = super().do(request)
            asked.append(request)
            if len(asked) in losses:
                assert self._own is not None
                self._own.close()
                raise LockBackendError("gone", unclear=True)
            return reply

    class EndingLock(PgLock):
        def port(self) -> PgPort:
            return Ending(pg)

    lease = EndingLock(pg, "it", renew=False).acquire()
    losses.clear()
    assert lease is not None
    assert lease.owned()
    assert PgLock(pg, "it").acquire(timeout=0) is None
    lease.release()
