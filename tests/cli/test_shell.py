"""`queue shell` and `queue healthchecks`."""

import re
import subprocess
from pathlib import Path

import psycopg
import pytest

from tests.cli.calling import SCRIPT, clean
from tests.cli.conftest import Run
from tests.cli.engine import Engine


def test_code_runs_with_the_app_and_functions_that_change_jobs(
    run: Run, dsn: str, engine: Engine
) -> None:
    code = "id = tasks['tasks.touch'].defer('x'); print(cancel(id), [job.status for job in list_jobs(id)])"
    ended = run("-a", "tasks:app", "shell", "--dsn", dsn, "-c", code)
    assert (ended.returncode, ended.stdout) == (0, "True ['cancelled']\n"), ended.stderr
    assert list(engine.statuses().values()) == ["cancelled"]


def test_it_waits_for_the_result_of_a_job(run: Run, dsn: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"`queue shell -c '(.*?)'`", page)
    id = run("-a", "tasks:app", "defer", "tasks.touch", "name=x", INTURN_DSN=dsn).stdout.strip()
    assert run("-a", "tasks:app", "worker", "--one-shot", INTURN_DSN=dsn).returncode == 0
    ended = run("shell", "-c", code.replace("4711", id), INTURN_DSN=dsn)
    assert (ended.returncode, ended.stdout) == (0, "None\n"), ended.stderr


def test_without_an_app_there_is_everything_but_tasks(queue: Run, engine: Engine) -> None:
    engine.defer("t", lock="ann")
    code = "print(list(tasks), list_locks()[0]['name'], lanes.pause('ann'), explain(1)[0].reason, app.job_manager is job_manager)"
    ended = queue("shell", "-c", code)
    assert (
        ended.stdout
        == "['builtin:inturn.builtin_tasks.remove_old_jobs', 'builtin:inturn.builtin_tasks.verify'] "
        "ann True lane paused True\n"
    ), ended.stderr


@pytest.mark.landing
def test_the_prompt_names_its_variables_and_survives_a_mistake(dsn: str, folder: Path) -> None:
    done = subprocess.run(
        [SCRIPT, "-a", "tasks:app", "shell", "--dsn", dsn],
        cwd=folder,
        env=clean({}),
        input="1 / 0\ntasks['tasks.touch'].defer('y')\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert "5 task names. You can use:" in done.stderr
    assert "ZeroDivisionError" in done.stderr
    assert "\n1\n" in done.stdout or ">>> 1\n" in done.stdout


def test_the_prompt_does_not_open_on_a_database_that_cannot_be_used(
    run: Run, empty_dsn: str
) -> None:
    assert run("shell", "--dsn", empty_dsn).returncode == 11
    assert run("shell", "--dsn", "postgresql://127.0.0.1:1/none").returncode == 69


def test_all_is_well(run: Run, dsn: str) -> None:
    ended = run("-a", "tasks:app", "healthchecks", "--dsn", dsn)
    assert ended.returncode == 0, ended.stderr
    assert (
        ended.stdout == "app: ok, 5 task names\nconnection: ok\nschema inturn: ok, revision 0001\n"
    )
    assert run("healthchecks", "--dsn", dsn).stdout.startswith("app: not checked")


@pytest.mark.parametrize(
    ("words", "status", "output"),
    [
        (["-a", "no:such"], 2, ""),
        (
            ["-a", "tasks:app", "--dsn", "postgresql://127.0.0.1:1/none"],
            69,
            "app: ok, 5 task names\n",
        ),
    ],
)
def test_the_status_says_what_is_wrong(
    run: Run, words: list[str], status: int, output: str
) -> None:
    ended = run("healthchecks", *words)
    assert (ended.returncode, ended.stdout) == (status, output), ended.stderr
    assert ended.stderr.startswith("error: ")


def test_a_database_without_the_schema_is_unhealthy(run: Run, empty_dsn: str) -> None:
    ended = run("healthchecks", "--dsn", empty_dsn)
    assert (ended.returncode, "queue migrate" in ended.stderr) == (11, True)


def test_the_schema_can_be_applied_by_the_flag_and_as_a_script(run: Run, empty_dsn: str) -> None:
    assert run("schema", "--read").stdout == run("schema", "sql").stdout
    assert run("schema", "--migrations-path").stdout.strip().endswith("versions")
    assert run("schema", "--read", "status").returncode == 2
    ended = run("schema", "sql", "--schema", "mine")
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(ended.stdout.encode())
    assert run("schema", "status", "--schema", "mine", "--dsn", empty_dsn).returncode == 0
    assert run("schema", "--apply", INTURN_DSN=empty_dsn).returncode == 0
    assert run("schema", "status", "--dsn", empty_dsn).returncode == 0
