"""Jobs without a limit pay one probe of an empty index in each claim for those that have one."""

from tests.conftest import Query

PROBES = """
SELECT relname, coalesce(idx_scan, 0) + coalesce(seq_scan, 0)
FROM pg_stat_user_tables WHERE schemaname = 'inturn' AND relname IN ('limits', 'limit_keys')
"""
WAITING = """
SELECT coalesce(idx_scan, 0) FROM pg_stat_user_indexes
WHERE schemaname = 'inturn' AND indexrelname = 'jobs_limited'
"""
CLAIM_AND_FINISH = """
WITH claimed AS MATERIALIZED (SELECT * FROM claim(%s, NULL, 10))
SELECT array_agg(id), array_agg(claim_id) FROM claimed
"""


def test_a_job_without_a_limit_costs_one_probe_a_claim(query: Query) -> None:
    [[worker]] = query("SELECT register_worker('w', 'here', 1, NULL, 10)")

    def count() -> tuple[dict[str, int], int]:
        query("SELECT pg_stat_force_next_flush()")
        query("SELECT pg_stat_clear_snapshot()")
        return dict(query(PROBES)), query(WAITING)[0][0]

    before, waiting = count()
    for lock in ("NULL", "a"):
        for _ in range(10):
            query("SELECT defer('t', lock => nullif(%s, 'NULL'))", lock)
            [[ids, claims]] = query(CLAIM_AND_FINISH, worker)
            query(
                "SELECT finish(%s, NULL, 10, %s, %s, '{succeeded}', ARRAY[NULL::jsonb])",
                worker, ids, claims,
            )  # fmt: skip
    after, waited = count()
    assert after["limits"] == before["limits"]
    assert after["limit_keys"] - before["limit_keys"] == 20  # of 20 claims and 20 ends
    assert waited == waiting
