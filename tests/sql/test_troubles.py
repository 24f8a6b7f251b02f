"""What monitoring counts and lists as trouble is not hidden by other trouble."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.cli.engine import Engine


@pytest.fixture
def engine(dsn: str) -> Iterator[Engine]:
    with closing(Engine(dsn)) as engine:
        yield engine


def test_unserved_queues_do_not_hide_unknown_tasks(engine: Engine) -> None:
    engine.query("SELECT register_worker('w', 'h', 1, '{default}', 1, '{known}')")
    engine.query(
        "SELECT defer('known', queue => 'q' || n, lock => 'l' || n) FROM generate_series(1, 25) AS n"
    )
    engine.query("SELECT defer('unknown', lock => 'lane')")
    listed = engine.query("SELECT lock FROM list_troubled_lanes(100, 'unknown')")
    assert listed == [("lane",)]


def test_lanes_are_counted_and_not_jobs(engine: Engine) -> None:
    """A job can hold several lanes, and several jobs can share one."""
    ((worker,),) = engine.query("SELECT register_worker('w', 'h', 1, NULL, 9)")
    engine.query("SELECT defer('t', locks => '{a, b, c}')")
    engine.query(
        "SELECT defer('t', locks => '{book}', shared => '{book}') FROM generate_series(1, 3)"
    )
    assert len(engine.query("SELECT id FROM claim(%s, NULL, 9)", worker)) == 4
    assert engine.query("SELECT lanes FROM measure_lanes() WHERE state = 'held'") == [(4,)]


def test_no_job_that_was_claimed_ahead_is_to_be_aborted_for_its_slot(engine: Engine) -> None:
    engine.query("SELECT set_limit('bank', 4)")
    engine.query("SELECT defer('t', limit_key => 'bank') FROM generate_series(1, 5)")
    for slots in (1, 9):
        ((worker,),) = engine.query("SELECT register_worker('w', 'h', 1, NULL, %s)", slots)
        engine.query("SELECT id FROM claim(%s, NULL, 9, false, %s)", worker, slots)
    assert engine.query("SELECT id FROM claimed_jobs WHERE status = 'claimed'") == [(2,)]
    ((unblock,),) = engine.query("SELECT unblock FROM explain(5) WHERE reason = 'limited'")
    assert "cancel --abort 1 3 4;" in unblock
