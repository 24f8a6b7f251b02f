"""What processes have written is read as it was written, and what is missing shows."""

import ast
import json
import sys
from pathlib import Path

import pytest

from inturn.testing import overlaps
from tests.evidence import judge as judge_module
from tests.evidence.events import History, Tail, read
from tests.evidence.judge import check, describe

SHARED = "inturn.testing.overlaps"  # what the judge has in common with the package
RECORDER = "record.py"  # of tasks and producers, which are no judges


def written(folder: Path) -> Path:
    """A sound run of two processes."""
    conductor, worker = History(folder, "r", "conductor"), History(folder, "r", "w")
    conductor.write("settings", excuse=4.0, max_lost=5, required=[])
    conductor.write("spawned", victim="w")
    conductor.write("call", op="one", lane="L", jobs=[{}])
    conductor.write("ok", op="one")
    worker.write("begin", job=["one", 0], lane="L", attempt=1, fence=11)
    worker.write("end", job=["one", 0], lane="L", fence=11, how="ok")
    conductor.write("final", job=["one", 0], fence=11, status="succeeded")
    worker.close()
    conductor.close()
    return folder


def test_a_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    verdict = check(written(tmp_path))
    assert (verdict.word, len(verdict.evidence.runs)) == ("valid", 1), describe(verdict)


def test_an_event_may_be_told_later_than_it_was(tmp_path: Path) -> None:
    history = History(tmp_path, "r", "w")
    assert history.write("seen", what="it", at=7) == 7
    history.close()
    assert read(tmp_path)[0][0][2:4] == (7, "seen")


@pytest.mark.parametrize("line", range(4))
def test_a_lost_line_makes_the_verdict_unknown(tmp_path: Path, line: int) -> None:
    """A gap proves nothing either way, even if what is left looks wrong."""
    path = written(tmp_path) / "w.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:line] + lines[line + 1 :]))
    assert check(tmp_path).word == "unknown"


def test_a_lost_file_makes_the_verdict_unknown(tmp_path: Path) -> None:
    (written(tmp_path) / "w.jsonl").unlink()
    assert check(tmp_path).word == "unknown"


def test_a_line_that_death_cut_short_is_no_gap(tmp_path: Path) -> None:
    history = History(tmp_path, "r", "w")
    history.write("begin", job=["one", 0], lane="L", attempt=1, fence=11)
    with (tmp_path / "w.jsonl").open("a") as file:
        file.write('{"run": "r", "who": "w", "n": 2')
    other = History(tmp_path, "r", "conductor")
    other.write("killed", victim="w")
    other.close()
    assert read(tmp_path)[1] == []


def test_a_process_that_nobody_saw_die_leaves_a_gap(tmp_path: Path) -> None:
    History(tmp_path, "r", "w")
    assert read(tmp_path)[1] == ["w: its history has no end, and nobody saw it die"]


def test_a_tail_shows_what_runs_line_by_line(tmp_path: Path) -> None:
    history, tail = History(tmp_path, "r", "w"), Tail(tmp_path)
    assert [event.name for event in tail.look()] == ["boot"]
    history.write("begin", job=1, fence=11)
    with (tmp_path / "w.jsonl").open("a") as file:
        file.write('{"run": "r", "who"')
        file.flush()
        assert [event.name for event in tail.look()] == ["begin"]
        assert tail.running == {"w": {11}}
        file.write(': "w", "pid": 1, "n": 2, "at": 3, "ev": "end", "fence": 11}\n')
    assert (tail.look()[0].at, tail.look(), tail.running) == (3, [], {"w": set()})
    assert [event.name for event in tail.events] == ["boot", "begin", "end"]


def test_the_judge_knows_nothing_of_the_engine() -> None:
    """It imports itself, the standard library, and one rule that the testing kit has too."""
    folder = Path(judge_module.__file__).parent
    judge = [path for path in (*folder.glob("*.py"), *folder.glob("rules/*.py"))
             if path.name != RECORDER and not path.name.startswith("test_")]  # fmt: skip
    assert len(judge) > 10
    foreign = set()
    for path in (*judge, Path(overlaps.__file__ or "")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            foreign |= {name for name in names if name.partition(".")[0] not in
                        sys.stdlib_module_names and not name.startswith("tests.evidence")}  # fmt: skip
    assert foreign == {SHARED}


def test_the_events_of_a_history_are_plain_json(tmp_path: Path) -> None:
    lines = (written(tmp_path) / "w.jsonl").read_text().splitlines()
    assert [json.loads(line)["ev"] for line in lines] == ["boot", "begin", "end", "bye"]
