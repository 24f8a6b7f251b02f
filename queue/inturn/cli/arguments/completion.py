"""Complete the locks, ids, tasks and queues in the database for a shell.

On any error, completion silently offers nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import click
from click.shell_completion import CompletionItem

from inturn.cli.settings import Settings, load_app
from inturn.formatting import visible
from inturn.operations import Operation
from inturn.operations.changes import jobs, lanes
from inturn.operations.engine import workers

PATIENCE = 1.0  # seconds to wait for the server
NEWEST = 200
Found = Iterator[tuple[str, str]]  # a value, and what it is


def _complete(
    find: Callable[[click.Context], Found],
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    def complete(
        context: click.Context, _: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        items: dict[str, str] = {}
        with suppress(Exception):
            for value, meaning in find(context):
                if value.startswith(incomplete) and value.isprintable():
                    items.setdefault(value, meaning)
        return [CompletionItem(value, help=visible(help)) for value, help in items.items()]

    return complete


def _ask(context: click.Context, *operations: Operation[Any]) -> list[Any]:
    from inturn.database.connectors import PsycopgConnector
    from inturn.sql import SCHEMA

    settings = context.ensure_object(Settings)
    connector = PsycopgConnector(settings.dsn, schema=settings.schema or SCHEMA, timeout=PATIENCE)
    with closing(connector.connect()) as connection:
        return [connector.run(each, connection) for each in operations]


@_complete
def complete_lock(context: click.Context) -> Found:
    stopped, newest = _ask(
        context, lanes.list_lanes(NEWEST), jobs.list_summaries(jobs.JobFilter(), NEWEST)
    )
    yield from ((lane.lock, lane.state) for lane in stopped)
    yield from ((job.lock, "") for job in newest if job.lock)


@_complete
def complete_job(context: click.Context) -> Found:
    (newest,) = _ask(context, jobs.list_summaries(jobs.JobFilter(), NEWEST))
    yield from ((str(job.id), f"{job.status} {job.task}") for job in newest)


@_complete
def complete_task(context: click.Context) -> Found:
    path = context.ensure_object(Settings).app_path()
    if path is not None:
        yield from ((name, "") for name in sorted(load_app(path).tasks))
        return
    (newest,) = _ask(context, jobs.list_summaries(jobs.JobFilter(), NEWEST))
    yield from ((job.task, "") for job in newest)


@_complete
def complete_queue(context: click.Context) -> Found:
    (queues,) = _ask(context, workers.list_queues())
    yield from ((queue.queue, "") for queue in queues)
