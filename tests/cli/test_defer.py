"""`queue defer`: from words to a job."""

from datetime import UTC, datetime, timedelta
from typing import Any

import click
import psycopg
import pytest

from inturn.cli.commands.defer import command
from inturn.cli.values import duration, moment, task_arguments
from inturn.errors import BadArgument
from tests.cli.conftest import Run

CONTEXT, PARAMETER = click.Context(command), command.params[0]


def job(dsn: str, id: str) -> dict[str, Any]:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(
            "SELECT to_jsonb(j) FROM inturn.jobs j WHERE id = %s", [int(id)]
        ).fetchone()
    assert row is not None
    found = row[0]
    assert isinstance(found, dict)
    return found


def test_a_job_of_an_unknown_task_is_deferred_and_its_id_printed(run: Run, dsn: str) -> None:
    ended = run(
        "defer",
        "far.away",
        "to=ann",
        "copies=2",
        "--lock",
        "ann",
        "--queue",
        "mail",
        "--priority",
        "7",
        "--dsn",
        dsn,
    )
    assert ended.returncode == 0, ended.stderr
    found = job(dsn, ended.stdout)
    assert found["args"] == {"to": "ann", "copies": 2}
    assert [found[name] for name in ("task", "lock", "queue", "priority")] == [
        "far.away",
        "ann",
        "mail",
        7,
    ]


def test_a_job_can_wait_for_its_time(run: Run, dsn: str) -> None:
    at = run("defer", "far.away", "{}", "--at", "2100-01-01T00:00:00Z", "--dsn", dsn)
    assert job(dsn, at.stdout)["scheduled_at"].startswith("2100-01-01T00:00:00")
    later = run("defer", "far.away", "--in", "1h30m", "--dsn", dsn)
    found = job(dsn, later.stdout)
    pause = datetime.fromisoformat(found["scheduled_at"]) - datetime.fromisoformat(
        found["created_at"]
    )
    assert pause == timedelta(minutes=90)


def test_a_job_can_have_a_queueing_lock_and_a_timeout(run: Run, dsn: str) -> None:
    def defer(*words: str) -> Any:
        return run("defer", "far.away", *words, "--queueing-lock", "k", "--dsn", dsn)

    first = defer("n=1", "--timeout", "90s")
    assert [job(dsn, first.stdout)[name] for name in ("queueing_lock", "timeout")] == [
        "k",
        "00:01:30",
    ]
    refused = defer("n=2")
    assert refused.returncode != 0
    assert "Traceback" not in refused.stderr
    assert first.stdout.strip() in refused.stderr
    assert defer("n=2", "--on-conflict", "skip").stdout == first.stdout
    assert defer("n=3", "--on-conflict", "replace").stdout == first.stdout
    assert job(dsn, first.stdout)["args"] == {"n": 3}


def test_a_job_can_expire(run: Run, dsn: str) -> None:
    soon = job(dsn, run("defer", "far.away", "--expires-in", "90m", "--dsn", dsn).stdout)
    expires, created = (datetime.fromisoformat(soon[name]) for name in ("expires_at", "created_at"))
    assert expires - created == timedelta(minutes=90)
    at = run("defer", "far.away", "--expires-at", "2100-01-01T00:00:00Z", "--dsn", dsn)
    assert job(dsn, at.stdout)["expires_at"].startswith("2100-01-01T00:00:00")
    shown = run("jobs", "show", at.stdout.strip(), "--dsn", dsn).stdout
    assert "expires" in shown
    both = ("--expires-in", "1h", "--expires-at", "2100-01-01T00:00:00Z")
    assert run("defer", "far.away", *both, "--dsn", dsn).returncode == 2


def test_a_job_can_come_after_others(run: Run, dsn: str) -> None:
    first, second = (run("defer", "far.away", "--dsn", dsn).stdout.strip() for _ in range(2))
    child = run("defer", "far.away", "--after", first, "--after", second, "--dsn", dsn)
    reasons = run("jobs", "explain", child.stdout.strip(), "--dsn", dsn).stdout
    assert f"it comes after job {first} (far.away)" in reasons
    assert f"it comes after job {second} (far.away)" in reasons
    refused = run("defer", "far.away", "--after", "99", "--dsn", dsn)
    assert refused.returncode != 0
    assert "after: there is no job 99" in refused.stderr


def test_both_times_are_refused(run: Run, dsn: str) -> None:
    assert (
        run(
            "defer", "far.away", "--in", "1h", "--at", "2100-01-01T00:00:00Z", "--dsn", dsn
        ).returncode
        == 2
    )


def test_what_is_enqueued_already_can_be_ignored(run: Run, dsn: str) -> None:
    first = run("defer", "t", "--queueing-lock", "k", INTURN_DSN=dsn)
    for option in ("-i", "--ignore-already-enqueued"):
        again = run("defer", "t", "--queueing-lock", "k", option, INTURN_DSN=dsn)
        assert (again.returncode, again.stdout) == (0, first.stdout)
    for words in ([], ["--no-ignore-already-enqueued"]):
        assert run("defer", "t", "--queueing-lock", "k", *words, INTURN_DSN=dsn).returncode != 0
    assert run("defer", "t", "-i", "--on-conflict", "replace", INTURN_DSN=dsn).returncode == 2


def test_unknown_tasks_can_be_refused_by_name(run: Run, dsn: str) -> None:
    words = ["-a", "tasks:app", "defer", "elsewhere"]
    assert run(*words, "--unknown", INTURN_DSN=dsn).returncode == 0
    assert run(*words, "--no-unknown", INTURN_DSN=dsn).returncode == 3


def test_with_an_app_the_task_and_its_arguments_are_checked(run: Run, dsn: str) -> None:
    assert (
        run("-a", "tasks:app", "defer", "tasks.touch", "name=x", INTURN_DSN=dsn)
        .stdout.strip()
        .isdecimal()
    )
    wrong = run("defer", "-a", "tasks:app", "tasks.touch", "nam=x", INTURN_DSN=dsn)
    assert (wrong.returncode, "missing a required argument" in wrong.stderr) == (2, True)
    unknown = run("-a", "tasks:app", "defer", "tasks.tuch", "name=x", INTURN_DSN=dsn)
    assert (unknown.returncode, "Did you mean 'tasks.touch'?" in unknown.stderr) == (3, True)


def test_a_database_without_the_schema_is_exit_11(run: Run, empty_dsn: str) -> None:
    ended = run("defer", "far.away", "--dsn", empty_dsn)
    assert (ended.returncode, "queue migrate" in ended.stderr) == (11, True)


@pytest.mark.parametrize(
    ("words", "read"),
    [
        ([], {}),
        (['{"a": [1, {"b": null}]}'], {"a": [1, {"b": None}]}),
        (["a=1", "b=1.5", "c=true", "d=null"], {"a": 1, "b": 1.5, "c": True, "d": None}),
        (['e="1"', "f=[1]", "g="], {"e": "1", "f": [1], "g": ""}),
        (
            ["a=x=y", "b=01", "c=NaN", "d={not json"],
            {"a": "x=y", "b": "01", "c": "NaN", "d": "{not json"},
        ),
    ],
)
def test_values_are_json_where_they_are_json_and_else_text(
    words: list[str], read: dict[str, Any]
) -> None:
    assert task_arguments(words) == read


@pytest.mark.parametrize(
    "words",
    [
        ['{"a": 1, "a": 2}'],
        ['{"x": {"a": 1, "a": 2}}'],
        ['x={"a": 1, "a": 2}'],
        ["a=1", "a=2"],
        ["{"],
        ['{"a": NaN}'],
        ["{}", "a=1"],
        ["word"],
        ["=1"],
        ["a=" + 100_000 * "["],
        ["a=" + 5_000 * "1"],
    ],
)
def test_ambiguous_or_unreadable_arguments_are_refused(words: list[str]) -> None:
    with pytest.raises(BadArgument):
        task_arguments(words)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("1.5h", 5400), ("1h30m", 5400), ("2d", 172_800), ("1w", 604_800)],
)
def test_lengths_of_time(text: str, seconds: float) -> None:
    assert duration(CONTEXT, PARAMETER, text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "h", "1y", "-1h", "1h1h", "1h ", "1h-", "9" * 30 + "w"])
def test_an_invalid_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        duration(CONTEXT, PARAMETER, text)


def test_times_need_a_zone() -> None:
    assert moment(CONTEXT, PARAMETER, "2030-01-31T12:00:00Z") == datetime(
        2030, 1, 31, 12, tzinfo=UTC
    )
    for text in ("2030-01-31T12:00:00", "2030-01-31", "tomorrow", ""):
        with pytest.raises(click.BadParameter):
            moment(CONTEXT, PARAMETER, text)


def test_a_task_that_the_app_does_not_know_is_deferred_on_request(run: Run, dsn: str) -> None:
    words = ["-a", "tasks:app", "defer", "far.away", "a=1", "--dsn", dsn]
    assert run(*words).returncode == 3
    ended = run(*words, "--unknown")
    assert ended.returncode == 0, ended.stderr
    assert job(dsn, ended.stdout)["task"] == "far.away"
