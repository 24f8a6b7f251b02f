"""One statement of the Overview reads what the doctor reads in eight."""

from typing import Any

import psycopg
import pytest

from inturn import App
from inturn.operations.engine import batches, schedules
from inturn.operations.reading import failures, measures
from inturn.operations.reading.standstill import find_standstill
from inturn.web.reading import Reading
from tests.conftest import Query
from tests.web.operated import REGISTER, run_and_count

MOST = 1000


def fill(app: App, query: Query, dsn: str) -> None:
    """Let there be a row of each kind."""

    @app.task(name="shop.pay")
    def pay(*, fails: bool) -> None:
        if fails:
            raise ValueError("no money")

    for lock in ("order:1", "order:2"):
        pay.configure(lock=lock, on_failure="halt").defer(fails=True)
    failed = pay.defer(fails=True)
    pay.configure(lock="order:3").defer(fails=False)
    run_and_count(app, query)
    pay.configure(after=[failed], on_parent="hold").defer(fails=False)
    app.batches.open("import")
    pay.configure(lock="order:3").defer(fails=False)
    [(worker,)] = query(REGISTER, "web-1", "host", 1, None, 4, ["shop.pay"], ["report", "late"])
    assert query("SELECT id FROM claim(%s, NULL, 1)", worker)
    pay.configure(lock="order:3").defer(fails=False)
    with psycopg.connect(dsn, options="-c search_path=inturn") as connection:
        connection.execute("UPDATE batches SET opened_at = opened_at - interval '2 h'")
        connection.execute("UPDATE batch_events SET at = at - interval '2 h'")
        connection.execute(
            "UPDATE jobs SET status = 'doing', started_at = started_at - interval '2 h' "
            "WHERE status IN ('claimed', 'doing')"
        )
        connection.execute(
            "INSERT INTO schedules (task, periodic_id, cron, tz, since, last_instant) VALUES "
            "('report', '', '@daily', 'UTC', now(), now() + interval '20 h'), "
            "('late', '', '@daily', 'UTC', now(), now() - interval '20 h')"
        )


def without_ages(found: list[measures.WaitingMeasure]) -> list[Any]:
    """Return the measures as they are at any moment."""
    return [each._replace(age=0, lane_age=0) for each in found]


@pytest.mark.parametrize("with_errors", [True, False])
def test_one_statement_reads_what_others_read_one_by_one(
    app: App, query: Query, dsn: str, with_errors: bool
) -> None:
    fill(app, query, dsn)
    reading = Reading(app.connector)
    with reading.open() as reader:
        still = reader.run(find_standstill(reader.schema, with_errors=with_errors))
        waiting = reader.run(measures.measure_waiting())
        live = reader.run(measures.measure_workers()).live_schedules
        stored = reader.run(schedules.list_schedules(MOST))
        parents = reader.run(failures.list_failed_parents())
        left_open = reader.run(batches.list_forgotten_batches())
        shared = reader.run(failures.list_shared_errors(with_errors=with_errors))
        recent = reader.run(failures.list_recent_failures(with_errors=with_errors))
    reading.close()
    assert all((waiting, live, parents, left_open, shared, recent, still.held))
    assert without_ages(still.waiting) == without_ages(waiting)
    assert [(hold.lock, hold.job_id, hold.since, hold.usual) for hold in still.held] == query(
        "SELECT lock, job_id, since, usual FROM inturn.held_for_long(%s)", MOST
    )
    assert (still.parents, still.batches) == (parents, left_open)
    assert (still.shared, still.recent) == (shared, recent)
    assert still.live_schedules == live
    assert [each.task for each in still.later_schedules] == ["report"]
    assert set(still.later_schedules) < set(stored)
    assert (still.recent[0].error is not None) is with_errors
