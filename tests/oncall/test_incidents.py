"""Each incident is real, and recorded commands end it."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.oncall.__main__ import main, render
from tests.oncall.incidents import INCIDENTS, is_over
from tests.oncall.scene import Scene
from tests.oncall.verdict import ask_doctor, check_verdict, read_verdict

pytestmark = pytest.mark.landing


@pytest.fixture
def scene(dsn: str, folder: Path) -> Iterator[Scene]:
    with closing(Scene(dsn, folder)) as scene:
        yield scene


@pytest.mark.parametrize("name", INCIDENTS)
def test_an_incident_lasts_until_the_commands_that_solve_it(name: str, scene: Scene) -> None:
    incident = INCIDENTS[name]
    victims = incident.start(scene)
    assert not is_over(scene, incident, victims)
    if incident.doctor is None:
        assert (read_verdict(scene.dsn).state, ask_doctor(scene.dsn)) == ("ok", {})
    else:
        check_verdict(scene.dsn, incident.doctor)
    for command in incident.solution:
        assert not is_over(scene, incident, victims), f"it was over before: {command}"
        if re.match(r"queue (-a \S+ )?worker\b", command):
            scene.make_due()
            scene.start(command)
        elif command.startswith(("SELECT ", "UPDATE ")):  # in psql
            scene.engine.query(command)
        else:
            scene.type(command)
    scene.until(lambda: is_over(scene, incident, victims))


@pytest.mark.parametrize("name", INCIDENTS)
def test_what_the_person_on_call_is_told_is_an_alert_or_a_complaint(name: str) -> None:
    told = render(INCIDENTS[name])
    assert told.endswith(INCIDENTS[name].told)
    assert "{{" not in told


def test_there_are_ten_and_a_wrong_name_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(INCIDENTS) == 10
    assert main(["list"]) == 0
    assert capsys.readouterr().out.split() == list(INCIDENTS)
    assert main(["start", "nothing"]) == 2
