"""A real Redis for every test.

A session starts one server of each version on this machine. It is emptied before each test.
"""

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import IO, Any

import pytest
import redis
import redis.asyncio

from inturn.locks import LockError, install
from inturn.locks.core import watchdog
from tests.locks import redis_server
from tests.locks.lossy import Lossy
from tests.waiting import wait_until

LIMIT = 30.0  # seconds after which a failing test stops waiting


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "statement(*numbers): which statements the test shows (statements.py)"
    )


@pytest.fixture(autouse=True)
def no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the developer's own store."""
    monkeypatch.delenv("INTURN_LOCKS_URL", raising=False)


@pytest.fixture(scope="session")
def sockets() -> Iterator[dict[str, str]]:
    """Yield the socket of each version of Redis."""
    with contextlib.ExitStack() as stack:
        yield {
            version: stack.enter_context(redis_server.server(binary))
            for version, binary in redis_server.binaries().items()
        }


@pytest.fixture
def socket(sockets: dict[str, str]) -> str:
    """Return the socket of an empty server.

    It is the newest Redis, or the server that INTURN_TEST_REDIS names ("6.2", "Valkey").
    """
    path = sockets[redis_server.chosen(list(sockets))]
    with redis.Redis(unix_socket_path=path) as client:
        client.flushall()
        client.script_flush()
    return path


@pytest.fixture(params=[False, True], ids=["bytes", "decoded"])
def client(socket: str, request: pytest.FixtureRequest) -> "Iterator[redis.Redis]":
    """Yield a client that returns bytes, and then one that decodes them."""
    with redis.Redis(unix_socket_path=socket, decode_responses=request.param) as client:
        yield client


@pytest.fixture
def conn(socket: str) -> "Iterator[redis.Redis]":
    with redis.Redis(unix_socket_path=socket, decode_responses=True) as client:
        yield client


@pytest.fixture
def lossy(socket: str) -> Iterator[Lossy]:
    """Yield a proxy to the server that can lose replies."""
    with Lossy(socket) as proxy:
        yield proxy


Async = Callable[[Callable[[Any], Coroutine[Any, Any, Any]]], Any]


@pytest.fixture
def with_async(socket: str) -> Async:
    """Return a function that runs a coroutine function with an async client."""

    def run(body: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
        async def main() -> Any:
            async with redis.asyncio.Redis(unix_socket_path=socket) as client:
                return await asyncio.wait_for(body(client), LIMIT)

        return asyncio.run(main())

    return run


@pytest.fixture
def renewed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let leases that outlive a stall of the machine be renewed as often as short ones."""
    monkeypatch.setattr(watchdog, "interval", lambda _: 0.3)


@pytest.fixture
def pg(empty_dsn: str) -> str:
    """Return the DSN of a database with the table of the locks."""
    install(empty_dsn)
    return empty_dsn


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a path for a file lock."""
    return tmp_path / "it.lock"


class Child:
    """Another process that runs some Python code and talks in lines."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.pid = process.pid

    def line(self) -> str:
        return _stream(self.process.stdout).readline().strip()

    def say(self, line: str) -> None:
        stream = _stream(self.process.stdin)
        stream.write(line + "\n")
        stream.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


Spawn = Callable[..., Child]


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Spawn]:
    """Yield a function that runs Python code in a process. The end of the test kills it."""
    with contextlib.ExitStack() as stack:

        def start(code: str, *arguments: object, **options: Any) -> Child:
            command = options.pop("command", [sys.executable, "-c", code])
            process = stack.enter_context(
                subprocess.Popen(
                    [*command, *map(str, arguments)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    **options,
                )
            )
            stack.callback(process.kill)
            return Child(process)

        yield start


def until(condition: Callable[[], object]) -> None:
    """Wait until the condition is true. The limit only keeps a failing test from hanging."""
    wait_until(condition, LIMIT)


def at_any_pace(body: Callable[[float], object]) -> None:
    """Call it with the factor 1 for its times, and if that fails, with 10.

    A short lease rightly ends while the machine stalls. A long one does not.
    """
    try:
        body(1.0)
    except (AssertionError, LockError):
        body(10.0)


def in_threads(*functions: Callable[[], object]) -> list[Any]:
    """Call each function in a thread of its own. Return their results, or raise an error."""
    results: list[Any] = [None] * len(functions)

    def call(number: int) -> None:
        try:
            results[number] = functions[number]()
        except BaseException as error:
            results[number] = error

    threads = [
        threading.Thread(target=call, args=(number,), daemon=True)
        for number in range(len(functions))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive(), "a thread hangs"
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def _stream(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
