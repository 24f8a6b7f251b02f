"""Faults of the server and of its sessions."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import LiteralString

import psycopg

from tests.chaos.play import STALLED, Fault, Play

OUTAGE = "an outage was seen by a worker"
ODD = (
    "DateStyle = 'SQL, DMY'",
    "IntervalStyle = 'sql_standard'",
    "array_nulls = off",
    "statement_timeout = '200ms'",
)
CONNECTED = "SELECT FROM pg_stat_activity WHERE application_name = 'inturn worker'"
CONNECTED_SO = "a worker connected under odd settings"
ENDED = "SELECT count(*) FROM finished_jobs"
MARGIN = 1_000_000  # before the end, the server keeps three million numbers for itself
EXHAUSTED = "the server had no more transaction ids"
YOUNGER = "the database was restored into a younger cluster"
ENDED_SO = "jobs ended while all tables were published"


def restart(how: str) -> Callable[[Play], None]:
    def inflict(play: Play) -> None:
        play.server.stop(how)
        play.server.start()
        play.history.write("returned")
        play.seen(f"the server was restarted: {how}")
        play.hold(1)

    return inflict


def outage(play: Play) -> None:
    _away(play, 3.0)


def long_outage(play: Play) -> None:
    _away(play, play.stalled + 3.0)


def _away(play: Play, seconds: float) -> None:
    play.server.stop("fast")
    play.hold(seconds)
    play.server.start()
    play.history.write("returned")
    play.hold(2)


def outages_in_a_row(play: Play) -> None:
    for _ in range(3):
        play.server.stop("immediate")
        play.hold(1.5)
        play.server.start()
        play.history.write("returned")
        play.hold(0.5)


def terminate_backends(play: Play) -> None:
    for _ in range(5):
        play.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname = 'postgres'"
        )
        play.hold(0.3)


def crash_a_backend(play: Play) -> None:
    """Kill one backend. The server then ends all others and recovers."""
    [(pid,)] = play.query(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'inturn worker' LIMIT 1"
    )
    os.kill(pid, signal.SIGKILL)
    play.hold(1)
    play.server.start()


def restart_the_pooler(play: Play) -> None:
    if play.pooler is not None:
        play.pooler.kill()
        play.hold(1)
        play.pooler.start()
        play.seen("PgBouncer was killed and restarted")
    play.hold(2)


def read_only(play: Play) -> None:
    with with_settings(play, "default_transaction_read_only = on"):
        play.hold(2)
    play.hold(1)


def serializable(play: Play) -> None:
    with with_settings(play, "default_transaction_isolation = 'serializable'"):
        play.hold(2)
    play.hold(1)


def odd_settings(play: Play) -> None:
    """Let all connect again under settings that we could not work with."""
    with with_settings(play, *ODD):
        terminate_backends(play)
        for _ in range(5):  # on a busy machine, workers take long to come back
            play.hold(2)
            if play.query(CONNECTED):
                play.seen(CONNECTED_SO)
                break
    terminate_backends(play)


@contextmanager
def with_settings(play: Play, *settings: LiteralString) -> Iterator[None]:
    try:
        for setting in settings:
            play.query(f"ALTER SYSTEM SET {setting}")
        play.query("SELECT pg_reload_conf()")
        yield
    finally:
        play.query("ALTER SYSTEM RESET ALL")
        play.query("SELECT pg_reload_conf()")


def exhaust_ids(play: Play) -> None:
    """Let the server believe that its oldest transaction is two billion before the next one."""
    [(next_id,)] = play.query("SELECT pg_current_xact_id()::text::bigint")
    play.server.stop("fast")
    play.server.age(next_id % 2**32 - 2**31 + MARGIN & 0xFFFFFFFF)
    play.server.start()
    play.history.write("returned")
    if has_no_ids(play):
        play.seen(EXHAUSTED)
    play.hold(2)
    while has_no_ids(play):
        play.query("VACUUM progress")  # it looks for the oldest transaction again
        play.hold(0.2)
    play.query("CHECKPOINT")  # or it would believe so again after a crash


def has_no_ids(play: Play) -> bool:
    try:
        play.query("SELECT pg_current_xact_id()")
    except psycopg.errors.ProgramLimitExceeded:
        return True
    return False


def move_to_a_younger_cluster(play: Play) -> None:
    """Kill the workers, and restore a dump into a cluster whose transactions have lower numbers."""
    play.clients.dismiss(play.clients.producers())
    [(before,)] = play.query("SELECT pg_current_xact_id()::text::bigint")
    with play.clients.all_killed():
        play.server.move()
    [(after,)] = play.query("SELECT pg_current_xact_id()::text::bigint")
    play.history.write("returned")
    if after < before:
        play.seen(YOUNGER)
    play.hold(2)


def publish(play: Play) -> None:
    """Publish all tables, as an upgrade by logical replication does."""
    play.query("CREATE PUBLICATION everything FOR ALL TABLES")
    try:
        before = play.query(ENDED)
        play.hold(3)
        if play.query(ENDED) != before:
            play.seen(ENDED_SO)
    finally:
        play.query("DROP PUBLICATION everything")


FAULTS = [
    Fault(
        "the server restarts, fast", restart("fast"), 3, ("the server was restarted: fast", OUTAGE)
    ),
    Fault(
        "the server restarts, immediate",
        restart("immediate"),
        3,
        ("the server was restarted: immediate", OUTAGE),
    ),
    Fault(
        "the server is killed and restarts",
        restart("kill"),
        3,
        ("the server was restarted: kill", OUTAGE),
    ),
    Fault("the server is away for 3 s", outage, 7, (OUTAGE,), 3),
    Fault(
        "the server is away for longer than a heartbeat",
        long_outage,
        STALLED + 8,
        (OUTAGE,),
        STALLED + 3,
    ),
    Fault("three outages in a row", outages_in_a_row, 8, (OUTAGE,), 6),
    Fault("all sessions are ended", terminate_backends, 3, (OUTAGE,)),
    Fault("a backend crashes", crash_a_backend, 4, (OUTAGE,)),
    Fault("sessions are read-only", read_only, 4, ("a session was read-only",), 2),
    Fault("PgBouncer is killed and restarts", restart_the_pooler, 4, ()),
    Fault("sessions are serializable", serializable, 4, ()),
    Fault("sessions have odd settings", odd_settings, 6, (CONNECTED_SO,)),
    Fault("transaction ids are exhausted", exhaust_ids, 6, (EXHAUSTED,), 3),
    Fault("the data moves to a younger cluster", move_to_a_younger_cluster, 12, (YOUNGER,), 20),
    Fault("all tables are published", publish, 4, (ENDED_SO,)),
]
