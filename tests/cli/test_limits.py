"""`queue limits`, and `queue defer --limit`."""

import json

from tests.cli.conftest import Run


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


def test_a_job_is_deferred_with_a_limit_and_shown_with_it(queue: Run) -> None:
    id = queue("defer", "far.away", "--limit", "stripe").stdout.strip()
    assert json.loads(queue("jobs", "show", id, "--json").stdout)["limit_key"] == "stripe"
    assert "stripe" in queue("jobs", "show", id).stdout


def test_a_limit_that_makes_no_sense_is_refused_by_name(queue: Run) -> None:
    for name, *arguments in (
        ("concurrency", "limits", "set", "a", "--concurrency", "0"),
        ("concurrency", "limits", "set", "a"),
        ("rate", "limits", "set", "a", "--rate", "fast"),
        ("limit", "defer", "far.away", "--limit", "x" * 2000),
    ):
        ended = queue(*arguments)
        assert ended.returncode == 2
        assert name in ended.stderr
