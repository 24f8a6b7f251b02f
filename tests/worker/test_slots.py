"""A slot that something other than the worker cancels, in the moment in which it gets an attempt."""

import asyncio

import anyio
import pytest

from inturn import Blueprint, Job
from inturn.worker.attempt import Attempt
from inturn.worker.slots import Slots


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
