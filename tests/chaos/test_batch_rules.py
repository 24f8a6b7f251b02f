"""The judge of batches and groups is judged itself, with sound and forged histories."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.chaos.batch_rules import BATCH_RULES, TURNS
from tests.chaos.checker import describe
from tests.chaos.rare import counted
from tests.chaos.test_checker import Story

COUNTS = {"total": 2, "succeeded": 2, "failed": 0, "cancelled": 0, "aborted": 0}


def opened() -> Story:
    """A batch with two jobs, and with a callback that waits."""
    told = Story().defer(1, "b/callback", lane=None, ids=(9,), callback_of="b")
    told.defer(1.1, "one", lane=None, batch="b")
    return told.defer(1.2, "two", lane=None, ids=(2,), batch="b")


def close(told: Story, at: float = 2) -> Story:
    return told.tell(at, "p", "closed", batch="b")


def works(told: Story, end: float = 6) -> Story:
    """Both jobs run, and the second one ends then."""
    told.run(3, 5, "one", 11, lane=None).final("one", 11)
    return told.run(4, end, "two", 12, who="b", lane=None).final("two", 12)


def reports(told: Story, at: float = 7, fence: int = 13, attempt: int = 1, **counts: int) -> Story:
    """The callback runs for a second."""
    facts: dict[str, Any] = {"op": "b/callback", "index": 0, "fence": fence}
    told.tell(at + 0.1, "c", "counted", counts=COUNTS | counts, **facts)
    return told.run(at, at + 1, "b/callback", fence, who="c", attempt=attempt, lane=None)


def ends(told: Story, fence: int = 13, status: str = "succeeded") -> Story:
    return told.final("b/callback", fence, status)


def retried_member() -> Story:
    """A job of the batch that failed runs once more after the end, because somebody wants that."""
    told = close(opened()).run(3, 5, "one", 11, lane=None, how="raised")
    told.run(4, 6, "two", 12, who="b", lane=None).final("two", 12)
    reports(told, succeeded=1, failed=1)
    told.tell(9, "conductor", "retried", key=["one", 0])
    return ends(told.run(10, 11, "one", 14, attempt=2, lane=None).final("one", 14))


def slept() -> Story:
    """The process of a job is stopped for so long that another one runs the job again."""
    told = close(opened()).run(3, 16, "one", 10, lane=None).stop(3.5, 15.9)
    told.run(9, 10, "one", 11, who="b", attempt=2, lane=None).final("one", 11)
    told.run(4, 6, "two", 12, who="b", lane=None).final("two", 12)
    return ends(reports(told, at=11))


def flood(
    before: int, own: str | None = "small", group: str | None = "large", **spec: Any
) -> Story:
    """A flood of one group, and a job of another that starts after so many of them."""
    count = before + TURNS + 5
    told = Story().defer(1, "flood", lane=None, ids=tuple(range(count)), group=group)
    told.defer(1.8, "late", lane=spec.pop("lane", None), ids=(999,), group=own, **spec)
    for n in range(count):
        fence = 100 + n + (n >= before)
        told.run(2 + n / 100, 2 + n / 100 + 0.005, "flood", fence, index=n, lane=None)
        told.final("flood", fence, index=n)
    at = 2 + before / 100 - 0.002
    lane = told.events[4].facts["lane"]
    told.run(at, at + 0.001, "late", 100 + before, who="b", lane=lane)
    return told.final("late", 100 + before)


def second_attempt_only() -> Story:
    """The job was claimed before, and its process died before it began."""
    told = flood(TURNS + 1)
    for event in told.events:
        if event.name == "begin" and event.facts["op"] == "late":
            event.facts["attempt"] = 2
    return told


SOUND: dict[str, Story] = {
    "after the last end": ends(reports(works(close(opened())))),
    "closed when all have ended": ends(reports(works(close(opened(), at=6.5)))),
    "a job that was cancelled": ends(reports(
        close(opened()).tell(2, "p", "cancel", key=["two", 0]).final("two", None, "cancelled")
        .run(3, 5, "one", 11, lane=None).final("one", 11), succeeded=1, cancelled=1)),
    "a job that joined after the close": ends(reports(
        works(close(opened()).defer(2.5, "x", lane=None, ids=(3,), batch="b"))
        .run(5, 6, "x", 10, who="d", lane=None).final("x", 10), total=3, succeeded=3)),
    "a job that was rolled back": ends(reports(
        works(close(opened()).defer(2.5, "x", "fail", lane=None, ids=(3,), batch="b")))),
    "a job without an answer, which never was": ends(reports(
        works(close(opened()).defer(2.5, "x", "unknown", lane=None, ids=(3,), batch="b")))),
    "a callback whose process died before it could report": ends(reports(reports(
        works(close(opened()))), at=9, fence=14, attempt=2).kill(8.5, "c"), fence=14),
    "a job whose process was stopped": slept(),
    "a job that was retried after the end": retried_member(),
    "given up": works(opened()).tell(2, "conductor", "given_up", batch="b")
        .final("b/callback", None, "cancelled"),
    "a callback that somebody retried": ends(reports(
        works(close(opened(), at=8)).tell(6.5, "conductor", "retried", key=["b/callback", 0]))),
    "a turn in each claim": flood(TURNS),
    "behind its own group": flood(2 * TURNS, own="large"),
    "in a lane": flood(TURNS + 1, lane="L"),
    "with a limit": flood(TURNS + 1, limit="slots"),
    "scheduled": flood(TURNS + 1, later=True),
    "its first process died": second_attempt_only(),
}  # fmt: skip

FORGED: dict[str, tuple[Story, str]] = {
    "while a job runs": (ends(reports(works(close(opened()), end=7.5))), "hasty"),
    "before a job": (ends(reports(works(close(opened())), at=2.5, fence=10)), "hasty"),
    "before the close": (ends(reports(works(close(opened(), at=7.5)))), "hasty"),
    "and nobody has closed it": (ends(reports(works(opened()))), "hasty"),
    "between two attempts": (ends(reports(
        works(close(opened())).run(9, 10, "one", 14, attempt=2, lane=None))), "hasty"),
    "a job joins later": (ends(reports(
        works(close(opened())).defer(7.5, "x", lane=None, ids=(3,), batch="b")
        .tell(8, "p", "cancel", key=["x", 0]).final("x", None, "cancelled"),
        total=3, cancelled=1)), "hasty"),
    "while a zombie had been stopped for a moment": (ends(reports(
        works(close(opened()), end=7.5).stop(4.5, 5.5, "b"))), "hasty"),
    "twice": (ends(reports(reports(works(close(opened()))), at=9, fence=14, attempt=2), fence=14),
              "repeated"),
    "two ends": (ends(ends(reports(works(close(opened()))))), "ended twice"),
    "never": (works(close(opened())), "lost"),
    "cancelled unasked": (works(close(opened())).final("b/callback", None, "cancelled"),
                          "wrong end"),
    "one too many": (ends(reports(works(close(opened())), total=3)), "miscounted"),
    "an end that was none": (ends(reports(works(close(opened())), succeeded=1, failed=1)),
                             "miscounted"),
    "behind a flood": (flood(TURNS + 1), "starved"),
    "without a group, behind a flood": (flood(TURNS + 1, own=None), "starved"),
    "behind all without a group": (flood(TURNS + 1, group=None), "starved"),
}  # fmt: skip


@pytest.mark.parametrize("told", SOUND.values(), ids=list(SOUND))
def test_a_sound_history_is_valid(told: Story) -> None:
    verdict = told.verdict()
    assert verdict.word == "valid", describe(verdict)


@pytest.mark.parametrize(("told", "rule"), FORGED.values(), ids=list(FORGED))
def test_a_forged_history_is_invalid_by_its_rule(told: Story, rule: str) -> None:
    verdict = told.verdict()
    assert rule in {found.rule for found in verdict.violations}, describe(verdict)


def test_each_rule_is_broken_by_a_forged_history() -> None:
    def flags(rule: Callable[..., Any]) -> bool:
        return any(list(rule(told.verdict().evidence)) for told, _ in FORGED.values())

    assert [rule.__name__ for rule in BATCH_RULES if not flags(rule)] == []


def test_a_run_in_which_no_callback_ran_and_no_group_passed_another_shows_it() -> None:
    names = (
        "a callback ran",
        "a job joined a closed batch",
        "a job of a group passed many of another",
    )
    found = [
        [counted(told.verdict().evidence)[name] for name in names]
        for told in (works(opened()), SOUND["a job that joined after the close"], flood(3))
    ]
    assert found == [[0, 0, 0], [1, 1, 0], [0, 0, 1]]
