"""Stories of a counter of fences that belongs to another timeline.

They are told as in test_interleavings. Setting the counter to another timeline stands in for the
failover. tests/failover makes a real one.
"""

from typing import Any

from tests.race.harness import Mutation, Stage, Worker, promise, story

LATER, COUNTED = 7 << 40, 1000  # a timeline that this server is not on, and how many starts it had


def start_timeline(stage: Stage) -> int:
    """Set the counter as an upgrade does, which restarts timelines. Return the highest fence."""
    stage.control.execute("SELECT setval('fences', %s)", [LATER + COUNTED])
    return LATER + COUNTED


def start(worker: Worker) -> list[int]:
    return fences(worker, [job.id for job in worker.claim(1)])


def fences(worker: Worker, ids: list[int]) -> list[int]:
    rows: list[tuple[Any, ...]] = worker.run("SELECT fence FROM jobs WHERE id = ANY (%s)", ids)
    return [fence for (fence,) in rows]


@story(
    Mutation("the timeline is not looked at", "start_jobs.sql", "<> timeline()", "<> 7"),
    Mutation(
        "an earlier timeline goes on in the same generation", "next_epoch.sql",
        "THEN 0 ELSE 1::bigint << 56 END",
        "THEN 0 ELSE 1 END",
    ),
)  # fmt: skip
def test_fences_go_on_above_all_of_another_timeline(stage: Stage) -> None:
    worker = stage.worker()
    worker.defer(None, 0, 0, 0)
    highest = start_timeline(stage) + (
        1 << 39
    )  # the server that took over knows only the first half
    given = start(worker) + start(worker) + start(worker)
    promise(given == sorted(set(given)) and given[0] > highest, "each is higher than any before")
    promise(given[-1] - given[0] < 100, "it is raised once")


@story(
    Mutation(
        "the fences are raised without another look",
        "raise_fences.sql",
        "<> p_timeline THEN",
        "<> -1 THEN",
    ),
)
def test_of_two_first_starts_on_a_timeline_one_raises_the_fences(stage: Stage) -> None:
    """Otherwise each of them does, and there are only 128 generations."""
    late, early = stage.worker(), stage.worker()
    late.defer(None, 0, 0)
    start_timeline(stage)
    late.start_until("timeline", start, late)  # it has drawn a number of the timeline before
    [first] = start(early)
    late.resume()
    [(second,)] = late.run("SELECT max(fence) FROM jobs")
    promise(first < second < first + 100, "it goes on where the first began")


@story(
    Mutation(
        "a worker does not wait for a session that raises the fences",
        "raise_fences.sql",
        "    PERFORM pg_advisory_xact_lock(",
        "    PERFORM abs(",
    ),
)
def test_two_that_raise_the_fences_at_once_do_it_one_after_the_other(stage: Stage) -> None:
    one, other = stage.worker(), stage.worker()
    one.defer(None, 0, 0)
    start_timeline(stage)
    one.start_until("next_epoch", start, one)
    other.start(start, other)
    given = one.resume() + other.result()
    promise(len(set(given)) == 2, "no fence is given twice")


def test_by_hand_fences_are_raised_above_all_of_the_same_timeline(stage: Stage) -> None:
    """The statement of docs/high-availability.md, for a copy of the data that began no timeline."""
    worker = stage.worker()
    worker.defer(None, 0, 0)
    [before] = start(worker)
    stage.control.execute(
        "SELECT setval('inturn.fences', inturn.next_epoch(nextval('inturn.fences'), inturn.timeline()))"
    )
    [after] = start(worker)
    assert after > before + LATER


def test_a_session_looks_at_the_timeline_once(stage: Stage) -> None:
    """The look draws a number of the counter."""
    worker = stage.worker()
    worker.defer(None, 0, 0, 0)
    first, second, third = start(worker) + start(worker) + start(worker)
    assert (second, third) == (first + 1, first + 2)


def test_a_look_at_the_timeline_that_was_rolled_back_is_made_again(stage: Stage) -> None:
    worker = stage.worker()
    worker.defer(None, 0, 0)
    worker.begin()
    start(worker)
    worker.rollback()
    highest = start_timeline(stage)
    [fence] = start(worker)
    assert fence > highest + (1 << 39)
