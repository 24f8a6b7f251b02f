"""Slots: who gets a turn, and what if something other than the worker cancels one."""

import asyncio

import anyio
import anyio.lowlevel
import pytest

from inturn import Job
from inturn.worker.slots import TURNS, Slot, Slots, Waiting


def _waiting(*ids: int) -> list[Waiting]:
    return [Waiting(Job(id=id), 0.0) for id in ids]


@pytest.mark.anyio
@pytest.mark.parametrize("first", ["the cancellation", "the job"])
async def test_a_job_runs_although_the_slot_that_waits_for_one_is_cancelled(first: str) -> None:
    ran: list[int] = []
    both_ran = anyio.Event()

    async def perform(waiting: Waiting, slot: Slot) -> None:
        ran.append(waiting.job.id)
        if len(ran) == 2:
            both_ran.set()

    slots = Slots(1, perform)

    async def work() -> None:
        others = asyncio.all_tasks()
        slots.add(_waiting(1))
        await anyio.wait_all_tasks_blocked()  # the slot waits for the next job
        (slot,) = asyncio.all_tasks() - others
        if first == "the cancellation":
            slot.cancel()
            slots.add(_waiting(2))
        else:
            slots.add(_waiting(2))
            slot.cancel()
        del slot
        await both_ran.wait()

    with anyio.fail_after(120):
        await slots.run(work)
    assert ran == [1, 2]


@pytest.mark.anyio
@pytest.mark.parametrize("count", [1, 10, 100])
async def test_others_get_their_turn_while_jobs_that_do_not_wait_are_left_to_run(
    count: int,
) -> None:
    """The loop reports a part of them, and the rest runs while the server stores that part."""
    ran: list[int] = []
    seen: list[int] = []

    async def perform(waiting: Waiting, slot: Slot) -> None:
        ran.append(waiting.job.id)

    slots = Slots(count, perform)

    async def work() -> None:
        slots.add(_waiting(*range(1000)))
        while len(ran) < 1000:
            seen.append(len(ran))
            await anyio.lowlevel.checkpoint()

    with anyio.fail_after(120):
        await slots.run(work)
    assert seen[0] == 0, "the worker's next call is sent before a batch of jobs begins"
    steps = [after - before for before, after in zip(seen, [*seen[1:], 1000], strict=True)]
    assert max(steps) <= 1000 // TURNS + count


@pytest.mark.anyio
async def test_all_jobs_run_although_the_slot_is_cancelled_while_it_gives_way() -> None:
    ran: list[int] = []

    async def perform(waiting: Waiting, slot: Slot) -> None:
        ran.append(waiting.job.id)

    slots = Slots(1, perform)

    async def work() -> None:
        others = asyncio.all_tasks()
        slots.add(_waiting(*range(1000)))
        await anyio.lowlevel.checkpoint()
        assert 0 < len(ran) < 1000
        for slot in asyncio.all_tasks() - others:
            slot.cancel()
        while len(ran) < 1000:
            await anyio.lowlevel.checkpoint()

    with anyio.fail_after(120):
        await slots.run(work)
    assert ran == list(range(1000))


@pytest.mark.anyio
async def test_a_job_is_in_sight_until_it_runs() -> None:
    """Otherwise the worker would take it for lost, put it back, and run it all the same."""
    slots: Slots
    unseen: list[int] = []
    ran: list[int] = []

    async def perform(waiting: Waiting, slot: Slot) -> None:
        ran.append(waiting.job.id)
        await anyio.lowlevel.checkpoint()

    async def work() -> None:
        given: list[int] = []
        for ids in ([1, 2], [3], [4, 5, 6, 7], [8, 9]):
            slots.add(_waiting(*ids))
            given += ids
            for _ in range(5):
                unseen.extend({*given} - {*ran} - {job.id for job, _ in slots.waiting})
                await anyio.lowlevel.checkpoint()
        while len(ran) < len(given):
            await anyio.lowlevel.checkpoint()

    slots = Slots(2, perform)
    with anyio.fail_after(120):
        await slots.run(work)
    assert (unseen, sorted(ran)) == ([], list(range(1, 10)))


@pytest.mark.anyio
async def test_each_start_is_asked_for_and_the_rest_waits_until_it_may() -> None:
    ran: list[int] = []
    asked: list[int] = []  # after which job
    are_ours = True

    async def perform(waiting: Waiting, slot: Slot) -> None:
        nonlocal are_ours
        ran.append(waiting.job.id)
        are_ours = len(ran) != 2  # the process sleeps during the second job

    slots = Slots(1, perform)
    slots.are_ours = lambda: are_ours
    slots.ask = lambda: asked.append(ran[-1])

    async def work() -> None:
        nonlocal are_ours
        slots.add(_waiting(1, 2, 3, 4))
        await anyio.wait_all_tasks_blocked()
        assert ran == [1, 2]
        slots.add(_waiting(5))
        await anyio.wait_all_tasks_blocked()
        assert ran == [1, 2]
        are_ours = True
        slots.resume()
        await anyio.wait_all_tasks_blocked()

    await slots.run(work)
    assert ran == [1, 2, 3, 4, 5]
    assert set(asked) == {2}
