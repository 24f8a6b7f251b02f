"""requirements/*.txt (`make lock`) pins all that CI and the image install."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
GROUPS = PROJECT["optional-dependencies"]
EXTRAS = {
    "ci": [*GROUPS],
    "demo": ["dev"],
    "image": ["cli", "metrics", "migrate", "redis", "web"],
    "build": [],
    "docs": [],
}
FILES = {
    "ci": ["build", "test"],
    "demo": ["build"],
    "image": [],
    "build": ["build"],
    "docs": ["docs"],
}
NAME = re.compile(r"[A-Za-z0-9_.-]+")


def named(line: str) -> str:
    found = NAME.match(line)
    assert found, line
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def locked(lock: str) -> dict[str, list[str]]:
    """Return each requirement by its name, with its lines."""
    lines = [
        line
        for line in (ROOT / f"requirements/{lock}.txt").read_text().splitlines()
        if "#" not in line
    ]
    found: dict[str, list[str]] = {}
    for line in lines:
        if not line.startswith(" "):
            assert re.match(r"[a-z0-9.-]+==\S+ ", line), (
                line
            )  # one version, and no option such as the address of a registry
            found[f"{named(line)} {line}"] = []
        else:
            found[list(found)[-1]].append(line.strip(" \\"))
    return found


def expanded(extra: str) -> list[str]:
    """Return what an extra asks for, and the extras that it names."""
    found: list[str] = []
    for line in GROUPS[extra]:
        own = re.fullmatch(r"inturn\[([a-z,]+)\]", line)
        if own is None:
            found.append(line)
        else:
            found += [each for name in own[1].split(",") for each in expanded(name)]
    return found


@pytest.mark.parametrize("lock", EXTRAS)
def test_every_requirement_is_one_version_with_hashes(lock: str) -> None:
    for requirement, lines in locked(lock).items():
        assert lines, requirement
        assert all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", line) for line in lines), requirement


@pytest.mark.parametrize("lock", EXTRAS)
def test_everything_that_the_project_asks_for_is_there(lock: str) -> None:
    """If this fails after you added a dependency, run `make lock`."""
    asked = [] if lock in ("build", "docs") else [*PROJECT["dependencies"]]
    for extra in EXTRAS[lock]:
        asked += expanded(extra)
    for file in FILES[lock]:
        lines = (ROOT / f"requirements/{file}.in").read_text().splitlines()
        asked += [line for line in lines if not line.startswith("#")]
    assert {named(line) for line in asked} <= {
        requirement.partition(" ")[0] for requirement in locked(lock)
    }


@pytest.mark.parametrize("lock", EXTRAS)
def test_a_lock_file_names_no_place(lock: str) -> None:
    text = (ROOT / f"requirements/{lock}.txt").read_text()
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text
