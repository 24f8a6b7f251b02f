"""Calls through a faulty proxy: a silent server costs seconds, and a slow one costs nothing."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from threading import Event, Timer
from typing import Any

import anyio
import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier

from inturn import PsycopgConnector
from inturn.control import results
from inturn.database import drive, session
from inturn.database.deadlines import Terms
from inturn.database.session import Session
from inturn.errors import DatabaseUnavailable
from inturn.operations import Operation, Statement
from inturn.sql import SCHEMA
from inturn.testing import Databases
from inturn.worker import listener
from tests.proxy import Faulty
from tests.waiting import within

NOT_ASKED = "nobody asked the server whether it is at work"
PATIENCE = 0.6  # seconds; what is measured in the tests is a multiple of it
GENEROUS = (
    15.0  # seconds, for what takes two or three on an idle machine, and minutes if it goes wrong
)


def ask() -> Operation[Any]:
    rows = yield Statement("SELECT 1")
    return rows[0][0]


def sleep(seconds: float) -> Operation[str]:
    rows = yield Statement("SELECT 'slept' FROM pg_sleep(%s)", (seconds,))
    return str(rows[0][0])


@contextmanager
def note_failure(ends: list[str]) -> Iterator[None]:
    """Append the error if the call in the block is given up."""
    try:
        yield
    except DatabaseUnavailable as error:
        ends.append(str(error))


async def comes(condition: Callable[[], object]) -> bool:
    """Whether it becomes true in time."""
    with anyio.move_on_after(GENEROUS):
        while not condition():  # noqa: ASYNC110 (another task makes it true)
            await anyio.sleep(0.01)
        return True
    return False


def connector(dsn: str, **options: Any) -> PsycopgConnector:
    return PsycopgConnector(dsn, timeout=2 * PATIENCE, **options)


def refuse(proxy: Faulty) -> None:
    proxy.refuse()
    proxy.vanish()


FAULTS: dict[str, Callable[[Faulty], None]] = {
    "vanished": Faulty.vanish,
    "silent": Faulty.fall_silent,
    "half-closed": Faulty.half_close,
    "reset": Faulty.reset,
    "refused": refuse,
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_call_ends_soon_after_its_connection_has_died(
    faulty_server: tuple[Faulty, str], fault: Callable[[Faulty], None]
) -> None:
    proxy, dsn = faulty_server
    with closing(PsycopgConnector(dsn, timeout=60).connect("worker")) as own:
        assert drive.run(ask(), own, SCHEMA) == 1
        own.terms.ask_after = PATIENCE  # until now, a stall of the server costs nothing
        fault(proxy)
        with within(GENEROUS), pytest.raises(DatabaseUnavailable) as raised:
            drive.run(ask(), own, SCHEMA)
        assert raised.value.connection_lost
        assert raised.value.outcome_unknown
        assert own.closed


@pytest.mark.anyio
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_an_async_call_ends_soon_after_its_connection_has_died(
    faulty_server: tuple[Faulty, str], fault: Callable[[Faulty], None]
) -> None:
    proxy, dsn = faulty_server
    own = await PsycopgConnector(dsn, timeout=60).connect_async("worker")
    assert await drive.run_async(ask(), own, SCHEMA) == 1
    own.terms.ask_after = PATIENCE
    fault(proxy)
    with within(GENEROUS), pytest.raises(DatabaseUnavailable) as raised:
        await drive.run_async(ask(), own, SCHEMA)
    assert raised.value.connection_lost
    assert own.closed


@pytest.mark.parametrize("role", ["worker", "command", "pool"])
def test_a_statement_that_takes_long_is_waited_for(
    faulty_server: tuple[Faulty, str], role: str
) -> None:
    proxy, dsn = faulty_server
    ends: list[str] = []
    with closing(connector(dsn, call_timeout=PATIENCE).connect(role)) as own:
        before = proxy.accepted
        with note_failure(ends):
            ends.append(drive.run(sleep(4 * PATIENCE), own, SCHEMA))
    assert ends == ["slept"]
    assert proxy.accepted > before, NOT_ASKED


@pytest.mark.anyio
async def test_an_async_statement_that_takes_long_is_waited_for(
    faulty_server: tuple[Faulty, str],
) -> None:
    proxy, dsn = faulty_server
    ends: list[str] = []
    async with await connector(dsn, call_timeout=PATIENCE).connect_async("worker") as own:
        before = proxy.accepted
        with note_failure(ends):
            ends.append(await drive.run_async(sleep(4 * PATIENCE), own, SCHEMA))
    assert ends == ["slept"]
    assert proxy.accepted > before, NOT_ASKED


def test_a_server_that_refuses_to_be_asked_may_be_at_work(
    databases: Databases, faulty_server: tuple[Faulty, str]
) -> None:
    proxy, dsn = faulty_server
    allow = SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
    ends: list[str] = []
    with (
        closing(connector(dsn).connect()) as own,
        psycopg.connect(databases.server_dsn, autocommit=True) as elsewhere,
    ):
        name = Identifier(own.info.dbname)
        elsewhere.execute(allow.format(name, SQL("false")))
        before = proxy.accepted
        with note_failure(ends):
            ends.append(drive.run(sleep(4 * PATIENCE), own, SCHEMA))
        elsewhere.execute(allow.format(name, SQL("true")))
    assert ends == ["slept"]
    assert proxy.accepted > before, NOT_ASKED


@pytest.mark.parametrize(("limit", "is_given_up"), [(PATIENCE, True), (None, False)])
def test_where_the_server_cannot_know_there_is_a_limit(
    dsn: str, limit: float | None, is_given_up: bool
) -> None:
    """A pooler invents the id by which we know our session."""
    with closing(
        Session.connect(dsn, terms=Terms(dsn, PATIENCE / 2, limit), autocommit=True)
    ) as own:
        own.is_direct = False
        statement = sleep(4 * PATIENCE)
        if is_given_up:
            with pytest.raises(DatabaseUnavailable, match="no answer for"):
                drive.run(statement, own, SCHEMA)
        else:
            drive.run(statement, own, SCHEMA)


def test_a_server_that_takes_a_connection_and_never_answers_is_given_up(
    faulty_server: tuple[Faulty, str],
) -> None:
    proxy, dsn = faulty_server
    proxy.fall_silent()
    with within(GENEROUS), pytest.raises(DatabaseUnavailable, match="timeout expired"):
        connector(dsn).connect()


def test_a_frozen_network_that_thaws_in_time_costs_nothing_but_time(
    faulty_server: tuple[Faulty, str],
) -> None:
    proxy, dsn = faulty_server
    with closing(PsycopgConnector(dsn, timeout=2 * GENEROUS).connect()) as own:
        proxy.freeze()
        timer = Timer(PATIENCE, proxy.thaw)
        timer.start()
        assert drive.run(ask(), own, SCHEMA) == 1
        timer.join()
        proxy.delay(0.05)
        assert drive.run(ask(), own, SCHEMA) == 1


@pytest.mark.anyio
async def test_a_cancelled_call_on_a_dead_connection_ends_within_about_a_second(
    faulty_server: tuple[Faulty, str],
) -> None:
    proxy, dsn = faulty_server
    own = await PsycopgConnector(dsn, timeout=60).connect_async("worker")
    proxy.fall_silent()
    call = asyncio.ensure_future(own.execute("SELECT 1"))
    await anyio.sleep(0.1)
    began = time.monotonic()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert time.monotonic() - began < 9, "psycopg alone would wait for ten seconds"
    assert own.closed


@pytest.mark.anyio
async def test_a_cancelled_call_is_cancelled_on_the_server_and_its_connection_goes_on(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "GRACE", 30.0)  # for a server that stalls
    async with await PsycopgConnector(dsn, timeout=60).connect_async("worker") as own:
        with anyio.move_on_after(0.1):
            await own.execute("SELECT pg_sleep(60)")
        assert await drive.run_async(ask(), own, SCHEMA) == 1
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await own.execute("SELECT pg_sleep(60)")
        assert await drive.run_async(ask(), own, SCHEMA) == 1


def test_settings_in_the_address_win(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(
        connector(make_conninfo(dsn, connect_timeout=7, keepalives_idle=77)).connect()
    ) as own:
        parameters = own.info.get_parameters()
        assert (
            parameters["connect_timeout"],
            parameters["keepalives_idle"],
            parameters["keepalives_count"],
        ) == (
            "7",
            "77",
            "3",
        )
    with closing(connector(dsn).connect()) as own:
        assert own.info.get_parameters()["connect_timeout"] == "2"
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "9")
    with closing(connector(dsn).connect()) as own:
        assert own.info.get_parameters()["connect_timeout"] == "9"


@pytest.mark.anyio
async def test_a_listener_whose_connection_leads_nowhere_makes_another(
    faulty_server: tuple[Faulty, str], dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dead connection is as silent as an idle queue, so the listener must ask the server."""
    proxy, proxied = faulty_server
    monkeypatch.setattr(listener, "LOOK", PATIENCE / 2)
    rings: list[None] = []
    heard: list[bool] = []
    async with anyio.create_task_group() as group:
        listens = connector(dsn, listen_dsn=proxied)
        hears = listener.Listener(
            listens, None, wake=lambda: rings.append(None), abort=lambda: None
        )
        group.start_soon(hears.run)
        heard.append(await comes(lambda: rings))  # it listens
        proxy.vanish()
        heard.append(await comes(lambda: len(rings) > 1))  # it listens again
        async with await connector(dsn).connect_async("command") as own:
            await own.execute("NOTIFY inturn")
        heard.append(await comes(lambda: len(rings) > 2))
        group.cancel_scope.cancel()
    assert heard == [True, True, True]


def test_a_waiter_for_a_result_is_notified_although_a_connection_leads_nowhere(
    faulty_server: tuple[Faulty, str], dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, proxied = faulty_server
    monkeypatch.setattr(results, "POLL", PATIENCE / 2)
    notified = Event()
    listener = results.ResultListener(connector(dsn, listen_dsn=proxied))
    with listener.call_back(1, notified.set), psycopg.connect(dsn, autocommit=True) as connection:
        listener.listen()
        assert notified.wait(GENEROUS)  # it is connected
        notified.clear()
        proxy.vanish()
        assert notified.wait(GENEROUS)  # it listens again
        notified.clear()
        connection.execute("SELECT pg_notify('inturn ended', '1')")
        assert notified.wait(GENEROUS)
