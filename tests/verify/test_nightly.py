"""The built-in task that verifies: its result, and the schedule whose last one is shown."""

from contextlib import closing
from datetime import timedelta

import pytest

from inturn import App
from inturn.control.builtin_tasks import VERIFY
from inturn.database.connectors import PsycopgConnector
from inturn.metrics.database import DatabaseMetrics
from inturn.metrics.exposition import make_route
from tests.conftest import Query
from tests.metrics.scrape import Samples
from tests.verify.broken import break_a_lane, run_nightly

TASK = f"builtin:{VERIFY}"


def look(dsn: str) -> Samples:
    with closing(DatabaseMetrics(PsycopgConnector(dsn))) as metrics:
        return Samples(make_route(metrics)["/metrics"]("").body.decode())


def test_the_result_counts_and_lists_violations(app: App, query: Query) -> None:
    late = break_a_lane(query)
    job = app.configure_task(TASK, allow_unknown=False).defer(hours=1)
    app.run_worker()
    [(result,)] = query("SELECT result FROM finished_jobs WHERE id = %s", job)
    assert (result["jobs"], result["violations"]) == (3, 1)  # with itself
    [broken] = result["broken"]
    assert (broken["promise"], broken["job_id"], broken["lock"]) == ("overlap", late, "a")


def test_a_schedule_of_it_can_be_declared(app: App) -> None:
    app.periodic(cron="0 3 * * *")(app.find_task(TASK))
    [schedule] = app.schedules()
    assert schedule.task.name == TASK
    app.run_worker()


@pytest.mark.parametrize("breaks", [True, False])
def test_what_it_found_last_is_a_metric(app: App, dsn: str, query: Query, breaks: bool) -> None:
    assert "\ninturn_verify_violations" not in look(dsn).text
    if breaks:
        break_a_lane(query)
    run_nightly(app, query)
    found = look(dsn)
    assert found["inturn_verify_violations"] == breaks
    [(at,)] = query("SELECT at FROM last_verification()")
    assert found["inturn_verify_timestamp_seconds"] == pytest.approx(at.timestamp())


def test_a_job_that_is_not_of_a_schedule_is_not_shown(app: App, query: Query) -> None:
    app.configure_task(TASK).defer()
    app.run_worker()
    assert query("SELECT * FROM last_verification()") == []
    assert app.verify(timedelta(hours=1)).is_kept
