"""docs/deploy.md names what there is."""

import re
import subprocess
import sys
from pathlib import Path

from tests.deploy.dockerfile import ROOT
from tests.deploy.promtool import DEPLOY
from tests.deploy.test_kubernetes import query

PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_page_names_every_file_for_deployment() -> None:
    links = set(re.findall(r"\]\(\.\./([^)#]+)\)", PAGE))
    assert {link for link in links if not (ROOT / link).exists()} == set()
    files = {
        str(file.relative_to(ROOT))
        for kind in ("systemd", "kubernetes")
        for file in (DEPLOY / kind).iterdir()
    }
    assert files | {"Dockerfile", "docker-compose.yml"} <= links


def test_the_query_on_the_page_is_that_of_keda() -> None:
    (told,) = blocks("sql")
    assert " ".join(told.rstrip(";\n").split()) == query().decode()


def test_the_dockerfile_on_the_page_passes_the_linter(tmp_path: Path) -> None:
    (text,) = blocks("dockerfile")
    file = tmp_path / "Dockerfile"
    file.write_text(text)
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([linter, file], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


def test_the_times_on_the_page_are_those_of_the_files() -> None:
    systemd = (DEPLOY / "systemd" / "inturn-worker@.service").read_text(encoding="utf-8")
    kubernetes = (DEPLOY / "kubernetes" / "worker.yaml").read_text(encoding="utf-8")
    compose = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?:let jobs|then kill).*$", PAGE, re.MULTILINE)
    assert len(rows) == 2
    for row in rows:
        first, second, third = re.findall(r"`([^`]+)`", row)
        assert first in systemd
        assert second in kubernetes
        assert re.sub(r"[ ]", '", "', third) in compose or third in compose
