"""After an upgrade by logical replication, which carries rows and no sequences."""

import psycopg


def test_sequences_that_are_behind_their_rows_are_named_with_what_they_need(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        behind = "SELECT sequence, last, needed FROM sequences_behind() ORDER BY sequence"
        assert connection.execute(behind).fetchall() == []  # nothing was ever handed out

        connection.execute("SELECT defer('t', lock => 'a'), defer('t', lock => 'b')")
        connection.execute("SELECT pause_lane('a')")
        connection.execute("SELECT open_batch('b')")
        ((id, claim_id, fence),) = connection.execute(
            "SELECT id, claim_id, fence "
            "FROM claim(register_worker('w', 'here', 1, NULL, 1), NULL, 1)"
        ).fetchall()
        connection.execute(
            "SELECT finish(NULL, NULL, 0, %s::bigint[], %s::uuid[], '{succeeded}', '{NULL}')",
            [[id], [claim_id]],
        )
        assert connection.execute(behind).fetchall() == []

        connection.execute("ALTER SEQUENCE jobs_id_seq RESTART; ALTER SEQUENCE fences RESTART")
        connection.execute("ALTER SEQUENCE lane_audit_id_seq RESTART")
        connection.execute("ALTER SEQUENCE batches_id_seq RESTART")
        assert connection.execute(behind).fetchall() == [
            ("batches_id_seq", 0, 1),
            ("fences", 0, fence),
            ("jobs_id_seq", 0, id),
            ("lane_audit_id_seq", 0, 1),
        ]

        connection.execute("SELECT check_fence('printer', 70)")
        connection.execute(
            "SELECT setval(sequence, needed) FROM sequences_behind() WHERE sequence <> 'fences'"
        )
        assert connection.execute(behind).fetchall() == [("fences", 0, 70)]
        connection.execute("SELECT setval('fences', 70)")
        assert connection.execute(behind).fetchall() == []


def test_a_sequence_that_was_not_set_is_named_even_after_ten_thousand_jobs(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        connection.execute(
            "INSERT INTO finished_jobs (id, fence, created_at, finished_at, status, on_retry,"
            "  on_failure, priority, attempts, queue, task, args, errors) "
            "SELECT n, CASE n WHEN 1 THEN 70000 ELSE n END, now(), now(), 'succeeded', 'hold',"
            "  'continue', 0, 1, 'q', 't', '{}', '[]' FROM generate_series(1, 10001) AS n"
        )
        connection.execute("SELECT setval('fences', 10001), setval('jobs_id_seq', 10001)")
        assert connection.execute("SELECT * FROM sequences_behind()").fetchall() == [
            ("fences", 10001, 70000)
        ]
