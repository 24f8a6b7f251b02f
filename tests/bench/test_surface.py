"""What the benchmark of all shapes says about its readings. It is checked without a server."""

import importlib
import os
import time
from dataclasses import replace
from typing import Any

import pytest

# The benchmark's environment has packages that ours lacks, so the type checker stays out of it.
jobs: Any = importlib.import_module("bench.jobs")
meter: Any = importlib.import_module("bench.meter")
reading: Any = importlib.import_module("bench.surface.reading")
run: Any = importlib.import_module("bench.surface.run")
shapes: Any = importlib.import_module("bench.surface.shapes")
summary: Any = importlib.import_module("bench.surface.summary")

FREE = shapes.Shape(0, 1_000)
LANES = shapes.Shape(100, 1_000)
RIGHT, WRONG = jobs.Verdict(), jobs.Verdict(out_of_order=3)


def ran(peer: str, shape: Any, seconds: float, **more: Any) -> Any:
    one = reading.Reading(
        round=0,
        peer=peer,
        shape=shape,
        state=reading.COLD,
        ran=shape.jobs,
        done=True,
        seconds=seconds,
        first=0.1,
        server_cpu=seconds / 2,
        worker_cpu=seconds / 2,
        calls=10,
        wal=0,
        enqueued_in=0.1,
        verdict=RIGHT,
    )
    return replace(one, **more)


def line_of(*readings: Any) -> Any:
    [line] = summary.lines(summary.cells(readings), [LANES], reading.COLD)
    return line


@pytest.mark.parametrize("selection", shapes.SELECTIONS)
def test_the_name_of_a_shape_says_all_of_it(selection: str) -> None:
    for shape in shapes.SELECTIONS[selection]:
        assert shapes.parse(str(shape)) == shape


@pytest.mark.parametrize("name", ["10", "10x", "0x5", "free0", "10x5/3z", "10x5/often"])
def test_a_name_without_a_shape_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"is not a valid|has no jobs"):
        shapes.parse(name)


def test_the_surface_goes_to_its_corners_but_not_beyond_the_largest_number_of_jobs() -> None:
    surface = shapes.choose(list(shapes.DEFAULT))
    assert {1, 100_000} <= {shape.lanes for shape in surface}
    assert {1, 4} <= {shape.workers for shape in surface}
    assert max(shape.jobs for shape in surface) == shapes.MOST_JOBS


def test_each_shape_runs_beside_as_many_free_jobs() -> None:
    chosen = shapes.choose(["1000x10/4w/128q/never"])
    assert [str(shape) for shape in chosen] == ["free10000/4w/never", "1000x10/4w/128q/never"]


def test_all_jobs_of_a_lane_have_one_queue_and_one_priority() -> None:
    made = jobs.make(1_000, lanes=30, queues=7, priorities=4)
    assert len({(job.lane, job.queue, job.priority) for job in made}) == 30
    assert len({job.queue for job in made}) == 7
    assert len({job.priority for job in made}) == 4


def test_the_fastest_peer_is_named_although_it_is_wrong_and_the_fastest_right_one_too() -> None:
    line = line_of(
        ran("inturn", LANES, 2.0),
        ran("graphile-worker", LANES, 1.0, verdict=WRONG),
        ran("pgqueuer", LANES, 8.0),
    )
    assert str(line.fastest) == "0.50 graphile-worker WRONG"
    assert str(line.right) == "4.00 pgqueuer"


def test_a_peer_that_was_cut_off_counts_what_it_ran_and_is_marked() -> None:
    line = line_of(ran("inturn", LANES, 1.0), ran("pg-boss", LANES, 10.0, ran=100, done=False))
    assert str(line.right) == "100.00 pg-boss*"


def test_a_ratio_compares_readings_of_the_same_round() -> None:
    slow_round = [ran("inturn", LANES, 9.0, round=1), ran("pg-boss", LANES, 18.0, round=1)]
    line = line_of(ran("inturn", LANES, 1.0), ran("pg-boss", LANES, 2.0), *slow_round)
    assert line.right.times == 2.0
    assert line.ours.spread > 1.0


def test_a_shape_that_costs_more_than_three_free_jobs_is_listed_with_its_size() -> None:
    assert summary.misses(line_of(ran("inturn", FREE, 1.0), ran("inturn", LANES, 2.9))) == []
    missed = summary.misses(line_of(ran("inturn", FREE, 1.0), ran("inturn", LANES, 4.0)))
    assert missed == [
        "100x10 cold: 4.0 × the server time of a free job",
        "100x10 cold: 4.0 × the worker time of a free job",
    ]


def test_the_shapes_with_many_lanes_are_held_against_the_fastest_peer_even_if_it_is_wrong() -> None:
    shape = shapes.parse("1000x10")
    found = summary.cells(
        [ran("inturn", shape, 2.0), ran("pg-boss", shape, 1.0, verdict=WRONG)],
    )
    [line] = summary.lines(found, [shape], reading.COLD)
    assert summary.misses(line) == ["1000x10 cold: 0.50 × pg-boss, the fastest"]


def test_inturn_itself_is_listed_if_it_was_wrong() -> None:
    [missed] = summary.misses(line_of(ran("inturn", LANES, 1.0, verdict=WRONG)))
    assert missed == "100x10 cold: inturn itself is WRONG"


def test_the_cpu_time_of_a_process_is_read_from_outside_as_it_reads_it_itself() -> None:
    before = time.process_time()
    seen = meter.cpu_seconds(os.getpid())
    assert before <= seen <= time.process_time()


def test_a_slow_warm_drain_of_ours_gives_the_peers_no_more_time() -> None:
    cold, warm = ran("inturn", LANES, 2.0), ran("inturn", LANES, 90.0, state=reading.WARM)
    assert run.Patience(ratio=10.0, floor=3.0).limit([cold, warm]) == 20.0


def test_a_small_shape_gives_the_peers_the_time_to_start() -> None:
    assert run.Patience(ratio=10.0, floor=3.0).limit([ran("inturn", LANES, 0.1)]) == 3.0
