"""A job or an error cannot forge a worker's log: each event is one line."""

import json
import logging
import re
from pathlib import Path

import psycopg
import pytest

from inturn.cli.output.logs import JsonFormatter, LineFormatter
from tests.cli.conftest import Run

FORGED = "2026-01-01T00:00:00Z ERROR   job.failed: 1 forged"
EVIL = f"it\n{FORGED}\r\x1b]52;c;aGk=\x07\x1b[2J\u2028\u202e"
EVENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ [A-Z]+ +[a-z]+\.[a-z_]+")

TASKS = f"""
import logging
from inturn import App
from inturn.locks import KernelFileLock

EVIL = {EVIL!r}
app = App()


@app.task(name=EVIL)
def evil() -> None:
    logging.getLogger("shop").warning("says %s", EVIL)
    raise RuntimeError(EVIL)


@app.task(name=EVIL + "again", retry=1)
def evil_again() -> None:
    try:
        raise ValueError(EVIL)
    except ValueError:
        logging.getLogger("shop").exception("oh no: %s", EVIL)
        raise
"""


def test_nothing_that_a_job_brings_passes_for_a_line_of_the_log(
    run: Run, dsn: str, folder: Path
) -> None:
    (folder / "evil.py").write_text(TASKS)
    with psycopg.connect(dsn, options="-c search_path=inturn") as connection:
        for task in (EVIL, EVIL + "again", EVIL + "unknown"):
            connection.execute("SELECT defer(%s, lock => %s)", [task, EVIL])
    ended = run("-a", "evil:app", "worker", "-v", "--one-shot", "-n", EVIL, INTURN_DSN=dsn)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stderr.split("\n")
    assert lines.pop() == ""
    for line in lines:
        assert line.isprintable(), line
        assert (
            EVENT.match(line)
            or re.match(r"\S+Z [A-Z]+ +(says|oh no)", line)
            or line.startswith("    ")
        ), line
        assert not line.startswith(FORGED), line
    assert (
        r"job.failed: 1 it\n2026-01-01T00:00:00Z ERROR" in ended.stderr
    )  # what was escaped is there
    assert any(
        line.startswith(f"    {FORGED}") for line in lines
    )  # it is in the traceback, as one of its lines


def test_text_after_a_line_break_in_a_template_is_indented() -> None:
    def formatted(template: object, *args: object) -> str:
        record = logging.LogRecord("inturn.x", logging.ERROR, "", 0, template, args, None)
        return LineFormatter().format(record).partition("ERROR   ")[2]

    assert formatted("a %s", "b\nc") == r"a b\nc"
    assert (
        formatted("100 %% of %s:\n%s and %d", "a\nb", "c\nd", 7)
        == "100 % of a\\nb:\n    c\n    d and 7"
    )
    assert formatted("a\n100 %") == "a\n    100 %"
    assert formatted("a %(b)s\nc", {"b": "x\ny"}) == r"a x\ny\nc"
    assert formatted(ValueError("a\nb")) == "a\n    b"


@pytest.mark.parametrize("given", ["exc_info", "stack_info"])
def test_a_traceback_is_indented(given: str) -> None:
    record = logging.makeLogRecord({"msg": "a", "levelname": "ERROR", given: None})
    if given == "stack_info":
        record.stack_info = f"Stack\n{EVIL}"
    else:
        error = RuntimeError(EVIL)
        record.exc_info = (RuntimeError, error, None)
    first, *more = LineFormatter().format(record).split("\n")
    assert first.endswith("ERROR   a")
    assert more
    assert all(line.startswith("    ") and line.isprintable() for line in more)


def test_as_json_each_event_is_an_object_on_a_line_of_its_own(
    run: Run, dsn: str, folder: Path
) -> None:
    (folder / "evil.py").write_text(TASKS)
    with psycopg.connect(dsn, options="-c search_path=inturn") as connection:
        connection.execute("SELECT defer(%s, lock => %s)", [EVIL, EVIL])
    ended = run(
        "-a", "evil:app", "worker", "--one-shot", "--log-format", "json", INTURN_DSN=dsn
    )  # fmt: skip
    assert ended.stderr.isascii()
    events = [json.loads(line) for line in ended.stderr.splitlines()]
    assert all({"at", "level", "logger", "message"} <= event.keys() for event in events)
    (failed,) = [event for event in events if event["message"].startswith("job.failed")]
    assert (failed["level"], failed["logger"]) == ("ERROR", "inturn.jobs")
    assert (failed["job_id"], failed["task"], failed["lock"]) == (1, EVIL, EVIL)
    assert failed["event"] == "job.failed"
    (said,) = [event for event in events if event["logger"] == "shop"]
    assert (said["message"], said["job_id"], said["lock"]) == ("says " + EVIL, 1, EVIL)
    assert "event" not in said


def test_as_logfmt_each_event_is_a_line_that_can_be_read_back(
    run: Run, dsn: str, folder: Path
) -> None:
    (folder / "evil.py").write_text(TASKS)
    with psycopg.connect(dsn, options="-c search_path=inturn") as connection:
        connection.execute("SELECT defer(%s, lock => 'a lane')", [EVIL])
    ended = run(
        "-a", "evil:app", "worker", "--one-shot", "--log-format", "logfmt", INTURN_DSN=dsn
    )  # fmt: skip
    assert ended.stderr.isascii()
    events = [read_logfmt(line) for line in ended.stderr.splitlines()]
    (failed,) = [event for event in events if event.get("event") == "job.failed"]
    assert (failed["level"], failed["task"], failed["lock"]) == ("ERROR", EVIL, "a lane")
    assert EVIL in failed["exception"]
    (said,) = [event for event in events if event["logger"] == "shop"]
    assert (said["message"], said["job_id"]) == ("says " + EVIL, "1")


def read_logfmt(line: str) -> dict[str, str]:
    found = re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|[^ "=]+)(?: |$)', line)
    assert " ".join(f"{name}={value}" for name, value in found) == line
    return {name: json.loads(value) if value[0] == '"' else value for name, value in found}


def test_a_line_of_your_code_names_its_job(run: Run, dsn: str, folder: Path) -> None:
    (folder / "evil.py").write_text(TASKS)
    with psycopg.connect(dsn, options="-c search_path=inturn") as connection:
        connection.execute("SELECT defer(%s, lock => 'a lane')", [EVIL])
    ended = run("-a", "evil:app", "worker", "--one-shot", INTURN_DSN=dsn)
    [line] = [line for line in ended.stderr.splitlines() if " says it" in line]
    assert " [job 1 it" in line
    assert line.endswith(", lock a lane]")


def test_an_error_is_a_part_of_its_json_object() -> None:
    error = RuntimeError(EVIL)
    record = logging.makeLogRecord(
        {"msg": "a %s", "args": (1,), "exc_info": (RuntimeError, error, None), "lock": "x"}
    )
    told = json.loads(JsonFormatter().format(record))
    assert (told["message"], told["lock"]) == ("a 1", "x")
    assert EVIL in told["exception"]
    assert "msg" not in told


@pytest.mark.parametrize(
    ("words", "variable", "levels"),
    [
        (["--log-level", "warning"], {}, set()),
        ([], {"INTURN_LOG_LEVEL": "WARNING"}, set()),
        ([], {}, {"INFO"}),
        (["--log-level", "debug"], {}, {"INFO", "DEBUG"}),
    ],
)
def test_the_level_of_the_log_can_be_chosen(
    words: list[str], variable: dict[str, str], levels: set[str], run: Run, dsn: str
) -> None:
    run("defer", "tasks.touch", "name=x", INTURN_DSN=dsn)
    ended = run("-a", "tasks:app", "worker", "--one-shot", *words, INTURN_DSN=dsn, **variable)
    assert ended.returncode == 0
    assert {line.split()[1] for line in ended.stderr.splitlines() if EVENT.match(line)} == levels


@pytest.mark.parametrize(
    ("configuration", "is_followed"),
    [
        ("basicConfig(level='INFO', format='MINE %(message)s', force=True)", True),
        ("basicConfig(level='INFO', format='MINE %(message)s')", False),
        (
            "config.dictConfig({'version': 1, 'formatters': {'f': {'format': 'MINE %(message)s'}}, "
            "'handlers': {'h': {'class': 'logging.StreamHandler', 'formatter': 'f'}}, "
            "'root': {'level': 'INFO', 'handlers': ['h']}})",
            True,
        ),
    ],
)
def test_a_module_that_replaces_the_handlers_decides_what_the_log_looks_like(
    configuration: str, is_followed: bool, run: Run, folder: Path, dsn: str
) -> None:
    (folder / "mine.py").write_text(
        f"import logging.config\nfrom inturn import App\n\nlogging.{configuration}\napp = App()\n"
    )
    said = run("-a", "mine:app", "worker", "--one-shot", INTURN_DSN=dsn).stderr
    assert ("MINE worker.stopped" in said, bool(EVENT.search(said))) == (
        is_followed,
        not is_followed,
    )
