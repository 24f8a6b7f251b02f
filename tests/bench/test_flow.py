"""The benchmark of limits, groups, chains and batches: what it calls wrong, and that it runs."""

import importlib
import signal
from typing import Any

import pytest

# The benchmark's environment has packages that ours lacks, so the type checker stays out of it.
arena: Any = importlib.import_module("bench.arena")
flow: Any = importlib.import_module("bench.rows.flow")
jobs: Any = importlib.import_module("bench.jobs")
overhead: Any = importlib.import_module("bench.overhead")
registry: Any = importlib.import_module("bench.peers.registry")
row: Any = importlib.import_module("bench.rows.row")
rows: Any = importlib.import_module("bench.rows")
run: Any = importlib.import_module("bench.run")
server: Any = importlib.import_module("bench.server")
summary: Any = importlib.import_module("bench.summary")

SMALL = row.Scale(share=0.05, limit=60.0)


def judge(tool: Any, *times: tuple[int, float, float], width: int = 1) -> Any:
    trace = [jobs.Ran(number, "lane-0", start, end) for number, start, end in times]
    return jobs.judge(trace, jobs.Load(1, tool=tool, width=width))


def test_more_jobs_of_a_key_at_once_than_its_limit_are_wrong() -> None:
    three = (0, 0.0, 5.0), (1, 1.0, 5.0), (2, 4.0, 6.0)
    assert judge(jobs.Tool.LIMIT, *three, width=3).fine
    assert judge(jobs.Tool.LIMIT, *three, width=2).overlapping == 1


def test_a_job_may_start_when_the_limit_of_its_key_has_become_free() -> None:
    assert judge(jobs.Tool.LIMIT, (0, 0.0, 5.0), (1, 0.0, 2.0), (2, 2.0, 6.0), width=2).fine


def test_jobs_of_a_key_may_start_in_any_order_but_those_of_a_chain_may_not() -> None:
    turned = (1, 0.0, 1.0), (0, 1.0, 2.0)
    assert judge(jobs.Tool.LIMIT, *turned).fine
    assert judge(jobs.Tool.AFTER, *turned).out_of_order == 1


def test_a_callback_that_starts_before_all_others_have_ended_is_wrong() -> None:
    assert judge(jobs.Tool.BATCH, (0, 0.0, 5.0), (1, 1.0, 3.0), (2, 5.0, 6.0)).fine
    assert judge(jobs.Tool.BATCH, (0, 0.0, 5.0), (1, 1.0, 3.0), (2, 4.0, 6.0)).out_of_order == 1


def test_the_most_starts_of_any_second_are_counted_across_the_seconds_of_a_clock() -> None:
    assert flow.most_in(1.0, [0.2, 0.8, 0.9, 1.1, 1.7, 1.95]) == 4


def test_jobs_that_start_before_their_rate_allows_are_wrong() -> None:
    evenly = [number / flow.RATE for number in range(50)]
    assert flow.describe_early(evenly, burst=1) == ""
    assert flow.describe_early([0.0, *evenly], burst=1) == "WRONG: 50 too early"


@pytest.fixture(scope="module")
def measured() -> list[Any]:
    """What inturn itself measures in all rows, with some hundred jobs."""
    found: list[Any] = []
    [ours] = [peer for peer in registry.all_peers() if peer.name == registry.OURS]
    on_sigterm = signal.getsignal(signal.SIGTERM)
    with server.bed() as bed:
        run.measure(bed, [ours], rows.FLOW, 1, SMALL, arena.Moment.EMPTY, found.append)
    signal.signal(signal.SIGTERM, on_sigterm)
    return found


@pytest.mark.proof
def test_inturn_runs_every_row_and_keeps_all_promises(measured: list[Any]) -> None:
    assert {one.row for one in measured} == set(rows.FLOW_ROWS)
    assert [one for one in measured if one.reading is None or one.reading.note] == []


@pytest.mark.proof
def test_each_tool_is_compared_with_free_jobs(measured: list[Any]) -> None:
    table = overhead.table(summary.cells(measured), [registry.OURS], SMALL)
    lines = [line for line in table.splitlines() if "| inturn |" in line]
    assert len(lines) == len(flow.COSTS)
    assert not any("|  |" in line for line in lines), "no number is missing"
