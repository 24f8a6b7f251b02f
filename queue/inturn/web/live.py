"""Notify browsers of changes, so that they refresh their pages.

While browsers watch, one thread of the process listens for notifications. Not every change sends
one, so the thread also compares a counter of the server every two seconds. Events have no content:
authorization happens when the page is fetched.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from contextlib import closing
from threading import Lock, Thread

import anyio
import psycopg
from psycopg.sql import SQL, Identifier
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from inturn.database.connector import Connector
from inturn.operations.reading import dashboard

logger = logging.getLogger(__name__)
MOST_CLIENTS = 100
LOOK_SECONDS = 2.0  # between reads of the counter
DEBOUNCE_SECONDS = 0.25  # notifications within this time are one event
CLIENT_SECONDS = 1.0  # between events for one client
KEEP_ALIVE_SECONDS = 15.0
LOAD_SECONDS = 10.0  # from when a page was read to when it watches
SEND_SECONDS = 10.0  # until a client that does not read is dropped
LONGEST_SECONDS = 900.0  # until a client must reconnect and be authorised again
TERMS = "SET statement_timeout = '2s'; SET default_transaction_read_only = on"
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"x-accel-buffering", b"no"),  # or nginx would buffer events
]


class Live:
    """Wakes its clients when something may have changed."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._lock = Lock()
        self._clients: set[Client] = set()
        self._listens = False
        self._changed_at = -LOAD_SECONDS

    def join(self) -> Client | None:
        """Return a new client, or None if there are too many.

        It is told at once of what may have changed since its page was read.
        """
        client = Client()
        with self._lock:
            if len(self._clients) >= MOST_CLIENTS:
                return None
            if not self._listens:
                Thread(target=self._listen, name="inturn dashboard", daemon=True).start()
                self._listens = True
            self._clients.add(client)
            has_missed = time.monotonic() < self._changed_at + LOAD_SECONDS
        if has_missed:
            client.wake("changed")
        return client

    def leave(self, client: Client) -> None:
        """Remove a client. The thread ends with the last one."""
        with self._lock:
            self._clients.discard(client)

    def wake(self, event: str) -> None:
        with self._lock:
            clients = list(self._clients)
            if event == "changed":
                self._changed_at = time.monotonic()
        for client in clients:
            client.wake(event)

    def _listen(self) -> None:
        while self._has_clients():
            try:
                with closing(self._connector.connect("web", to_listen=True)) as connection:
                    connection.execute(TERMS)
                    listen = SQL("LISTEN {}").format(Identifier(self._connector.schema))
                    connection.execute(listen)
                    self._follow(connection)
            except Exception as error:  # whatever it is, they still watch
                logger.warning("dashboard.listen_lost: %s", error)
                self.wake("delayed")
                time.sleep(LOOK_SECONDS)

    def _follow(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        before = self._count_changes(connection)
        self.wake("changed")  # something may have changed before it was counted
        while self._clients:
            notified = list(connection.notifies(timeout=LOOK_SECONDS, stop_after=1))
            if notified:  # those right behind it belong to the same event
                list(connection.notifies(timeout=DEBOUNCE_SECONDS))
            # The server's counter lags by up to a second, so it may report the same change.
            count = self._count_changes(connection)
            if notified or count != before:
                self.wake("changed")
            before = count

    def _count_changes(self, connection: psycopg.Connection[tuple[object, ...]]) -> int:
        return self._connector.run(dashboard.get_activity(self._connector.schema), connection)

    def _has_clients(self) -> bool:
        with self._lock:
            self._listens = bool(self._clients)
            return self._listens


class Client:
    """A watching browser. The listening thread calls `wake`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._event = "changed"
        self._told_at = -CLIENT_SECONDS

    def wake(self, event: str) -> None:
        """Make `next_event` return this event."""
        self._event = event
        with contextlib.suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon_threadsafe(self._woken.set)

    async def next_event(self) -> str | None:
        """Return the next event, at most one per second, or None when a keep-alive is due."""
        with anyio.move_on_after(KEEP_ALIVE_SECONDS):
            await self._woken.wait()
            await anyio.sleep(max(0.0, self._told_at + CLIENT_SECONDS - time.monotonic()))
            self._woken.clear()
            self._told_at = time.monotonic()
            return self._event
        return None


class LiveResponse(Response):
    """A stream of events for one browser."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the browser disconnects or its time is up."""
        client = self._live.join()
        if client is None:
            full = PlainTextResponse(
                f"{MOST_CLIENTS} pages are already watching. This one polls instead.\n",
                503,
                {"retry-after": "30"},
            )
            await full(scope, receive, send)
            return
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_wait_for_end, receive, tasks.cancel_scope)
                await _send_events(client, send)
                tasks.cancel_scope.cancel()
        finally:
            self._live.leave(client)


async def _send_events(client: Client, send: Send) -> None:
    end = time.monotonic() + LONGEST_SECONDS
    start = {"type": "http.response.start", "status": 200, "headers": HEADERS}
    with anyio.move_on_after(SEND_SECONDS):
        await send(start)
        await _send_text(send, "retry: 3000\n\nevent: hello\ndata:\n\n")
    while time.monotonic() < end:
        event = await client.next_event()
        text = ": still here\n\n" if event is None else f"event: {event}\ndata:\n\n"
        with anyio.move_on_after(SEND_SECONDS) as sending:
            await _send_text(send, text)
        if sending.cancelled_caught:
            return
    with anyio.move_on_after(SEND_SECONDS):
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send_text(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


async def _wait_for_end(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
