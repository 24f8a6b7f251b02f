"""`queue shell`: a Python prompt with your app."""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from inturn.cli.settings import Settings, database_options, find_app
from inturn.formatting import amount

if TYPE_CHECKING:
    from inturn.app import App

HINTS = """\
  app, tasks        your App and its tasks by name: tasks['shop.send'].defer(to='ann')
  list_jobs, list_queues, list_tasks, list_locks       e.g. list_jobs(status='failed', lock='ann')
  cancel, retry, explain                               e.g. cancel(9001, abort=True)
  lanes, job_manager                                   more: help(lanes)"""


@click.command(
    "shell",
    epilog="""\b
Examples:
  queue -a shop.tasks:app shell
  queue shell -c "print(list_jobs(status='failed'))"  """,
)
@click.option("-c", "code", metavar="CODE", help="Run this code and exit.")
@database_options
def command(settings: Settings, code: str | None) -> None:
    """Open a Python prompt with your app and its tasks.

    It also has functions that list and change jobs and lanes. Changes take effect immediately.
    `cancel` and `retry` record your name in the audit. Without an app, only the tasks are missing.
    """
    from inturn.operations.engine.maintenance import check_schema, get_user

    app = find_app(settings)
    # Fail before the prompt: if the database is down, the app's pool retries for half a minute.
    with closing(app.connector.connect()) as connection:
        app.connector.run(check_schema(app.connector.schema), connection)
        person = os.environ.get("USER") or app.connector.run(get_user(), connection)
    with app.open():
        if code is not None:
            exec(compile(code, "<-c>", "exec"), names(app, person))  # noqa: S102 (this is what -c is for)
        else:
            prompt(app, person)


def names(app: App, person: str) -> dict[str, Any]:
    jobs = app.job_manager
    lists = ("list_jobs", "list_queues", "list_tasks", "list_locks")
    return {
        "app": app,
        "tasks": app.tasks,
        "job_manager": jobs,
        "lanes": app.lanes,
        **{name: getattr(jobs, name) for name in lists},
        "cancel": partial(jobs.cancel_job_by_id, by=person),
        "retry": partial(jobs.retry_job_by_id, by=person),
        "explain": jobs.explain,
    }


def prompt(app: App, person: str) -> None:
    import code
    from importlib.metadata import version

    variables = names(app, person)
    try:
        import readline
        import rlcompleter
    except ImportError:  # a Python without it
        pass
    else:
        readline.set_completer(rlcompleter.Completer(variables).complete)
        readline.parse_and_bind("tab: complete")
    tasks = amount(len(app.tasks), "task name") if app.tasks else "no tasks"
    banner = (
        f"inturn {version('inturn')}, schema {app.connector.schema}, {tasks}. You can use:\n{HINTS}"
    )
    code.interact(banner, local=variables, exitmsg="")
