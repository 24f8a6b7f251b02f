"""What programs rely on that come from procrastinate, and what others are told."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from inturn import App, Job, JobContext, PsycopgConnector
from inturn.exceptions import (
    BadArgument,
    ConfigurationError,
    DatabaseUnavailable,
    TaskDefinitionError,
)
from inturn.jobs import DeleteJobCondition
from tests.conftest import Query


def test_a_call_of_another_queue_names_ours(app: App) -> None:
    task: Any = app.task(name="ship")(lambda: None)
    with pytest.raises(AttributeError, match=r"a Task has no 'delay'\. Use defer\(…\)"):
        task.delay(1)
    with pytest.raises(AttributeError, match=r"a Deferrer has no 'apply_async'\. Use configure"):
        task.configure(lock="a").apply_async((1,))
    assert not hasattr(task, "dely")


def test_a_task_named_in_another_program_gets_its_own_options_from_import_paths(
    app: App, query: Query, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "moved_tasks.py").write_text(
        "from moved_app import app\n\n"
        "@app.task(name='moved.send', queue='mail', priority=7, lock='smtp')\n"
        "def send() -> None: ...\n"
    )
    (tmp_path / "moved_app.py").write_text("app = None\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(import_module("moved_app"), "app", app)
    app.import_paths.append("moved_tasks")
    try:
        app.configure_task("moved.send").defer()
    finally:
        for name in ("moved_app", "moved_tasks"):
            sys.modules.pop(name, None)
    assert query("SELECT queue, priority, lock FROM jobs") == [("mail", 7, "smtp")]


def test_a_job_is_cancelled_once(app: App) -> None:
    @app.task
    def work() -> None: ...

    job_id = work.defer()
    assert app.job_manager.cancel_job_by_id(job_id)
    assert not app.job_manager.cancel_job_by_id(job_id)
    assert not app.job_manager.cancel_job_by_id(job_id, abort=True)


def test_a_schedule_in_the_past_means_now(app: App, query: Query) -> None:
    @app.task
    def work() -> None: ...

    work.configure(schedule_in={"seconds": -5}).defer()
    assert query("SELECT status::text FROM jobs") == [("todo",)]


def test_a_decorator_may_give_arguments_that_the_job_does_not_have(app: App) -> None:
    seen: list[tuple[int, str]] = []

    def with_session(func: Callable[..., None]) -> Callable[..., None]:
        @wraps(func)
        def call(*args: Any, **kwargs: Any) -> None:
            func(*args, session="session", **kwargs)

        return call

    @app.task
    @with_session
    def work(user: int, session: str) -> None:
        seen.append((user, session))

    work.defer(user=1)
    app.run_worker()
    assert seen == [(1, "session")]
    with pytest.raises(BadArgument, match="nobody"):
        work.defer(user=1, nobody=2)


def test_a_decorator_that_takes_other_arguments_is_told_to_hide_the_function(app: App) -> None:
    seen: dict[str, int] = {}

    def unpacked(func: Callable[[dict[str, int]], None]) -> Callable[..., None]:
        @wraps(func)
        def call(*args: Any, **kwargs: Any) -> None:
            func(kwargs)

        return call

    def work(counts: dict[str, int]) -> None:
        seen.update(counts)

    wrapper: Any = unpacked(work)
    with pytest.raises(BadArgument, match=r"write `del wrapper.__wrapped__`"):
        app.task(name="strict")(wrapper).defer(apples=1, pears=2)
    del wrapper.__wrapped__
    app.task(name="free")(wrapper).defer(apples=1, pears=2)
    app.run_worker()
    assert seen == {"apples": 1, "pears": 2}


def test_a_task_may_take_whatever_it_is_given(app: App) -> None:
    seen: list[object] = []

    @app.task
    def plain(*args: Any, **kwargs: Any) -> None:
        seen.append((args, kwargs))

    @app.task(pass_context=True)
    def knowing(*args: Any, **kwargs: Any) -> None:
        seen.append((type(args[0]), kwargs))

    plain.defer(a=1)
    knowing.defer(a=2)
    app.run_worker()
    assert seen == [((), {"a": 1}), (JobContext, {"a": 2})]
    with pytest.raises(BadArgument, match="too many positional"):
        plain.defer(1)
    with pytest.raises(TaskDefinitionError, match="no name to store"):
        app.task(name="numbers")(lambda *numbers: None)


def test_a_task_knows_its_options_and_is_documented_as_its_function(app: App) -> None:
    @app.task(queue="mail", lock="smtp", queueing_lock="once", priority=3)
    def send(to: str) -> None:
        """Send a mail."""

    assert (send.queue, send.lock, send.queueing_lock, send.priority) == ("mail", "smtp", "once", 3)
    shown: Any = send
    assert (shown.__name__, shown.__doc__) == ("send", "Send a mail.")
    assert shown.__wrapped__ is send.func
    assert send.name == f"{__name__}.send"  # as procrastinate names a nested function


def test_a_job_and_its_context_can_be_made_by_hand(app: App) -> None:
    @app.task(pass_context=True)
    def work(context: JobContext, order: int) -> str:
        return f"{context.job.call_string} {context.should_abort()}"

    job = Job(id=7, task_name="shop.pay", task_kwargs={"order": 1})
    context = JobContext(app=app, task=work, job=job)
    assert work.func(context, order=1) == "shop.pay[7](order=1) False"


def test_a_listed_job_shows_itself_as_a_call(app: App) -> None:
    @app.task(name="shop.pay")
    def pay(order: int) -> None: ...

    job_id = pay.defer(order=1)
    [job] = app.job_manager.list_jobs(id=job_id)
    assert job.call_string == f"shop.pay[{job_id}](order=1)"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("exceptions", "AlreadyEnqueued"),
        ("jobs", "Status"),
        ("jobs", "Job"),
        ("jobs", "DeleteJobCondition"),
        ("tasks", "Task"),
        ("retry", "RetryStrategy"),
        ("retry", "RetryValue"),
        ("blueprints", "Blueprint"),
        ("job_context", "JobContext"),
        ("manager", "JobManager"),
        ("middleware", "TaskMiddleware"),
        ("middleware", "WorkerMiddleware"),
    ],
)
def test_after_a_bare_import_modules_are_found_under_the_names_that_people_know(
    path: str, name: str
) -> None:
    code = f"import inturn; inturn.{path}.{name}; from inturn.{path} import {name}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_module_that_is_imported_by_name_exists() -> None:
    assert import_module("inturn.psycopg_connector").PsycopgConnector


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("retry_job", "delete the task that retries stalled jobs"),
        ("finish_job", "Only workers do this"),
        ("listen_for_jobs", "use result or result_async"),
    ],
)
def test_a_method_that_is_not_there_names_what_to_use(app: App, method: str, words: str) -> None:
    with pytest.raises(AttributeError, match=words):
        getattr(app.job_manager, method)


@pytest.mark.anyio
async def test_what_is_a_coroutine_there_is_refused_in_an_event_loop_before_it_does_anything(
    app: App,
) -> None:
    with pytest.raises(ConfigurationError, match=r"await job_manager\.delete_old_jobs_async"):
        app.job_manager.delete_old_jobs(0)
    with pytest.raises(ConfigurationError, match=r"await job_manager\.get_stalled_jobs_async"):
        app.job_manager.get_stalled_jobs()
    async with app.open_async():
        assert await app.job_manager.check_connection_async()
    assert app.job_manager.check_connection()


def test_a_search_path_is_refused_because_it_does_not_choose_the_schema(dsn: str) -> None:
    connector = PsycopgConnector(dsn, options="-c search_path=tenant")
    with pytest.raises(ConfigurationError, match="schema="):
        connector.open()
    tenant = PsycopgConnector(dsn, schema="tenant", options="-c search_path=tenant")
    assert "search_path" in tenant.dsn


def test_options_of_the_pool_are_passed_on_or_refused_with_what_to_use(app_dsn: str) -> None:
    connector = PsycopgConnector(app_dsn, name="web", max_idle=5, max_lifetime=60, max_waiting=9)
    with App(connector=connector).open() as app:
        assert app.check_connection()
        pool = connector._sync_pool()
        assert (pool.name, pool.max_idle, pool.max_lifetime) == ("web", 5, 60)
    with pytest.raises(ConfigurationError, match=r"app\.open\(pool\)"):
        PsycopgConnector(app_dsn, pool_factory=object)


def test_a_worker_is_named_after_its_host_and_process(app: App) -> None:
    names: list[str] = []

    @app.task(pass_context=True)
    def work(context: JobContext) -> None:
        names.append(context.worker_name)

    for given in ({}, {"name": None}, {"name": "me"}):
        work.defer()
        app.run_worker(**given)
    assert names == [f"{socket.gethostname()}:{os.getpid()}"] * 2 + ["me"]


def test_a_condition_for_deleting_jobs_may_be_given_as_a_member(app: App, query: Query) -> None:
    @app.task
    def work() -> None: ...

    work.defer()
    app.run_worker(delete_jobs=DeleteJobCondition.SUCCESSFUL)
    assert query("SELECT FROM all_jobs") == []


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("postgresql://u:secret@127.0.0.1:1/x", "refused"),
        ("postgresql://u:secret@nosuch.invalid/x", "nosuch.invalid"),
    ],
)
def test_opening_an_app_says_at_once_why_there_is_no_database(address: str, reason: str) -> None:
    with pytest.raises(DatabaseUnavailable, match=reason) as caught:
        App(address).open()
    assert "secret" not in str(caught.value)
