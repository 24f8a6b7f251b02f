"""`queue limits`, and `queue defer --limit`."""

import json

from tests.cli.conftest import Run
from tests.cli.engine import Engine


def test_limits_are_set_listed_and_removed(queue: Run) -> None:
    assert "There is no limit" in queue("limits", "list").stderr
    queue("limits", "set", "stripe", "--concurrency", "5", "--rate", "100/min", "--burst", "20")
    queue("limits", "set", "customer:*", "--concurrency", "1", "--by", "eve")
    customer, stripe = json.loads(queue("limits", "list", "--json").stdout)
    assert (customer["pattern"], customer["concurrency"]) == ("customer:*", 1)
    assert (stripe["rate"], stripe["burst"], stripe["running"]) == ("100/min", 20, 0)
    assert "100/min" in queue("limits", "list").stdout
    queue("limits", "remove", "stripe")
    assert "stripe" not in queue("limits", "list").stdout
    again = queue("limits", "remove", "stripe")
    assert again.returncode != 0
    assert "There is no limit stripe" in again.stderr


def test_what_is_not_given_stays_as_it_is_and_the_change_is_printed(queue: Run) -> None:
    def change(*options: str) -> str:
        return queue("limits", "set", "stripe", *options).stderr

    assert "no limit → rate 100/min, burst 20" in change("--rate", "100/min", "--burst", "20")
    assert "burst 20 → concurrency 3, rate 100/min, burst 20" in change("--concurrency", "3")
    assert "→ concurrency 3, rate 5/s, burst 20" in change("--rate", "5/s")
    assert "→ concurrency 3, rate 5/s, burst 7" in change("--burst", "7")
    assert "burst 7 → rate 5/s, burst 7" in change("--no-concurrency")
    assert "burst 7 → concurrency 4\n" in change("--no-rate", "--concurrency", "4")
    [limit] = json.loads(queue("limits", "list", "--json").stdout)
    assert (limit["concurrency"], limit["rate"], limit["burst"]) == (4, None, None)


def test_a_job_is_deferred_with_a_limit_and_shown_with_it(queue: Run) -> None:
    id = queue("defer", "far.away", "--limit", "stripe").stdout.strip()
    assert json.loads(queue("jobs", "show", id, "--json").stdout)["limit_key"] == "stripe"
    assert "stripe" in queue("jobs", "show", id).stdout


def test_a_limit_that_makes_no_sense_is_refused_by_name(queue: Run) -> None:
    for name, *arguments in (
        ("concurrency", "limits", "set", "a", "--concurrency", "0"),
        ("concurrency", "limits", "set", "a"),
        ("--no-concurrency", "limits", "set", "a", "--concurrency", "1", "--no-concurrency"),
        ("--no-rate", "limits", "set", "a", "--burst", "1", "--no-rate"),
        ("rate", "limits", "set", "a", "--rate", "fast"),
        ("limit", "defer", "far.away", "--limit", "x" * 2000),
    ):
        ended = queue(*arguments)
        assert ended.returncode == 2
        assert name in ended.stderr


def test_a_change_that_leaves_no_limit_changes_nothing_and_says_why(queue: Run) -> None:
    queue("limits", "set", "a", "--rate", "1/min")
    for name, *options in (
        ("concurrency", "--no-rate"),
        ("burst", "--no-rate", "--concurrency", "1", "--burst", "3"),
    ):
        ended = queue("limits", "set", "a", *options)
        assert ended.returncode != 0
        assert name in ended.stderr
    assert queue("limits", "set", "b", "--burst", "3", "--concurrency", "1").returncode != 0
    [limit] = json.loads(queue("limits", "list", "--json").stdout)
    assert (limit["pattern"], limit["rate"], limit["burst"]) == ("a", "1/min", 1)


def test_a_limit_of_a_key_that_no_job_has_asks_whether_the_key_is_right(
    engine: Engine, queue: Run
) -> None:
    remark = "No job of this key runs or waits for it. Check the key if you expected one."
    engine.sign_on()
    engine.query("SELECT defer('t', limit_key => 'bank')")
    assert remark in queue("limits", "set", "bnak", "--concurrency", "1").stderr
    queue("limits", "set", "bank", "--concurrency", "1")
    engine.claim()
    assert remark not in queue("limits", "set", "bank", "--concurrency", "2").stderr
