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
    "dashboard.bulk_broken": "A bulk change stopped with an unexpected error.",
    "dashboard.bulk_ended": "A bulk change ended or was stopped.",
    "dashboard.changed": "A person changed a job or a lane.",
    "dashboard.link": "The link to a dashboard without `authorize`.",
    "dashboard.listen_lost": "The dashboard lost its connection and reconnects.",
    "database.away": "The worker starts without its database, and waits for it.",
    "database.back": "The database is back.",
    "database.busy": "A call waited too long for a lock and is retried.",
    "database.lost": "The database is away. Running jobs continue.",
    "database.refused": "The database refused a call unexpectedly. It is retried.",
    "dev.address_taken": "The server's address is taken, and a new one is used.",
    "dev.changed": "Files changed, and the worker restarts.",
    "dev.dashboard": "The dashboard is ready.",
    "dev.no_dashboard": "The dashboard is off, because its packages are missing.",
    "dev.port": "The server also listens on the port that you chose.",
    "dev.ready": "No worker runs, because you named no app.",
    "dev.started": "The server runs.",
    "dev.stopped": "The server has stopped. Its data is kept.",
    "dev.worker_ended": "The worker has ended. It restarts when you change a file.",
    "endpoint.client_lost": "A client of the port disconnected.",
    "endpoint.failed": "A request to the port raised an error.",
    "endpoint.serving": "The health or metrics port is open.",
    "health.failed": "The check of the database raised an error.",
    "heartbeat.failed": "The heartbeat could not be stored and is retried.",
    "history.pruned": "Old days of the history were dropped.",
    "job.aborted": "The job was aborted, or its worker died after the request.",
    "job.end_held": "An open transaction, or a refusal, keeps the end of a job from being stored.",
    "job.end_refused": "The database refuses to store the end of a job.",
    "job.end_unclear": "The job ended as the database went away. It may run once more.",
    "job.error_after_commit": "The task raised an error after its transaction had ended the job.",
    "job.failed": "The job failed for good, or too many of its workers died.",
    "job.found": "The worker gives back a job that is its own only in the database.",
    "job.lost": "Another worker took over a job that ran here.",
    "job.overdue": "A job is still running after its timeout.",
    "job.rescued": "The worker of the job died. The job waits for its next attempt.",
    "job.result_not_stored": "The job succeeded, but its result is not stored.",
    "job.retry_scheduled": "The attempt failed, and is retried.",
    "job.skipped": "The task raised `JobSkipped`, or the job expired.",
    "job.snoozed": "The job waits, as its task requested.",
    "job.started": "An attempt has started.",
    "job.succeeded": "The job has succeeded.",
    "listen.lost": "The worker polls until it can listen again.",
    "lock.lost": "A lock outside the queue was lost, or a callback for this failed.",
    "lock.renewal_failed": "A lock outside the queue could not be renewed yet.",
    "lock.watchdog": "The thread that renews locks had an error.",
    "loop.blocked": "The event loop is blocked, and jobs cannot be claimed or reported.",
    "loop.dead": "The event loop will never run again.",
    "maintenance.failed": "A chore of the worker failed and is retried.",
    "process.killed": "The process ends at once. Others take over its jobs.",
    "progress.late": "Progress is stored later, because its row is locked.",
    "progress.refused": "The database refuses to store the progress of a job.",
    "resource.busy": "The job runs without its resources, because one is busy.",
    "resource.lost": "The job lost a lock on one of its resources.",
    "resource.unavailable": "The store of a lock cannot be reached, and the job waits.",
    "results.lost": "Callers that wait for results poll until notifications are back.",
    "schedule.busy": "A periodic job cannot be deferred yet.",
    "schedule.deferred": "A periodic job was deferred.",
    "schedule.failed": "A periodic job cannot be deferred.",
    "schedule.lost": "The schedules could not be checked yet.",
    "schedule.missed": "No worker ran in time for a periodic job.",
    "supervisor.gone": "The supervisor of `--processes` is gone, and this worker drains.",
    "supervisor.stopping": "The supervisor forwards a signal to its workers.",
    "task.not_imported": "The module of a task cannot be imported, or has no such task.",
    "tracing.failed": "A span could not be created or ended.",
    "worker.abandoning": "Jobs that are still running go back to their lanes.",
    "worker.aborting": "The worker ends at once, and running jobs go back.",
    "worker.cancelled": "Something cancelled a part of the worker, which restarts.",
    "worker.died": "A process of `--processes` ended and is replaced.",
    "worker.failed": "The worker ends with an error.",
    "worker.lost": "Others declared this worker dead and took over its jobs.",
    "worker.not_started": "The system refuses a process of `--processes`, which is tried again.",
    "worker.retired": "A process of `--processes` reached `--max-jobs` or `--max-memory`.",
    "worker.silent": "A process of `--processes` hangs. It is killed and replaced.",
    "worker.started": "The worker has started.",
    "worker.stopped": "The worker has ended.",
    "worker.stopping": "The worker waits for its running jobs.",
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
  Text from jobs is escaped, and cannot forge lines or control your terminal.
* `--log-format json` writes each line as a JSON object, and `--log-format logfmt` as `name=value`.
  Both have `at`, `level`, `logger`, `event`, `message`, `exception`, and the fields below.

```
2026-03-01T08:30:00Z INFO    charged 10 EUR [job 12 shop.pay, lock order:7]
2026-03-01T08:30:00Z INFO    job.succeeded: 12 shop.pay, lasted 0.214 s
```

If your module configures the root logger on import, as `logging.config.dictConfig` does, your
configuration replaces this one.

## Which job logs this

Records that your code logs while it runs a job have the job's fields: `job_id`, `task`, `queue`,
`lock`, `attempt` and `fence`, and `locks` if it has several.
The handlers of `queue worker` add them.
In your own configuration, add `JobFilter` to your handlers:

```python
import logging

from inturn import JobFilter

handler = logging.StreamHandler()
handler.addFilter(JobFilter())
line = "%(levelname)s %(message)s job=%(job_id)s"
handler.setFormatter(logging.Formatter(line, defaults={"job_id": "-"}))
logging.basicConfig(level=logging.INFO, handlers=[handler])
```

With `dictConfig`, use `"filters": {"job": {"()": "inturn.JobFilter"}}`.
A thread that you start yourself does not know the job unless you run it in a copy of the context:
`contextvars.copy_context().run(…)`.

## Fields

Job events also have `action`, a word for what the worker did, and `duration` in seconds once an
attempt has ended.
Arguments are never logged, but tracebacks and error messages may contain values from your task.

## Errors

A job that failed for good is logged as an error, with its exception in `exc_info`.
A retry is a one-line warning.
`queue jobs show` has the traceback of each attempt.

## Events

The part of a message before the colon is the event's name.
Names are stable; the rest of a message is for people.
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
        case ast.Name(id="FailureLog") if strings:  # chores add their names to an event
            return strings[0], "warning", "error"  # an error if it is unexpected
        case ast.Name(id="_warn") if named:
            return named[1], "warning"
        case ast.Attribute(value=ast.Name(id="logger"), attr=level) if named:
            return named[1], {"exception": "error", "log": "warning"}.get(level, level)
    return None


def write_page() -> str:
    """Return the text of the page."""
    rows = "".join(
        f"* `{name}` ({', '.join(sorted(levels, key=LEVELS.index))}): {MEANINGS[name]}\n"
        for name, levels in find_events().items()
    )
    return f"{INTRODUCTION}\n{rows}"


if __name__ == "__main__":
    PAGE.write_text(write_page(), encoding="utf-8")
    print(f"wrote docs/{PAGE.name}")
