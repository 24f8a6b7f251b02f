"""docs/moving.md states how inturn differs from procrastinate. Each row is checked here."""

import asyncio
import re
import warnings
from collections.abc import Callable
from datetime import datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from uuid import UUID

import click
import pytest
from psycopg_pool import ConnectionPool

import inturn.middleware
import inturn.testing
import inturn.worker
from inturn import (
    App,
    BaseRetryStrategy,
    Blueprint,
    Job,
    JobContext,
    PsycopgConnector,
    RetryDecision,
    RetryStrategy,
    errors,
)
from inturn.cli.commands.defer import command as defer
from inturn.cli.values import moment
from inturn.tasks.retry import find_strategy
from inturn.worker import Options
from tests.cli.calling import invoke
from tests.conftest import Query

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "moving.md").read_text(encoding="utf-8")
ROWS = [left.strip() for left in re.findall(r"^\|([^|]+)\|[^|]+\|$", PAGE, re.MULTILINE)][2:]
CHECKS: dict[str, "str | Callable[..., object]"] = {
    # Rows that a test elsewhere checks, by the beginning of the row.
    "a lane of a `lock` continues at the next poll": "worker/test_worker.py::"
    "test_a_scheduled_job_starts_when_it_is_due_and_holds_up_nobody",
    "at shutdown, jobs that outlive": "worker/test_worker.py::"
    "test_a_job_that_outlives_the_grace_goes_back_to_the_head_of_its_lane",
    "the job of an unknown task": "worker/test_worker.py::"
    "test_a_task_that_nobody_here_knows_is_put_back_and_not_lost",
    "a task's return value": "control/test_results.py::"
    "test_the_return_value_of_a_task_is_the_result_of_its_job",
    "`await job_manager.get_stalled_jobs()`": "tasks/test_moved_programs.py::"
    "test_what_is_a_coroutine_there_is_refused_in_an_event_loop_before_it_does_anything",
    "you retry the jobs of dead workers": "tasks/test_moved_programs.py::"
    "test_a_method_that_is_not_there_names_what_to_use",
    "a worker is called": "tasks/test_moved_programs.py::"
    "test_a_worker_is_named_after_its_host_and_process",
    "`retry_job_by_id(id, retry_at)`": "control/test_job_manager.py::"
    "test_a_job_is_not_run_again_before_the_time_that_is_asked",
    "the pool's": "tasks/test_moved_programs.py::"
    "test_options_of_the_pool_are_passed_on_or_refused_with_what_to_use",
    "`options=-c search_path=tenant`": "tasks/test_moved_programs.py::"
    "test_a_search_path_is_refused_because_it_does_not_choose_the_schema",
    "a periodic task runs for the last instant": "worker/test_scheduler.py::"
    "test_a_schedule_begins_when_a_worker_first_knows_it",
    "`builtin_tasks.remove_old_jobs": "control/test_retention.py::"
    "test_every_app_has_a_task_that_removes_old_jobs",
    "log records have": "worker/test_joblog.py::"
    "test_a_failure_is_logged_with_its_exception_and_says_which_attempt_it_was",
    "the connectors for aiopg": "database/test_transactional_defer.py::"
    "test_a_connection_of_another_kind_is_refused_by_name",
    "`configure(lock=customer.id)`": "tasks/test_values.py::"
    "test_a_uuid_and_a_number_are_locks_as_text",
    "`json_dumps` and `json_loads`": "tasks/test_values.py::"
    "test_the_connectors_json_functions_carry_other_values",
    "there is no `connection=`": "database/test_transactional_defer.py::"
    "test_a_job_in_the_callers_transaction_exists_if_and_only_if_the_caller_commits",
    "`PROCRASTINATE_WORKER_QUEUES`": "cli/test_worker_options.py::"
    "test_each_option_can_be_set_by_a_variable_and_the_command_line_wins",
    "`--log-format` is a format": "cli/test_logs.py::"
    "test_as_json_each_event_is_an_object_on_a_line_of_its_own",
    "a task with a decorator": "tasks/test_moved_programs.py::"
    "test_a_decorator_that_takes_other_arguments_is_told_to_hide_the_function",
    "`procrastinate.contrib.django`": "django/test_models.py::"
    "test_a_foreign_key_follows_its_job_into_the_history",
    "it may be any object": "control/test_results.py::"
    "test_a_result_that_cannot_be_stored_is_named_in_the_log_and_its_job_succeeds",
    "Django's `app` raises": "django/test_guide.py::"
    "test_the_app_works_before_django_has_loaded_its_apps",
    "`ProcrastinateJob.abort_requested`": "django/test_models.py::"
    "test_a_live_job_shows_its_locks_timeout_worker_and_whether_it_is_to_abort",
    "`finish_job`, `fetch_job`": "tasks/test_moved_programs.py::"
    "test_a_method_that_is_not_there_names_what_to_use",
}
Check = Callable[[App, Query], object]


def _nothing() -> None: ...


def row(start: str) -> Callable[[Check], Check]:
    """Say which row a check belongs to, by its beginning."""

    def note(check: Check) -> Check:
        CHECKS[start] = check
        return check

    return note


@row("`retry=5`")
def _(app: App, query: Query) -> None:
    strategy, bare = find_strategy(5), RetryStrategy(max_attempts=5)
    assert isinstance(strategy, RetryStrategy)
    for attempts, longest in enumerate((2, 4, 8, 16, 32)):
        waits = strategy.delay(attempts)
        assert timedelta(seconds=0.75 * longest) <= waits <= timedelta(seconds=longest)
    assert bare.delay(3) == timedelta(0)


@row("`defer(1, 2)`")
def _(app: App, query: Query) -> None:
    @app.task
    def add(a: int, b: int) -> None: ...

    [job] = app.job_manager.list_jobs(id=add.defer(1, 2))
    assert job.task_kwargs == {"a": 1, "b": 2}
    with pytest.raises(errors.BadArgument):
        add.configure(task_kwargs={}).defer(1)


@row("arguments of any size")
def _(app: App, query: Query) -> None:
    with pytest.raises(errors.BadArgument, match="1,048,576"):
        app.configure_task("t").defer(text="x" * 2**20)


@row("numeric keys of a dict")
def _(app: App, query: Query) -> None:
    with pytest.raises(errors.BadArgument, match="Use text as keys"):
        app.configure_task("t").defer(prices={1: "one"})


@row("it is NULL once the worker is gone")
def _(app: App, query: Query) -> None:
    app.task(name="t")(_nothing)
    app.configure_task("t").defer()
    app.run_worker()
    assert query("SELECT FROM workers") == []
    assert query("SELECT worker_id IS NOT NULL FROM finished_jobs") == [(True,)]


@row("`app.open(pool_or_engine=pool)`")
def _(app: App, query: Query) -> None:
    assert [*signature(app.open).parameters] == [*signature(app.open_async).parameters] == ["pool"]


@row("`get_stalled_jobs(nb_seconds=")
def _(app: App, query: Query) -> None:
    app.configure_task("t").defer()
    [(worker,)] = query("SELECT register_worker('w', 'h', 1, NULL, 1)")
    query("SELECT id FROM claim(%s, NULL, 1)", worker)
    with warnings.catch_warnings(action="error"):
        assert len(app.job_manager.get_stalled_jobs(nb_seconds=0)) == 1


@row("`AlreadyEnqueued` is caused by")
def _(app: App, query: Query) -> None:
    waiting = app.configure_task("t", queueing_lock="k").defer()
    with pytest.raises(errors.AlreadyEnqueued) as raised:
        app.configure_task("t", queueing_lock="k").defer()
    assert (raised.value.__cause__, raised.value.job_id) == (None, waiting)
    assert not hasattr(errors, "UniqueViolation")


@row("an aborted job is logged")
def _(app: App, query: Query) -> None:
    events = (ROOT / "docs" / "logging.md").read_text(encoding="utf-8")
    assert "* `job.aborted` (warning):" in events


@row("`middleware.compose`")
def _(app: App, query: Query) -> None:
    assert inturn.middleware.__all__ == ["TaskMiddleware", "WorkerMiddleware"]


@row("`schema.SchemaManager(connector)`")
def _(app: App, query: Query) -> None:
    assert Path(app.schema_manager.get_migrations_path(), "0001.up.sql").exists()
    assert not hasattr(import_module("inturn.schema"), "SchemaManager")


@row("`procrastinate --log-level")
def _(app: App, query: Query) -> None:
    assert re.search(r"^ +--log-level", _queue("worker", "--help"), re.MULTILINE)
    assert "No such option" in invoke("--log-level", "debug", "worker").stderr


@row('`lock=""`')
def _(app: App, query: Query) -> None:
    with pytest.raises(errors.BadArgument, match="is empty"):
        app.configure_task("t", lock="")


@row("a queue can have any name")
def _(app: App, query: Query) -> None:
    for bad in ("with space", "x" * 64):
        with pytest.raises(errors.BadArgument, match="1 to 63"):
            app.configure_task("t", queue=bad)


@row("`context.abort_reason()`")
def _(app: App, query: Query) -> None:
    task = app.task(name="t")(_nothing)
    context = JobContext(app, task, Job())
    reasons = [context.abort_reason]
    context.request_abort("why")
    assert [*reasons, context.abort_reason] == [None, "why"]


@row("`JobContext(app=")
def _(app: App, query: Query) -> None:
    with pytest.raises(TypeError, match="task"):
        JobContext(app=app, job=Job())  # type: ignore[call-arg]


@row("`context.job` has")
def _(app: App, query: Query) -> None:
    assert not hasattr(Job(), "queueing_lock")
    assert not hasattr(Job(), "worker_id")
    [job] = app.job_manager.list_jobs(id=app.configure_task("t", queueing_lock="k").defer())
    assert (job.queueing_lock, job.worker_id) == ("k", None)


@row("`Job.asdict`")
def _(app: App, query: Query) -> None:
    assert Job(id=1)._replace(id=2)._asdict()["id"] == 2
    assert not {"asdict", "evolve", "log_context"} & set(dir(Job))
    with pytest.raises(TypeError, match="status"):
        Job(status="todo")  # type: ignore[call-arg]


@row("`task.aliases` and")
def _(app: App, query: Query) -> None:
    task = app.task(name="t", aliases=["u"])(_nothing)
    assert (task.aliases, task.task_middleware) == (("u",), ())


@row("`App()` needs")
def _(app: App, query: Query) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INTURN_DSN", app.connector.dsn)
        with App().open() as other:
            assert other.check_connection()


@row("`RetryDecision(retry_in=")
def _(app: App, query: Query) -> None:
    decision = RetryDecision(retry_in={"minutes": 1})
    assert (decision.retry_at, decision.retry_in) == (None, timedelta(minutes=1))


@row("a retry strategy may have")
def _(app: App, query: Query) -> None:
    class Old(BaseRetryStrategy):
        def get_schedule_in(self) -> int:
            return 1

    with pytest.raises(TypeError, match="get_retry_decision"):
        Old()  # type: ignore[abstract]


@row("`todo`")
def _(app: App, query: Query) -> None:
    def statuses() -> list[str]:
        return [job.status for job in app.job_manager.list_jobs()]

    task = app.configure_task
    task("t", lock="a").defer()
    task("t", lock="a").defer()
    task("t", schedule_in={"hours": 1}).defer()
    assert statuses() == ["todo", "blocked", "scheduled"]
    task("t", lock="b", priority=-1).defer()
    with_one_slot = query("SELECT inturn.register_worker('w', 'h', 1, NULL, 1)")[0][0]
    query("SELECT id FROM inturn.claim(%s, NULL, 2)", with_one_slot)
    assert statuses() == ["doing", "blocked", "scheduled", "claimed"]


@row("`job_manager.list_jobs()`")
def _(app: App, query: Query) -> None:
    query("SELECT inturn.defer('t') FROM generate_series(1, 1001)")
    assert len(app.job_manager.list_jobs()) == 1000
    assert len(app.job_manager.list_jobs(limit=2000)) == 1001
    assert not app.job_manager.list_queues()[0]["more"]
    query("SELECT inturn.defer('t') FROM generate_series(1, 9000)")
    assert [each["more"] for each in app.job_manager.list_queues()] == [True]


@row("`job_manager.defer_job(job)`")
def _(app: App, query: Query) -> None:
    assert isinstance(app.job_manager.defer_job(app.configure_task("t").make_new_job()), int)


@row("a job's `worker_id`")
def _(app: App, query: Query) -> None:
    app.configure_task("t").defer()
    ids: list[object] = []
    app.task(name="t")(lambda: ids.extend(query("SELECT worker_id FROM jobs")[0]))
    app.run_worker()
    assert isinstance(ids[0], UUID)


@row("`get_job_status`")
def _(app: App, query: Query) -> None:
    assert app.job_manager.get_job_status(10**9) is None


@row("a task of a blueprint")
def _(app: App, query: Query) -> None:
    blueprint = Blueprint()
    task = blueprint.task(name="t")(_nothing)
    deferrer = task.configure(lock="x")
    with pytest.raises(errors.UnboundTaskError):
        deferrer.defer()
    app.add_tasks_from(blueprint, namespace="n")
    blueprint.task(name="later")(_nothing)
    assert "n:later" in app.tasks


@row("`app.with_connector")
def _(app: App, query: Query) -> None:
    assert not hasattr(app, "with_connector")
    other = PsycopgConnector("postgresql://nobody@127.0.0.1:1/x")
    with app.replace_connector(other):
        assert app.connector is other


@row("`InMemoryConnector`")
def _(app: App, query: Query) -> None:
    with pytest.raises(ImportError, match="use the fixture inturn_queue"):
        from inturn.testing import InMemoryConnector  # type: ignore[attr-defined]  # noqa: F401
    assert hasattr(inturn.testing, "Databases")


@row("`defer --at` without")
def _(app: App, query: Query) -> None:
    with pytest.raises(click.BadParameter, match="Use for example 2030-01-31T12:00:00Z"):
        moment(click.Context(defer), click.Option(["--at"]), "2030-01-31 12:00")
    with pytest.raises(errors.BadArgument, match="no zone"):
        app.configure_task("t", schedule_at=datetime(2030, 1, 1))


@row("`PROCRASTINATE_DEFER_QUEUE`")
def _(app: App, query: Query) -> None:
    assert [option.name for option in defer.params if option.envvar] == []


@row("`stalled_worker_timeout`")
def _(app: App, query: Query) -> None:
    with pytest.raises(errors.BadArgument, match="at least three heartbeats"):
        Options(update_heartbeat_interval=10, stalled_worker_timeout=20)


@row("`app.WorkerOptions`")
def _(app: App, query: Query) -> None:
    assert not hasattr(inturn.app, "WorkerOptions")
    assert hasattr(inturn.worker, "Options")
    assert [find_spec(f"inturn.{module}") for module in ("types", "utils")] == [None, None]


@row("after `with app.open(pool):`")
def _(app: App, query: Query) -> None:
    with ConnectionPool(app.connector.dsn, min_size=1, open=True) as pool:
        other = App(app.connector.dsn)
        with other.open(pool):
            other.configure_task("t").defer()
        with pytest.raises(errors.AppNotOpen):
            other.configure_task("t").defer()
        assert not pool.closed


@row("the tables `procrastinate_jobs`")
def _(app: App, query: Query) -> None:
    app.configure_task("t", queue="q").defer()
    [job] = query(
        "SELECT task, queue, started_at, finished_at FROM all_jobs WHERE created_at <= now()"
    )
    assert job == ("t", "q", None, None)


@row("`App.check_connection()`")
def _(app: App, query: Query) -> None:
    assert app.check_connection()
    query("UPDATE schema_version SET version_num = '9999' RETURNING 1")
    query("UPDATE applied_code SET checksum = 'another' RETURNING 1")
    with pytest.raises(errors.SchemaMismatch):
        app.check_connection()


def _queue(*words: str) -> str:
    return invoke(*words).stdout


@row("`procrastinate schema`")
def _(app: App, query: Query) -> None:
    shown = _queue("schema")
    assert "Usage" in shown
    assert "--apply" in shown


@row("`procrastinate worker -a 3`")
def _(app: App, query: Query) -> None:
    assert re.search(r"^ +--abort-job-polling-interval", _queue("worker", "--help"), re.MULTILINE)


@row("`procrastinate shell`")
def _(app: App, query: Query) -> None:
    assert "Python prompt" in _queue("shell", "--help")


@row("a Sphinx extension")
def _(app: App, query: Query) -> None:
    assert not (ROOT / "queue" / "inturn" / "contrib" / "sphinx").exists()


def test_procrastinate_exception_is_the_base_class_of_all() -> None:
    from inturn import exceptions

    assert exceptions.ProcrastinateException is errors.InturnError
    assert asyncio.CancelledError not in exceptions.ProcrastinateException.__mro__


def test_every_row_has_a_check_and_every_check_a_row() -> None:
    matched = {text: [start for start in CHECKS if text.startswith(start)] for text in ROWS}
    assert {text: starts for text, starts in matched.items() if len(starts) != 1} == {}
    assert CHECKS.keys() - {start for starts in matched.values() for start in starts} == set()


@pytest.mark.fresh_database
@pytest.mark.parametrize("start", sorted(CHECKS))
def test_a_row_is_true(start: str, request: pytest.FixtureRequest) -> None:
    check = CHECKS[start]
    if isinstance(check, str):
        path, _, name = check.partition("::")
        assert f"def {name}(" in (ROOT / "tests" / path).read_text(encoding="utf-8")
    else:
        check(request.getfixturevalue("app"), request.getfixturevalue("query"))
