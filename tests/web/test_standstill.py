"""One statement of the Overview reads what the doctor reads in eight."""

from typing import Any

import psycopg

from inturn import App
from inturn.operations.engine import batches, schedules
from inturn.operations.reading import failures, measures
from inturn.operations.reading.standstill import find_standstill
from inturn.web.reading import PageReader, Reading
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


def compare(reader: PageReader, *, with_errors: bool) -> None:
    still = reader.run(find_standstill(reader.schema, with_errors=with_errors))
    live = reader.run(measures.measure_workers()).live_schedules
    stored = reader.run(schedules.list_schedules(MOST))
    assert without_ages(still.waiting) == without_ages(reader.run(measures.measure_waiting()))
    assert still.parents == reader.run(failures.list_failed_parents())
    assert still.batches == reader.run(batches.list_forgotten_batches())
    assert still.live_schedules == live
    assert still.later_schedules == [each for each in stored if each.task == "report"]
    assert still.shared == reader.run(failures.list_shared_errors(with_errors=with_errors))
    assert still.recent == reader.run(failures.list_recent_failures(with_errors=with_errors))
    assert all(
        (still.waiting, still.parents, still.batches, live, still.later_schedules, still.shared)
    )
    assert still.held[0].usual is not None
    assert (still.recent[0].error is not None) is with_errors


def test_one_statement_reads_what_the_doctor_reads(app: App, query: Query, dsn: str) -> None:
    fill(app, query, dsn)
    reading = Reading(app.connector)
    with reading.open() as reader:
        compare(reader, with_errors=True)
        compare(reader, with_errors=False)
    reading.close()
