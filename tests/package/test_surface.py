"""Names and defaults that people know from procrastinate, so that moving means changing imports."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from importlib.metadata import version
from typing import Any

import pytest

import inturn
from inturn import (
    App,
    Blueprint,
    Deferrer,
    JobContext,
    RetryStrategy,
    StoredJob,
    Task,
    errors,
    exceptions,
)
from inturn.control.jobs import Jobs
from inturn.control.schema import SchemaManager
from inturn.worker import Options

NEEDED = inspect.Parameter.empty
LISTS = {"queue": None, "task": None, "status": None, "lock": None}

TAKES: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "App": (App, {"connector": None, "import_paths": None, "worker_defaults": None}),
    "App.from_path": (App.from_path, {"dotted_path": NEEDED}),
    "App.replace_connector": (App.replace_connector, {"connector": NEEDED}),
    "App.configure_task": (App.configure_task, {"name": NEEDED, "allow_unknown": True}),
    "task": (
        Blueprint.task,
        {
            "_func": None,
            "name": None,
            "aliases": None,
            "retry": False,
            "pass_context": False,
            "queue": "default",
            "priority": 0,
            "lock": None,
            "task_middleware": None,
        },
    ),
    "add_task_alias": (Blueprint.add_task_alias, {"task": NEEDED, "alias": NEEDED}),
    "add_tasks_from": (Blueprint.add_tasks_from, {"blueprint": NEEDED, "namespace": NEEDED}),
    "configure": (
        Task.configure,
        {
            "lock": None,
            "task_kwargs": None,
            "schedule_at": None,
            "schedule_in": None,
            "queue": None,
            "priority": None,
            "connection": None,
        },
    ),
    "list_jobs": (Jobs.list_jobs, {"id": None, **LISTS, "queueing_lock": None, "worker_id": None}),
    "list_queues": (Jobs.list_queues, LISTS),
    "list_tasks": (Jobs.list_tasks, LISTS),
    "list_locks": (Jobs.list_locks, LISTS),
    "get_job_status": (Jobs.get_job_status, {"job_id": NEEDED, "connection": None}),
    "cancel_job_by_id": (
        Jobs.cancel_job_by_id,
        {"job_id": NEEDED, "abort": False, "delete_job": False, "connection": None},
    ),
    "retry_job_by_id": (
        Jobs.retry_job_by_id,
        {"job_id": NEEDED, "retry_at": None, "priority": None, "queue": None, "lock": None},
    ),
    "get_stalled_jobs": (
        Jobs.get_stalled_jobs,
        {"nb_seconds": None, "queue": None, "task_name": None, "seconds_since_heartbeat": 30},
    ),
    "defer_job": (Jobs.defer_job, {"job": NEEDED, "connection": None}),
    "batch_defer_jobs": (Jobs.batch_defer_jobs, {"jobs": NEEDED, "connection": None}),
    "RetryStrategy": (
        RetryStrategy,
        {
            "max_attempts": None,
            "wait": 0,
            "linear_wait": 0,
            "exponential_wait": 0,
            "retry_exceptions": None,
        },
    ),
    "a worker": (
        Options,
        {
            "queues": None,
            "name": "",
            "concurrency": 1,
            "wait": True,
            "fetch_job_polling_interval": 5.0,
            "abort_job_polling_interval": 5.0,
            "shutdown_graceful_timeout": None,
            "listen_notify": True,
            "additional_context": None,
            "install_signal_handlers": True,
            "update_heartbeat_interval": 10.0,
            "stalled_worker_timeout": 30.0,
            "task_middleware": None,
            "worker_middleware": None,
        },
    ),
}


@pytest.mark.parametrize("name", TAKES)
def test_arguments_have_their_names_and_defaults(name: str) -> None:
    function, expected = TAKES[name]
    taken = {
        parameter.name: parameter.default
        for parameter in inspect.signature(function).parameters.values()
    }
    assert {argument: taken.get(argument, "missing") for argument in expected} == expected


METHODS: dict[type, str] = {
    App: "open open_async close close_async run_worker run_worker_async check_connection check_connection_async "
    "perform_import_paths",
    Deferrer: "defer defer_async batch_defer batch_defer_async make_new_job",
    Task: "defer defer_async batch_defer batch_defer_async configure",
    SchemaManager: "apply_schema apply_schema_async get_schema get_migrations_path",
    JobContext: "should_abort",
}


@pytest.mark.parametrize("kind", METHODS)
def test_methods_are_there(kind: type) -> None:
    assert [name for name in METHODS[kind].split() if not callable(getattr(kind, name, None))] == []


def test_values_have_their_fields() -> None:
    context = {field.name for field in fields(JobContext)}
    assert context >= {
        "app",
        "worker_name",
        "worker_queues",
        "job",
        "start_timestamp",
        "additional_context",
    }
    assert context >= {"abort_reason", "task"}
    job = {
        "id",
        "status",
        "queue",
        "priority",
        "lock",
        "task_name",
        "task_kwargs",
        "scheduled_at",
        "attempts",
    }
    assert {field.name for field in fields(StoredJob)} >= job | {"abort_requested", "worker_id"}
    assert set(dir(inturn.Job)) >= job | {"abort_requested"}


def test_exceptions_are_found_in_either_module() -> None:
    names = (
        "TaskNotFound UnboundTaskError TaskAlreadyRegistered MiddlewareKindMismatch LoadFromPathError JobAborted "
        "AppNotOpen ConnectorException MissingApp SyncConnectorConfigurationError"
    )
    for name in names.split():
        assert issubclass(getattr(errors, name), errors.InturnError)
        assert getattr(exceptions, name) is getattr(errors, name)


def test_the_package_knows_its_version() -> None:
    assert inturn.__version__ == version("inturn")


def test_every_public_name_can_be_imported() -> None:
    assert sorted(inturn.__all__) == inturn.__all__
    for name in inturn.__all__:
        assert getattr(inturn, name).__module__.startswith("inturn.")
