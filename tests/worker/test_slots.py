"""Slots: who gets a turn, and what if something other than the worker cancels one."""

import asyncio
import itertools
import weakref
from contextlib import suppress
from contextvars import ContextVar
from itertools import islice
from random import Random

import anyio
import anyio.lowlevel
import pytest

from inturn import App, Job
from inturn.operations import Operation
from inturn.operations.engine.finish import Finished
from inturn.worker.connection import WorkerConnection
from inturn.worker.slots import MOST_IN_A_TURN, TURNS, Slot, Slots, Waiting


def _waiting(*ids: int) -> list[Waiting]:
    return [Waiting(Job(id=id), 0.0) for id in ids]


async def _give_turns(count: int) -> None:
    for _ in range(count):
        await anyio.lowlevel.checkpoint()


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
@pytest.mark.parametrize("busy", [0, 60], ids=["idle", "some end now"])
@pytest.mark.parametrize("waits", [0, 2], ids=["all short", "two wait"])
async def test_others_get_their_turn_while_jobs_that_do_not_wait_are_left_to_run(
    count: int, busy: int, waits: int
) -> None:
    """The loop reports a part of them, and the rest runs while the server stores that part."""
    busy, waits = min(busy, count - 1), min(waits, count - 1)
    ran: list[int] = []
    seen: list[int] = []
    end, end_at_last = asyncio.Event(), asyncio.Event()

    async def perform(waiting: Waiting, slot: Slot) -> None:
        ran.append(waiting.job.id)
        if waiting.job.id < waits:
            await end_at_last.wait()
        elif waiting.job.id > 1000:
            await end.wait()

    slots = Slots(count, perform)

    async def work() -> None:
        slots.add(_waiting(*range(1001, 1001 + busy)))
        await _give_turns(5)
        ran.clear()
        end.set()
        slots.add(_waiting(*range(1000)))
        while len(ran) < 1000:
            seen.append(len(ran))
            await anyio.lowlevel.checkpoint()
        end_at_last.set()

    with anyio.fail_after(120):
        await slots.run(work)
    assert seen[0] == 0, "the worker's next call is sent before a batch of jobs begins"
    steps = [after - before for before, after in zip(seen, [*seen[1:], 1000], strict=True)]
    assert max(steps) <= min(1000 // TURNS, MOST_IN_A_TURN) + count


@pytest.mark.anyio
@pytest.mark.parametrize("batch", [2, 10, 100])
async def test_jobs_of_one_batch_run_in_one_turn_if_there_are_slots_for_all(batch: int) -> None:
    """Then one call reports them all, and their lanes hand over all next jobs."""
    ran: list[int] = []

    async def perform(waiting: Waiting, slot: Slot) -> None:
        ran.append(waiting.job.id)

    slots = Slots(100, perform)

    async def work() -> None:
        for end in range(batch, 5 * batch, batch):
            slots.add(_waiting(*range(end - batch, end)))
            while len(ran) == end - batch:
                await anyio.lowlevel.checkpoint()
            assert len(ran) == end

    with anyio.fail_after(120):
        await slots.run(work)


@pytest.mark.anyio
async def test_ten_lanes_are_reported_and_handed_over_by_one_call(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[int] = []
    run = WorkerConnection.run

    async def note(connection: WorkerConnection, operation: Operation[object]) -> object:
        reply = await run(connection, operation)
        if isinstance(reply, Finished):
            reports.append(len(reply.accepted))
        return reply

    @app.task(name="step")
    async def step() -> None: ...

    monkeypatch.setattr(WorkerConnection, "run", note)
    for _ in range(3):  # lanes that a stall of the machine has parted stay so
        reports.clear()
        for lane in range(10):
            step.configure(lock=str(lane)).batch_defer(*[{}] * 30)
        await app.run_worker_async(concurrency=20)
        assert sum(reports) == 300
        if len(reports) < 40:
            break
    else:
        pytest.fail(f"of 10 lanes, the reports have {reports}")


@pytest.mark.anyio
@pytest.mark.parametrize(("waits", "least", "most"), [(False, 1, 2), (True, 100, 100)])
async def test_jobs_that_wait_have_a_slot_each_and_others_share_a_few(
    waits: bool, least: int, most: int
) -> None:
    used: set[int] = set()

    async def perform(waiting: Waiting, slot: Slot) -> None:
        used.add(id(slot.task))
        await _give_turns(20 * waits)

    slots = Slots(100, perform)

    async def work() -> None:
        slots.add(_waiting(*range(100)))
        await _give_turns(100)

    with anyio.fail_after(120):
        await slots.run(work)
    assert least <= len(used) <= most


class Story:
    """Random jobs, some of which wait, and what may happen to them."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.count = self.random.choice([1, 2, 3, 10])
        self.slots = Slots(self.count, self.perform)
        self.slots.are_ours = lambda: self.are_ours
        self.slots.ask = self.ask
        self.asked = 0
        self.are_ours = True
        self.ids = itertools.count()
        self.started: list[int] = []
        self.waiting: set[asyncio.Event] = set()
        self.seen: weakref.WeakSet[asyncio.Task[object]] = weakref.WeakSet()

    async def perform(self, waiting: Waiting, slot: Slot) -> None:
        self.started.append(waiting.job.id)
        self.seen.add(slot.task)
        go_on = asyncio.Event()
        with suppress(asyncio.CancelledError):
            for _ in range(self.random.choice([0, 0, 0, 1, 3])):
                await anyio.lowlevel.checkpoint()
            if self.random.random() < 0.3:
                self.waiting.add(go_on)
                await go_on.wait()
        self.waiting.discard(go_on)

    def ask(self) -> None:
        self.asked += 1

    def add(self) -> None:
        self.slots.add(_waiting(*islice(self.ids, self.random.choice([1, 1, 2, 3, 30]))))

    def end(self) -> None:
        for go_on in self.random.sample([*self.waiting], len(self.waiting) // 2):
            go_on.set()

    def cancel(self) -> None:
        """Cancel a slot, as a library might that cancels all tasks."""
        for task in self.random.sample([*self.seen], min(len(self.seen), 1)):
            task.cancel()

    def sleep(self) -> None:
        self.are_ours = False

    def wake(self) -> None:
        self.are_ours = True
        self.slots.add()

    async def tell(self) -> None:
        actions = [self.add, self.add, self.end, self.cancel, self.sleep, self.wake]
        for _ in range(60):
            for _ in range(self.random.choice([1, 2, 3])):
                self.random.choice(actions)()
                await _give_turns(self.random.choice([0, 0, 1, 2, 3]))
            await _give_turns(500)
            if self.are_ours and self.slots.waiting:
                assert len(self.waiting) == self.count
            asked = self.asked
            await _give_turns(5)
            assert self.asked == asked, "it asks when something has happened"
        self.slots.take_waiting()
        for go_on in self.waiting:
            go_on.set()


@pytest.mark.anyio
@pytest.mark.parametrize("seed", range(20))
async def test_no_job_waits_while_a_slot_is_free(seed: int) -> None:
    story = Story(seed)
    with anyio.fail_after(120):
        await story.slots.run(story.tell)
    assert story.started == sorted(set(story.started))


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
        slots.add()
        await anyio.wait_all_tasks_blocked()

    await slots.run(work)
    assert ran == [1, 2, 3, 4, 5]
    assert set(asked) == {2}


class Incomparable:
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise TypeError


@pytest.mark.anyio
@pytest.mark.parametrize("value", ["a tenant", Incomparable()], ids=["text", "incomparable"])
async def test_no_job_sees_the_context_variables_of_another(app: App, value: object) -> None:
    variable: ContextVar[object] = ContextVar("tenant", default=None)
    seen: list[object] = []

    @app.task
    async def visit() -> None:
        seen.append(variable.get())
        variable.set(value)

    @app.task
    def visit_in_thread() -> None:
        seen.append(variable.get())

    visit.batch_defer({}, {}, {})
    visit_in_thread.defer()
    await app.run_worker_async(concurrency=1)
    assert seen == [None] * 4
