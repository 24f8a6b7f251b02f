"""Several locks on one job, and shared ones, as users give them."""

import asyncio
from typing import Any

import pytest

from inturn import App, BaseRetryStrategy, Job, JobContext, RetryDecision, shared
from inturn.errors import AlreadyEnqueued, BadArgument
from inturn.tasks.lanes import JobLanes
from inturn.tasks.task import Task


@pytest.fixture
def move(app: App) -> Task[..., None]:
    @app.task(name="move")
    def move(**_: object) -> None: ...

    return move


def stored(app: App, id: int) -> tuple[Any, ...]:
    [job] = app.job_manager.list_jobs(id=id)
    return job.lock, job.locks, job.shared


@pytest.mark.parametrize(
    ("lock", "expected"),
    [
        (["b", "a"], ("a", ["a", "b"], None)),
        (("b", 7), ("7", ["7", "b"], None)),
        (["a"], ("a", None, None)),
        ([shared("a"), "B"], ("B", ["B", "a"], ["a"])),
        (shared("a"), ("a", ["a"], ["a"])),
        ([shared("é"), shared("z")], ("z", ["z", "é"], ["z", "é"])),
        ("a", ("a", None, None)),
    ],
)
def test_a_job_has_the_locks_that_it_was_given(
    app: App, move: Task[..., None], lock: Any, expected: tuple[Any, ...]
) -> None:
    assert stored(app, move.configure(lock=lock).defer()) == expected


async def defer_async(app: App, move: Task[..., None], options: dict[str, Any]) -> int:
    async with app.open_async():
        return await move.configure(**options).defer_async()


def test_they_can_be_given_in_each_way_to_defer(app: App, move: Task[..., None]) -> None:
    options: dict[str, Any] = {"lock": ["a", shared("b")]}
    both = ("a", ["a", "b"], ["b"])
    parent = move.defer()
    assert stored(app, asyncio.run(defer_async(app, move, options))) == both
    ids = [
        *move.configure(**options).batch_defer({"n": 1}, {"n": 2}),
        move.configure(**options, schedule_in={"hours": 1}).defer(),
        move.configure(**options, after=parent).defer(),
        move.configure(**options, queueing_lock="q").defer(),
        move.configure(**options, queueing_lock="q", on_conflict="skip").defer(),
        move.configure(**options, queueing_lock="q", on_conflict="replace").defer(n=1),
        *app.job_manager.batch_defer_jobs([move.configure(**options).make_new_job()] * 2),
    ]
    assert [stored(app, id) for id in ids] == [both] * len(ids)
    assert len({*ids}) == len(ids) - 2
    with pytest.raises(AlreadyEnqueued):
        move.configure(**options, queueing_lock="q").defer()


def test_jobs_with_one_lock_and_with_several_go_into_one_call(
    app: App, move: Task[..., None]
) -> None:
    locks: list[Any] = ["a", ["a", "b"], None, shared("c")]
    jobs = [move.configure(lock=lock).make_new_job() for lock in locks]
    ids = app.job_manager.batch_defer_jobs(jobs)
    assert [stored(app, id) for id in ids] == [
        ("a", None, None),
        ("a", ["a", "b"], None),
        (None, None, None),
        ("c", ["c"], ["c"]),
    ]


def test_a_task_declares_them(app: App) -> None:
    @app.task(name="declared", lock=["b", "a"])
    def declared() -> None: ...

    assert declared.lock == "a"
    assert stored(app, declared.defer()) == ("a", ["a", "b"], None)
    assert declared.make_new_job().options.lock == JobLanes(("a", "b"), ())


@pytest.mark.parametrize(
    ("lock", "problem"),
    [
        ([f"{n}" for n in range(9)], "has 9 locks; the limit is 8"),
        (["a", "a"], "the same lock twice"),
        (["a", shared("a")], "the same lock twice"),
        ([], "Pass 1 to 8 locks"),
        (["a", None], "Pass 1 to 8 locks"),
        (["a", ""], "is empty"),
        (["a", "b" * 1025], "1,025 bytes"),
        (["a", 1.5], "not text"),
        ({"a", "b"}, "not text"),
    ],
)
def test_odd_locks_are_refused_with_the_name_of_the_argument(
    app: App, move: Task[..., None], lock: Any, problem: str
) -> None:
    with pytest.raises(BadArgument, match=f"^lock.*{problem}"):
        move.configure(lock=lock)
    with pytest.raises(BadArgument, match="lock"):
        shared(None)  # type: ignore[arg-type]
    assert app.job_manager.list_jobs() == []


def test_replace_does_not_change_the_locks_of_the_job_that_waits(
    app: App, move: Task[..., None]
) -> None:
    move.configure(lock=["a", "b"], queueing_lock="q").defer()
    others: list[Any] = ["a", ["a", "c"], [shared("a"), "b"]]
    for lock in others:
        deferrer = move.configure(lock=lock, queueing_lock="q", on_conflict="replace")
        with pytest.raises(Exception, match="locks: job 1 waits with other locks"):
            deferrer.defer()


class Moving(BaseRetryStrategy):
    """Moves each failed job to another lane."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        return RetryDecision(lock="elsewhere")


@pytest.mark.parametrize("lock", [["a", "b"], shared("a")])
def test_a_retry_that_would_move_such_a_job_to_another_lane_fails_it(app: App, lock: Any) -> None:
    @app.task(name="fail", retry=Moving())
    def fail() -> None:
        raise ValueError("it fails")

    id = fail.configure(lock=lock).defer()
    app.run_worker(wait=False)
    [job] = app.job_manager.list_jobs(id=id)
    assert job.status == "failed"
    assert "cannot move" in job.errors[-1]["error"]


def test_a_job_sees_all_of_its_lanes(app: App) -> None:
    seen: list[Any] = []

    @app.task(name="look", pass_context=True)
    def look(context: JobContext) -> None:
        seen.append((context.job.lock, list(context.job.lanes)))

    for lock in (["b", "a"], "c", None):
        look.configure(lock=lock).defer()
    app.run_worker(wait=False)
    assert sorted(seen, key=str) == [("a", ["a", "b"]), ("c", ["c"]), (None, [])]
