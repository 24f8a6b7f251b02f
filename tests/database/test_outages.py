"""The database goes away and comes back. Producers soon get an error that says why, and recover."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL

from inturn import App, PsycopgConnector
from inturn.embedded import Server
from inturn.errors import AppNotOpen, ConfigurationError, DatabaseUnavailable
from tests.conftest import Query
from tests.proxy import Faulty
from tests.waiting import wait_until, within

TIMEOUT = 2.0  # seconds, of the producers here
GENEROUS = (
    15.0  # seconds, for what takes two or three on an idle machine, and minutes if it goes wrong
)


def producer(dsn: str, **options: Any) -> App:
    return App(connector=PsycopgConnector(dsn, timeout=TIMEOUT, **options))


def refuse(proxy: Faulty) -> None:
    proxy.refuse()
    proxy.reset()


def fall_silent(proxy: Faulty) -> None:
    proxy.fall_silent()


OUTAGES: dict[str, tuple[Callable[[Faulty], None], str]] = {
    "refused": (refuse, "refused|reset|closed"),
    "silent": (fall_silent, "no answer|timeout expired"),
}


@pytest.mark.landing
@pytest.mark.parametrize(("fault", "reason"), OUTAGES.values(), ids=OUTAGES)
def test_in_an_outage_a_defer_says_why_and_after_it_the_next_one_works(
    faulty_server: tuple[Faulty, str], query: Query, fault: Callable[[Faulty], None], reason: str
) -> None:
    proxy, dsn = faulty_server
    app = producer(dsn)
    with app.open():
        app.configure_task("t").defer()
        fault(proxy)
        for _ in range(2):
            with within(GENEROUS), pytest.raises(DatabaseUnavailable, match=reason):
                app.configure_task("t").defer()
        proxy.heal()
        with within(TIMEOUT + 1):
            app.configure_task("t").defer()
    assert query("SELECT count(*) FROM jobs") == [(2,)]


@pytest.mark.landing
@pytest.mark.anyio
@pytest.mark.parametrize(("fault", "reason"), OUTAGES.values(), ids=OUTAGES)
async def test_in_an_outage_an_async_defer_says_why_and_after_it_the_next_one_works(
    faulty_server: tuple[Faulty, str], query: Query, fault: Callable[[Faulty], None], reason: str
) -> None:
    proxy, dsn = faulty_server
    app = producer(dsn)
    async with app.open_async():
        await app.configure_task("t").defer_async()
        fault(proxy)
        for _ in range(2):
            with within(GENEROUS), pytest.raises(DatabaseUnavailable, match=reason):
                await app.configure_task("t").defer_async()
        proxy.heal()
        with within(TIMEOUT + 1):
            await app.configure_task("t").defer_async()
    assert query("SELECT count(*) FROM jobs") == [(2,)]


@pytest.mark.fresh_database
def test_a_restart_between_two_defers_is_not_noticed(dsn: str, query: Query) -> None:
    """Each connection of the pool was closed, and is found to be closed before it is used."""
    app = producer(dsn, min_size=5)
    with app.open():
        pids = [row[0] for row in _until(lambda: _sessions(query), lambda rows: len(rows) == 5)]
        for pid in pids:
            query("SELECT pg_terminate_backend(%s, 5000)", pid)
        for _ in range(5):
            app.configure_task("t").defer()
    assert query("SELECT count(*) FROM jobs") == [(5,)]


@pytest.mark.landing
def test_a_caller_gets_a_connection_within_a_second_of_the_end_of_the_outage(
    faulty_server: tuple[Faulty, str],
) -> None:
    proxy, dsn = faulty_server
    app = App(connector=PsycopgConnector(dsn, timeout=GENEROUS))

    def wait_for_connection() -> float:
        healed: list[float] = []

        def heal() -> None:
            healed.append(time.monotonic())  # before the caller can be done
            proxy.heal()

        refuse(proxy)
        timer = threading.Timer(4.0, heal)  # a pool by itself would wait for four seconds then
        timer.start()
        app.configure_task("t").defer()
        timer.join()
        return time.monotonic() - healed[0]

    with app.open():
        assert any(wait_for_connection() < 2 for _ in range(3))  # the machine may have stalled


@pytest.mark.landing
def test_in_an_outage_nobody_knocks_while_nobody_waits(faulty_server: tuple[Faulty, str]) -> None:
    proxy, dsn = faulty_server
    app = producer(dsn)
    with app.open():
        app.configure_task("t").defer()
        fall_silent(proxy)
        with pytest.raises(DatabaseUnavailable):
            app.configure_task("t").defer()
        assert isinstance(app.connector, PsycopgConnector)
        pool = app.connector._pool
        assert pool is not None
        _until(
            pool.get_stats, lambda stats: stats["pool_size"] == 0
        )  # it has given up, and not for a while only
        knocks = proxy.accepted
        time.sleep(TIMEOUT)
        assert proxy.accepted == knocks


@pytest.mark.fresh_database
def test_one_silent_connection_is_enough_to_replace_the_others(
    faulty_server: tuple[Faulty, str], query: Query
) -> None:
    proxy, dsn = faulty_server
    app = producer(dsn, min_size=5)
    with app.open():
        _until(lambda: _sessions(query), lambda rows: len(rows) == 5)
        proxy.vanish()
        with within(GENEROUS), pytest.raises(DatabaseUnavailable, match="no answer"):
            app.configure_task("t").defer()
        with within(GENEROUS):  # each of the others would cost an error
            for _ in range(10):
                app.configure_task("t").defer()


def test_the_error_of_a_full_pool_says_so(dsn: str) -> None:
    app = producer(dsn, min_size=0, max_size=1)
    with (
        app.open(),
        app.connector.lend(),
        pytest.raises(
            DatabaseUnavailable, match="within 2 s: none of the pool's 1 became free"
        ) as raised,
    ):
        app.configure_task("t").defer()
    assert not raised.value.outcome_unknown


WRONG: dict[str, tuple[dict[str, str], str]] = {
    "no such database": ({"dbname": "nowhere"}, 'database "nowhere" does not exist'),
    "no such role": ({"user": "nobody-here"}, 'role "nobody-here" does not exist'),
    "nobody listens": ({"host": "127.0.0.1", "port": "1"}, "refused"),
}


@pytest.mark.parametrize(("changed", "reason"), WRONG.values(), ids=WRONG)
def test_an_app_that_cannot_be_opened_says_why_at_once_and_is_not_open(
    dsn: str, changed: dict[str, str], reason: str
) -> None:
    connector = PsycopgConnector(make_conninfo(dsn, **changed), timeout=2 * GENEROUS)
    app, before = App(connector=connector), set(threading.enumerate())
    with within(GENEROUS), pytest.raises(DatabaseUnavailable, match=reason):
        app.open()
    with pytest.raises(AppNotOpen):
        app.configure_task("t").defer()

    async def in_async_code() -> None:
        with within(GENEROUS), pytest.raises(DatabaseUnavailable, match=reason):
            await app.open_async()
        with pytest.raises(AppNotOpen):
            await app.configure_task("t").defer_async()
        with pytest.raises(AppNotOpen):
            app.configure_task("t").defer()

    anyio.run(in_async_code)
    new = set(threading.enumerate()) - before
    assert not [thread for thread in new if thread.name.startswith("pool-")], "it knocks on"


def test_an_app_without_an_address_is_not_open(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("INTURN_DSN", "DATABASE_URL", "PGHOST", "PGDATABASE", "PGSERVICE", "PGUSER"):
        monkeypatch.delenv(name, raising=False)
    app = App()
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="No database is configured"):
            app.open()
    with pytest.raises(AppNotOpen):
        app.configure_task("t").defer()


RULES = "COPY (VALUES ('local all shop scram-sha-256'), ('local all all trust')) TO {}"


@pytest.mark.landing
def test_a_wrong_password_is_reported_at_once_and_never_repeated(bin_dir: Path | None) -> None:
    """The reason names the role and keeps the password secret."""
    with Server(bin_dir=bin_dir) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as admin:
            [file] = admin.execute("SHOW hba_file").fetchone() or [None]
            admin.execute(SQL(RULES).format(file))
            admin.execute("CREATE ROLE shop LOGIN PASSWORD 'a secret'")
            admin.execute("SELECT pg_reload_conf()")
        address = make_conninfo(server.dsn(), user="shop")
        wait_until(lambda: not lets_in(address))
        assert lets_in(make_conninfo(address, password="a secret"))
        wrong = make_conninfo(address, password="open sesame")
        app = App(connector=PsycopgConnector(wrong, timeout=GENEROUS))
        with (
            within(GENEROUS / 2),
            pytest.raises(
                DatabaseUnavailable, match='password authentication failed for user "shop"'
            ) as raised,
        ):
            app.open()
    assert "sesame" not in f"{raised.value!r} {raised.value.__cause__!r}"


def lets_in(address: str) -> bool:
    try:
        psycopg.connect(address).close()
    except psycopg.OperationalError:
        return False
    return True


def test_a_transaction_whose_connection_is_lost_says_so(dsn: str, query: Query) -> None:
    app = producer(dsn)
    with app.open():

        def write() -> None:
            with app.connector.lend() as own:
                query("SELECT pg_terminate_backend(%s, 5000)", own.info.backend_pid)
                own.execute("SELECT 1")

        with pytest.raises(DatabaseUnavailable, match="administrator command") as raised:
            write()
        assert raised.value.connection_lost
        with pytest.raises(psycopg.errors.DatatypeMismatch), app.connector.lend() as own:
            own.execute(
                "UPDATE inturn.jobs SET priority = now()"
            )  # an error of the caller's stays his
        with app.connector.lend() as own:
            own.execute("SELECT 1")


@pytest.mark.anyio
async def test_an_async_transaction_whose_peer_is_silent_says_so(
    faulty_server: tuple[Faulty, str],
) -> None:
    proxy, dsn = faulty_server
    app = producer(dsn)
    async with app.open_async():

        async def write() -> None:
            async with app.connector.lend_async() as own:
                await own.execute("SELECT 1")
                proxy.vanish()
                await own.execute("SELECT 1")

        with within(GENEROUS), pytest.raises(DatabaseUnavailable, match="no answer"):
            await write()
        async with app.connector.lend_async() as own:
            await own.execute("SELECT 1")


def test_statements_of_the_caller_s_may_take_long_behind_a_pooler_too(dsn: str) -> None:
    """The first look comes after half of the timeout, when the limit has passed already."""
    app = App(connector=PsycopgConnector(dsn, timeout=TIMEOUT / 2, call_timeout=0.2))

    def work() -> object:
        try:
            with app.connector.lend() as own:
                own.is_direct = False  # type: ignore[attr-defined]
                return own.execute("SELECT 'slept' FROM pg_sleep(%s)", (TIMEOUT / 2,)).fetchall()
        except DatabaseUnavailable as error:
            return error

    with app.open():
        assert work() == [("slept",)]


def _sessions(query: Query) -> list[tuple[Any, ...]]:
    return query(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
        "AND pid <> pg_backend_pid() "
        "AND backend_type = 'client backend'"
    )


def _until(look: Callable[[], Any], is_right: Callable[[Any], bool]) -> Any:
    end = time.monotonic() + GENEROUS
    while not is_right(seen := look()):
        assert time.monotonic() < end, seen
    return seen
