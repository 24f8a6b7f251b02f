"""Which floors a worker passes on."""

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast
from uuid import uuid4

import pytest

from inturn import App, RetryStrategy
from inturn.model import Ended, Job, Status
from inturn.operations.engine import claim, finish
from inturn.operations.engine.finish import FinalIds
from inturn.worker.connection import WorkerConnection
from inturn.worker.floors import (
    EVERY,
    HOT,
    MANY_BACK,
    MOST_LANES,
    MOST_PRIORITIES,
    SOON,
    Floors,
)
from tests.conftest import Query


class Server:
    """Gives these answers to final_ids, and notes what it was asked."""

    def __init__(self, *answers: FinalIds) -> None:
        self.answers = list(answers)
        self.asked: list[Sequence[Any]] = []

    async def run(self, operation: Iterator[Any]) -> FinalIds:
        self.asked.append(next(operation).parameters)
        return self.answers.pop(0)


def make(*answers: FinalIds) -> tuple[Floors, Server]:
    server = Server(*answers)
    return Floors(cast(WorkerConnection, server)), server


def job(id: int, lock: str | None = "a", priority: int = 0) -> Job:
    return Job(id, lock=lock, priority=priority, handed_over=True)


def refresh(floors: Floors) -> None:
    if floors.are_due:
        asyncio.run(floors.refresh())


def ended(*locks: str | None) -> list[Ended]:
    return [Ended(job(1, lock), Status.SUCCEEDED) for lock in locks]


def hand_over(floors: Floors, *ids: int, final: int = 0, priority: int = 0) -> None:
    for id in ids:
        floors.note_first([job(id, priority=priority)], final)


def test_a_lane_gets_a_floor_once_it_is_hot_and_ids_are_final() -> None:
    floors, server = make(FinalIds(None, 100, "1"), FinalIds(100, 200, "2"))
    hand_over(floors, *range(1, HOT))
    refresh(floors)
    assert server.asked == []
    for _ in range(2):
        hand_over(floors, *range(HOT, HOT + HOT + SOON), final=floors.final)
        refresh(floors)
    assert floors.of(ended("a")) == {}
    assert [asked[:2] for asked in server.asked] == [(None, None), (100, "1")]
    assert (floors.final, floors.horizon) == (100, "2")
    hand_over(floors, 90, final=100)
    assert floors.of(ended("a", "a", "b", None)) == {"a": [(0, 90, 100)]}


def test_a_floor_is_not_above_what_was_final_before_the_look() -> None:
    floors, _ = make()
    hand_over(floors, *range(1, HOT))
    hand_over(floors, 90, final=50)
    assert floors.of(ended("a")) == {"a": [(0, 51, 50)]}


def test_a_floor_stays_if_a_job_comes_back_and_follows_if_many_do() -> None:
    floors, _ = make()
    hand_over(floors, *range(1, HOT))
    hand_over(floors, 900, final=1_000)
    assert floors.of(ended("a")) == {"a": [(0, 900, 1_000)]}
    hand_over(floors, *range(100, 99 + MANY_BACK), 20, *range(100, 99 + MANY_BACK), final=2_000)
    assert floors.of(ended("a")) == {"a": [(0, 900, 1_000)]}, "not all of them rose"
    hand_over(floors, 300, final=3_000)
    assert floors.of(ended("a")) == {"a": [(0, 300, 3_000)]}


def test_a_lane_has_a_floor_for_each_of_its_latest_priorities() -> None:
    floors, _ = make()
    hand_over(floors, *range(1, HOT))
    for priority, id in [(0, 90), (3, 95), (1, 80), (3, 96)]:
        hand_over(floors, id, final=100, priority=priority)
    assert floors.of(ended("a")) == {"a": [(3, 96, 100), (1, 80, 100), (0, 90, 100)]}
    for priority in range(10, 8 + MOST_PRIORITIES):
        hand_over(floors, 99, final=100, priority=priority)
    assert floors.of(ended("a"))["a"][-2:] == [(3, 96, 100), (1, 80, 100)], "0 is the oldest"


def test_a_new_session_starts_over() -> None:
    floors, _ = make(FinalIds(None, 9, "1"), FinalIds(None, 3, "2"))
    hand_over(floors, *range(1, HOT + SOON))
    refresh(floors)
    hand_over(floors, *range(1, HOT + SOON), final=5)
    assert floors.of(ended("a"))
    refresh(floors)
    assert (floors.of(ended("a")), floors.final, floors.horizon) == ({}, 0, "2")


def test_while_ids_are_not_final_it_keeps_what_it_knows_and_becomes_patient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    first = FinalIds(None, 9, "1")
    floors, server = make(first, first, first)
    for at in (0.0, 0.1, 1.0):
        now = at
        hand_over(floors, *range(1, HOT + SOON), final=5)
        floors_before = floors.of(ended("a"))
        refresh(floors)
        assert at == 0.0 or floors.of(ended("a")) == floors_before != {}
    assert [asked[2] for asked in server.asked] == [False, False, True]


def test_while_no_look_reads_much_it_asks_less_often() -> None:
    answers = FinalIds(None, 9, "1"), FinalIds(9, 20, "2"), FinalIds(20, 30, "3", True)
    floors, server = make(*answers, FinalIds(30, 40, "4"))
    heat = HOT - 1 + SOON  # the second time, it starts over
    for calls, asked in ((heat, 1), (heat, 2), (EVERY, 3), (SOON, 4), (EVERY - 1, 4)):
        hand_over(floors, *range(calls))
        refresh(floors)
        assert len(server.asked) == asked


def test_the_coldest_lanes_are_forgotten() -> None:
    floors, _ = make(FinalIds(None, 9, "1"), FinalIds(9, 20, "2"))
    for _ in range(2):
        hand_over(floors, *range(1, HOT + SOON), final=floors.final)
        refresh(floors)
    hand_over(floors, 8, final=9)
    for number in range(3_000):
        floors.note_first([job(1, f"lane {number}")], 9)
        if number % 900 == 0:
            hand_over(floors, 8, final=9)
    assert floors.of(ended("a")) == {"a": [(0, 8, 9)]}
    floors.note_first([job(1, f"lane {number}") for number in range(MOST_LANES)], 9)
    assert floors.of(ended("a")) == {}


@pytest.mark.anyio
async def test_a_job_that_its_lane_waited_for_counts_as_found_by_no_search(
    app: App, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may wait in front of it."""
    noted: list[int] = []

    def note(self: Floors, jobs: Iterable[Job], final: int) -> None:
        noted.extend(job.id for job in jobs)

    monkeypatch.setattr(Floors, "note_first", note)

    @app.task(retry=RetryStrategy(max_attempts=1, wait=0))
    async def fail() -> None:
        raise ValueError

    fail.configure(lock="a").defer()
    async with app.open_async():
        await app.run_worker_async(wait=False)
    assert query("SELECT attempts FROM finished_jobs") == [(2,)]
    assert noted == [1]


def test_names_of_lanes_are_sent_as_they_are() -> None:
    """A database with the encoding SQL_ASCII cannot read what JSON escapes."""
    floors = {"Müller": [(0, 1, 1)]}
    outcome = Ended(job(1), Status.FAILED, error="für")
    for call in [
        claim.claim(uuid4(), None, 1, False, 1, floors=floors),
        finish.finish(uuid4(), None, 1, [outcome], floors=floors),
    ]:
        sent = str(next(call).parameters)
        assert "Müller" in sent
        assert "\\u" not in sent
