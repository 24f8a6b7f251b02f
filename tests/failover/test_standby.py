"""The promises of docs/high-availability.md about reading from a standby."""

import psycopg
import pytest
from click.testing import CliRunner, Result

from inturn.cli import queue
from inturn.cli.settings import Settings
from tests.failover.cluster import Cluster, wait_until

pytestmark = pytest.mark.proof

READS = """workers list
lanes list
lanes explain a
queues list
jobs list
jobs show 1
jobs explain 1
doctor"""


def run(dsn: str, command: str) -> Result:
    """Run these in this process: a new process for each would be slower than the servers."""
    return CliRunner().invoke(queue, command.split(), obj=Settings(None), env={"INTURN_DSN": dsn})


def test_a_standby_answers_reads_and_says_why_it_refuses_writes(
    cluster: Cluster,
) -> None:
    with psycopg.connect(cluster.primary.dsn) as connection:
        for _ in range(2):
            connection.execute("SELECT inturn.defer('task', '{}', lock => 'a')")
    cluster.catch_up()
    for command in READS.splitlines():
        there, here = run(cluster.primary.dsn, command), run(cluster.standby.dsn, command)
        assert (repr(here.exception), here.exit_code) == (repr(there.exception), there.exit_code), (
            command
        )
        assert here.output
    refused = run(cluster.standby.dsn, "lanes pause a")
    assert "cannot execute" in str(refused.exception)
    assert "read-only" in str(refused.exception)
    with psycopg.connect(cluster.standby.dsn) as connection:
        assert connection.execute("SELECT count(*) FROM inturn.all_jobs").fetchone() == (2,)
        assert connection.execute("SELECT count(*) FROM inturn.workers").fetchone() == (0,)
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("SELECT inturn.defer('task', '{}')")


def test_a_query_on_a_standby_that_keeps_old_rows_is_named(cluster: Cluster) -> None:
    cluster.standby.set(
        hot_standby_feedback="on", wal_receiver_status_interval="1s", cluster_name="reports"
    )
    query = "SELECT state, transactions FROM open_transactions WHERE age IS NULL"
    with (
        psycopg.connect(cluster.standby.dsn) as report,
        psycopg.connect(
            cluster.primary.dsn, autocommit=True, options="-c search_path=inturn"
        ) as primary,
    ):
        report.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        report.execute("SELECT 1")
        wait_until(lambda: primary.execute(query).fetchone(), "the feedback")
        primary.execute("DO $$ BEGIN FOR i IN 1..100000 LOOP "
                        "PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$")  # fmt: skip
        state, transactions = primary.execute(query).fetchone() or ("", 0)
        assert state == "standby"
        assert transactions >= 100_000
        assert "dead rows pile up" in run(cluster.primary.dsn, "doctor").output
