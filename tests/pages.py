"""The code of a document, as files of a project and as single blocks."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def read_blocks(page: str, language: str = "python") -> list[str]:
    """Return the blocks of a page of docs/ in this language, in their order."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def write_files(page: str, folder: Path) -> list[str]:
    """Write the blocks that begin with the path of a file. Return the others."""
    others = []
    for block in read_blocks(page):
        named = re.match(r"# (\S+\.py)\n", block)
        if named is None:
            others.append(block)
        else:
            file = folder / named[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            (file.parent / "__init__.py").touch()
            file.write_text(block, encoding="utf-8")
    return others


def run_script(script: str, folder: Path, dsn: str, *arguments: str) -> str:
    """Run a script in a process of its own, with these files and this database."""
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=folder,
        env=os.environ | {"INTURN_DSN": dsn, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
