"""While full claims are slow, a worker looks only at new jobs in between, and loses nothing."""

import time
from functools import partial

import anyio
import pytest

from inturn import App
from inturn.model import Job
from inturn.worker.claiming import wakeups
from inturn.worker.claiming.wakeups import COST_SHARE, LAG, LONGEST, TRIAL_SECONDS, News
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
        news.note_newest(id)
        clock.now += 2 * LAG
    news.note_look([], 0.001)
    news.note_full_claim([], 1, 0.001)
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


def test_a_full_claim_never_waits_for_long(news: News) -> None:
    for _ in range(2):
        news.note_full_claim([], 1, 100.0)
    assert news.until_full_claim == LONGEST


def test_new_jobs_do_not_go_before_those_that_a_full_claim_left(news: News) -> None:
    for _ in range(2):
        news.note_full_claim([], 1, 0.02)
    assert looks(news)
    news.note_full_claim([job(7)], 1, 0.02)
    assert not looks(news)
    assert news.until_full_claim == 0


def test_a_worker_tries_now_and_then_how_long_a_look_takes(news: News, clock: Clock) -> None:
    clock.now += TRIAL_SECONDS + 1
    assert not looks(News()), "its first jobs would pay for it"
    assert looks(news)
    news.note_look([], 0.001)
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


@pytest.mark.anyio
async def test_a_worker_that_puts_off_full_claims_runs_everything(
    app: App, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each full claim counts as slow, so all that is not new waits for the next one."""
    monkeypatch.setattr(wakeups, "SLOW", 0)
    monkeypatch.setattr(wakeups, "LONGEST", 0.2)
    monkeypatch.setattr(wakeups, "COST_SHARE", 1000)
    monkeypatch.setattr(wakeups, "TRIAL_SECONDS", 0.05)
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
            await until(lambda: ran == ["first"])
            await fail_once.defer_async()
            await work.configure(schedule_in={"seconds": 0.3}).defer_async(name="due")
            for number in range(3):
                await work.configure(lock="a").defer_async(name=f"a{number}")
                await work.configure(lock=f"b{number}", priority=number).defer_async(name="b")
            await until(lambda: len(ran) == 10)
        group.cancel_scope.cancel()
    assert sorted(ran) == ["a0", "a1", "a2", "b", "b", "b", "due", "failed", "failed", "first"]
    assert [name for name in ran if name.startswith("a")] == ["a0", "a1", "a2"]
