"""The units of systemd: loaded by its own tool, and in step with the worker that they start."""

import shlex
from pathlib import Path

import pytest

from inturn.cli.output import exit_status
from inturn.worker.worker import ABORT_SECONDS, LEAVE_SECONDS
from tests.deploy.command_line import parse
from tests.deploy.systemd import FOLDER, UNITS, analyze, install, read, seconds, service, verify

WORKER, MIGRATE = "inturn-worker@.service", "inturn-migrate.service"


def test_systemd_loads_the_units_without_a_word(tmp_path: Path) -> None:
    done = verify(install(tmp_path, UNITS), UNITS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("ProtectSystem=strict", "ProtectSystem=very", "ignoring: very"),
        ("WatchdogSec=60", "WatchdogSeconds=60", "WatchdogSeconds"),
        ("/opt/inturn/bin/queue", "/opt/inturn/queue", "not executable"),
    ],
    ids=["a wrong value", "an unknown setting", "a program that is not there"],
)
def test_systemd_would_name_a_mistake(tmp_path: Path, right: str, wrong: str, words: str) -> None:
    root = install(tmp_path, UNITS)
    unit = root / "etc/systemd/system" / WORKER
    text = unit.read_text(encoding="utf-8")
    assert right in text
    unit.write_text(text.replace(right, wrong))
    done = verify(root, UNITS)
    assert words in done.stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_can_do_little_beyond_its_work(unit: Path, tmp_path: Path) -> None:
    """2.0 is what systemd calls OK. A service without any of these settings has 9.6."""
    root = install(tmp_path, UNITS)
    name = unit.name.replace("@.", "@1.")
    done = analyze("security", "--offline=yes", f"--root={root}", "--threshold=20", name)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_starts_a_command_of_ours_and_shows_nobody_a_password(unit: Path) -> None:
    settings = read(unit)["Service"]
    (line,) = settings["ExecStart"]
    program, *words = shlex.split(line)
    assert program == "/opt/inturn/bin/queue"
    assert "--dsn" not in words  # everybody may see arguments
    assert "Environment" not in settings  # and these, with `systemctl show`
    (file,) = settings["EnvironmentFile"]
    assert file.startswith("/etc/inturn/")  # not "-/etc": a unit without its file shall not start
    command, _ = parse(words, {})
    assert unit.name.startswith(f"inturn-{command}")
    assert settings["User"] == ["inturn"]


def test_the_worker_speaks_to_systemd_and_is_watched() -> None:
    settings = service(WORKER)
    assert settings["Type"] == ["notify"]
    assert "NotifyAccess" not in settings  # the main process speaks
    # The worker counts its event loop as dead after ten seconds in `live`. Be no stricter.
    assert seconds(settings, "WatchdogSec") > 10
    assert settings["Restart"] == ["always"]


def test_a_stop_lets_jobs_end_and_aborts_them_before_systemd_kills() -> None:
    settings = service(WORKER)
    options = parse(shlex.split(settings["ExecStart"][0])[1:], {})[1]
    limit = options["shutdown_graceful_timeout"] + ABORT_SECONDS + LEAVE_SECONDS
    assert seconds(settings, "TimeoutStopSec") > limit
    assert settings["KillMode"] == ["mixed"]
    assert "KillSignal" not in settings  # SIGTERM


def test_a_worker_is_started_again_unless_only_a_person_can_repair_it() -> None:
    settings = service(WORKER)
    assert settings["RestartPreventExitStatus"] == [str(exit_status.USAGE)]
    assert read(FOLDER / WORKER)["Unit"]["StartLimitIntervalSec"] == ["0"]


def test_the_schema_comes_before_the_workers_and_an_upgrade_does_not_stop_them() -> None:
    unit = read(FOLDER / WORKER)["Unit"]
    assert MIGRATE in unit["After"][0].split()
    assert MIGRATE in unit["Wants"][0].split()
    assert not {"Requires", "BindsTo", "PartOf"} & unit.keys()
    settings = service(MIGRATE)
    assert settings["Type"] == ["oneshot"]
    assert settings["RemainAfterExit"] == ["yes"]  # or each start of a worker would run it again
