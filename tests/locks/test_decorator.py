"""The decorator `@locked`."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from inturn.locks import (
    AsyncSmartLock,
    KernelFileLock,
    LockError,
    LockTimeout,
    SmartLock,
    locked,
)
from tests.locks.conftest import Async


@pytest.fixture
def using(client: "redis.Redis") -> Any:
    return lambda name: SmartLock(client, name)


def test_locked_skips_waits_raises_or_proceeds_while_busy(using: Any) -> None:
    ran: list[str] = []

    def of(on_busy: Any, timeout: float | None = None) -> Any:
        @locked("it", using=using, on_busy=on_busy, timeout=timeout)
        def run() -> str:
            ran.append(on_busy)
            return "done"

        return run

    with using("it"):
        assert of("skip")() is None
        with pytest.raises(LockTimeout):
            of("raise")()
        with pytest.raises(LockTimeout):
            of("wait", 0.05)()
        assert ran == []
        assert of("proceed")() == "done"
        assert using("it").locked()
    assert [of(how)() for how in ("skip", "raise", "wait", "proceed")] == ["done"] * 4
    assert not using("it").locked()
    with pytest.raises(ValueError, match="on_busy"):
        of("hope")


def test_locked_names_the_lock_by_the_bound_arguments(using: Any) -> None:
    @locked("filter:{filter_id}", using=using, on_busy="raise")
    def run(filter_id: int, deep: bool = False) -> str:
        """Runs."""
        if deep:
            run(filter_id + 1)
            with pytest.raises(LockTimeout):
                run(filter_id)
        return f"{filter_id}"

    assert run(1, deep=True) == "1"
    assert run.__doc__ == "Runs."
    assert run.__name__ == "run"
    with pytest.raises(TypeError):
        run()  # type: ignore[call-arg]


def test_locked_async(with_async: Async) -> None:
    async def body(client: Any) -> None:
        inside = most = 0

        @locked("it:{n}", using=lambda name: AsyncSmartLock(client, name))
        async def run(n: int) -> int:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.01)
            inside -= 1
            return n

        assert await asyncio.gather(*[run(1) for _ in range(5)]) == [1] * 5
        assert most == 1

    with_async(body)


def test_locked_takes_its_store_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @locked("filter:{n}", on_busy="skip")
    def run(n: int) -> bool:
        return KernelFileLock(tmp_path / f"filter:{n}").locked()

    with pytest.raises(LockError, match="INTURN_LOCKS_URL"):
        run(1)
    monkeypatch.setenv("INTURN_LOCKS_URL", f"file://{tmp_path}")
    assert run(1)
    assert locked("other", using=f"file://{tmp_path}")(lambda: (tmp_path / "other").exists())()


def test_locked_refuses_a_client_and_says_what_to_pass() -> None:
    with pytest.raises(TypeError, match=r"using= is a Redis. Pass an address .* or a function"):
        locked("it", using=redis.Redis())(print)  # type: ignore[arg-type]


def test_locked_refuses_a_generator_which_would_run_without_the_lock(using: Any) -> None:
    def count() -> Iterator[int]:
        yield 1

    async def count_async() -> AsyncIterator[int]:
        yield 1

    for function in (count, count_async):
        with pytest.raises(TypeError, match=rf"{function.__name__} is a generator.*`with` block"):
            locked("it", using=using)(function)
