"""While full claims are slow, a worker looks only at new jobs in between, and loses nothing."""

import math
import time
from functools import partial
from typing import Any

import anyio
import pytest

from inturn import App
from inturn.model import Job
from inturn.worker.claiming import wakeups
from inturn.worker.claiming.claiming import Claiming
from inturn.worker.claiming.wakeups import (
    COST_SHARE,
    EMPTY_LOOKS,
    FIRST_TRIAL_SECONDS,
    LAG,
    LONGEST,
    TRIAL_SECONDS,
    News,
)
from tests.conftest import Until


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


def looks(news: News) -> bool:
    return news.should_look


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def job(id: int) -> Job:
    return Job(id, "", 0, "", "q", None, 0, 0, None, {})


@pytest.fixture
def news(clock: Clock) -> News:
    """Return news of a worker that knows how long a look takes."""
    news = News()
    for id in (5, 6):
        news.note_last_id(id)
        clock.now += 2 * LAG
    for seconds in (0.1, 0.002):  # the first pays for the plans
        news.note_look([job(6)], seconds)
    news.note_full_claim([], 1, 0.001)
    return news


@pytest.fixture
def slow(news: News) -> News:
    for _ in range(2):
        news.note_full_claim([], 1, 0.02)
    assert looks(news)
    return news


def test_full_claims_are_put_off_only_if_two_in_a_row_were_slow(news: News, clock: Clock) -> None:
    news.note_full_claim([], 1, 0.01)
    assert not looks(news)
    news.note_full_claim([], 1, 0.02)
    assert looks(news)
    assert news.until_full_claim == pytest.approx(0.02 * COST_SHARE)
    clock.now += 0.02 * COST_SHARE
    assert not looks(news)
    news.note_full_claim([], 1, 0.002)
    assert not looks(news)


def test_a_claim_of_many_jobs_is_not_slow(news: News) -> None:
    for _ in range(2):
        news.note_full_claim([job(id) for id in range(9)], 10, 0.02)
    assert not looks(news)


def test_a_full_claim_never_waits_for_long(news: News) -> None:
    for _ in range(2):
        news.note_full_claim([], 1, 100.0)
    assert news.until_full_claim == LONGEST


def test_new_jobs_do_not_go_before_those_that_a_full_claim_left(slow: News) -> None:
    slow.note_full_claim([job(7)], 1, 0.02)
    assert not looks(slow)
    assert slow.until_full_claim == 0


def test_a_full_claim_follows_some_looks_for_nothing(slow: News) -> None:
    for found in [*[[]] * (EMPTY_LOOKS - 1), [job(8)], *[[]] * (EMPTY_LOOKS - 1)]:
        slow.note_look(found, 0.001)
        assert looks(slow)
    slow.note_look([], 0.001)
    assert not looks(slow)


def test_a_worker_measures_now_and_then_how_long_a_look_takes(news: News, clock: Clock) -> None:
    assert not looks(news), "its first jobs would pay for it"
    clock.now += TRIAL_SECONDS + 1
    assert looks(news)
    news.note_look([], 0.001)
    assert not looks(news)


def test_until_a_look_has_found_jobs_twice_it_measures_more_often(clock: Clock) -> None:
    news = News()
    news.note_last_id(5)
    news.note_full_claim([], 1, 0.02)
    for found in ([], [job(6)], [], [job(7)]):
        assert not looks(news)
        clock.now += FIRST_TRIAL_SECONDS + 0.1
        assert looks(news)
        news.note_look(found, 0.001)
    clock.now += FIRST_TRIAL_SECONDS + 0.1
    assert not looks(news)


def test_a_look_begins_behind_jobs_that_were_new_a_while_ago(news: News, clock: Clock) -> None:
    seen = []
    for id in range(10, 20):
        news.note_look([job(id)], 0.001)
        seen.append((id, clock.now))
        old = [id for id, at in seen if clock.now - at >= LAG]
        assert news.since in (5, 6, *old), "an open transaction may have a lower id than the newest"
        clock.now += LAG / 3
    assert news.since > 10


def test_ids_that_begin_anew_after_a_failover_are_new(news: News, clock: Clock) -> None:
    for id in (100, 101, 7):
        news.note_last_id(id)
        clock.now += 2 * LAG
    assert news.since == 7


@pytest.mark.parametrize(
    ("found", "notified", "pause"), [(True, True, 0.5), (False, True, 0.02), (True, False, 0.02)]
)
def test_the_next_look_comes_within_the_polling_interval(
    clock: Clock, found: bool, notified: bool, pause: float
) -> None:
    wakes = wakeups.Wakeups(poll=0.5)
    wakes.note_not_filled(1, None, notified=notified)
    wakes.look_in(5.0, found=found)
    assert wakes._look_at - clock.now == pytest.approx(pause)


@pytest.mark.parametrize(("took", "rest"), [(0.001, 0.001), (0.003, 0.003), (1.0, 0.005)])
def test_a_worker_that_finds_jobs_rests_as_long_as_its_look_took(
    clock: Clock, took: float, rest: float
) -> None:
    wakes = wakeups.Wakeups(poll=0.5)
    wakes.keep_looking(took)
    assert wakes._look_at - clock.now == pytest.approx(rest)


@pytest.fixture
def always_slow(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Count each full claim as slow. Return where each claim began that has ended."""
    monkeypatch.setattr(wakeups, "SLOW", 0)
    monkeypatch.setattr(wakeups, "LONGEST", 0.2)
    monkeypatch.setattr(wakeups, "COST_SHARE", 1000)
    monkeypatch.setattr(wakeups, "TRIAL_SECONDS", 0.05)
    begins: list[int | None] = []
    make_claim = Claiming._make_claim

    async def note(self: Claiming, room: int, slots: int, since: int | None = None) -> Any:
        jobs = await make_claim(self, room, slots, since)
        begins.append(since)
        return jobs

    monkeypatch.setattr(Claiming, "_make_claim", note)
    return begins


@pytest.mark.anyio
async def test_a_worker_that_puts_off_full_claims_runs_everything(
    app: App, until: Until, always_slow: list[int | None]
) -> None:
    ran: list[str] = []

    @app.task
    async def work(name: str) -> None:
        ran.append(name)

    @app.task(retry=1)
    async def fail_once() -> None:
        ran.append("failed")
        if ran.count("failed") < 2:
            raise ValueError

    async with app.open_async(), anyio.create_task_group() as group:
        await work.defer_async(name="first")
        group.start_soon(partial(app.run_worker_async, wait=True))
        with anyio.fail_after(60):
            await until(lambda: ran == ["first"] and len(always_slow) > 1)  # it knows: no more
            await anyio.sleep(0.1)  # a look is due, to measure it
            await fail_once.defer_async()
            await work.configure(schedule_in={"seconds": 0.3}).defer_async(name="due")
            for number in range(3):
                await work.configure(lock="a").defer_async(name=f"a{number}")
                await work.configure(lock=f"b{number}", priority=number).defer_async(name="b")
            await until(lambda: len(ran) == 10)
        group.cancel_scope.cancel()
    assert sorted(ran) == ["a0", "a1", "a2", "b", "b", "b", "due", "failed", "failed", "first"]
    assert [name for name in ran if name.startswith("a")] == ["a0", "a1", "a2"]
    assert {type(since) for since in always_slow} == {int, type(None)}


@pytest.mark.anyio
async def test_jobs_that_wait_for_turns_are_not_put_off(
    app: App, always_slow: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not new, so a look would pass them by."""

    @app.task
    async def work() -> None:
        await anyio.sleep(0.002)

    async def run() -> float:
        for number in range(200):
            await work.configure(group=f"g{number % 5}").defer_async()
        began = time.monotonic()
        await app.run_worker_async(concurrency=10)
        return time.monotonic() - began

    async with app.open_async():
        with_looks = [await run()]
        with monkeypatch.context() as without:
            without.setattr(wakeups, "SLOW", math.inf)
            without.setattr(wakeups, "TRIAL_SECONDS", math.inf)
            most = 5 * await run()
        while min(with_looks) >= most and len(with_looks) < 5:  # the machine may have stalled
            with_looks.append(await run())
        assert min(with_looks) < most
