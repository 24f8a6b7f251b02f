"""The decisions of a retry strategy, and tasks that snooze."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from inturn import App, BaseRetryStrategy, Job, JobContext, RetryDecision
from inturn.errors import BadArgument
from tests.conftest import Query

pytestmark = pytest.mark.anyio

LIVE = (
    "SELECT id, status::text, queue, priority, lock, attempts, jsonb_array_length(errors) FROM jobs"
)


class Decide(BaseRetryStrategy):
    def __init__(self, *decisions: Any) -> None:
        self.decisions = list(decisions)

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        decision = self.decisions.pop(0) if self.decisions else None
        if isinstance(decision, Exception):
            raise decision
        return decision


def failing(app: App, *decisions: Any, **options: Any) -> Any:
    @app.task(retry=Decide(*decisions), **options)
    async def fail() -> None:
        raise ValueError("no luck")

    return fail


def test_a_decision_changes_time_queue_priority_and_lock(app: App, query: Query) -> None:
    at = datetime.now(UTC) + timedelta(hours=1)
    task = failing(
        app,
        RetryDecision(retry_at=at, queue="patient", priority=-1, lock="slow lane"),
        lock="fast lane",
    )
    job = task.defer()
    app.run_worker()
    assert query(LIVE) == [(job, "scheduled", "patient", -1, "slow lane", 1, 1)]
    assert query("SELECT scheduled_at FROM jobs") == [(at,)]
    assert query("SELECT lock FROM lanes") == []


def test_values_that_a_decision_does_not_name_stay(app: App, query: Query) -> None:
    job = failing(
        app, RetryDecision(retry_in={"hours": 1}), lock="l", queue="q", priority=7
    ).defer()
    app.run_worker()
    assert query(LIVE) == [(job, "scheduled", "q", 7, "l", 1, 1)]
    assert query("SELECT lock, state::text FROM lanes") == [("l", "retrying")]


@pytest.mark.parametrize(
    "past",
    [{"retry_in": timedelta.min}, {"retry_at": datetime(2001, 1, 1, tzinfo=UTC)}, {}],
    ids=str,
)
def test_a_time_that_is_over_is_at_once(app: App, query: Query, past: dict[str, Any]) -> None:
    failing(app, RetryDecision(**past), RetryDecision(**past)).defer()
    app.run_worker()
    assert query("SELECT attempts, status::text FROM finished_jobs") == [(3, "failed")]


def test_a_decision_that_makes_no_sense_is_refused() -> None:
    for options, message in [
        ({"retry_at": datetime.now(UTC), "retry_in": {"hours": 1}}, "retry_at was given together"),
        ({"retry_at": datetime(2030, 1, 1)}, "retry_at: .* has no zone"),
        ({"retry_in": {"hour": 1}}, "retry_in: .*'hour'"),
        ({"retry_in": timedelta.max}, "retry_in: .* thousand years"),
        ({"retry_in": {"hours": float("nan")}}, "retry_in: "),
        ({"priority": 1.5}, "priority: 1.5"),
        ({"queue": "a,b"}, "queue: 'a,b'"),
        ({"lock": ""}, "lock is empty"),
    ]:
        with pytest.raises(BadArgument, match=message):
            RetryDecision(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("nonsense", ["soon", True, BadArgument("queue", "no name")], ids=str)
def test_a_strategy_that_fails_fails_the_job_and_not_the_worker(
    app: App, query: Query, nonsense: object
) -> None:
    failing(app, nonsense).defer()
    failing_job, *_ = query("SELECT id FROM jobs")
    app.run_worker()
    ((id, status, error),) = query(
        "SELECT id, status::text, errors -> -1 ->> 'error' FROM finished_jobs"
    )
    assert ((id,), status) == (failing_job, "failed")
    assert "and its retry strategy failed" in error


async def test_a_snoozed_job_runs_again_later_and_its_attempt_does_not_count(
    app: App, query: Query
) -> None:
    attempts: list[int] = []

    @app.task(pass_context=True, lock="l")
    async def wait(context: JobContext) -> None:
        attempts.append(context.job.attempts)
        try:
            if len(attempts) < 3:
                context.snooze(timedelta(0))
            context.snooze({"minutes": 5})
        except Exception:
            attempts.append(99)  # it is none

    job = wait.defer()
    wait.configure(priority=9).defer()
    await app.run_worker_async()
    assert query(LIVE + " WHERE id = %s", 2) == [(2, "scheduled", "default", 9, "l", 0, 0)]
    assert attempts == [0, 0, 0]
    assert query("SELECT lock, state::text, job_id FROM lanes") == [("l", "retrying", 2)]
    assert query("SELECT attempts FROM jobs WHERE id = %s", job) == [(0,)]


def test_a_sync_task_snoozes_too(app: App, query: Query) -> None:
    @app.task(pass_context=True, on_retry="release")
    def wait(context: JobContext) -> None:
        context.snooze({"hours": 1})

    wait.configure(lock="l").batch_defer({}, {})
    app.run_worker()
    assert query("SELECT status::text, attempts FROM jobs") == [("scheduled", 0), ("scheduled", 0)]
    assert query("SELECT FROM lanes") == []


def test_a_task_in_a_group_of_tasks_snoozes_the_job(app: App, query: Query) -> None:
    @app.task(pass_context=True)
    async def wait(context: JobContext) -> None:
        async def snooze() -> None:
            context.snooze({"hours": 1})

        async with asyncio.TaskGroup() as group:
            group.create_task(snooze())

    wait.defer()
    app.run_worker()
    assert query("SELECT status::text, attempts FROM jobs") == [("scheduled", 0)]


def test_a_snooze_that_makes_no_sense_fails_the_job(app: App, query: Query) -> None:
    @app.task(pass_context=True)
    def wait(context: JobContext) -> None:
        context.snooze({"fortnights": 1})

    wait.defer()
    app.run_worker()
    ((error,),) = query(
        "SELECT errors -> -1 ->> 'error' FROM finished_jobs WHERE status = 'failed'"
    )
    assert "schedule_in: " in error.splitlines()[-1]
    assert "fortnights" in error.splitlines()[-1]
