"""Write docs/logging.md, with the events that the code logs."""

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "logging.md"
CODE = ROOT / "queue" / "inturn"
NAME = re.compile(r"([a-z]+\.[a-z_]+): ")
MEANINGS = {
    "dashboard.bulk_broken": "A change of many jobs or lanes broke off with an unexpected error.",
    "dashboard.bulk_ended": "A change of many jobs or lanes has ended, or was stopped.",
    "dashboard.changed": "Somebody has changed a job or a lane with the dashboard.",
    "dashboard.link": "The link to a dashboard that was given no `authorize`.",
    "dashboard.listen_lost": "The dashboard has lost its connection, and connects again.",
    "database.away": "The worker starts, and the database cannot be reached yet.",
    "database.back": "The database is back, and the worker goes on.",
    "database.busy": "A call has waited too long for a lock, and is tried again.",
    "database.lost": "The database cannot be reached any more. Jobs that run go on.",
    "database.refused": "The database has refused a call with an unexpected error. It is tried again.",
    "dev.changed": "Files have changed, and `queue dev` restarts the worker.",
    "dev.dashboard": "The dashboard of `queue dev` can be opened. The message has its address.",
    "dev.no_dashboard": "`queue dev` runs without the dashboard, because its packages are missing.",
    "dev.ready": "`queue dev` runs without a worker, since you named no app.",
    "dev.started": "The server of `queue dev` runs. The message has its address.",
    "dev.stopped": "The server of `queue dev` has stopped. Its data stays.",
    "dev.worker_ended": "The worker of `queue dev` has ended. It restarts when you change a file.",
    "endpoint.client_lost": "A client of the health or metrics port went away.",
    "endpoint.failed": "A request to the health or metrics port has raised an error.",
    "endpoint.serving": "The health or metrics port is open.",
    "health.failed": "The check of the database has raised an error.",
    "heartbeat.failed": "The heartbeat could not be stored, and is tried again.",
    "history.pruned": "Old days of the history were dropped.",
    "job.aborted": "Somebody has asked the job to end, and it has ended, or its worker has died.",
    "job.end_held": "An open transaction keeps the end of a job from being stored.",
    "job.end_refused": "The database refuses to store how a job has ended.",
    "job.end_unclear": "A job has ended as the database went away. It may run once more.",
    "job.error_after_commit": "The task has raised an error after its transaction had ended the job.",
    "job.failed": "The job has failed for good, or too many of its workers have died.",
    "job.found": "The database says that this worker has a job of which it has no record.",
    "job.lost": "Another worker has taken over a job that ran here.",
    "job.overdue": "A job runs on past its timeout.",
    "job.rescued": "The worker of a job is gone, and the job waits for its next attempt.",
    "job.result_not_stored": "The job has succeeded, but what the task returned is not stored.",
    "job.retry_scheduled": "The attempt has failed, and another one follows.",
    "job.skipped": "The task has raised `JobSkipped`, or the job has expired.",
    "job.snoozed": "The job waits, as its task has asked. The attempt does not count.",
    "job.started": "An attempt has started.",
    "job.succeeded": "The job has succeeded.",
    "listen.lost": "The worker gets no notifications, and polls until it can listen again.",
    "lock.lost": "A lock outside of the queue was lost, or a callback that hears of it has failed.",
    "lock.renewal_failed": "A lock outside of the queue could not be renewed. It is tried again.",
    "lock.watchdog": "An action of the thread that renews locks has raised an error.",
    "loop.blocked": "The event loop is blocked, so no job can be claimed or reported.",
    "loop.dead": "The event loop will never run again.",
    "maintenance.failed": "A chore of the worker has failed, and is tried again.",
    "process.killed": "The worker's process ends at once. Others take over what it ran.",
    "progress.late": "Progress is stored later, because somebody has locked its row.",
    "progress.refused": "The database refuses to store the progress of a job.",
    "resource.busy": "The job runs without a lock that it could not get.",
    "resource.lost": "The job has lost a lock on one of its resources.",
    "resource.unavailable": "The store of a lock cannot be reached, so the job waits.",
    "results.lost": "Callers that wait for results ask every few seconds until notifications are back.",
    "schedule.busy": "A periodic job cannot be deferred yet, and is tried again.",
    "schedule.deferred": "A periodic job was deferred.",
    "schedule.failed": "A periodic job cannot be deferred.",
    "schedule.lost": "The schedules could not be looked at. That is tried again.",
    "schedule.missed": "No worker was there in time for a periodic job.",
    "supervisor.gone": "The supervisor of `--processes` is gone, so this worker drains.",
    "supervisor.stopping": "The supervisor passes a signal on to its workers.",
    "task.not_imported": "The module of a task cannot be imported, or has no such task.",
    "tracing.failed": "A span could not be made or ended. The job is not affected.",
    "worker.abandoning": "Jobs that run on go back to their lanes.",
    "worker.aborting": "The worker ends at once, and jobs that run go back.",
    "worker.cancelled": "Something has cancelled a part of the worker. It is started again.",
    "worker.died": "A process of `--processes` has ended, and is replaced.",
    "worker.failed": "The worker ends with an error.",
    "worker.lost": "Others took this worker for dead and took over its jobs.",
    "worker.silent": "A process of `--processes` stands still. It is killed, and replaced.",
    "worker.started": "The worker has started.",
    "worker.stopped": "The worker has ended.",
    "worker.stopping": "The worker takes no more jobs, and waits for those that run.",
}
LEVELS = ("debug", "info", "warning", "error", "critical")
INTRODUCTION = """\
<!-- Generated by `make docs` from tests/events_page.py and the code: change those. -->
# Logging

inturn logs with Python's `logging`, to loggers below `inturn`.
The library configures no handlers.
`queue worker` and `queue dev` do:

* `--log-level` chooses how much: `debug`, `info`, `warning`, `error` or `critical`.
* `--log-format console` writes lines for people.
  Text that comes from a job is escaped, so that it cannot forge a line or act on your terminal.
* `--log-format json` writes each line as a JSON object, and `--log-format logfmt` as `name=value`.
  Both have `at`, `level`, `logger`, `event`, `message`, `exception`, and the fields below.

```
2026-03-01T08:30:00Z INFO    charged 10 EUR [job 12 shop.pay, lock order:7]
2026-03-01T08:30:00Z INFO    job.succeeded: 12 shop.pay, lasted 0.214 s
```

If your module configures the root logger when it is imported, as `logging.config.dictConfig` does,
your configuration replaces this one.

## Which job logs this

What your code logs while it runs a job has the fields of this job: `job_id`, `task`, `queue`,
`lock`, `attempt` and `fence`, and `locks` if it has several.
The handlers of `queue worker` do that.
In a configuration of your own, add `JobFilter` to your handlers:

```python
import logging

from inturn import JobFilter

handler = logging.StreamHandler()
handler.addFilter(JobFilter())
line = "%(levelname)s %(message)s job=%(job_id)s"
handler.setFormatter(logging.Formatter(line, defaults={"job_id": "-"}))
logging.basicConfig(level=logging.INFO, handlers=[handler])
```

With `dictConfig`, it is `"filters": {"job": {"()": "inturn.JobFilter"}}`.
This works in async tasks, in the tasks and threads that asyncio starts from them, and in the
threads of plain functions.
A thread that you start yourself does not know the job, unless you run it in a copy of the context:
`contextvars.copy_context().run(…)`.
A field that the record has already stays as it is.

## Fields

The events of a job also have `action`, a word for what the worker did, and `duration` in seconds
once an attempt has ended.
Arguments are never logged.
A traceback or the text of an error may contain values of your task.

## Errors

A job that has failed for good is logged as an error, with its exception in `exc_info`, as error
trackers such as Sentry want it.
A retry is expected, so it is a warning on one line.
If a traceback has more than 64 KiB, as that of a thousand causes, the end of its text is logged.
`queue jobs show` has the traceback of each attempt.

## Events

The part of a message before the colon is the name of the event.
Names are stable, and the rest of a message is for people.
"""


def find_events() -> dict[str, set[str]]:
    """Return the levels at which the code logs each event."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for file in sorted(CODE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and (event := _read_call(node)):
                found[event[0]].update(event[1:])
    return dict(sorted(found.items()))


def _read_call(call: ast.Call) -> tuple[str, ...] | None:
    """Return the event that a call logs, and its levels."""
    values = [each.value for each in call.args if isinstance(each, ast.Constant)]
    strings = [value for value in values if isinstance(value, str)]
    named = next((found for text in strings if (found := NAME.match(text))), None)
    match call.func:
        case ast.Name(id="_log" | "_log_error"):  # of joblog.py, whose events are of jobs
            return f"job.{strings[0]}", ast.unparse(call.args[0]).rpartition(".")[2].lower()
        case ast.Name(id="FailureLog"):
            return strings[0], "warning", "error"  # an error if nobody has listed it
        case ast.Name(id="_warn") if named:
            return named[1], "warning"
        case ast.Attribute(value=ast.Name(id="logger"), attr=level) if named:
            return named[1], {"exception": "error", "log": "warning"}.get(level, level)
    return None


def write_page() -> str:
    """Return the text of the page."""
    rows = "".join(
        f"| `{name}` | {', '.join(sorted(levels, key=LEVELS.index))} | {MEANINGS[name]} |\n"
        for name, levels in find_events().items()
    )
    return f"{INTRODUCTION}\n| event | level | meaning |\n|---|---|---|\n{rows}"


if __name__ == "__main__":
    PAGE.write_text(write_page(), encoding="utf-8")
    print(f"wrote docs/{PAGE.name}")
