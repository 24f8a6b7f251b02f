"""Queues of this kind share known defects and missing features. This queue does better.

ROWS (defects of others) and OURS (features that no other has) name the tests that prove it.
Some of those tests are here.
"""

import re
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from inturn import App, JobContext, RetryStrategy
from inturn.errors import BadArgument
from inturn.tasks.middleware import RunningWorker
from inturn.worker.claiming.wakeups import Wakeups
from tests.conftest import Query

TESTS = Path(__file__).parents[1]
HERE = "package/test_right_where_others_are_wrong.py"

ROWS = {
    "a lane waits for the next poll when its job ends; retries wake nobody; a notification during a fetch is dropped": [
        f"{HERE}::test_a_lane_goes_on_at_once_when_its_job_ends_and_when_it_is_tried_again",
        f"{HERE}::test_a_wake_up_during_a_fetch_is_not_dropped",
        "race/test_interleavings.py::test_a_job_that_commits_after_the_lane_was_given_back_wakes_it_itself",
    ],
    "fetch slows with the blocked backlog": [
        "sql/test_cost.py::test_a_claim_costs_the_same_behind_a_hundred_and_a_million_jobs_of_a_busy_lane",
        "sql/test_growth.py::test_the_cost_of_a_claim_and_a_finish_does_not_grow_with",
    ],
    "completion accepts any caller": [
        "race/test_interleavings.py::test_a_worker_that_was_taken_for_dead_can_end_its_job_no_more",
        "race/test_interleavings.py::test_an_old_claim_of_the_same_worker_is_refused",
        "worker/test_worker.py::test_a_worker_that_was_taken_for_dead_registers_again_and_its_result_is_refused",
    ],
    "a retry that collides on its queueing lock leaves its job running for ever and its lane blocked": [
        "race/test_queueing_locks.py::test_a_retry_waits_for_no_user_who_defers_its_key_and_goes_on_without_it",
        "race/test_queueing_locks.py::test_a_retry_survives_a_rival_that_commits_after_it_has_looked",
        "race/test_queueing_locks.py::test_a_rescue_succeeds_although_another_job_waits_under_the_key",
        "tasks/test_queueing_lock.py::test_a_running_job_is_no_obstacle_and_nothing_is_lost_when_it_then_fails",
    ],
    "stalled jobs are the user's business": [
        "stress/test_crash.py::test_workers_killed_on_the_way_lose_nothing_and_keep_every_lane_in_order",
    ],
    "heartbeat and abort stop during drain": [
        f"{HERE}::test_heartbeat_and_abort_go_on_until_the_last_job_of_a_stopping_worker_has_ended",
        "worker/test_worker.py::test_a_task_that_blocks_the_event_loop_does_not_make_its_worker_look_dead",
    ],
    "a scheduled job stalls its lane": [
        "worker/test_worker.py::test_a_scheduled_job_starts_when_it_is_due_and_holds_up_nobody",
        "control/test_lanes.py::test_a_lane_goes_on_while_a_released_job_waits_for_its_retry",
    ],
    "a wrong call passes the type checker and stores nothing; options after configure are unchecked": [
        f"{HERE}::test_a_wrong_call_raises_where_it_is_made_also_after_configure",
        "tasks/test_bad_input.py::test_a_call_that_does_not_fit_the_function_is_refused",
        "typing/test_typing.py::test_mypy_finds_the_mistakes_and_nothing_else_and_knows_the_types",
        "typing/test_typing.py::test_basedpyright_finds_the_mistakes_and_nothing_else_and_knows_the_types",
    ],
    "a conflict of queueing locks aborts the caller's transaction and gives no id": [
        "tasks/test_queueing_lock.py::test_a_second_job_is_refused_and_the_first_is_named",
        "tasks/test_queueing_lock.py::test_the_transaction_of_the_caller_goes_on_after_a_conflict",
        "tasks/test_queueing_lock.py::test_skip_returns_the_job_that_waits",
        "tasks/test_queueing_lock.py::test_replace_hands_the_new_arguments_to_the_job_that_waits",
        "race/test_queueing_locks.py::test_the_second_of_two_producers_with_one_key_gets_the_job_of_the_first",
    ],
    "no traceback is stored": [
        "worker/test_worker.py::test_only_the_last_ten_errors_are_kept",
    ],
    "no result is stored": [
        "control/test_results.py::test_the_return_value_of_a_task_is_the_result_of_its_job",
        "control/test_results.py::test_waiters_in_threads_and_in_the_loop_are_notified_of_the_end",
    ],
    "no timeout": [
        "worker/test_timeouts.py::test_an_async_task_is_cancelled_when_its_time_is_up_and_the_lane_goes_on",
        "worker/test_timeouts.py::test_a_sync_task_is_asked_and_fails_with_a_timeout_however_it_ends_then",
    ],
    "no jitter": [
        "tasks/test_retry.py::test_jitter_takes_off_a_part_of_the_wait",
        "tasks/test_retry.py::test_a_wait_is_capped_before_it_is_spread",
    ],
    "no zones in cron": [
        "tasks/test_periodic.py::test_a_task_may_have_several_schedules_in_zones_of_their_own",
        "schedules/test_cron.py::test_in_a_gap_fixed_hours_fire_once",
        "schedules/test_cron.py::test_an_hour_that_comes_twice_fires_once_for_fixed_hours",
    ],
    "no policy for missed runs": [
        "worker/test_scheduler.py::test_after_a_downtime_it_catches_up_as_it_says",
        "worker/test_scheduler.py::test_missed_instants_are_reported_once",
        "tasks/test_periodic.py::test_an_instant_later_than_the_delay_is_not_due",
    ],
    "migrations are tracked by hand": [
        "sql/test_schema.py::test_a_second_migration_changes_nothing",
        "cli/test_schema.py::test_the_status_is_11_where_it_does_not",
    ],
    "rows of many workers: a deleted one scans the finished jobs": [
        f"{HERE}::test_no_table_refers_to_another",
    ],
}

# Features that none of them has.
OURS = {
    "transactional enqueue anywhere": [
        "database/test_transactional_defer.py::test_a_job_in_the_callers_transaction_exists_if_and_only_if_the_caller_commits",
        "database/test_transactional_defer.py::test_a_connection_of_another_kind_is_refused_by_name",
        "django/test_django.py::test_a_job_deferred_in_a_block_exists_when_the_block_commits",
        "sql/test_defer.py::test_the_trigger_of_the_example_defers_one_job_however_often_a_row_changes",
    ],
    "transactional completion": [
        "worker/test_transactions.py::test_a_task_s_writes_and_the_end_of_its_job_commit_together",
        "worker/test_transactions.py::test_killed_anywhere_a_task_has_its_effect_exactly_once",
        "worker/test_transactions.py::test_a_worker_declared_dead_meanwhile_commits_nothing",
    ],
    "fences for user code": [
        "database/test_fences.py::test_a_lower_token_than_the_highest_seen_is_refused_and_its_transaction_cannot_commit",
        "database/test_fences.py::test_the_late_write_of_a_paused_attempt_is_refused",
        "race/test_fences.py::test_an_earlier_start_that_waits_for_a_later_one_is_refused",
    ],
    "lane policies": [
        "worker/test_worker.py::test_a_failed_job_is_tried_again_and_its_lane_waits_for_it",
        "control/test_lanes.py::test_a_lane_goes_on_while_a_released_job_waits_for_its_retry",
        "control/test_lanes.py::test_a_lane_halts_when_a_job_has_failed_until_somebody_retries_it",
    ],
    "lane operations, audited": [
        "control/test_lanes.py::test_a_paused_lane_starts_nothing_until_it_is_resumed",
        "control/test_lanes.py::test_skipping_the_head_of_a_halted_lane_leaves_the_failed_job_behind",
        "control/test_lanes.py::test_all_that_waits_in_a_lane_is_cancelled_at_once",
        "race/test_operators.py::test_the_head_can_be_tried_again_at_once_and_goes_first",
        "cli/test_lanes.py::test_a_lane_is_shown_with_the_changes_made_to_it",
    ],
    "explain": [
        "control/test_lanes.py::test_a_job_explains_why_it_does_not_run",
        "race/test_lane_machine.py::test_every_operation_leaves_the_lanes_as_the_book_says",
        "cli/test_lanes.py::test_the_advice_of_explain_unblocks_the_lane",
    ],
    "tests of users run on the real queue": [
        "testing/test_plugin.py::test_the_guide_works_as_it_stands",
    ],
}


@pytest.mark.parametrize("row", ROWS | OURS)
def test_known_defects_of_others_are_tested_here(row: str) -> None:
    for name in (ROWS | OURS)[row]:
        file, _, test = name.partition("::")
        assert re.search(
            rf"^(async )?def {test}\(", (TESTS / file).read_text(encoding="utf-8"), re.MULTILINE
        ), name


@pytest.mark.anyio
async def test_a_lane_goes_on_at_once_when_its_job_ends_and_when_it_is_tried_again(
    app: App,
) -> None:
    seen: list[tuple[str, int]] = []

    @app.task(lock="lane", retry=RetryStrategy(max_attempts=1), pass_context=True)
    async def step(context: JobContext, name: str) -> None:
        seen.append((name, context.job.attempts))
        if len(seen) == 6:
            workers.cancel_scope.cancel()
        if not context.job.attempts:
            raise ValueError

    step.batch_defer({"name": "a"}, {"name": "b"}, {"name": "c"})
    with anyio.fail_after(120):
        async with anyio.create_task_group() as workers:  # which poll never, and hear nothing
            workers.start_soon(partial(app.run_worker_async, wait=True, listen_notify=False))
    assert seen == [(name, attempt) for name in "abc" for attempt in (0, 1)]


def test_a_wake_up_during_a_fetch_is_not_dropped() -> None:
    wakeups = Wakeups(poll=600.0)
    wakeups.begin_claim()
    wakeups.wake()  # while the claim is under way
    wakeups.note_not_filled(0, None, notified=True)  # it has seen nothing of that
    assert wakeups.should_claim


@pytest.mark.anyio
async def test_heartbeat_and_abort_go_on_until_the_last_job_of_a_stopping_worker_has_ended(
    app: App, query: Query, until: Callable[[Callable[[], object]], Awaitable[None]]
) -> None:
    stopping = anyio.Event()

    async def stop(
        call_next: Callable[[], Awaitable[Any]], context: JobContext, worker: RunningWorker
    ) -> Any:
        worker.stop()
        stopping.set()
        return await call_next()

    @app.task
    async def endless() -> None:
        await anyio.sleep(3600)

    def heartbeat() -> object:
        return query("SELECT heartbeat_at FROM workers")

    job_id = endless.defer()
    quick: dict[str, Any] = {"update_heartbeat_interval": 0.02, "stalled_worker_timeout": 30.0}
    with anyio.fail_after(120):
        async with anyio.create_task_group() as group:
            group.start_soon(
                partial(app.run_worker_async, wait=True, worker_middleware=[stop], **quick)
            )
            await stopping.wait()
            last = heartbeat()
            await until(lambda: heartbeat() != last)
            assert app.job_manager.cancel_job_by_id(job_id, abort=True)
    assert app.job_manager.get_job_status(job_id) == "aborted"


def test_a_wrong_call_raises_where_it_is_made_also_after_configure(app: App, query: Query) -> None:
    @app.task
    def write(letter: str) -> None: ...

    for wrong in (
        lambda: write.defer(1, 2),  # type: ignore[arg-type, call-arg]
        lambda: write.configure(lock="a").defer(1, 2),  # type: ignore[arg-type, call-arg]
        lambda: write.configure(lock="a").defer(leter="a"),  # type: ignore[call-arg]
        lambda: write.configure(lock="a").make_new_job(),  # type: ignore[call-arg]
        lambda: write.configure(task_kwargs={"leter": "a"}).defer(),
        lambda: write.batch_defer({}),
    ):
        with pytest.raises(BadArgument, match=r"Call it as .*write\(letter: str\)"):
            wrong()
    with pytest.raises(TypeError, match="lok"):
        write.configure(lok="a")  # type: ignore[call-overload]
    with pytest.raises(BadArgument, match=r"lok is not an option of a job\. Did you mean lock\?"):
        app.configure_task("elsewhere", lok="a")  # type: ignore[call-arg]
    assert query("SELECT count(*) FROM jobs") == [(0,)]


def test_no_table_refers_to_another(query: Query) -> None:
    assert (
        query(
            "SELECT conname FROM pg_constraint WHERE contype = 'f' AND connamespace = 'inturn'::regnamespace"
        )
        == []
    )
