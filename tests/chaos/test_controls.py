"""Runs with something broken. If the harness misses it, the harness proves nothing.

The servers, proxy, producers and checker are those of any run. Each test says what is broken.
"""

import contextlib
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from psycopg.errors import DeadlockDetected
from psycopg.types.json import Jsonb

from tests.chaos.faults import chosen
from tests.chaos.play import Fault, Play, Setup, perform
from tests.chaos.server import LIMIT, Server
from tests.evidence.evidence import Settings
from tests.evidence.judge import Verdict, check, describe

pytestmark = pytest.mark.proof

HEARTBEAT, STALLED = 0.3, 1.0
FENCE = re.compile(r"AND jobs\.claim_id\s*(=|IS NOT DISTINCT FROM)\s*\w+\.claim_id")


def judged(folder: Path, faults: list[Fault], setup: Setup) -> Verdict:
    perform(folder, "control", faults, None, setup)
    return check(folder)


def rules(verdict: Verdict) -> set[str]:
    assert verdict.word == "invalid", describe(verdict)
    return verdict.broken


def naive(mode: str, bin_dir: Path | None, workers: int = 2) -> Setup:
    command = ("-m", "tests.chaos.naive", mode)
    return Setup(worker=command, workers=workers, producers=1, required=(), bin_dir=bin_dir)


def test_workers_that_know_nothing_but_the_order_of_jobs_are_found_out(
    tmp_path: Path, bin_dir: Path | None
) -> None:
    storm = [Fault("a storm", let_storm, 4, ())]
    found = rules(judged(tmp_path, storm, naive("lanes", bin_dir)))
    assert {"overlap", "too many", "too often", "early", "hasty", "starved"} <= found


def test_an_engine_that_starts_jobs_which_have_expired_is_found_out(
    tmp_path: Path, bin_dir: Path | None
) -> None:
    setup = naive("lanes", bin_dir, workers=1)
    verdict = judged(tmp_path, [Fault("jobs expire", let_expire, 4, ())], setup)
    assert "late" in rules(verdict), describe(verdict)


def let_storm(play: Play) -> None:
    """Defer far more jobs of each limit and of a group than may start now.

    Nothing holds a claim up meanwhile.
    """
    before = play.query("SELECT count(*) FROM finished_jobs")[0][0]
    for key in ("rate", "slots"):
        op, count = play.op(), 40
        play.history.write("call", op=op, lane=None, jobs=[{"limit": key}] * count)
        for index in range(count):
            args = Jsonb({"op": op, "index": index, "seconds": 0.03, "fails": 0})
            play.query("SELECT defer('step', %s, limit_key => %s)", args, key)
        play.history.write("ok", op=op)
    for group, count in (("large", Settings.turns + 30), ("small", 1)):
        op = play.op()
        play.history.write("call", op=op, lane=None, jobs=[{"group": group}] * count)
        for index in range(count):
            args = Jsonb({"op": op, "index": index, "seconds": 0.03, "fails": 0})
            play.query("SELECT defer('step', %s, group_key => %s)", args, group)
        play.history.write("ok", op=op)
    play.await_jobs(before + 120)


def test_an_engine_that_ends_batches_too_early_is_found_out(
    tmp_path: Path, bin_dir: Path | None
) -> None:
    faults = [Fault("a batch is closed", let_a_batch_run, 4, ())]
    verdict = judged(tmp_path, faults, fast(bin_dir, without_counting))
    assert "hasty" in rules(verdict), describe(verdict)


def without_counting(server: Server) -> None:
    condition = "AND total = succeeded + failed + cancelled + aborted"
    with server.connect() as connection:
        row = connection.execute(
            "SELECT pg_get_functiondef('inturn.settle_batches(integer)'::regprocedure)"
        ).fetchone()
        assert row is not None
        assert condition in row[0]
        connection.execute(row[0].replace(condition, ""))


def let_a_batch_run(play: Play) -> None:
    """Close a batch while its jobs run."""
    op = play.op()
    play.history.write("call", op=op, lane=None, jobs=[{"callback_of": op}])
    args = Jsonb({"op": op, "index": 0, "seconds": 0.01, "fails": 0})
    [(batch,)] = play.query("SELECT open_batch(%s, 'report', %s)", op, args)
    play.history.write("ok", op=op)
    own = play.op()
    play.history.write("call", op=own, lane=None, jobs=[{"batch": op}] * 2)
    for index in range(2):
        args = Jsonb({"op": own, "index": index, "seconds": 1.0, "fails": 0})
        play.query("SELECT defer('step', %s, batch_id => %s)", args, batch)
    play.history.write("ok", op=own)
    play.history.write("closed", batch=op)
    play.query("SELECT close_batch(%s)", batch)
    play.await_jobs(3)


def let_expire(play: Play) -> None:
    """Stop the only worker until some jobs have expired."""
    [worker] = play.clients.workers()
    play.clients.stop(worker)
    play.hold(5)
    play.clients.kill(worker)
    # Nobody rescues the jobs of such workers, and the end of the run would wait for them.
    play.query(
        "UPDATE jobs SET status = 'todo', claim_id = NULL, worker_id = NULL WHERE status = 'doing'"
    )
    play.hold(2)


def test_a_worker_that_acknowledges_before_it_runs_is_found_to_lose(
    tmp_path: Path, bin_dir: Path | None
) -> None:
    faults = [Fault("a worker is killed", kill_at_once, 1, ())]
    assert "wrong end" in rules(judged(tmp_path, faults, naive("early", bin_dir, workers=1)))


def kill_at_once(play: Play) -> None:
    caught = play.clients.caught_in_a_job(play.dice)
    assert caught is not None
    play.clients.kill(caught[0])


def test_an_engine_whose_finish_is_not_fenced_is_found_out(
    tmp_path: Path, bin_dir: Path | None
) -> None:
    """A stopped worker reports the end of a job that is not its own any more, and is believed."""
    faults = [Fault("a zombie reports", raise_a_zombie, 10, ())]
    verdict = judged(tmp_path, faults, fast(bin_dir, unfenced))
    assert "overlap" in rules(verdict), describe(verdict)


def test_the_same_story_on_the_engine_as_it_is_breaks_nothing(
    tmp_path: Path, bin_dir: Path | None
) -> None:
    verdict = judged(
        tmp_path,
        [Fault("a zombie reports", raise_a_zombie, 10, ())],
        fast(bin_dir, lambda server: None),
    )
    assert verdict.word == "valid", describe(verdict)
    assert verdict.evidence.silences


def fast(bin_dir: Path | None, prepare: Any) -> Setup:
    return Setup(
        heartbeat=HEARTBEAT,
        stalled=STALLED,
        workers=2,
        producers=0,
        prepare=prepare,
        warm_up=0,
        required=(),
        bin_dir=bin_dir,
    )


def unfenced(server: Server) -> None:
    with server.connect() as connection:
        rows = connection.execute(
            "SELECT pg_get_functiondef(oid) FROM pg_proc "
            "WHERE pronamespace = 'inturn'::regnamespace AND prokind = 'f'"
        ).fetchall()
        changed = [FENCE.sub("", text) for (text,) in rows if FENCE.search(text)]
        for text in changed:
            connection.execute(text)
    assert len(changed) >= 3


def raise_a_zombie(play: Play) -> None:
    """Stop a worker in the first job of a lane until another has run half of it again.

    Other jobs wait behind it meanwhile.
    """
    play.defer(2.0, "L")
    for _ in range(3):
        play.defer(0.3, "L")
    caught = play.clients.caught_in_a_job(play.dice)
    assert caught is not None
    fence = last_fence(play)
    while last_fence(play) == fence:
        play.hold(0.05)
    play.hold(0.5)
    play.clients.wake(*caught)
    play.hold(2)


def last_fence(play: Play) -> int:
    return int(play.query("SELECT coalesce(max(fence), 0) FROM jobs")[0][0])


def test_a_server_that_answers_before_it_has_written_is_found_to_lose(
    tmp_path: Path, bin_dir: Path | None
) -> None:
    settings = {
        "synchronous_commit": "off",
        "wal_writer_delay": "10s",
        "wal_writer_flush_after": "1GB",
    }
    setup = Setup(
        settings=settings, prepare=checkpoint, workers=2, producers=1, required=(), bin_dir=bin_dir
    )
    assert "lost" in rules(judged(tmp_path, chosen(["the server is killed and restarts"]), setup))


def checkpoint(server: Server) -> None:
    """At least the schema must survive."""
    with server.connect() as connection:
        connection.execute("CHECKPOINT")


def test_a_deadlock_is_found_in_the_servers_log(server: Server) -> None:
    def hold(first: int, second: int) -> None:
        with contextlib.suppress(DeadlockDetected), server.connect() as connection:
            connection.execute("SELECT pg_advisory_lock(%s)", [first])
            both.wait(LIMIT)
            connection.execute("SELECT pg_advisory_lock(%s)", [second])

    before, both = server.deadlocks(), threading.Barrier(2)
    with ThreadPoolExecutor(2) as threads:
        for ended in [threads.submit(hold, 1, 2), threads.submit(hold, 2, 1)]:
            ended.result(LIMIT)
    assert len(server.deadlocks()) == len(before) + 1
