"""`queue groups`, and `queue defer --group`."""

import json

from tests.cli.conftest import Run


def test_weights_are_set_listed_and_removed(queue: Run) -> None:
    assert "No group has" in queue("groups", "list").stderr
    queue("groups", "set", "tenant:*", "--weight", "2")
    queue("groups", "set", "tenant:7", "--weight", "3", "--by", "eve")
    queue("defer", "far.away", "--group", "tenant:8")
    pattern, heavy, waiting = json.loads(queue("groups", "list", "--json").stdout)
    assert (pattern["name"], pattern["weight"], pattern["waiting"]) == ("tenant:*", 2, None)
    assert (heavy["name"], heavy["weight"], heavy["waiting"]) == ("tenant:7", 3, 0)
    assert (waiting["name"], waiting["weight"], waiting["waiting"]) == ("tenant:8", 2, 1)
    assert "tenant:8" in queue("groups", "list").stdout
    queue("groups", "remove", "tenant:7")
    assert "tenant:7" not in queue("groups", "list").stdout
    again = queue("groups", "remove", "tenant:7")
    assert again.returncode != 0
    assert "tenant:7 has no weight" in again.stderr


def test_a_job_is_deferred_with_a_group_and_shown_with_it(queue: Run) -> None:
    id = queue("defer", "far.away", "--group", "tenant:7").stdout.strip()
    assert json.loads(queue("jobs", "show", id, "--json").stdout)["group_key"] == "tenant:7"
    assert "tenant:7" in queue("jobs", "show", id).stdout


def test_a_group_that_makes_no_sense_is_refused_by_name(queue: Run) -> None:
    for name, *arguments in (
        ("weight", "groups", "set", "a", "--weight", "0"),
        ("weight", "groups", "set", "a"),
        ("pattern", "groups", "set", "a*b", "--weight", "1"),
        ("group", "defer", "far.away", "--group", "x" * 2000),
        ("group", "defer", "far.away", "--group", ""),
    ):
        ended = queue(*arguments)
        assert ended.returncode == 2
        assert name in ended.stderr
