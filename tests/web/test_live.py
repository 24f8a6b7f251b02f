"""Live changes: one connection listens for all browsers, and no browser can hold it up."""

import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from starlette.types import Message

from inturn import App
from inturn.web import Access, create_app, live
from inturn.web.gate import Gate
from tests.conftest import Query, Until
from tests.web.conftest import refuse_thread

pytestmark = pytest.mark.anyio
THREAD = "inturn dashboard"
SESSIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    "AND application_name = 'inturn web'"
)


class Browser:
    """What a browser has got of the stream."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.text = ""
        self.reads = anyio.Event()
        self.reads.set()
        self.is_over = False

    @property
    def events(self) -> list[str]:
        lines = self.text.split("\n")
        return [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]

    async def take(self, message: Message) -> None:
        await self.reads.wait()
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
        self.text += message.get("body", b"").decode()


@asynccontextmanager
async def watch(site: Gate, browser: Browser | None = None) -> AsyncIterator[Browser]:
    """Open the stream, and close it as a browser does that goes away."""
    found = browser or Browser()
    gone = anyio.Event()
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/live",
        "query_string": b"",
        "headers": [],
        "root_path": "",
    }

    async def receive() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def run() -> None:
        await site(scope, receive, found.take)
        found.is_over = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        yield found
        found.reads.set()
        gone.set()


@pytest.fixture
def site(app: App) -> Gate:
    return create_app(app, authorize=lambda request: Access.FULL)


def has_thread() -> bool:
    return any(thread.name == THREAD for thread in threading.enumerate())


async def test_a_browser_that_gets_no_thread_does_not_leave_the_next_one_without(
    app: App, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    listening = live.Live(app.connector)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse_thread)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            listening.join()
    client = listening.join()
    assert client is not None
    assert await client.next_event() == "changed"
    listening.leave(client)
    await until(lambda: not has_thread())


@pytest.mark.landing
async def test_a_change_reaches_a_browser_even_if_nothing_is_notified(
    site: Gate, app: App, until: Until
) -> None:
    async with watch(site) as browser:
        await until(lambda: browser.events.count("changed") == 1)  # the connection is new
        assert browser.headers[b"content-type"].startswith(b"text/event-stream")
        assert browser.headers[b"cache-control"] == b"no-store"
        assert browser.text.startswith("retry: 3000")
        app.configure_task("shop.pay").defer()
        await until(lambda: browser.events.count("changed") > 1)
    assert set(browser.events) == {"hello", "changed"}


async def test_a_change_right_after_the_connection_is_new_is_not_missed(
    site: Gate, query: Query, until: Until
) -> None:
    """Resuming a lane sends no notification, and the server may count the change at once."""
    query("SELECT pause_lane('ann')")
    async with watch(site) as browser:
        await until(lambda: browser.events.count("changed") == 1)
        query("SELECT resume_lane('ann'), pg_stat_force_next_flush()")
        await until(lambda: browser.events.count("changed") > 1)
    assert "delayed" not in browser.events


async def test_a_browser_is_told_of_what_changed_before_it_was_watching(
    site: Gate, query: Query, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "LOOK_SECONDS", 60.0)  # later than all that happens here
    async with watch(site) as other:
        await until(lambda: other.events.count("changed") == 1)
        query("SELECT pg_notify('inturn', '')")
        await until(lambda: other.events.count("changed") == 2)
        async with watch(site) as late:
            await until(lambda: late.events == ["hello", "changed"])
        assert other.events.count("changed") == 2
    query("SELECT pg_notify('inturn', '')")  # or the thread goes on for a minute
    await until(lambda: not has_thread())


@pytest.mark.landing
async def test_a_storm_of_notifications_is_one_event_a_second(
    site: Gate, query: Query, until: Until
) -> None:
    async with watch(site) as browser:
        await until(lambda: "changed" in browser.events)
        before, began = len(browser.events), time.monotonic()
        while time.monotonic() - began < 5 * live.CLIENT_SECONDS:
            query("SELECT pg_notify('inturn', '')")
            await anyio.sleep(0.001)
        await until(lambda: len(browser.events) > before)
        passed = time.monotonic() - began
        assert len(browser.events) - before <= 2 + passed / live.CLIENT_SECONDS


async def test_one_connection_listens_for_all_browsers_and_ends_with_the_last(
    site: Gate, query: Query, until: Until
) -> None:
    async with watch(site) as first:
        async with watch(site), watch(site), watch(site) as last:
            await until(lambda: "hello" in last.events and query(SESSIONS) == [(1,)])
            query("SELECT pg_notify('inturn', '')")
            await until(lambda: "changed" in last.events)
            assert query(SESSIONS) == [(1,)]
        query("SELECT pg_notify('inturn', '')")
        count = len(first.events)
        await until(lambda: len(first.events) > count)
    await until(lambda: query(SESSIONS) == [(0,)])
    await until(lambda: not has_thread())
    async with watch(site) as again:
        await until(lambda: "changed" in again.events)


async def test_more_browsers_than_allowed_are_told_to_ask_now_and_then(
    site: Gate, monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    monkeypatch.setattr(live, "MOST_CLIENTS", 2)
    async with watch(site) as first, watch(site) as second:
        await until(lambda: first.status == second.status == 200)
        async with watch(site) as third:
            await until(lambda: third.is_over)
        assert third.status == 503
        assert third.headers[b"retry-after"] == b"30"
    async with watch(site) as fourth:
        await until(lambda: fourth.status == 200)


async def test_a_browser_that_reads_nothing_is_dropped_and_the_others_are_not(
    site: Gate, query: Query, monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    monkeypatch.setattr(live, "SEND_SECONDS", 0.05)
    slow = Browser()
    async with watch(site) as quick, watch(site, slow):
        await until(lambda: "changed" in slow.events and "changed" in quick.events)
        slow.reads = anyio.Event()
        before = len(quick.events)
        query("SELECT pg_notify('inturn', '')")
        await until(lambda: slow.is_over)
        await until(lambda: len(quick.events) > before)
        assert not quick.is_over


async def test_a_stream_ends_after_a_while_so_that_access_is_asked_again(
    site: Gate, monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    monkeypatch.setattr(live, "LONGEST_SECONDS", 0.1)
    monkeypatch.setattr(live, "KEEP_ALIVE_SECONDS", 0.05)
    async with watch(site) as browser:
        await until(lambda: browser.is_over)
    assert browser.events[0] == "hello"


async def test_after_an_outage_browsers_are_live_again(
    site: Gate, query: Query, until: Until
) -> None:
    async with watch(site) as browser:
        await until(lambda: "changed" in browser.events)
        query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'inturn web' AND datname = current_database()"
        )
        await until(lambda: "delayed" in browser.events)
        lost = browser.events.index("delayed")
        await until(lambda: "changed" in browser.events[lost:])
