"""The judge of limits, parents and expiries is judged itself, with sound and forged histories."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.chaos.checker import describe
from tests.chaos.flow_rules import FLOW_RULES
from tests.chaos.rare import counted
from tests.chaos.test_checker import Story

LIMITS = {"slots": {"slots": 2}, "rate": {"rate": 1, "burst": 2}}


def story() -> Story:
    told = Story()
    told.events[0].facts["limits"] = LIMITS
    return told


def limited(key: str, *runs: tuple[float, float]) -> Story:
    """Jobs with one limit that run, each of them in a worker of its own."""
    told = story()
    for n, (start, end) in enumerate(runs):
        told.defer(1, f"job {n}", lane=None, ids=(n,), limit=key)
        told.run(start, end, f"job {n}", 11 + n, who=f"worker {n}", lane=None)
        told.final(f"job {n}", 11 + n)
    return told


def crash(taken_at: float) -> Story:
    """Two of them have the slots, and the process of one dies in it."""
    told = limited("slots", (3, 9))
    told.defer(1, "dies", lane=None, ids=(5,), limit="slots")
    told.run(3, None, "dies", 20, who="dead", lane=None).kill(4, "dead")
    told.run(taken_at + 3, taken_at + 4, "dies", 22, who="b", attempt=2, lane=None)
    told.defer(1, "next", lane=None, ids=(6,), limit="slots").final("dies", 22)
    return told.run(taken_at, taken_at + 1, "next", 21, who="c", lane=None).final("next", 21)


def zombie() -> Story:
    """One process is stopped for so long that others take its slot, and wakes up again."""
    told = limited("slots", (3, 20), (12, 13))
    told.defer(1, "sleeps", lane=None, ids=(5,), limit="slots")
    told.run(3, 14, "sleeps", 10, who="a", lane=None).stop(3.5, 13.9)
    return told.run(13.2, 14, "sleeps", 25, who="b", attempt=2, lane=None).final("sleeps", 25)


def family(on_parent: str = "cancel", how: str = "ok", end: str = "succeeded") -> Story:
    """A parent that ends at 4."""
    told = story().defer(1, "parent", lane=None, fails=9 if how == "raised" else 0)
    told.defer(2, "child", ids=(2,), after=[["parent", 0]], on_parent=on_parent)
    told.run(3, 4, "parent", 11, how=how, lane=None)
    return told.final("parent", 11, end)


def retried() -> Story:
    """A parent that fails, and succeeds when somebody has retried it."""
    told = story().defer(1, "parent", lane=None, fails=1)
    told.defer(2, "child", ids=(2,), after=[["parent", 0]], on_parent="hold")
    told.run(3, 4, "parent", 11, how="raised", lane=None)
    told.tell(4.5, "conductor", "retried", key=["parent", 0])
    return told.run(5, 6, "parent", 12, attempt=2, lane=None).final("parent", 12)


def starts(told: Story, at: float = 5, fence: int = 12) -> Story:
    return told.run(at, at + 1, "child", fence, who="b").final("child", fence)


def expiring(at: float, attempt: int = 1) -> Story:
    """A job that is wanted for a second from 1.01 on."""
    told = story().defer(1, "one", expires=1.0)
    return told.run(at, at + 1, "one", 11, attempt=attempt).final("one", 11)


def outage(told: Story) -> Story:
    facts = {"kind": "an outage", "start": 4 * 10**9, "end": 6 * 10**9, "bound": 99.0}
    return told.tell(9, "conductor", "fault", **facts)


FAILED = {"how": "raised", "end": "failed"}
SOUND: dict[str, Story] = {
    "two at once": limited("slots", (3, 5), (4, 6), (5.1, 7)),
    "a slot after the rescue of a crash": crash(taken_at=8.1),
    "a slot beside a zombie": zombie(),
    "a burst, and then the rate": limited("rate", (3, 4), (3, 4), (4, 5), (5, 6)),
    "an outage delays the begin of some": outage(
        limited("rate", (3, 4), (6, 7), (6, 7), (6, 7), (6, 7))
    ),
    "after its parent": starts(family()),
    "after a failure that it does not mind": starts(family("go", **FAILED)),
    "cancelled with its parent": family(**FAILED).final("child", None, "cancelled"),
    "held, until somebody let it go": starts(
        family("hold", **FAILED).tell(4.5, "conductor", "let_go", key=["child", 0])
    ),
    "held, until its parent was retried": starts(retried(), at=7, fence=13),
    "cancelled with its parent, and retried": starts(
        family(**FAILED).tell(4.5, "conductor", "retried", key=["child", 0])
    ),
    "a parent that was rolled back": starts(
        story().defer(1, "parent", "fail", lane=None)
        .defer(2, "child", ids=(2,), after=[["parent", 0]])
    ),
    "in time": expiring(1.9),
    "its second attempt is late": expiring(9, attempt=2),
    "its process stood still before the task": expiring(9).stop(1.5, 8.9),
    "expired, and retried all the same": expiring(9).tell(
        8, "conductor", "retried", key=["one", 0]
    ),
    "expired": story().defer(1, "one", expires=1.0).final("one", None, "cancelled"),
}  # fmt: skip

FORGED: dict[str, tuple[Story, str]] = {
    "three at once": (limited("slots", (3, 5), (4, 6), (4.9, 7)), "too many"),
    "a slot of a crash before its rescue": (crash(taken_at=4.5), "too many"),
    "a slot of a zombie that stood still only for a moment": (
        limited("slots", (3, 9), (3, 9), (8, 9)).stop(3.5, 5, "worker 0"), "too many"),
    "more than the burst": (limited("rate", (3, 4), (3, 4), (3, 4), (3.1, 4)), "too often"),
    "more than the rate in a longer time": (
        limited("rate", *[(3 + n / 2, 4 + n / 2) for n in range(9)]), "too often"),
    "an outage does not explain that many": (
        outage(limited("rate", *[(6, 7)] * 8)), "too often"),
    "before the end of its parent": (starts(family(), at=3.5), "early"),
    "before its parent": (starts(family(), at=2.5, fence=10), "early"),
    "between two attempts of its parent": (
        starts(family("go", how="raised").run(7, 8, "parent", 13, attempt=2, lane=None)), "early"),
    "after a failure": (starts(family(**FAILED)), "against"),
    "held, and nobody has let it go": (starts(family("hold", **FAILED)), "against"),
    "cancelled, and its parent succeeded": (
        family().final("child", None, "cancelled"), "wrong end"),
    "cancelled, though it does not mind": (
        family("go", **FAILED).final("child", None, "cancelled"), "wrong end"),
    "started after it had expired": (expiring(9), "late"),
    "cancelled as expired after it ran": (
        story().defer(1, "one", expires=1.0).run(1.5, 1.7, "one", 11, how="raised")
        .final("one", 11, "cancelled"), "wrong end"),
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

    assert [rule.__name__ for rule in FLOW_RULES if not flags(rule)] == []


def test_a_run_in_which_no_limit_was_ever_full_shows_it() -> None:
    name = "a job took the last slot of a limit"
    counts = [
        counted(told.verdict().evidence)[name]
        for told in (limited("slots", (3, 5), (6, 7)), limited("slots", (3, 5), (4, 7)))
    ]
    assert counts == [0, 1]
