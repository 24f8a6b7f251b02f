"""A queue with something to show on each page about how it is operated."""

from collections.abc import Callable

from inturn import App
from tests.conftest import Query
from tests.waiting import wait_until

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>' \" {{7-7}} \x1b[31m\u202e&amp;"
PRESS = {"pressed": ""}  # a form without fields
MOST_QUERIES_OF_CHECKS = 34  # "All checks" runs the whole doctor, and does not follow changes
REGISTER = "SELECT register_worker(%s, %s, %s, %s, %s, %s, %s)"


def name_person(text: str) -> str:
    """Return as much of the text as the name of a person may have."""
    return text.replace("\x1b", "")[:200]


def run_and_count(app: App, query: Query) -> None:
    """Run what waits, until the rollup has counted it."""
    app.run_worker()
    roll_up(query)


def roll_up(query: Callable[[str], object]) -> None:
    """Let the rollup count what has ended."""

    def count() -> object:
        # It would wait for a minute. Of several days, each gets its turn.
        query("UPDATE rollup_days SET due_at = clock() WHERE due_at > clock() RETURNING 1")
        query("SELECT roll_up(100)")
        return query("SELECT 1 FROM rollups")

    wait_until(count)


def fill(app: App, query: Query, text: str, times: int = 1) -> int:
    """Put the text wherever somebody can put one. Return the number of an open batch."""
    names = [text, *(f"{text}{number}" for number in range(2, times + 1))]

    @app.task(name=text)
    def end(**_: str) -> None:
        pass

    for name in names:
        end.configure(lock=name).defer()
    run_and_count(app, query)
    query("SELECT set_limit('customer:*', NULL, 10, '1 min', 2, %s)", name_person(text))
    for name in names:
        _fill_one(app, query, name, text)
    return int(query("SELECT max(id) FROM batches")[0][0])


def _fill_one(app: App, query: Query, name: str, text: str) -> None:
    person = name_person(text)
    query("SELECT set_limit(%s, 1, NULL, NULL, NULL, %s)", name, person)
    task = app.configure_task(name, limit=name)
    for _ in range(3):
        task.defer(argument=text)
    [(worker,)] = query(REGISTER, name, text, 7, None, 2, [name, f"{name}!"], [f"{name}:{text}"])
    query("SELECT id FROM claim(%s, NULL, 2)", worker)
    query(
        "INSERT INTO schedules (task, periodic_id, cron, tz, since, last_instant, last_job_id) "
        "VALUES (%s, %s, '*/5 * * * *', 'UTC', clock(), clock(), 1), "
        "(%s, 'unreadable', %s, %s, clock(), NULL, NULL) RETURNING 1",
        *(name, text, name, text, text),
    )
    app.lanes.pause(name, reason=text, by=person)
    batch = app.batches.open(name, callback=task)
    app.configure_task(name, batch=batch).defer()
    queue = name if name.isalnum() else "paused"
    app.configure_task(name, queue=queue).defer()
    app.queues.pause(queue, reason=text, by=person)
    query("SELECT pause_task(%s, %s, NULL, %s)", f"{name} paused", text, person)
