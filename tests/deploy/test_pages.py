"""docs/deploy.md and docs/upgrade.md name what there is, and their commands are ours."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.command_line import parse
from tests.deploy.dockerfile import ROOT
from tests.deploy.promtool import DEPLOY
from tests.deploy.test_kubernetes import query

PAGES = {name: (ROOT / "docs" / f"{name}.md").read_text() for name in ("deploy", "upgrade")}


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGES[page], re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    """Return every command of ours in the shell blocks and in the text."""
    found = []
    for page in PAGES:
        for language in ("sh", "console"):
            for line in "\n".join(blocks(page, language)).splitlines():
                found += re.findall(r"^(?:\$ )?(queue .*?)(?: {2,}#.*)?$", line)
        text = re.sub(r"^```.*?^```", "", PAGES[page], flags=re.MULTILINE | re.DOTALL)
        found += re.findall(r"`(queue [^`]+)`", text)
    return found


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_a_command_on_the_pages_is_one_of_ours(command: str) -> None:
    words = shlex.split(command)[1:]
    missing = {"--to": "0001"}.get(words[-1])  # the text says which value
    if words == ["schema", "--migrations-path"]:
        return  # an option of a group: tests/cli/test_schema.py runs it
    if words[:2] == ["health", "live"]:
        words += ["--port", "8081"]
    parse([*words, *([missing] if missing else [])], {})


def test_the_page_names_every_file_for_deployment() -> None:
    links = set(re.findall(r"\]\(\.\./([^)#]+)\)", PAGES["deploy"]))
    assert {link for link in links if not (ROOT / link).exists()} == set()
    files = {
        str(file.relative_to(ROOT))
        for kind in ("systemd", "kubernetes")
        for file in (DEPLOY / kind).iterdir()
    }
    assert files | {"Dockerfile", "docker-compose.yml"} <= links


def test_the_query_on_the_page_is_that_of_keda() -> None:
    (told,) = blocks("deploy", "sql")
    assert " ".join(told.rstrip(";\n").split()) == query().decode()


def test_the_dockerfile_on_the_page_passes_the_linter(tmp_path: Path) -> None:
    (text,) = blocks("deploy", "dockerfile")
    file = tmp_path / "Dockerfile"
    file.write_text(text)
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([linter, file], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


def test_the_times_on_the_page_are_those_of_the_files() -> None:
    systemd = (DEPLOY / "systemd" / "inturn-worker@.service").read_text(encoding="utf-8")
    kubernetes = (DEPLOY / "kubernetes" / "worker.yaml").read_text(encoding="utf-8")
    compose = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?:let jobs|then kill).*$", PAGES["deploy"], re.MULTILINE)
    assert len(rows) == 2
    for row in rows:
        first, second, third = re.findall(r"`([^`]+)`", row)
        assert first in systemd
        assert second in kubernetes
        assert re.sub(r"[ ]", '", "', third) in compose or third in compose
