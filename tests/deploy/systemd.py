"""Units of systemd, read as systemd reads them, and checked by its own tool."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.promtool import DEPLOY

FOLDER = DEPLOY / "systemd"
UNITS = sorted(FOLDER.glob("*.service"))
Settings = dict[str, list[str]]


def read(unit: Path) -> dict[str, Settings]:
    """Return the settings of each section. A setting may stand there several times."""
    sections: dict[str, Settings] = {}
    settings: Settings = {}
    for line in unit.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            settings = sections.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            settings.setdefault(name, []).append(value)
    return sections


def service(name: str) -> Settings:
    return read(FOLDER / name)["Service"]


def seconds(settings: Settings, name: str) -> int:
    (value,) = settings[name]
    return int(value)


def install(folder: Path, units: list[Path]) -> Path:
    """Return a root in which the units and the programs that they start are installed."""
    unit_folder = folder / "etc/systemd/system"
    targets = folder / "usr/lib/systemd/system"
    for each in (unit_folder, targets):
        each.mkdir(parents=True)
    for unit in units:
        shutil.copy(unit, unit_folder)
        for line in read(unit)["Service"]["ExecStart"]:
            program = folder / line.split()[0].lstrip("/")
            program.parent.mkdir(parents=True, exist_ok=True)
            program.touch(mode=0o755)
    for name in ("basic", "multi-user", "network-online", "shutdown", "sysinit"):
        (targets / f"{name}.target").write_text("[Unit]\nDefaultDependencies=no\n")
    return folder


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.fail("systemd-analyze is not installed. On Debian: apt-get install systemd")
    return subprocess.run(
        [program, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def verify(root: Path, units: list[Path]) -> subprocess.CompletedProcess[str]:
    """Load the units as systemd does. An unknown setting or a wrong value is a warning there."""
    names = [unit.name.replace("@.", "@1.") for unit in units]
    return analyze("verify", "--man=no", f"--root={root}", *names)
