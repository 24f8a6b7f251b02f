"""`queue schedules`: when each schedule fires, by the app and by what workers registered."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.engine import Engine

TASKS = """
from inturn import App

app = App()


@app.periodic(cron="30 9 * * MON-FRI", tz="Europe/Berlin", periodic_id="morning")
@app.periodic(cron="*/20 * * * *")
@app.task(name="report")
def report(timestamp: int) -> None: ...
"""


@pytest.fixture
def at_two(engine: Engine, folder: Path) -> Engine:
    """It is Saturday, two o'clock, and there is an app with schedules."""
    (folder / "periodic.py").write_text(TASKS)
    engine.at("2026-01-31 14:00:00+00")
    return engine


def register(engine: Engine, *columns: str) -> None:
    engine.query("SELECT register_schedules(ARRAY[%s], ARRAY[%s], ARRAY[%s], ARRAY[%s])", *columns)


def test_schedules_are_listed_with_their_next_instant_and_their_last_job(
    at_two: Engine, queue: Run
) -> None:
    register(at_two, "report", "", "*/20 * * * *", "UTC")
    at_two.query("UPDATE schedules SET last_instant = '2026-01-31 14:00:00+00', last_job_id = 7")
    at_two.at("2026-01-31 14:05:00+00")
    lines = queue("-a", "periodic:app", "schedules", "list").stdout.splitlines()
    assert queue("-a", "periodic:app", "schedules").stdout.splitlines() == lines
    assert [" ".join(line.split()) for line in lines] == [
        "TASK ID CRON ZONE NEXT LAST JOB NOTE",
        "report */20 * * * * UTC 14:20:00Z (in 15m00s) 5m00s ago 7",
        "report morning 30 9 * * MON-FRI Europe/Berlin 2026-02-02 08:30:00Z (in 1d18h) no worker has seen it yet",
    ]


def test_the_same_as_json(at_two: Engine, queue: Run) -> None:
    register(at_two, "report", "", "*/20 * * * *", "UTC")
    first, _ = json.loads(queue("-a", "periodic:app", "schedules", "list", "--json").stdout)
    assert first == {
        "task": "report",
        "periodic_id": "",
        "cron": "*/20 * * * *",
        "tz": "UTC",
        "next": "2026-01-31T14:20:00Z",
        "last_instant": None,
        "last_job_id": None,
        "note": "",
    }


def test_differences_between_the_app_and_the_workers_are_noted(at_two: Engine, queue: Run) -> None:
    register(at_two, "report", "", "*/5 * * * *", "UTC")
    register(at_two, "old", "", "@daily", "UTC")
    rows = json.loads(queue("-a", "periodic:app", "schedules", "list", "--json").stdout)
    assert [(row["task"], row["note"]) for row in rows] == [
        ("old", "not in periodic:app"),
        ("report", "workers use */5 * * * * in UTC"),
        ("report", "no worker has seen it yet"),
    ]


def test_without_an_app_the_schedules_of_workers_are_listed(at_two: Engine, queue: Run) -> None:
    nothing = "No task is periodic yet. Declare one with @app.periodic"
    name_app = ", and name your app with -a package.module:app"
    assert queue("schedules", "list").stderr == f"{nothing}{name_app}.\n"
    assert queue("-a", "tasks:app", "schedules", "list").stderr == f"{nothing}.\n"
    register(at_two, "never", "", "0 0 30 2 *", "UTC")
    lines = queue("schedules", "list").stdout.splitlines()
    assert " ".join(lines[1].split()) == "never 0 0 30 2 * UTC never"
    assert "No schedule will ever fire" in queue("schedules", "next").stderr


def test_the_next_instants_of_all_schedules(at_two: Engine, queue: Run) -> None:
    at_two.at("2026-02-02 08:00:00+00")
    lines = queue("-a", "periodic:app", "schedules", "next", "--count", "3").stdout.splitlines()
    assert [" ".join(line.split()) for line in lines] == [
        "AT THERE TASK ID",
        "08:20:00Z (in 20m00s) Mon 2026-02-02 08:20:00 UTC report",
        "08:30:00Z (in 30m00s) Mon 2026-02-02 09:30:00 Europe/Berlin report morning",
        "08:40:00Z (in 40m00s) Mon 2026-02-02 08:40:00 UTC report",
    ]


def test_the_next_instants_are_of_schedules_that_workers_have_registered_or_the_app_declares(
    at_two: Engine, queue: Run
) -> None:
    register(at_two, "old", "", "@daily", "UTC")
    [first, _] = json.loads(queue("schedules", "next", "--count", "2", "--json").stdout)
    assert (first["task"], first["at"]) == ("old", "2026-02-01T00:00:00Z")
    ahead = json.loads(queue("-a", "periodic:app", "schedules", "next", "--json").stdout)
    assert {each["task"] for each in ahead} == {"report"}, "the app has no other"


def test_schedules_of_a_blueprint_are_listed_by_the_names_that_its_tasks_have_in_the_app(
    at_two: Engine, queue: Run, folder: Path
) -> None:
    text = TASKS.replace("import App", "import App, Blueprint").replace(
        "app = App()", "app, shop = App(), Blueprint()"
    )
    added = "app.add_tasks_from(shop, namespace='shop')\n"
    (folder / "periodic.py").write_text(f"{text.replace('@app.', '@shop.')}\n\n{added}")
    rows = json.loads(queue("-a", "periodic:app", "schedules", "list", "--json").stdout)
    assert [row["task"] for row in rows] == ["shop:report", "shop:report"]


def test_a_bad_expression_is_one_line_that_says_where(
    at_two: Engine, queue: Run, folder: Path
) -> None:
    (folder / "periodic.py").write_text(TASKS.replace("*/20", "*/0"))
    ended = queue("-a", "periodic:app", "schedules", "list")
    assert ended.returncode == 2
    assert "cron: '*/0 * * * *': field 1, the minute, cannot be '*/0'. Use 0 to 59" in " ".join(
        ended.stderr.split()
    )
    assert "Traceback" not in ended.stderr


def test_a_schedule_that_a_wrong_clock_has_set_ahead_is_listed_with_the_time_at_which_it_fires(
    at_two: Engine, queue: Run
) -> None:
    register(at_two, "report", "", "*/20 * * * *", "UTC")
    at_two.query("UPDATE schedules SET last_instant = '2026-01-31 20:00:00+00'")
    [line] = json.loads(queue("schedules", "list", "--json").stdout)
    assert line["next"] == "2026-01-31T20:20:00Z"
    assert line["note"] == (
        "does not fire before 20:00:00Z (in 6h00m), because a clock was wrong: queue doctor"
    )
    first, _ = json.loads(queue("schedules", "next", "--count", "2", "--json").stdout)
    assert first["at"] == line["next"]
    at_two.query("UPDATE schedules SET last_instant = '2026-02-01 20:00:00+00'")  # it is ignored
    [line] = json.loads(queue("schedules", "list", "--json").stdout)
    assert (line["next"], line["note"]) == ("2026-01-31T14:20:00Z", "")
