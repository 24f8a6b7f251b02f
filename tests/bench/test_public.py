"""What the scenario of keys in order says about a log. It is checked without a server."""

import importlib
from pathlib import Path
from typing import Any

# The benchmark's environment has packages that ours lacks, so the type checker stays out of it.
order: Any = importlib.import_module("bench.public.order")

ONE, OTHER = 101, 202  # processes


def ran(key: str, number: int, start: float, end: float | None, process: int = ONE) -> list[Any]:
    """Return the lines of a job that was committed at 0. Without an end, its process was killed."""
    times = [("commit", 0.0), ("start", start), *([] if end is None else [("end", end)])]
    return [order.Line(event, key, number, process, at) for event, at in times]


def test_an_overlap_and_an_inversion_are_found_and_named_by_their_keys() -> None:
    fine = ran("fine", 1, 1.0, 2.0) + ran("fine", 2, 2.0, 3.0, OTHER)
    overlap = ran("both", 3, 1.0, 3.0) + ran("both", 4, 2.0, 4.0, OTHER)
    inversion = ran("back", 6, 1.0, 2.0) + ran("back", 5, 3.0, 4.0)
    report = order.report(fine + overlap + inversion)
    assert {key: tuple(verdict) for key, verdict in report.keys.items()} == {
        "both": (0, 1, 0),
        "back": (1, 0, 0),
    }
    assert str(report) == (
        "6 committed, 6 ended, 0 still waiting, 2 keys wrong: 1 out of order, 1 overlapping"
    )


def test_a_killed_process_makes_no_overlap_but_its_job_still_comes_before_the_next_one() -> None:
    killed = ran("key", 1, 1.0, None)
    again, after = ran("key", 1, 5.0, 6.0, OTHER), ran("key", 2, 6.0, 7.0, OTHER)
    assert not order.report(killed + again + after).keys
    overtaken = ran("key", 2, 3.0, 4.0, OTHER)
    assert order.report(killed + overtaken + again).keys["key"].out_of_order == 1


def test_a_run_that_a_kill_cut_off_counts_until_the_last_line_of_its_process() -> None:
    sign_of_life = ran("other", 9, 4.0, 5.0)
    killed, beside = ran("key", 2, 1.0, None), ran("key", 1, 3.0, 4.0, OTHER)
    assert order.report(killed + sign_of_life + beside).keys["key"] == (1, 1, 0)


def test_a_job_that_runs_again_while_its_first_run_still_writes_overlaps() -> None:
    frozen, again = ran("key", 1, 1.0, 9.0), ran("key", 1, 5.0, 6.0, OTHER)
    assert order.report(frozen + again).keys["key"].overlapping == 1


def test_a_job_that_waits_too_long_is_counted() -> None:
    late = [order.Line("commit", "key", 2, ONE, order.PATIENCE)]
    stuck = [order.Line("commit", "other", 3, ONE, 0.0)]
    lines = ran("key", 1, 1.0, order.PATIENCE + 1.0) + late + stuck
    assert order.report(lines).waiting == 1


def test_a_log_can_be_read_back(tmp_path: Path) -> None:
    log = order.Log(str(tmp_path / "log"))
    log.note("start", "key", 7)
    log.note("end", "key", 7)
    order.Log(None).note("end", "key", 8)
    lines = order.read(tmp_path / "log")
    assert [(line.event, line.key, line.number) for line in lines] == [
        ("start", "key", 7),
        ("end", "key", 7),
    ]
    assert lines[0].at <= lines[1].at
