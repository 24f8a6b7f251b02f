"""Each option of `queue worker` has our name and one that other libraries use."""

from datetime import timedelta
from typing import Any

import click
import pytest

from inturn.cli.commands.worker import command, options
from inturn.worker import Options

SPELLINGS: dict[str, dict[str, Any]] = {
    "": {},
    "-q a,b": {"queues": ["a", "b"]},
    "--queues a --queues b": {"queues": ["a", "b"]},
    "-q ''": {},
    "-c 3": {"concurrency": 3},
    "--concurrency 3": {"concurrency": 3},
    "-n me": {"name": "me"},
    "--name me": {"name": "me"},
    "--one-shot": {"wait": False},
    "-1": {"wait": False},
    "--no-wait": {"wait": False},
    "--wait": {"wait": True},
    "-w": {"wait": True},
    "--grace 3": {"shutdown_graceful_timeout": 3.0},
    "--grace 0": {"shutdown_graceful_timeout": 0.0},
    "--grace 0.5": {"shutdown_graceful_timeout": 0.5},
    "--grace 90s": {"shutdown_graceful_timeout": 90.0},
    "--grace 1m30s": {"shutdown_graceful_timeout": 90.0},
    "--shutdown-graceful-timeout 3": {"shutdown_graceful_timeout": 3.0},
    "-p 3": {"fetch_job_polling_interval": 3.0},
    "--poll 3": {"fetch_job_polling_interval": 3.0},
    "--fetch-job-polling-interval 3": {"fetch_job_polling_interval": 3.0},
    "--abort-job-polling-interval 3": {"abort_job_polling_interval": 3.0},
    "-l": {"listen_notify": True},
    "--listen-notify": {"listen_notify": True},
    "--no-listen-notify": {"listen_notify": False},
    "--delete-jobs always": {"delete_jobs": "always"},
    "--keep-history 30d": {"keep_history": timedelta(days=30)},
    "--max-lost-attempts 3": {"max_lost_attempts": 3},
    "--max-jobs 100": {"max_jobs": 100},
    "--max-memory 512": {"max_memory": 512},
    "--heartbeat 3": {"update_heartbeat_interval": 3.0},
    "--update-heartbeat-interval 3": {"update_heartbeat_interval": 3.0},
    "--stalled-after 40": {"stalled_worker_timeout": 40.0},
    "--stalled-worker-timeout 40": {"stalled_worker_timeout": 40.0},
    "--metrics-port 9101": {"metrics_port": 9101},
    "--metrics-port 0": {"metrics_port": 0},
    "--no-metrics-tasks": {"metrics_tasks": False},
    "--metrics-tasks": {"metrics_tasks": True},
    "--health-port 8081": {"health_port": 8081},
    "--bind 0.0.0.0": {"bind": "0.0.0.0"},  # noqa: S104 (nothing is opened)
}


@pytest.mark.parametrize("words", SPELLINGS)
def test_each_option_reaches_the_worker_and_the_app_decides_the_others(
    words: str,
) -> None:
    assert parse(words.replace("''", "").split(" ") if words else []) == SPELLINGS[words]


def parse(words: list[str]) -> dict[str, Any]:
    context = click.Context(command)
    command.parse_args(context, words)
    for name in ("processes", "log_level", "log_format"):  # not the worker's
        context.params.pop(name)
    return options(**context.params)


VARIABLES = {
    "INTURN_WORKER_QUEUES": ("a,b", {"queues": ["a", "b"]}),
    "INTURN_WORKER_CONCURRENCY": ("3", {"concurrency": 3}),
    "INTURN_WORKER_NAME": ("me", {"name": "me"}),
    "INTURN_WORKER_ONE_SHOT": ("1", {"wait": False}),
    "INTURN_WORKER_NO_WAIT": ("1", {"wait": False}),
    "INTURN_WORKER_GRACE": ("1m", {"shutdown_graceful_timeout": 60.0}),
    "INTURN_WORKER_SHUTDOWN_GRACEFUL_TIMEOUT": ("3", {"shutdown_graceful_timeout": 3.0}),
    "INTURN_WORKER_POLL": ("3", {"fetch_job_polling_interval": 3.0}),
    "INTURN_WORKER_FETCH_JOB_POLLING_INTERVAL": ("3", {"fetch_job_polling_interval": 3.0}),
    "INTURN_WORKER_ABORT_JOB_POLLING_INTERVAL": ("3", {"abort_job_polling_interval": 3.0}),
    "INTURN_WORKER_LISTEN_NOTIFY": ("false", {"listen_notify": False}),
    "INTURN_WORKER_DELETE_JOBS": ("always", {"delete_jobs": "always"}),
    "INTURN_WORKER_KEEP_HISTORY": ("30d", {"keep_history": timedelta(days=30)}),
    "INTURN_WORKER_HEARTBEAT": ("3", {"update_heartbeat_interval": 3.0}),
    "INTURN_WORKER_UPDATE_HEARTBEAT_INTERVAL": ("3", {"update_heartbeat_interval": 3.0}),
    "INTURN_WORKER_STALLED_AFTER": ("40", {"stalled_worker_timeout": 40.0}),
    "INTURN_WORKER_STALLED_WORKER_TIMEOUT": ("40", {"stalled_worker_timeout": 40.0}),
    "INTURN_WORKER_METRICS_PORT": ("9101", {"metrics_port": 9101}),
    "INTURN_WORKER_METRICS_TASKS": ("false", {"metrics_tasks": False}),
    "INTURN_WORKER_HEALTH_PORT": ("8081", {"health_port": 8081}),
    "INTURN_WORKER_BIND": ("::1", {"bind": "::1"}),
    "INTURN_WORKER_DB_GRACE": ("1h", {"db_grace": 3600.0}),
    "INTURN_WORKER_MAX_LOST_ATTEMPTS": ("3", {"max_lost_attempts": 3}),
    "INTURN_WORKER_MAX_JOBS": ("100", {"max_jobs": 100}),
    "INTURN_WORKER_MAX_MEMORY": ("512", {"max_memory": 512}),
}


@pytest.mark.parametrize("variable", VARIABLES)
def test_each_option_can_be_set_by_a_variable_and_the_command_line_wins(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    value, expected = VARIABLES[variable]
    monkeypatch.setenv(variable, value)
    assert parse([]) == expected
    monkeypatch.setenv("INTURN_WORKER_CONCURRENCY", "3")
    assert parse(["-c", "7"]) == {**expected, "concurrency": 7}


def test_every_option_of_the_worker_has_its_variable() -> None:
    known = {name for option in command.params for name in option.envvar or []}
    assert {name for name in known if name.startswith("INTURN_WORKER_")} == {
        *VARIABLES,
        "INTURN_WORKER_PROCESSES",
        "INTURN_WORKER_CELLS",
    }


def test_the_worker_knows_the_options() -> None:
    names = {name for spelling in SPELLINGS.values() for name in spelling}
    assert names <= set(Options.__dataclass_fields__)
