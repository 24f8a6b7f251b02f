"""What batches cost: jobs of none a probe in each claim, and jobs of one nothing that grows."""

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from tests.sql.test_growth import FINISH, FLAT, Bench
from tests.sql.test_surface import slope

pytestmark = pytest.mark.fresh_database

TABLES = ("batches", "batch_gates", "batch_events")
READS = """
SELECT relname, coalesce(idx_scan, 0) + coalesce(seq_scan, 0) + n_tup_ins
FROM pg_stat_user_tables WHERE schemaname = 'inturn' AND relname = ANY (%s)
"""


@pytest.fixture
def bench(dsn: str) -> Iterator[Bench]:
    with closing(
        psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn")
    ) as connection:
        yield Bench(connection)


def test_a_job_of_no_batch_costs_one_probe_in_each_claim(bench: Bench) -> None:
    def count() -> dict[str, int]:
        bench.query("SELECT pg_stat_force_next_flush()")
        bench.query("SELECT pg_stat_clear_snapshot()")
        return {name: int(reads) for name, reads in bench.query(READS, list(TABLES))}

    before = count()
    for lock in (None, "a"):
        for _ in range(10):
            bench.query("SELECT defer('t', lock => %s)", lock)
            [(id, claim)] = bench.query("SELECT id, claim_id FROM claim(%s, NULL, 1)", bench.worker)
            bench.query(FINISH, bench.worker, [id], [claim])
    after = count()
    assert {name: after[name] - before[name] for name in TABLES} == {
        "batches": 0,
        "batch_gates": 0,
        "batch_events": 20,  # of 20 claims
    }


def test_ends_and_counts_of_a_batch_do_not_grow_with_its_jobs(bench: Bench) -> None:
    [(batch,)] = bench.query("SELECT open_batch('b', 'callback')")
    costs: dict[str, dict[int, float]] = {"finish": {}, "claim": {}}
    there = 0
    for size in (100, 1_000, 10_000):
        bench.query(
            "SELECT count(*) FROM defer_jobs(array_fill('t'::text, ARRAY[%s]), "
            "array_fill('{}'::jsonb, ARRAY[%s]), NULL, NULL, NULL, NULL, NULL, "
            "p_batch_ids => array_fill(%s::bigint, ARRAY[%s]))",
            *[size - there] * 2, batch, size - there,
        )  # fmt: skip
        there = size
        for _ in range(3):  # the last one is counted
            [(id, claim)] = bench.query("SELECT id, claim_id FROM claim(%s, NULL, 1)", bench.worker)
            with bench.counter.count() as work:
                bench.query(
                    "SELECT finish(%s, NULL, 0, %s, %s, '{succeeded}', '{NULL}')",
                    bench.worker, [id], [claim],
                )  # fmt: skip
            costs["finish"][size] = work.rows
            with bench.counter.count() as work:
                bench.query("SELECT claim(%s, NULL, 1)", bench.worker)
            costs["claim"][size] = work.rows
    for what in costs.values():
        assert slope(what) < FLAT, costs


def test_a_transaction_adds_one_event_for_all_its_jobs(bench: Bench) -> None:
    [(batch,)] = bench.query("SELECT open_batch('b')")
    with bench.connection.transaction():
        for _ in range(5):
            bench.query("SELECT defer('t', batch_id => %s)", batch)
    bench.query(
        "SELECT count(*) FROM defer_jobs('{t,t,t}', '{\"{}\",\"{}\",\"{}\"}', NULL, NULL, NULL, "
        "NULL, NULL, p_batch_ids => ARRAY[%s::bigint, NULL, %s])",
        batch, batch,
    )  # fmt: skip
    assert bench.query("SELECT event::text, jobs FROM batch_events ORDER BY jobs") == [
        ("joined", 2),
        ("joined", 5),
    ]
    bench.query("SELECT id FROM claim(%s, NULL, 50)", bench.worker)
    assert bench.query("SELECT * FROM batch_events") == []
    bench.query(
        "SELECT finish(%s, NULL, 0, array_agg(id), array_agg(claim_id), "
        "array_agg('succeeded'::job_status), array_agg(NULL::jsonb)) FROM jobs",
        bench.worker,
    )
    assert bench.query("SELECT event::text, jobs FROM batch_events") == [("succeeded", 7)]
