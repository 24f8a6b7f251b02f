"""The commands that the README shows to a newcomer work."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from string import ascii_lowercase

from tests.cli.conftest import Run

ROOT = Path(__file__).parents[2]


def test_the_example_runs_and_is_the_one_that_is_shipped(run: Run, dsn: str, folder: Path) -> None:
    example = (ROOT / "examples" / "letters.py").read_text(encoding="utf-8")
    assert f"```python\n{example}```" in (ROOT / "README.md").read_text(encoding="utf-8")
    shutil.copy(ROOT / "examples" / "letters.py", folder)
    environment = {"INTURN_DSN": dsn, "PYTHONPATH": str(ROOT / "queue")}
    subprocess.run([sys.executable, "letters.py"], cwd=folder, env=environment, check=True)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^queue (-a letters:app worker.*?)  +#", text, re.MULTILINE)
    ended = run(*command.split(), "--one-shot", INTURN_DSN=dsn)
    assert ended.stdout.strip() == " ".join(ascii_lowercase), ended.stderr
    assert f"\n{ended.stdout.strip()}\n```" in text, "the README shows what it prints"
    assert ended.stderr == ""
