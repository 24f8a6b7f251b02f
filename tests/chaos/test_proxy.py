"""Each fault of the proxy on real sessions. The tests ask the server for the real effect."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.chaos.proxy import Network, Route, Trap
from tests.chaos.server import Server
from tests.waiting import wait_until

CONNECTED = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'proxied'"


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def network(server: Server, notes: list[str]) -> Iterator[Network]:
    with Network(lambda: server.port, notes.append) as network:
        network.open("a")
        yield network


@pytest.fixture
def connect(network: Network, server: Server) -> Iterator[Callable[[], psycopg.Connection[Any]]]:
    with contextlib.ExitStack() as stack:

        def connect() -> psycopg.Connection[Any]:
            dsn = server.dsn_at(network.routes["a"].port)
            made = psycopg.connect(
                dsn, autocommit=True, connect_timeout=60, application_name="proxied"
            )
            stack.callback(made.close)
            return made

        yield connect
        network.each(lambda route: route.heal())


@pytest.fixture
def table(server: Server) -> Iterator[Callable[[], int]]:
    """Return how many rows the server has."""
    with server.connect() as connection:
        connection.execute("CREATE TABLE public.things (n int)")

        def count() -> int:
            row = connection.execute("SELECT count(*) FROM public.things").fetchone()
            assert row is not None
            return int(row[0])

        yield count
        connection.execute("DROP TABLE public.things")


Connect = Callable[[], psycopg.Connection[Any]]


def test_without_a_fault_everything_passes(connect: Connect) -> None:
    with connect() as connection:
        for number in range(10):  # prepared on the way
            row = connection.execute("SELECT %s::int, repeat('x', 100000)", [number]).fetchone()
            assert row == (number, "x" * 100000)


def test_a_lost_reply_to_a_commit_leaves_the_client_in_doubt_and_the_row_on_the_server(
    network: Network, connect: Connect, table: Callable[[], int], notes: list[str]
) -> None:
    connection = connect()
    connection.execute("BEGIN")
    connection.execute("INSERT INTO public.things VALUES (1)")
    network.each(lambda route: route.weather.traps.append(Trap("commit", "reply")))
    with pytest.raises(psycopg.OperationalError):
        connection.execute("COMMIT")
    assert (table(), notes) == (1, ["the reply to a commit was lost"])
    assert connect().execute("SELECT 1").fetchone() == (1,)  # only one was to be lost


def test_a_lost_request_of_a_commit_rolls_back(
    network: Network, connect: Connect, table: Callable[[], int], notes: list[str]
) -> None:
    connection = connect()
    connection.execute("BEGIN")
    connection.execute("INSERT INTO public.things VALUES (1)")
    network.each(lambda route: route.weather.traps.append(Trap("commit", "request")))
    with pytest.raises(psycopg.OperationalError):
        connection.execute("COMMIT")
    assert (table(), notes) == (0, ["the request of a commit was lost"])


def test_a_reply_that_never_comes_leaves_the_client_waiting_until_it_heals(
    network: Network, connect: Connect
) -> None:
    connection = connect()
    network.each(lambda route: route.weather.traps.append(Trap("claim", "reply", mute=True)))
    raised = answer_of(lambda: connection.execute("SELECT 'claim('"))
    raised.join(0.3)
    assert raised.is_alive()
    network.each(lambda route: route.heal())
    raised.join(10)
    assert not raised.is_alive()


def test_a_lost_notification_is_all_that_is_lost(
    network: Network, connect: Connect, notes: list[str]
) -> None:
    connection = connect()
    connection.execute("LISTEN bell")
    network.each(lambda route: setattr(route.weather, "swallows_notifications", True))
    connection.execute("NOTIFY bell")
    assert (list(connection.notifies(timeout=0.2)), notes) == ([], ["a notification was lost"])
    network.each(lambda route: route.heal())
    connection.execute("NOTIFY bell")
    assert len(list(connection.notifies(timeout=60, stop_after=1))) == 1


def test_a_half_open_connection_stays_on_the_server_and_new_ones_are_fine(
    network: Network, connect: Connect, server: Server
) -> None:
    connection = connect()
    network.each(lambda route: route.forget())
    raised = answer_of(lambda: connection.execute("SELECT 1"))
    assert connect().execute("SELECT 1").fetchone() == (1,)
    raised.join(0.2)
    assert raised.is_alive()
    with server.connect() as direct:
        # The server takes a moment to end the sessions of the test before.
        wait_until(lambda: direct.execute(CONNECTED).fetchone() == (2,))
    network.each(lambda route: route.heal())
    raised.join(10)
    assert not raised.is_alive()


def test_a_frozen_connection_goes_on_where_it_was(network: Network, connect: Connect) -> None:
    connection = connect()
    network.each(lambda route: route.freeze())
    answer = answer_of(lambda: connection.execute("SELECT 1"))
    answer.join(0.3)
    assert answer.is_alive()
    network.each(lambda route: route.heal())
    answer.join(10)
    assert not answer.is_alive()
    assert connection.execute("SELECT 2").fetchone() == (2,)


def test_a_connection_is_reset_in_the_middle_of_a_message(
    network: Network, connect: Connect, notes: list[str]
) -> None:
    connection = connect()
    network.each(lambda route: setattr(route.weather, "cuts_a_frame", True))
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT repeat('x', 1000)").fetchone()
    assert notes == ["a connection was reset in the middle of a message"]


def test_single_bytes_make_whole_messages(network: Network, connect: Connect) -> None:
    network.each(lambda route: setattr(route.weather, "trickles", True))
    assert connect().execute("SELECT repeat('x', 300)").fetchone() == ("x" * 300,)


@pytest.mark.parametrize("how", ["refused", "reset"])
def test_a_client_that_is_refused_or_reset_knows_at_once(
    network: Network, connect: Connect, how: str
) -> None:
    connection = connect()

    def refuse(route: Route) -> None:
        route.weather.refuses = how == "refused"
        route.reset()

    network.each(refuse)
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT 1")
    if how == "refused":
        with pytest.raises(psycopg.OperationalError):
            connect()


def answer_of(call: Callable[[], object]) -> threading.Thread:
    """A thread that ends when the call returns or raises."""

    def run() -> None:
        with contextlib.suppress(psycopg.Error):
            call()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread
