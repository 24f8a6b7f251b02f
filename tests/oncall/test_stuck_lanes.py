"""Each way to stand still is named by every face, and the command that they print ends it.

The faces are the metric, the alert, `queue doctor`, `queue jobs explain`, `queue top` and the first
line of the dashboard.
"""

import json
import os
import re
import shlex
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from inturn.cli.output.exit_status import UNHEALTHY
from tests.cli.calling import invoke
from tests.cli.conftest import Answer
from tests.deploy.promtool import RULES, as_series, evaluate
from tests.metrics.test_database import look
from tests.oncall.kinds import KINDS, Kind, Make
from tests.oncall.scene import LANE, Scene
from tests.oncall.verdict import check_verdict, read_verdict

pytestmark = pytest.mark.landing

STEPS = 3  # commands to type until one prints the command that helps


@pytest.fixture
def scene(dsn: str, folder: Path) -> Iterator[Scene]:
    with closing(Scene(dsn, folder)) as scene:
        yield scene


def ask(scene: Scene, *words: str) -> Any:
    done = invoke(*words, "--json", folder=scene.folder, env=scene.environment())
    assert done.returncode in (0, UNHEALTHY), done.output
    return json.loads(done.stdout)


def find_command(alert: str) -> str:
    """Return the command that the alert tells people to run."""
    [group] = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    [rule] = [rule for rule in group["rules"] if rule["alert"] == alert]
    return str(rule["annotations"]["description"]).partition("Run: ")[2]


# ------------------------------------------------------------------ the faces


def check_metrics(scene: Scene, kinds: list[Kind], folder: Path, *, named: bool = True) -> None:
    """Check that the metrics say so, and that the alerts fire if it goes on like this."""
    expected = []
    for kind in kinds:
        metric = kind.metric if "bool" in kind.metric else f"{kind.metric} > bool 0"
        firing = f'count(ALERTS{{alertname="{kind.alert}",alertstate="firing"}}) or vector(0)'
        expected.append((f"max({metric} or vector(0)) == bool {int(named)}", ["{}"]))
        expected.append((f"({firing}) == bool {int(named)}", ["{}"]))
    samples = look(scene.dsn)
    done = evaluate(folder, as_series(samples, counters_rise=False), expected)
    assert done.returncode == 0, done.stdout + done.stderr + samples.text


def ask_doctor(scene: Scene, kind: Kind) -> list[str]:
    """Return the advice of the check that names it, and what it says."""
    [found] = [found for found in ask(scene, "doctor") if found["check"] == kind.doctor]
    assert found["state"] != "ok", found
    return [str(found["advice"]), found["detail"].lower()]


def ask_top(scene: Scene, kind: Kind) -> str | None:
    """Return the command beside the lane, if there is one."""
    seen = ask(scene, "top", "--once")
    if kind.top in seen:
        assert seen[kind.top], seen
        return None
    [lane] = [lane for lane in seen["troubled"] if lane["lock"] == LANE]
    assert lane["state"] == kind.top, lane
    return None if lane["unblock"] is None else str(lane["unblock"])


def explain(scene: Scene, job: int, kind: Kind) -> list[str]:
    """Return what would unblock the job."""
    reasons = ask(scene, "jobs", "explain", str(job))
    assert kind.explain in [each["reason"] for each in reasons], reasons
    assert kind.says in " ".join(each["detail"] for each in reasons), reasons
    return [each["unblock"] for each in reasons if each["unblock"]]


def lead(scene: Scene, advice: list[str], start: str) -> str:
    """Follow advice that only tells more, until it has the command that begins so."""
    for _ in range(STEPS):
        for command in advice:
            if start in plain(command):
                return plain(command)[plain(command).index(start) :]
        printed = "".join(scene.type(each) for each in advice if tells_more(each))
        advice = re.findall(r"(?:unblock|do): (.*)", printed)
        advice += re.findall(r": (queue .*)$", printed, re.MULTILINE)  # a remark
    pytest.fail(f"no way from {advice} to {start}")


def tells_more(command: str) -> bool:
    return bool(re.match(r"queue (\w+ (explain|show|list)|doctor)\b", command))


def plain(command: str) -> str:
    return command.replace("queue -a own:app", "queue")


# ------------------------------------------------------------------ what ends it


def follow(scene: Scene, command: str, answer: Answer) -> None:
    """Do what the command says, as somebody would who reads it."""
    if "pg_terminate_backend" in command:
        scene.engine.query(command[command.index("SELECT") :])
    elif killed := re.search(r"kill -9 (\d+) on", command):
        os.kill(int(killed[1]), signal.SIGKILL)
    elif re.match(r"queue (-a \S+ )?worker\b", command):
        scene.start(command)
    elif "--abort" in command:  # it asks whether you are sure
        words = shlex.split(command)[1:]
        done = answer("y", *words)
        assert done.returncode == 0, done.stderr
    elif command.startswith("queue "):
        scene.type(command)


@pytest.mark.fresh_database
@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_each_face_names_a_lane_that_stands_still_and_the_command_ends_it(
    make: Make, scene: Scene, tmp_path: Path, answer: Answer
) -> None:
    kind = KINDS[make]
    job = make(scene)
    check_metrics(scene, [kind], tmp_path)
    alert = find_command(kind.alert)
    assert kind.shows in scene.type(alert)
    doctor = ask_doctor(scene, kind)
    advice = explain(scene, job, kind)
    on_top = ask_top(scene, kind)
    check_verdict(scene.dsn, kind.doctor)
    if kind.command is not None:
        command = lead(scene, advice, kind.command)
        led = lead(scene, doctor, kind.command)
        assert led == command or kind.command == "deploy"
        if "doctor" in alert:
            lead(scene, [alert], kind.command)
        if on_top is not None:
            assert lead(scene, [on_top], kind.command) == command
        assert scene.status(job) not in ("doing", "succeeded"), "it went on by itself"
        scene.create("provider is back")
        follow(scene, command, answer)
    kind.ends(scene)
    if not scene.engine.query("SELECT 1 FROM worker_status WHERE state = 'live'"):
        scene.work()
    scene.until_status(job, "succeeded")


def test_a_lane_that_moves_is_named_by_no_face(scene: Scene, tmp_path: Path) -> None:
    scene.work("-c 2")
    scene.defer("load")
    scene.until_there("loading")
    behind = scene.defer("send")
    kinds = [kind for kind in KINDS.values() if not kind.metric.startswith("inturn_lane_max")]
    check_metrics(scene, kinds, tmp_path, named=False)
    assert {found["state"] for found in ask(scene, "doctor")} == {"ok"}
    assert read_verdict(scene.dsn).headline == "All lanes are moving."
    assert [lane["unblock"] for lane in ask(scene, "top", "--once")["troubled"]] == [None]
    reasons = ask(scene, "jobs", "explain", str(behind))
    assert [(each["reason"], each["unblock"]) for each in reasons] == [("lane held", None)]
