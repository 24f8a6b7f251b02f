"""Defect A: one row with arguments that Python cannot read stopped every worker, for ever."""

import logging

import anyio
import pytest

from inturn import App, RetryStrategy
from tests.cli.calling import invoke
from tests.conftest import Query

pytestmark = pytest.mark.anyio
DIGITS = """jsonb('{"a": ' || repeat('9', 5000) || '}')"""
NESTED = """jsonb('{"a": ' || repeat('[', 3000) || repeat(']', 3000) || '}')"""
ROW = (
    "INSERT INTO jobs (created_at, status, task, lock, on_failure, args) "
    "VALUES (now(), 'todo', 'step', %s, %s, {})"
)
odd_arguments = pytest.mark.parametrize("arguments", [DIGITS, NESTED], ids=["digits", "nested"])


def add(query: Query, arguments: str, lock: str | None = None, on_failure: str = "continue") -> int:
    ((job_id,),) = query(ROW.format(arguments) + " RETURNING id", lock, on_failure)
    return int(job_id)


@odd_arguments
async def test_arguments_that_cannot_be_read_fail_their_job_alone(
    app: App, query: Query, arguments: str
) -> None:
    seen: list[int] = []

    @app.task(name="step", lock="lane", retry=RetryStrategy(max_attempts=3))
    def step(number: int) -> None:
        seen.append(number)

    odd = [add(query, arguments, lock) for lock in (None, "lane")]
    step.batch_defer(*({"number": n} for n in range(5)))
    odd.append(add(query, arguments, "lane"))  # is handed over
    with anyio.fail_after(120):
        await app.run_worker_async(concurrency=2)
    assert seen == list(range(5))
    ends = query(
        "SELECT id, status, attempts, errors -> -1 ->> 'error' FROM finished_jobs "
        "WHERE id = ANY (%s)",
        odd,
    )
    assert sorted(id for id, *_ in ends) == sorted(odd)
    assert {(status, attempts) for _, status, attempts, _ in ends} == {("failed", 1)}
    assert all("cannot read the arguments" in error for *_, error in ends)


async def test_its_lane_halts_if_that_is_its_policy(app: App, query: Query) -> None:
    @app.task(name="step")
    def step() -> None: ...

    odd = add(query, DIGITS, "lane", "halt")
    waiting = step.configure(lock="lane").defer()
    with anyio.fail_after(120):
        await app.run_worker_async()
    assert query("SELECT lock, state, failed_job_id FROM lanes") == [("lane", "halted", odd)]
    assert query("SELECT id FROM jobs") == [(waiting,)]


async def test_the_log_names_the_job_and_the_reason(
    app: App, query: Query, caplog: pytest.LogCaptureFixture
) -> None:
    odd = add(query, DIGITS)
    with caplog.at_level(logging.ERROR, "inturn"), anyio.fail_after(120):
        await app.run_worker_async()
    [record] = caplog.records
    assert f"job.failed: {odd} step" in record.message
    assert "cannot read the arguments" in record.message


@odd_arguments
def test_people_and_programs_can_look_at_such_a_row_and_cancel_it(
    app: App, query: Query, dsn: str, arguments: str
) -> None:
    odd = add(query, arguments, "lane")
    [job] = app.job_manager.list_jobs(lock="lane")
    assert (job.id, job.task_kwargs) == (odd, {})
    for command in ("show", "explain"):
        result = invoke("jobs", command, str(odd), "--dsn", dsn)
        assert result.returncode == 0, result.output
    shown = invoke("jobs", "show", str(odd), "--dsn", dsn)
    assert "cannot read the arguments" in shown.output
    assert invoke("jobs", "show", str(odd), "--json", "--dsn", dsn).returncode == 0
    assert invoke("jobs", "cancel", str(odd), "--yes", "--dsn", dsn).returncode == 0
    assert query("SELECT status FROM all_jobs") == [("cancelled",)]
