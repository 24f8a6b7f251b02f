"""The fixtures and docs/testing.md, in separate runs of pytest."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from inturn.testing import Databases

ROOT = Path(__file__).parents[2]
# Name the plugin in case it is not installed. If it is, do not load it twice.
PLUGIN = (
    "-p",
    "no:inturn",
    "-p",
    "inturn.testing.plugin",
    "-p",
    "no:cacheprovider",
    "-W",
    "error::ResourceWarning",
)
APP = """
from inturn import App

app = App()


@app.task
def fail():
    raise ValueError("no such parcel")
"""


@pytest.fixture
def inner(
    pytester: pytest.Pytester, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> pytest.Pytester:
    """Run pytest inside pytest, on the server of this session."""
    monkeypatch.setenv("INTURN_TEST_DSN", databases.server_dsn)
    pytester.syspathinsert()
    return pytester


def run(inner: pytest.Pytester, *options: str) -> pytest.RunResult:
    # Tests of Django, if they ran before in this process, have set it up.
    return inner.runpytest_inprocess("-p", "no:django", *PLUGIN, *options)


@pytest.mark.landing
def test_the_guide_works_as_it_stands(inner: pytest.Pytester) -> None:
    text = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    snippets = re.findall(r"```(?:python|toml)\n# (\S+)\n(.*?)```", text, re.DOTALL)
    assert len(snippets) == text.count("```") // 2
    for name, code in snippets:
        (inner.path / name).write_text(code, encoding="utf-8")
    shown = ("test_shop.py", "test_shop_async.py", "test_orders.py", "test_flow.py")
    run(inner, *shown).assert_outcomes(passed=10)
    (inner.path / "conftest.py").unlink()  # the app is named only in the settings
    run(inner, "test_shop.py", "test_shop_async.py").assert_outcomes(passed=6)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "unittest", "test_unittest"],
        cwd=inner.path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Ran 1 test" in done.stderr


def test_each_test_has_a_database_of_its_own(inner: pytest.Pytester) -> None:
    inner.makepyfile(shop=APP)
    inner.makeini("[pytest]\ninturn_app = shop:app\n")
    inner.makepyfile("""
        import pytest
        import shop

        @pytest.mark.parametrize("number", [1, 2])
        def test_it(inturn_queue, number):
            inturn_queue.assert_enqueued(count=0)
            shop.fail.defer()
    """)
    run(inner).assert_outcomes(passed=2)


def test_a_failure_shows_the_line_of_the_test_and_not_how_the_helper_works(
    inner: pytest.Pytester,
) -> None:
    inner.makepyfile(shop=APP)
    inner.makeini("[pytest]\ninturn_app = shop:app\n")
    inner.makepyfile("""
        import shop

        def test_enqueued(inturn_queue):
            shop.fail.configure(lock="a").defer()
            inturn_queue.assert_enqueued(shop.fail, lock="b")

        def test_drain(inturn_queue):
            shop.fail.defer()
            inturn_queue.drain()

        def test_perform(inturn_queue):
            inturn_queue.perform(shop.fail)
    """)
    result = run(inner, "--show-capture=no")
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            '>       inturn_queue.assert_enqueued(shop.fail, lock="b")',
            "E       AssertionError: Expected a waiting job of shop.fail, lock 'b', found none.",
            "E       The most similar jobs:",
            'E         job 1 shop.fail(), lock "a", todo',
            "E             lock: 'a', not 'b'",
            "test_*.py:5: AssertionError",
            ">       inturn_queue.drain()",
            '>       raise ValueError("no such parcel")',
            "E       ValueError: no such parcel",
            "E       raised by job 1 of task shop.fail, attempt 1",
            ">       inturn_queue.perform(shop.fail)",
            '>       raise ValueError("no such parcel")',
        ]
    )
    result.stdout.no_fnmatch_line("*inturn/testing/*")
    result.stdout.no_fnmatch_line("*anyio*: in *")


def test_without_an_app_it_says_how_to_name_one(inner: pytest.Pytester) -> None:
    inner.makepyfile("def test_it(inturn_queue): ...")
    result = run(inner)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(['*Add `inturn_app = "package.module:app"` to pytest\'s settings*'])


@pytest.mark.landing
def test_a_template_with_an_open_connection_is_explained(inner: pytest.Pytester) -> None:
    inner.makeconftest("""
        import psycopg
        import pytest

        @pytest.fixture(scope="session")
        def inturn_prepare():
            opened = []
            yield lambda dsn: opened.append(psycopg.connect(dsn))
            for connection in opened:
                connection.close()
    """)
    inner.makepyfile("def test_it(inturn_database): ...")
    result = run(inner)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*Close every connection in `prepare`*"])


def test_a_server_can_be_named_by_a_fixture(
    inner: pytest.Pytester, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTURN_TEST_DSN", "postgresql://nowhere.invalid/")
    inner.makeconftest(f"""
        import pytest

        @pytest.fixture(scope="session")
        def inturn_server():
            return {databases.server_dsn!r}
    """)
    inner.makepyfile("def test_it(inturn_database): ...")
    run(inner).assert_outcomes(passed=1)


def test_the_plugin_is_registered() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"inturn": "inturn.testing.plugin"}


def test_a_start_of_pytest_loads_no_driver() -> None:
    look = "import sys, inturn.testing.plugin; print(sorted({'psycopg', 'sqlalchemy', 'anyio', 'alembic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
