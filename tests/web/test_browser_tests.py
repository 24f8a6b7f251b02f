"""The tests in a browser say so when they are left out, and what they bring along is what it says."""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.web.browser.chromium import MISSING, MUST, PATH

ROOT = Path(__file__).parents[2]
VENDOR = ROOT / "tests" / "web" / "browser" / "vendor"


def run_one(must: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "pytest", "tests/web/browser/test_attacks.py", "-k", "same_form"]
    names = {PATH: "/nowhere/chromium", MUST: must}
    return subprocess.run(
        words,
        cwd=ROOT,
        env={**os.environ, **names},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.proof
@pytest.mark.parametrize(("must", "status", "word"), [("", 0, "SKIPPED"), ("1", 1, "ERROR")])
def test_without_chromium_the_summary_says_so(must: str, status: int, word: str) -> None:
    done = run_one(must)
    assert done.returncode == status, done.stdout
    _, _, summary = done.stdout.partition("short test summary info")
    assert word in summary
    assert MISSING in (summary if word == "SKIPPED" else done.stdout)


def test_ci_leaves_nothing_out() -> None:
    ci = {name: (ROOT / ".ci" / name).read_text(encoding="utf-8") for name in ("run", "programs")}
    assert f"export {MUST}=1" in ci["run"]
    assert ".ci/programs\n" in ci["run"]
    packages = dict(re.findall(r"^(\S+) (\S+)$", ci["programs"], re.MULTILINE))
    shell = "chromium-headless-shell"
    assert packages.items() >= {"promtool": "prometheus", shell: shell}.items()


def test_what_is_vendored_is_what_was_published() -> None:
    assets = json.loads((VENDOR / "assets.json").read_text(encoding="utf-8"))
    assert {each["file"] for each in assets} == {file.name for file in VENDOR.glob("*.js")}
    for each in assets:
        assert hashlib.sha256((VENDOR / each["file"]).read_bytes()).hexdigest() == each["sha256"]
        assert (VENDOR / each["licence_file"]).is_file()
        assert each["version"] in (VENDOR / each["file"]).read_text(encoding="utf-8")[:100]
