"""Several locks, and shared ones, on the command line."""

import json

from tests.cli.conftest import Run


def test_a_job_with_several_locks_is_deferred_shown_and_listed(queue: Run) -> None:
    locks = ("--lock", "b", "--lock", "a", "--shared", "c")
    id = queue("defer", "far.away", *locks).stdout.strip()
    assert "a, b, c (shared)" in queue("jobs", "show", id).stdout
    shown = json.loads(queue("jobs", "show", id, "--json").stdout)
    assert (shown["locks"], shown["shared"]) == (["a", "b", "c"], ["c"])
    for lock, count in (("a", 1), ("b", 1), ("c", 1), ("d", 0)):
        for status in ((), ("--status", "todo")):
            listed = queue("jobs", "list", "--lock", lock, *status, "--json").stdout
            assert len(json.loads(listed)) == count, (lock, status)


def test_locks_that_make_no_sense_are_refused_by_name(queue: Run) -> None:
    ended = queue("defer", "far.away", "--lock", "a", "--shared", "a")
    assert ended.returncode == 2
    assert "lock has the same lock twice" in ended.stderr


def test_a_lane_says_for_which_other_lane_it_waits(queue: Run) -> None:
    queue("lanes", "pause", "b")
    id = queue("defer", "far.away", "--lock", "a", "--lock", "b").stdout.strip()
    assert "in lane b" in queue("jobs", "explain", id).stdout
    shown = queue("lanes", "explain", "a").stdout
    assert "it also waits for lane b" in shown
    assert "queue lanes show b" in shown
