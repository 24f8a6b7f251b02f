"""A worker starts jobs only while it is certain that they are its own."""

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from inturn import App
from inturn.worker import attempt, resources
from inturn.worker.registration import Tenure, read_clock
from tests.conftest import Query, Until
from tests.worker.parts import Parts


def test_it_lasts_for_half_of_three_heartbeats_from_the_question_on() -> None:
    now = [100.0]
    tenure = Tenure(2.0, lambda: now[0])
    asked_at = tenure.ask()
    now[0] += 2.5  # the reply took that long
    tenure.confirm(asked_at)
    now[0] += 0.5
    assert tenure.lasts()
    now[0] += 0.1
    assert not tenure.lasts()


def test_it_is_measured_by_a_clock_that_goes_on_while_the_machine_is_suspended() -> None:
    assert isinstance(read_clock, partial)
    assert (read_clock.func, read_clock.args) == (time.clock_gettime, (time.CLOCK_BOOTTIME,))


def test_an_older_confirmation_takes_nothing_back() -> None:
    now = [100.0]
    tenure = Tenure(2.0, lambda: now[0])
    first = tenure.ask()
    now[0] += 3.0
    tenure.confirm(tenure.ask())
    tenure.confirm(first)
    now[0] += 3.0
    assert tenure.lasts()


@pytest.mark.anyio
@pytest.mark.parametrize("is_known", [True, False])
async def test_jobs_in_hand_start_after_the_server_has_confirmed_them(
    app: App, query: Query, until: Until, is_known: bool
) -> None:
    runs: list[int] = []

    @app.task(name="step")
    async def step() -> None:
        runs.append(1)

    parts = Parts(app, concurrency=1)
    await parts.registration.register()
    slept = [0.0]
    parts.registration.tenure.clock = lambda: read_clock() + slept[0]
    step.defer()

    async def work() -> None:
        parts.claiming.start_if_due(report_is_due=False)
        slept[0] = 3600.0  # before the reply is read
        await until(parts.claiming.first_end.is_set)
        await until(parts.recovery.next_action)
        assert runs == []
        if not is_known:
            query("DELETE FROM workers RETURNING id")
        for _ in range(2):  # it takes the claim's result, and asks
            await parts.run_once()
        if is_known:
            await until(lambda: runs)
        else:
            assert not parts.running.in_hand

    await parts.running.serve(work)
    await parts.close()
    assert runs == ([1] if is_known else [])


class Nap:
    """A worker's clock, and a sleep that is longer than its tenure."""

    def __init__(self) -> None:
        self.slept = 0.0

    def now(self) -> float:
        return read_clock() + self.slept

    def take(self) -> None:
        self.slept = 3600.0


def come_late(monkeypatch: pytest.MonkeyPatch, nap: Nap, module: ModuleType, name: str) -> None:
    function = getattr(module, name)

    def call_late(*args: Any) -> Any:
        nap.take()
        return function(*args)

    monkeypatch.setattr(module, name, call_late)


@pytest.mark.anyio
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("way", ["thread", "resource", "middleware"])
async def test_a_worker_that_sleeps_on_the_way_to_the_task_asks_again(
    app: App,
    query: Query,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    way: str,
    is_known: bool,
) -> None:
    runs: list[int] = []
    nap = Nap()
    for module, name in ((attempt, "_catch"), (resources, "_take_all_or_none")):
        come_late(monkeypatch, nap, module, name)

    async def nap_before(call: Callable[[], Any], *_: object) -> Any:
        nap.take()
        try:
            return await call()
        except BaseException:
            return "what a middleware returns that holds on to everything"

    @app.task
    def thread() -> None:
        runs.append(1)

    @app.task(resources=[f"file://{tmp_path}/lock"])
    async def resource() -> None:
        runs.append(1)

    @app.task(task_middleware=[nap_before])
    async def middleware() -> None:
        runs.append(1)

    parts = Parts(app, concurrency=1)
    await parts.registration.register()
    parts.registration.tenure.clock = nap.now
    {"thread": thread, "resource": resource, "middleware": middleware}[way].defer()

    async def work() -> None:
        parts.claiming.start_if_due(report_is_due=False)
        await until(parts.claiming.first_end.is_set)
        await parts.run_once()
        await until(lambda: runs or parts.recovery.next_action())
        assert (nap.slept, runs) == (3600.0, [])
        if not is_known:
            query("DELETE FROM workers RETURNING id")
        await parts.run_once()
        await until(lambda: runs if is_known else not parts.running.in_hand)

    await parts.running.serve(work)
    await parts.close()
    assert runs == ([1] if is_known else [])


@pytest.mark.anyio
async def test_a_task_that_was_not_called_before_its_worker_ends_has_no_outcome(
    app: App, query: Query, until: Until
) -> None:
    runs: list[int] = []
    is_waiting, may_go_on = threading.Event(), threading.Event()

    def wait_before(call: Callable[[], Any], *_: object) -> Any:
        is_waiting.set()
        may_go_on.wait(60)
        try:
            return call()
        except BaseException:
            return "what a middleware returns that holds on to everything"

    @app.task(task_middleware=[wait_before])
    def step() -> None:
        runs.append(1)

    parts = Parts(app, concurrency=1)
    await parts.registration.register()
    step.defer()

    async def work() -> None:
        parts.claiming.start_if_due(report_is_due=False)
        await until(parts.claiming.first_end.is_set)
        await parts.run_once()
        await until(is_waiting.is_set)
        parts.running.give_back_for_good("it is told to end")
        may_go_on.set()
        await parts.running.wait_until_empty()

    await parts.running.serve(work)
    await parts.close()
    assert (runs, parts.running.take_ended(everything=True)) == ([], [])
