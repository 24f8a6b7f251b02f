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
    "--heartbeat 3": {"update_heartbeat_interval": 3.0},
    "--update-heartbeat-interval 3": {"update_heartbeat_interval": 3.0},
    "--stalled-after 40": {"stalled_worker_timeout": 40.0},
    "--stalled-worker-timeout 40": {"stalled_worker_timeout": 40.0},
}


@pytest.mark.parametrize("words", SPELLINGS)
def test_each_option_reaches_the_worker_and_the_app_decides_the_others(
    words: str,
) -> None:
    context = click.Context(command)
    command.parse_args(context, words.replace("''", "").split(" ") if words else [])
    for name in ("dsn", "processes", "log_level", "log_format"):  # not the worker's
        context.params.pop(name)
    assert options(**context.params) == SPELLINGS[words]


def test_the_worker_knows_the_options() -> None:
    said = {name for spelling in SPELLINGS.values() for name in spelling}
    assert said <= set(Options.__dataclass_fields__)
