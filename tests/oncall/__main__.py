"""Start an incident in one terminal, and check in another whether you have solved it."""

import json
import re
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path

import yaml

from inturn.testing import Databases
from tests.deploy.promtool import RULES
from tests.oncall.incidents import INCIDENTS, Incident, is_over
from tests.oncall.scene import HASTE, Scene

STATE = Path(tempfile.gettempdir()) / "inturn-incident.json"
USAGE = "usage: python -m tests.oncall list | start NAME | check"


def render(incident: Incident) -> str:
    """Return the alert as it arrives, and what else people say."""
    if incident.alert is None:
        return f"No alert. {incident.told}"
    [group] = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    [rule] = [rule for rule in group["rules"] if rule["alert"] == incident.alert]
    text = "{summary}\n{description}".format(**rule["annotations"])
    text = re.sub(r"\{\{ \$value.*?\}\}", incident.value, text)
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: incident.labels[found[1]], text)
    return f"[{rule['labels']['severity']}] {incident.alert}: {text}\n{incident.told}"


def start(name: str) -> None:
    if STATE.exists():
        sys.exit(f"Another incident is open. Solve it first, or delete {STATE}.")
    incident = INCIDENTS[name]
    with (
        Databases() as databases,
        databases.clone() as dsn,
        tempfile.TemporaryDirectory() as folder,
        closing(Scene(dsn, Path(folder))) as scene,
    ):
        victims = incident.start(scene)
        state = {"name": name, "dsn": dsn, "folder": folder, "victims": victims}
        STATE.write_text(json.dumps(state), encoding="utf-8")
        print(f"{render(incident)}\n")
        haste = " ".join(f"{name}={value}" for name, value in HASTE.items())
        print(f"cd {folder}\nexport INTURN_DSN='{dsn}' INTURN_APP=own:app {haste}\n")
        print("Leave this running, and work in another terminal.\n", flush=True)
        try:
            while not is_over(scene, incident, victims):
                time.sleep(1)
            print("It is over. Look around. Enter removes the database and the folder.", flush=True)
            with suppress(EOFError):
                input()
        finally:
            STATE.unlink()


def check() -> int:
    if not STATE.exists():
        print("No incident is open. The terminal that started the last one says how it ended.")
        return 0
    state = json.loads(STATE.read_text(encoding="utf-8"))
    with closing(Scene(state["dsn"], Path(state["folder"]))) as scene:
        over = is_over(scene, INCIDENTS[state["name"]], state["victims"])
    print("It is over." if over else "It is not over: what customers wait for has not come.")
    return 0 if over else 1


def main(words: list[str]) -> int:
    match words:
        case ["list"]:
            print("\n".join(INCIDENTS))
        case ["start", name] if name in INCIDENTS:
            start(name)
        case ["check"]:
            return check()
        case _:
            print(USAGE, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
