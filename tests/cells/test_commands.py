"""`queue` over cells: create, migrate, read, change and measure."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path

import click
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from inturn import App
from inturn.cells.creating import TEXT
from inturn.cells.map_file import write_server
from inturn.cli.arguments.confirm import confirm
from inturn.cli.output.printing import Output, remark
from inturn.cli.over_cells import run_over_cells
from inturn.cli.settings import Settings
from inturn.database.connectors import PsycopgConnector
from inturn.tasks.lanes import cell_of
from tests.cells.conftest import AT, COUNT
from tests.cells.test_app import AWAY, LOCKS
from tests.cli.calling import SCRIPT, Ended, clean, invoke
from tests.cli.terminal import Terminal

NIGHTS = """\
from inturn import App

app = App()


@app.periodic(cron="0 3 * * *", periodic_id="five")
@app.task
def tidy(timestamp: int) -> None: ...
"""
SERVER = '[[servers]]\ndsn = "{}"\ncells = {}\n'


class Queue:
    """`queue` with a map of cells."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __call__(self, *words: str) -> Ended:
        return invoke(*words, env={"INTURN_CELLS": str(self.file), "USER": "eve"})

    def records(self, *words: str) -> list[dict[str, object]]:
        done = self(*words, "--json")
        assert done.returncode == 0, done.output
        found: list[dict[str, object]] = json.loads(done.stdout)
        return found


def write_map(file: Path, dsns: list[str], at: list[int], map: str) -> Path:
    servers = [
        SERVER.format(dsn, [cell for cell in range(COUNT) if at[cell] == server])
        for server, dsn in enumerate(dsns)
    ]
    file.write_text(f'map = "{map}"\nof = {COUNT}\n' + "".join(servers))
    return file


@pytest.fixture
def queue(dsns: list[str], tmp_path: Path) -> Queue:
    with psycopg.connect(dsns[0]) as connection:
        [(map,)] = connection.execute("SELECT map FROM inturn_00.cell").fetchall()
    return Queue(write_map(tmp_path / "cells.toml", dsns, AT, map))


@pytest.fixture
def halted(queue: Queue, homes: list[PsycopgConnector]) -> Queue:
    """The same, with a map in which cell 6 has no server."""
    text = queue.file.read_text().replace("cells = [5, 6, 7]", "cells = [5, 7]")
    queue.file.write_text(text + SERVER.format(AWAY + "?connect_timeout=1", [6]))
    return queue


def test_the_first_step_is_eight_cells_on_one_server(empty: list[str], tmp_path: Path) -> None:
    file = tmp_path / "cells.toml"
    made = invoke("cells", "create", "--dsn", empty[0], "--file", str(file), "--count", "2")
    assert made.returncode == 0, made.output
    assert made.stdout.splitlines()[0] == f"wrote {file}: 2 cells"
    assert made.stdout.count("created") == 2
    assert f"INTURN_CELLS={file}" in made.stderr
    assert file.stat().st_mode & 0o777 == 0o600
    assert tomllib.loads(file.read_text())["of"] == 2
    queue = Queue(file)
    again = queue("cells", "create")
    assert again.stdout.count("up to date") == 2
    assert queue("migrate").stdout.count("up to date") == 2
    assert queue("schema", "status").returncode == queue("healthchecks").returncode == 0
    listed = queue.records("cells", "list")
    assert [row["schema"] for row in listed] == ["inturn_00", "inturn_01"]
    assert queue("cells", "check").stdout.count(" ok\n") == 2


def test_a_map_is_written_only_for_a_server_that_can_have_it(
    empty: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "inturn_cells.toml"
    assert invoke("cells", "create", "--dsn", AWAY).returncode == 69
    assert invoke("cells", "create", env={"INTURN_DSN": ""}).returncode == 2
    assert not file.exists()
    away = invoke("cells", "create", "--dsn", empty[0], "--file", "away/cells.toml")
    assert (away.returncode, "cells.toml cannot be written" in away.stderr) == (2, True), away
    made = invoke("cells", "create", "--dsn", empty[0], "--count", "2")
    assert f"INTURN_CELLS={file}" in made.stderr
    lost = invoke("cells", "create", "--dsn", empty[0], "--file", "other.toml")
    map = tomllib.loads(file.read_text())["map"]
    assert (lost.returncode, f'map = "{map}", of = 2' in lost.stderr) == (2, True), lost.output
    assert not (tmp_path / "other.toml").exists()


def test_options_that_contradict_the_map_are_refused(empty: list[str], tmp_path: Path) -> None:
    create = ("cells", "create", "--file", str(tmp_path / "cells.toml"))
    assert invoke(*create, "--dsn", empty[0], "--count", "2").returncode == 0
    assert invoke(*create, "--dsn", empty[0], "--count", "2").returncode == 0
    for words in (["--count", "3"], ["--dsn", empty[1]], ["--schema", "jobs"]):
        done = invoke(*create, *words)
        assert (done.returncode, words[0] in done.stderr) == (2, True), done.output


def test_an_interrupted_create_is_finished_by_another(
    empty: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cells.toml"
    file.write_text(
        TEXT.format(map="6d9f3c1e-9d3c-4b0e-8f0a-6f0c5b7e2d11", of=2)
        + write_server({"cells": [0]})
        + SERVER.format(AWAY, [1])
    )
    env = {"INTURN_DSN": empty[0], "INTURN_CELLS": str(file)}
    broken = invoke("cells", "create", env=env)
    assert (broken.returncode, broken.stdout.count("created")) == (69, 1)
    file.write_text(file.read_text().replace(AWAY, empty[1]))
    asked = invoke("cells", "create", env=env)
    assert "Have the others (1) never existed? If they have moved, the map is old" in asked.stderr
    done = invoke("cells", "create", "--yes", env=env)
    assert (done.stdout.count("up to date"), done.stdout.count("created")) == (1, 1)


def test_reads_ask_all_cells_and_name_the_cell_of_each_row(queue: Queue, app: App) -> None:
    assert queue("jobs", "list").stderr == "There are no jobs.\n"
    deferred = [int(queue("defer", "shop.pay", "--lock", lock).stdout) for lock in LOCKS]
    rows = queue.records("jobs", "list")
    assert [(row["cell"], row["lock"]) for row in rows] == [*enumerate(LOCKS)]
    assert [row["id"] for row in rows] == [str(id) for id in deferred]
    table = queue("jobs", "list").stdout.splitlines()
    assert table[0].split()[:2] == ["CELL", "ID"]
    assert table[7].split()[:2] == ["6", str(deferred[6])]
    assert {row["count"] for row in queue.records("jobs", "count")} == {1}
    assert queue("jobs", "count").stdout == "cells 0-7: 1\nall: 8\n"
    queue("defer", "shop.tidy", "--lock", LOCKS[3])
    some = queue("jobs", "count", "--task", "shop.tidy").stdout
    assert some == "cells 0-2, 4-7: 0\ncell 3: 1\nall: 1\n"
    one = invoke(
        "jobs", "list", "--cell", "6", env={"INTURN_CELLS": str(queue.file), "COLUMNS": "200"}
    )
    assert one.stdout.splitlines()[0].split()[0] == "ID"
    assert queue("jobs", "list", "--lock", LOCKS[2]).stdout.count("shop.pay") == 1
    explained = queue("jobs", "explain", str(deferred[5]))
    assert explained.returncode == 0
    assert "worker --cells 5 --queues default" in explained.stdout, "advice names the cell"


def test_a_schedule_is_listed_in_its_cell_alone(
    queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nights.py").write_text(NIGHTS)
    monkeypatch.syspath_prepend(tmp_path)
    home, of = cell_of("nights.tidy five", COUNT), ("-a", "nights:app")
    assert [row["cell"] for row in queue.records("schedules", "list", *of)] == [home]
    assert {row["cell"] for row in queue.records("schedules", "next", *of)} == {home}


def test_the_roles_of_each_cell_are_granted(queue: Queue) -> None:
    schemas = [f"inturn_{cell:02}" for cell in range(COUNT)]
    script = queue("schema", "grants").stdout
    assert [script.count(f"to_regnamespace(quote_ident('{name}'))") for name in schemas] == [1] * 8
    assert "'inturn_06'" in queue("schema", "grants", "--cell", "6").stdout
    done = queue("schema", "grants", "--apply", "--prefix", "cells_shop")
    assert done.stdout.count("owned by cells_shop_owner") == COUNT, done.output


def test_commands_that_open_an_app_take_one_cell(queue: Queue) -> None:
    free = queue("defer", "shop.pay", "--cell", "3")
    assert int(free.stdout) % 1024 == 3
    lane = queue("defer", "shop.pay", "--cell", "3", "--lock", LOCKS[4])
    assert int(lane.stdout) % 1024 == 4, "its own cell, which is in the same database"
    away = queue("defer", "shop.pay", "--cell", "3", "--lock", LOCKS[6])
    assert (away.returncode, f"'{LOCKS[6]}' is for cell 6" in away.stderr) == (2, True)
    asked = "print(len(job_manager.list_jobs()))"
    assert queue("shell", "--cell", "4", "-c", asked).stdout == "1\n"
    assert "Name one: app.cell(3), or --cell 3" in queue("shell", "-c", asked).stderr


def test_changes_go_to_their_cell_or_to_each(queue: Queue, app: App) -> None:
    jobs = [int(queue("defer", "shop.pay", "--lock", lock).stdout) for lock in LOCKS]
    assert queue("lanes", "pause", LOCKS[6], "--reason", "no paper").returncode == 0
    assert [lane.lock for lane in app.lanes.list() if lane.state == "paused"] == [LOCKS[6]]
    paused = queue("queues", "pause", "mail")
    assert paused.stdout == "cells 0-7: paused queue mail until you resume it\n"
    assert paused.stderr.count("This queue has no jobs, and no worker names it") == 1
    assert {row["cell"] for row in queue.records("queues", "resume", "mail")} == set(range(COUNT))
    assert queue("queues", "pause", "mail").returncode == 0
    assert all(len(app.cell(cell).queues.list_paused()) == 1 for cell in range(COUNT))
    done = queue("jobs", "cancel", str(jobs[1]), str(jobs[7]), "--yes")
    assert done.returncode == 0, done.output
    assert {id for id in jobs if app.job_manager.get_job_status(id) == "cancelled"} == {
        jobs[1],
        jobs[7],
    }


def test_a_change_goes_on_after_a_cell_that_refuses_some(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(cell: int, arguments: Mapping[str, object]) -> None:
        remark(f"job {cell} will be cancelled")
        confirm("Cancel it?", yes=False, command="")
        Output("table").record({}, "cancelled 1 job")
        if cell == 0:
            raise SystemExit(5)

    def answer(question: str, **_: object) -> bool:
        click.echo(question)
        return True

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr(click, "confirm", answer)
    with click.Context(click.Command("cancel"), obj=Settings()), pytest.raises(SystemExit) as ended:
        run_over_cells("cancel", 2, {}, change)
    out, said = capsys.readouterr()
    assert said == "cell 0: job 0 will be cancelled\ncell 1: job 1 will be cancelled\n"
    assert out == "cell 0: Cancel it?\ncell 1: Cancel it?\ncells 0-1: cancelled 1 job\n"
    assert ended.value.code == 5


def test_a_limit_over_cells_is_set_where_it_is_said(queue: Queue, app: App) -> None:
    words = ("limits", "set", "stripe", "--concurrency", "5")
    refused = queue(*words)
    assert (refused.returncode, "would hold in each of the 8 cells alone" in refused.stderr) == (
        2,
        True,
    )
    assert app.limits.list() == []
    assert queue(*words, "--cell", "3").returncode == 0
    assert [len(app.cell(cell).limits.list()) for cell in (3, 4)] == [1, 0]
    removed = queue("limits", "remove", "stripe")
    assert removed.returncode == 0, "it was in one cell"
    assert queue("limits", "remove", "stripe").returncode == 4, "it is in none"
    assert queue(*words, "--per-cell").returncode == 0
    assert [len(app.cell(cell).limits.list()) for cell in (3, 4)] == [1, 1]


def test_a_change_is_made_in_all_cells_that_answer(halted: Queue, app: App) -> None:
    paused = halted("queues", "pause", "mail")
    assert paused.returncode == 69
    assert "error: cell 6: " in paused.stderr
    assert len(app.cell(7).queues.list_paused()) == 1


def test_a_page_is_of_one_cell(queue: Queue, app: App) -> None:
    job = int(queue("defer", "shop.pay", "--lock", LOCKS[2]).stdout)
    refused = queue("jobs", "list", "--before-id", "1030")
    assert (refused.returncode, "names a page of one cell" in refused.stderr) == (2, True)
    assert queue("verify", "--after", str(job), "--json").stdout.count('"jobs"') == 1


def test_what_does_not_answer_is_named(halted: Queue) -> None:
    halted("defer", "shop.pay", "--lock", LOCKS[0])
    listed = halted("jobs", "list")
    assert listed.returncode == 69
    assert "shop.pay" in listed.stdout
    assert "error: cell 6 did not answer: " in listed.stderr
    checked = halted("cells", "check")
    assert checked.returncode == 10
    assert checked.stdout.count(" ok\n") == COUNT - 1
    measured = halted("metrics")
    up = {
        sample.labels["cell"]: sample.value
        for found in text_string_to_metric_families(measured.stdout)
        for sample in found.samples
        if sample.name == "inturn_database_up"
    }
    assert up == {str(cell): float(cell != 6) for cell in range(COUNT)}
    assert "cell 6 (127.0.0.1:1/" in halted("lanes", "explain", LOCKS[6]).stderr
    assert "\ncell 6 (127.0.0.1:1/" in halted("cells", "check").stdout


@pytest.mark.landing
def test_a_list_is_watched_although_a_cell_does_not_answer(halted: Queue) -> None:
    variables = clean({"INTURN_CELLS": str(halted.file), "TERM": "xterm-256color"})
    words = ["limits", "list", "--watch=0.2"]
    terminal = Terminal([SCRIPT, *words], (40, 120), env=variables)
    try:
        page = terminal.until(lambda page: "cell 6 did not answer" in page)
        assert "There is no limit" in page
        terminal.until_page(3)
        terminal.press("q")
        assert terminal.end() == 0
    finally:
        terminal.close()


def test_the_doctor_finds_what_belongs_elsewhere(queue: Queue, dsns: list[str]) -> None:
    healthy = queue("doctor")
    assert healthy.returncode == 0, healthy.output
    assert healthy.stdout.count("cell ") == COUNT
    queue("limits", "set", "stripe", "--concurrency", "9", "--cell", "3")
    queue("limits", "set", "mail:*", "--concurrency", "9", "--cell", "3")
    for key in ("stripe", "mail:7"):
        assert queue("defer", "t", "--limit", key, "--lock", LOCKS[3]).returncode == 0
    assert "limits" not in queue("doctor", "--cell", "3").stdout
    queue("defer", "t", "--limit", "stripe", "--lock", LOCKS[2])
    told = queue("doctor", "--cell", "2").stdout
    assert "jobs of these keys run without a limit in this cell: stripe" in told
    with psycopg.connect(dsns[0], autocommit=True) as connection:
        connection.execute("SELECT inturn_00.defer('shop.pay', lock => %s)", [LOCKS[3]])
    sick = queue("doctor")
    assert sick.returncode == 10
    assert "these lanes are in cell 0, but belong to others" in sick.stdout
    assert LOCKS[3] in sick.stdout


def test_a_copy_is_adopted(queue: Queue, dsns: list[str]) -> None:
    with psycopg.connect(dsns[0], autocommit=True) as connection:
        connection.execute("UPDATE inturn_02.cell SET home = 'elsewhere'")
    refused = queue("jobs", "list", "--lock", LOCKS[2])
    assert (refused.returncode, "queue cells adopt --cell 2" in refused.stderr) == (2, True)
    assert queue("cells", "adopt", "--cell", "2").returncode != 0, "it asks first"
    assert queue("cells", "adopt", "--cell", "2", "--yes").returncode == 0
    assert queue("jobs", "list", "--lock", LOCKS[2]).returncode == 0


def test_mistakes_are_told(queue: Queue, dsn: str, tmp_path: Path) -> None:
    keyed = queue("defer", "shop.pay", "--cell", "tenant:7")
    assert (keyed.returncode, "--lock '{tenant:7}order:9'" in keyed.stderr) == (2, True)
    plain = invoke("cells", "check", env={"INTURN_DSN": dsn})
    assert (plain.returncode, "There are no cells here. Set INTURN_CELLS" in plain.stderr) == (
        2,
        True,
    )
    wrong = invoke("jobs", "list", "--cell", "1", env={"INTURN_DSN": dsn})
    assert (wrong.returncode, "--cell: there are no cells here" in wrong.stderr) == (2, True)
    beyond = queue("jobs", "list", "--cell", "8")
    assert (beyond.returncode, "8 is not one of 0 to 7" in beyond.stderr) == (2, True)
    top = queue("top", "--once")
    assert (top.returncode, "Name one: app.cell(3), or --cell 3" in top.stderr) == (2, True)
    assert queue("top", "--once", "--cell", "3").returncode == 0
