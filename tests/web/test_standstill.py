"""One statement of the Overview reads what others read one by one."""

import psycopg
import pytest

from inturn import App
from inturn.operations.engine import schedules
from inturn.operations.reading import failures
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


@pytest.mark.parametrize("with_errors", [True, False])
def test_one_statement_reads_what_others_read_one_by_one(
    app: App, query: Query, dsn: str, with_errors: bool
) -> None:
    fill(app, query, dsn)
    reading = Reading(app.connector)
    with reading.open() as reader:
        still = reader.run(find_standstill(reader.schema, with_errors=with_errors))
        stored = reader.run(schedules.list_schedules(MOST))
        parents = reader.run(failures.list_failed_parents())
        shared = reader.run(failures.list_shared_errors(with_errors=with_errors))
        recent = reader.run(failures.list_recent_failures(with_errors=with_errors))
    reading.close()
    assert all((stored, parents, shared, recent))
    assert [
        (each.queue, each.since, each.lane_since, each.longest, each.job_since)
        for each in still.waiting
    ] == query("SELECT queue, since, lane_since, longest, job_since FROM inturn.measure_waiting()")
    assert [(hold.lock, hold.job_id, hold.since, hold.usual) for hold in still.held] == query(
        "SELECT lock, job_id, since, usual FROM inturn.held_for_long(%s)", MOST
    )
    assert [(batch.id, batch.name, batch.opened_at) for batch in still.batches] == query(
        "SELECT id, name, opened_at FROM inturn.forgotten_batches"
    )
    assert all((still.held, still.waiting, still.batches))
    assert (still.parents, still.shared, still.recent) == (parents, shared, recent)
    assert (still.live_schedules, still.schedules) == ({"report", "late"}, stored)
    assert still.worker_states["live"] == 1
    assert (still.recent[0].error is not None) is with_errors
