"""docs/sentry.md, with the real SDK, whose transport hands its events to the test.

The SDK patches much of a process, so it has one of its own.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pages import run_script, write_files

pytestmark = pytest.mark.landing

SECRET = "4929-1111-2222-3333"
SCRIPT = f"""
import asyncio, functools, json, logging, sys
import sentry_sdk
from sentry_sdk.transport import Transport

class Local(Transport):
    events = []
    def capture_envelope(self, envelope):
        event = envelope.get_event()
        if event is not None:
            Local.events.append(event)

sentry_sdk.init = functools.partial(
    sentry_sdk.init, dsn="https://key@localhost/1", transport=Local)

from inturn.errors import JobAborted
from shop.scopes import isolate
from shop.tasks import app, charge

def shared_helper():
    raise ValueError("from the helper")

@app.task(name="first")
async def first(card):
    shared_helper()

@app.task(name="second")
def second(card):
    shared_helper()

@app.task(name="flaky", retry=1, pass_context=True)
def flaky(context, card):
    if not context.job.attempts:
        raise ValueError("once")

@app.task(name="reports")
def reports(card):
    sentry_sdk.set_tag("left", "behind")
    sentry_sdk.capture_message("look at this")

@app.task(name="logs")
async def logs(card):
    logging.getLogger("shop").error("could not print")

@app.task(name="gives up")
def gives_up(card):
    raise JobAborted("enough")

@app.task(name="slow", pass_context=True)
async def slow(context, card):
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        raise ValueError("it had not ended") from None

with app.open():
    for block in sys.argv[1:]:
        exec(block)
    for task in (first, second, flaky, gives_up):
        task.defer(card={SECRET!r})
    first.configure(lock="a").defer(card={SECRET!r})
    reports.configure(headers={{"tenant": "acme"}}).defer(card={SECRET!r})
    logs.defer(card={SECRET!r})
    slow.configure(timeout=0.01).defer(card={SECRET!r})
    while True:
        app.run_worker(
            wait=False, concurrency=1, install_signal_handlers=False, worker_middleware=[isolate])
        waiting = list(app.job_manager.list_jobs(status="scheduled"))
        if not waiting:
            break
        for job in waiting:  # the wait for a retry is over
            app.job_manager.retry_job_by_id(job.id)
print(json.dumps(Local.events, default=str))
"""
Event = dict[str, Any]


@pytest.fixture
def events(app_dsn: str, tmp_path: Path) -> list[Event]:
    """The events of a worker that runs the jobs of the script, with the files of the page."""
    blocks = write_files("sentry.md", tmp_path)
    assert len(blocks) == 1
    found: list[Event] = json.loads(run_script(SCRIPT, tmp_path, app_dsn, *blocks))
    return found


def test_the_page_works_as_it_stands(events: list[Event]) -> None:
    """One look at everything, since a process with the SDK takes a second."""
    by_task: dict[str, list[Event]] = {}
    for event in events:
        by_task.setdefault(event["contexts"]["job"]["task"], []).append(event)
    # Neither a retry that is expected nor a job that gives up makes an event.
    counts = {task.rpartition(".")[2]: len(found) for task, found in by_task.items()}
    assert counts == {"charge": 1, "first": 2, "second": 1, "reports": 1, "logs": 1, "slow": 1}

    [charge] = by_task["shop.tasks.charge"]
    [error] = charge["exception"]["values"]
    assert (error["type"], error["value"]) == (
        "LookupError",
        "the bank does not know this customer",
    )
    assert error["stacktrace"]["frames"][-1]["function"] == "charge"
    job = charge["contexts"]["job"]
    assert {"job_id", "task", "queue", "lock", "attempt", "fence"} == job.keys()
    assert (job["attempt"], job["queue"]) == (4, "default")
    assert charge["tags"] == {"task": "shop.tasks.charge", "queue": "default"}
    assert charge["transaction"] == "shop.tasks.charge"
    retries = [each for each in charge["breadcrumbs"]["values"] if "retry" in each["message"]]
    assert len(retries) >= 3

    # By task and error: the same failure of two tasks is two issues, and a task's own is one.
    prints = {task: {tuple(each["fingerprint"]) for each in by_task[task]} for task in by_task}
    assert prints["first"] == {("{{ default }}", "first")}
    assert prints["second"] == {("{{ default }}", "second")}

    # What the code reports says which job it was, and has the tags of that job only.
    [reported], [logged] = by_task["reports"], by_task["logs"]
    assert reported["message"] == "look at this"
    assert reported["tags"] == {
        "left": "behind",
        "tenant": "acme",
        "task": "reports",
        "queue": "default",
    }
    assert logged["tags"] == {"task": "logs", "queue": "default"}

    [timed_out] = by_task["slow"]
    types = [each["type"] for each in timed_out["exception"]["values"]]
    assert types[-2:] == ["ValueError", "JobTimeout"]
    assert SECRET not in json.dumps(events)
