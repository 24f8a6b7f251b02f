"""Slots: who gets a turn, and what if something other than the worker cancels one."""

import asyncio

import anyio
import anyio.lowlevel
import pytest

from inturn import Blueprint, Job
from inturn.worker.attempt import Attempt
from inturn.worker.slots import TURNS, Slots


def _nothing() -> None: ...


@pytest.mark.anyio
@pytest.mark.parametrize("first", ["the cancellation", "the attempt"])
async def test_an_attempt_runs_although_the_slot_that_waits_for_one_is_cancelled(
    first: str,
) -> None:
    task = Blueprint().task(name="t")(_nothing)
    one, two = (Attempt(Job(id=number), task, None, 0.0) for number in (1, 2))
    ran: list[Attempt] = []
    both_ran = anyio.Event()

    async def perform(attempt: Attempt) -> None:
        ran.append(attempt)
        if len(ran) == 2:
            both_ran.set()

    slots = Slots(1, perform)

    async def work() -> None:
        others = asyncio.all_tasks()
        slots.add(one)
        await anyio.wait_all_tasks_blocked()  # the slot waits for the next attempt
        (slot,) = asyncio.all_tasks() - others
        if first == "the cancellation":
            slot.cancel()
            slots.add(two)
        else:
            slots.add(two)
            slot.cancel()
        del slot
        await both_ran.wait()

    with anyio.fail_after(30):
        await slots.run(work)
    assert ran == [one, two]


@pytest.mark.anyio
@pytest.mark.parametrize("count", [1, 10, 100])
async def test_others_get_their_turn_while_jobs_that_do_not_wait_are_left_to_run(
    count: int,
) -> None:
    """The loop reports a part of them, and the rest runs while the server stores that part."""
    task = Blueprint().task(name="t")(_nothing)
    ran: list[Attempt] = []
    seen: list[int] = []

    async def perform(attempt: Attempt) -> None:
        ran.append(attempt)

    slots = Slots(count, perform)

    async def work() -> None:
        for number in range(1000):
            slots.add(Attempt(Job(id=number), task, None, 0.0))
        while len(ran) < 1000:
            seen.append(len(ran))
            await anyio.lowlevel.checkpoint()

    with anyio.fail_after(30):
        await slots.run(work)
    steps = [after - before for before, after in zip(seen, [*seen[1:], 1000], strict=True)]
    assert max(steps) <= 1000 // TURNS + count
