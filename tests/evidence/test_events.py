"""The checker is checked with forged histories: bad ones for each rule, and good ones."""

import ast
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest

from tests.chaos import checker
from tests.chaos.checker import check, describe, judge
from tests.chaos.evidence import SECOND
from tests.chaos.history import Event, History, read
from tests.chaos.rules import RULES

JUDGE = ["batch_rules", "checker", "evidence", "flow_rules", "gaps", "history", "rare", "report",
         "rules"]  # fmt: skip


class Story:
    """A history with times in seconds. `a` and `b` are workers, `p` is a producer."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.tell(0, "conductor", "settings", excuse=4.0, max_lost=5, required=[])

    def tell(self, at: float, who: str, event: str, **facts: Any) -> Self:
        self.events.append(Event(who, 0, int(at * SECOND), event, facts))
        return self

    def defer(
        self,
        at: float,
        op: str,
        answer: str = "ok",
        lane: str | None = "L",
        ids: tuple[int, ...] = (1,),
        **spec: Any,
    ) -> Self:
        self.tell(at, "p", "call", op=op, lane=lane, jobs=[spec] * len(ids))
        self.tell(at + 0.01, "p", "inserted", op=op, ids=list(ids))
        return self if answer == "unknown" else self.tell(at + 0.02, "p", answer, op=op)

    def run(
        self, start: float, end: float | None, op: str, fence: int,
        who: str = "a", how: str = "ok", attempt: int = 1, index: int = 0, lane: str | None = "L", accepted: bool = True,
    ) -> Self:  # fmt: skip
        self.tell(start, who, "begin", op=op, index=index, lane=lane, attempt=attempt, fence=fence)
        if end is not None and lane is not None:
            self.tell(
                end - 0.001,
                who,
                "effect",
                lane=lane,
                fence=fence,
                accepted=accepted,
                place=int(end * 1000),
            )
        if end is not None:
            self.tell(end, who, "end", op=op, index=index, lane=lane, fence=fence, how=how)
        return self

    def final(self, op: str, fence: int | None, status: str = "succeeded", index: int = 0) -> Self:
        return self.tell(99, "conductor", "final", op=op, index=index, fence=fence, status=status)

    def stop(self, start: float, end: float, who: str = "a", how: str = "stopped") -> Self:
        facts = {"victim": who, "start": int(start * SECOND), "end": int(end * SECOND), "how": how}
        return self.tell(end, "conductor", "silent", **facts)

    def kill(self, at: float, who: str = "a") -> Self:
        return self.tell(at, "conductor", "killed", victim=who)

    def verdict(self) -> checker.Verdict:
        return judge(sorted(self.events, key=lambda event: event.at))


def two() -> Story:
    """Two jobs of a lane, one after the other."""
    return Story().defer(1, "one").defer(2, "two", ids=(2,))


def sound() -> Story:
    return two().run(3, 4, "one", 11).run(5, 6, "two", 12).final("one", 11).final("two", 12)


def second_attempt(how: str = "ok") -> Story:
    """One job that runs twice."""
    return (
        Story()
        .defer(1, "one")
        .run(3, 4, "one", 11, how=how)
        .run(6, 7, "one", 12, "b", attempt=2)
        .final("one", 12)
    )


def idle(bound: float = 10) -> Story:
    """A job without a lane waits for 16 seconds, and no worker takes it."""
    story = (
        Story()
        .defer(1, "one")
        .defer(2, "free", lane=None, ids=(2,))
        .run(3, 4, "one", 11)
        .run(20, 21, "free", 12, lane=None)
    )
    facts = {"kind": "an outage", "start": 5 * SECOND, "end": 8 * SECOND, "bound": bound}
    return story.tell(9, "conductor", "fault", **facts).final("one", 11).final("free", 12)


SOUND: dict[str, Story] = {
    "idle for no longer than the outage explains": idle(bound=17),
    "in turn": sound(),
    "a retry": second_attempt("raised"),
    "killed in a job": Story().defer(1, "one").run(3, None, "one", 11).kill(4).run(9, 10, "one", 12, "b", attempt=2)
        .final("one", 12),
    "killed before it could report": second_attempt().kill(4.5),
    "stopped beyond the heartbeat": Story().defer(1, "one").run(3, 14, "one", 11, accepted=False).stop(3.5, 13.5)
        .run(10, 11, "one", 12, "b", attempt=2).final("one", 12),
    "stopped, and again before it could learn": Story().defer(1, "one").run(3, 30, "one", 11, accepted=False).stop(3.5, 6.5)
        .stop(7.5, 9.9).run(10, 11, "one", 12, "b", attempt=2).final("one", 12),
    "cut off beyond the heartbeat": Story().defer(1, "one").run(3, 14, "one", 11, accepted=False).stop(3.5, 13.5, how="cut")
        .run(10, 11, "one", 12, "b", attempt=2).final("one", 12),
    "began after it was stopped, and was refused": two().run(10, 11, "one", 12, "b", attempt=2).run(12, 16, "two", 13, "b")
        .stop(3, 14).run(14.1, 14.2, "one", 11, accepted=False).final("one", 12).final("two", 13),
    "rolled back": sound().defer(7, "three", "fail", ids=(3,)),
    "no answer, and it took effect": two().defer(2.5, "x", "unknown", ids=(3,)).run(3, 4, "one", 11).run(5, 6, "two", 12)
        .run(7, 8, "x", 13).final("one", 11).final("two", 12).final("x", 13),
    "no answer, and it did not": sound().defer(7, "x", "unknown"),
    "calls that overlap, either way round": Story().tell(1, "p", "call", op="one", lane="L", jobs=[{}])
        .tell(1.5, "p", "call", op="two", lane="L", jobs=[{}]).tell(2, "p", "ok", op="one").tell(2, "p", "ok", op="two")
        .run(3, 4, "two", 11).run(5, 6, "one", 12).final("one", 12).final("two", 11),
    "a scheduled job has no place": two().defer(2.5, "x", later=True, ids=(3,)).defer(2.8, "y", ids=(4,)).run(3, 4, "one", 11)
        .run(5, 6, "two", 12).run(7, 8, "y", 13).run(9, 10, "x", 14)
        .final("one", 11).final("two", 12).final("x", 14).final("y", 13),
    "an odd row failed and the lane went on": Story().defer(1, "odd", odd=True).defer(2, "two", ids=(2,)).run(5, 6, "two", 12)
        .final("odd", 11, "failed").final("two", 12),
    "it failed on request": Story().defer(1, "one", fails=9).run(3, 4, "one", 11, how="raised").final("one", 11, "failed"),
    "cancelled as asked": Story().defer(1, "one").tell(2, "p", "cancel", key=["one", 0]).final("one", None, "cancelled"),
    "a worker could not start in an outage": idle(bound=17).tell(7, "conductor", "exited", victim="c", status=1, asked=False),
    "a worker ended when asked": sound().tell(50, "conductor", "exited", victim="a", status=0, asked=True),
}  # fmt: skip

FORGED: dict[str, tuple[Story, str]] = {
    "lost": (two().run(3, 4, "one", 11).final("one", 11), "lost"),
    "made up": (sound().run(7, 8, "three", 13), "ghost"),
    "rolled back and ran": (sound().defer(7, "x", "fail", ids=(3,)).run(8, 9, "x", 13).final("x", 13), "ghost"),
    "rolled back and ended": (sound().defer(7, "x", "fail", ids=(3,)).final("x", 13, "failed"), "ghost"),
    "half a call": (sound().defer(7, "x", "unknown", ids=(3, 4)).run(8, 9, "x", 13).final("x", 13), "half a call"),
    "overlap": (two().run(3, 6, "one", 11).run(5, 7, "two", 12).final("one", 11).final("two", 12), "overlap"),
    "overlap with a process that was stopped briefly": (
        two().run(3, 8, "one", 11).stop(3.5, 5.5).run(7, 9, "two", 12, "b").final("one", 11).final("two", 12), "overlap"),
    "overlap with a process that was stopped later": (
        two().run(3, 20, "one", 11).stop(9, 19).run(7, 8, "two", 12, "b").final("one", 11).final("two", 12), "overlap"),
    "overlap long after a process was woken": (
        two().stop(1, 9).run(20, 25, "one", 11).run(22, 23, "two", 12, "b").final("one", 11).final("two", 12), "overlap"),
    "overlap, and the other one was stopped": (
        two().run(3, 20, "one", 11).stop(5, 15, "b").run(7, 8, "two", 12, "b").final("one", 11).final("two", 12), "overlap"),
    "overlap with a process that died later": (
        two().run(3, None, "one", 11).kill(9).run(7, 8, "two", 12, "b").run(10, 11, "one", 13, "b", attempt=2)
        .final("one", 13).final("two", 12), "overlap"),
    "order": (two().run(3, 4, "two", 11).run(5, 6, "one", 12).final("one", 12).final("two", 11), "order"),
    "order in a call": (
        Story().defer(1, "x", ids=(1, 2)).run(3, 4, "x", 11, index=1).run(5, 6, "x", 12, index=0)
        .final("x", 12).final("x", 11, index=1), "order"),
    "overtaken in a retry": (
        two().run(3, 4, "one", 11, how="raised").run(5, 6, "two", 12).run(7, 8, "one", 13, attempt=2)
        .final("one", 13).final("two", 12), "overtaken"),
    "a fence twice": (two().run(3, 4, "one", 11).run(5, 6, "two", 11).final("one", 11).final("two", 11), "fence"),
    "a fence twice, and no lane": (
        Story().defer(1, "one", lane=None).defer(2, "two", lane=None, ids=(2,)).run(3, 4, "one", 11, lane=None)
        .run(5, 6, "two", 11, "b", lane=None).final("one", 11).final("two", 11), "fence"),
    "a fence that falls": (two().run(3, 4, "one", 12).run(5, 6, "two", 11).final("one", 12).final("two", 11), "fence"),
    "attempts that do not rise": (
        Story().defer(1, "one").run(3, 4, "one", 11, how="raised").run(6, 7, "one", 12, "b").final("one", 12), "attempts"),
    "repeated": (second_attempt(), "repeated"),
    "repeated after a brief stop": (second_attempt().stop(3.1, 3.9), "repeated"),
    "repeated before its process was killed": (second_attempt().kill(8), "repeated"),
    "ended twice": (sound().final("one", 11), "ended twice"),
    "ended and never ran": (two().run(5, 6, "two", 12).final("one", 11).final("two", 12), "wrong end"),
    "the end of a stale attempt": (second_attempt("raised").final("one", 11), "wrong end"),
    "failed by a stale attempt": (
        Story().defer(1, "one", fails=9).run(3, 4, "one", 11, how="raised").run(6, 7, "one", 12, "b", "raised", attempt=2)
        .final("one", 11, "failed"), "wrong end"),
    "succeeded by an attempt that never ran": (
        two().run(3, 4, "one", 11).run(5, 6, "two", 12).final("one", 11).final("two", 99), "wrong end"),
    "repeated long after its end, and its process was killed later": (
        Story().defer(1, "one").run(3, 4, "one", 11).kill(40).run(46, 47, "one", 12, "b", attempt=2).final("one", 12), "repeated"),
    "succeeded by an attempt that raised": (
        Story().defer(1, "one", fails=1).run(3, 4, "one", 11, how="raised").final("one", 11), "wrong end"),
    "succeeded by an attempt that died": (Story().defer(1, "one").run(3, None, "one", 11).kill(4).final("one", 11), "wrong end"),
    "failed though nothing was wrong": (Story().defer(1, "one").run(3, 4, "one", 11).final("one", 11, "failed"), "wrong end"),
    "cancelled and nobody asked": (Story().defer(1, "one").final("one", None, "cancelled"), "wrong end"),
    "an odd row succeeded": (Story().defer(1, "odd", odd=True).run(3, 4, "odd", 11).final("odd", 11), "wrong end"),
    "an effect of a stale fence": (
        sound().tell(7, "a", "effect", lane="L", fence=11, accepted=True, place=9999), "effect"),
    "an effect that was refused": (
        two().run(3, 4, "one", 11, accepted=False).run(5, 6, "two", 12).final("one", 11).final("two", 12), "effect"),
    "a worker ended by itself": (sound().tell(50, "conductor", "exited", victim="a", status=1, asked=False), "a process ended"),
    "a worker ended by itself with status 0": (
        sound().tell(50, "conductor", "exited", victim="a", status=0, asked=False), "a process ended"),
    "a worker could not start, and there was no outage": (
        idle(bound=17).tell(9, "conductor", "exited", victim="c", status=1, asked=False), "a process ended"),
    "a worker that had run jobs ended in an outage": (
        idle(bound=17).tell(7, "conductor", "exited", victim="a", status=1, asked=False), "a process ended"),
    "a worker ended badly when asked": (
        sound().tell(50, "conductor", "exited", victim="a", status=1, asked=True), "a process ended"),
    "a run without an end": (two().run(3, 4, "one", 11).run(5, None, "two", 12).final("one", 11).final("two", 12), "never ended"),
    "a run without an end in a worker that ended when asked": (
        two().run(3, 4, "one", 11).run(5, None, "two", 12).tell(50, "conductor", "exited", victim="a", status=0, asked=True)
        .final("one", 11).final("two", 12), "never ended"),
    "left": (two().run(3, 4, "one", 11).final("one", 11).tell(99, "conductor", "left", op="two", index=0, state="doing"), "stuck"),
    "everybody idle beside a job that is ready": (idle(), "standstill"),
    "repaired by the net": (sound().tell(99, "conductor", "problem", rule="repaired", text="lane L slept"), "repaired"),
}  # fmt: skip


@pytest.mark.parametrize("story", SOUND.values(), ids=list(SOUND))
def test_a_sound_history_is_valid(story: Story) -> None:
    verdict = story.verdict()
    assert verdict.word == "valid", describe(verdict)


@pytest.mark.parametrize(("story", "rule"), FORGED.values(), ids=list(FORGED))
def test_a_forged_history_is_invalid_by_its_rule(story: Story, rule: str) -> None:
    verdict = story.verdict()
    assert (verdict.word, rule in {found.rule for found in verdict.violations}) == (
        "invalid",
        True,
    ), describe(verdict)


def test_each_rule_is_broken_by_a_forged_history() -> None:
    silent = [
        rule.__name__
        for rule in RULES
        if not any(_flags(rule, story) for story, _ in FORGED.values())
    ]
    assert silent == []


def _flags(rule: Callable[..., Any], story: Story) -> bool:
    return bool(list(rule(story.verdict().evidence)))


def test_a_violation_comes_with_the_events_around_it() -> None:
    text = describe(FORGED["overlap"][0].stop(1, 2, "b").verdict())
    assert "lane L: two#0" in text
    assert text.index("begin {'op': 'one'") < text.index("begin {'op': 'two'")


def test_a_run_in_which_a_listed_event_never_occurred_does_not_pass() -> None:
    story = sound()
    story.events[0].facts["required"] = ["a worker was killed in the middle of a job"]
    verdict = story.verdict()
    assert (verdict.word, verdict.missing, verdict.passes) == (
        "valid",
        story.events[0].facts["required"],
        False,
    )


def test_so_does_a_run_with_a_fault_that_never_showed() -> None:
    facts = {"kind": "an odd row", "start": 0, "end": SECOND, "shows": ["an odd row was ended"]}
    assert sound().tell(1, "conductor", "fault", **facts).verdict().missing == [
        "an odd row was ended"
    ]


# ---------------------------------------------------------------- histories with gaps


def written(folder: Path) -> Path:
    """A sound run of two processes."""
    conductor, worker = History(folder, "r", "conductor"), History(folder, "r", "w")
    conductor.write("settings", excuse=4.0, max_lost=5, required=[])
    conductor.write("spawned", victim="w")
    conductor.write("call", op="one", lane="L", jobs=[{}])
    conductor.write("ok", op="one")
    worker.write("begin", op="one", index=0, lane="L", attempt=1, fence=11)
    worker.write("end", op="one", index=0, lane="L", fence=11, how="ok")
    conductor.write("final", op="one", index=0, fence=11, status="succeeded")
    worker.close()
    conductor.close()
    return folder


def test_a_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    verdict = check(written(tmp_path))
    assert (verdict.word, len(verdict.evidence.runs)) == ("valid", 1), describe(verdict)


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


def test_one_percent_of_lost_lines_makes_the_verdict_unknown(tmp_path: Path) -> None:
    history = History(tmp_path, "r", "w")
    for number in range(1000):
        history.write("seen", what=f"event {number}")
    history.close()
    path = tmp_path / "w.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for number, line in enumerate(lines) if number % 100 != 50))
    assert check(tmp_path).gaps


def test_a_line_that_death_cut_short_is_no_gap(tmp_path: Path) -> None:
    history = History(tmp_path, "r", "w")
    history.write("begin", op="one", index=0, lane="L", attempt=1, fence=11)
    with (tmp_path / "w.jsonl").open("a") as file:
        file.write('{"run": "r", "who": "w", "n": 2')
    other = History(tmp_path, "r", "conductor")
    other.write("killed", victim="w")
    other.close()
    assert read(tmp_path)[1] == []


def test_a_process_that_nobody_saw_die_leaves_a_gap(tmp_path: Path) -> None:
    History(tmp_path, "r", "w")
    assert read(tmp_path)[1] == ["w: its history has no end, and nobody saw it die"]


def test_the_checker_imports_nothing_but_itself_and_the_standard_library() -> None:
    folder = Path(checker.__file__).parent
    foreign = set()
    for name in JUDGE:
        for node in ast.walk(ast.parse((folder / f"{name}.py").read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            own = {f"tests.chaos.{other}" for other in JUDGE}
            foreign |= {
                n
                for n in names
                if n not in own and n.partition(".")[0] not in sys.stdlib_module_names
            }
    assert foreign == set()


def test_the_events_of_a_history_are_plain_json(tmp_path: Path) -> None:
    lines = (written(tmp_path) / "w.jsonl").read_text().splitlines()
    assert [json.loads(line)["ev"] for line in lines] == ["boot", "begin", "end", "bye"]
