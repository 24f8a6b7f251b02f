"""A Dockerfile in parts, and its stage `build` executed in a folder instead of a container."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUTSIDE = re.compile(r"(?<![\w.])/(?=opt/)")  # paths of the image


@dataclass
class Stage:
    """What follows one FROM. `base` is an image, or the name of a stage above."""

    base: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def of(self, instruction: str) -> list[str]:
        return [rest for word, rest in self.steps if word == instruction]

    def last(self, instruction: str) -> str:
        return self.of(instruction)[-1]


def parse(text: str) -> list[Stage]:
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE)
    stages: list[Stage] = []
    for line in re.sub(r"\\\n", " ", text).splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            stages.append(Stage(base, name))
        elif word:
            stages[-1].steps.append((word, " ".join(rest.split())))
    return stages


def exec_form(rest: str) -> list[str]:
    """Return the words of a command that is started without a shell."""
    words = json.loads(rest[rest.index("[") :])
    assert all(isinstance(word, str) for word in words)
    return list(words)


def is_sent(path: str) -> bool:
    """Return True if .dockerignore lets a file or folder of the checkout into the build."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines
    return f"!{path}" in lines


def execute(stage: Stage, folder: Path) -> None:
    """Do in `folder` what the stage does at `/`. It needs the registry of packages."""
    here = folder
    for word, rest in stage.steps:
        if word == "WORKDIR":
            here = folder / rest.lstrip("/")
            here.mkdir(parents=True)
        elif word == "COPY":
            _copy(rest.split(), here)
        elif word == "RUN":
            _run(OUTSIDE.sub(f"{folder}/", rest), here)
        else:
            raise AssertionError(f"unknown here: {word} {rest}")


def _copy(words: list[str], here: Path) -> None:
    *sources, target = words
    for each in sources:
        source = ROOT / each
        into = here / target
        if source.is_dir():
            shutil.copytree(source, into, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            into.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, into)


def _run(script: str, here: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-ec", script],
        cwd=here,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
