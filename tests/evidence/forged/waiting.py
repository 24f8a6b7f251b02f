"""What can be told of limits, parents and expiries."""

from typing import Any

from tests.evidence.forged.story import Honest, Lies, Story


def limited(key: str, *runs: tuple[float, float]) -> Story:
    """Jobs with one limit that run, each of them in a worker of its own."""
    told = Story()
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


def woken(since: float, until: float) -> Story:
    """Many begin at once. All but the first were claimed by one process, perhaps stopped then."""
    told = limited("rate", (3, 4))
    for n in range(8):
        told.defer(1, f"slept {n}", lane=None, ids=(20 + n,), limit="rate")
        told.run(4, 5, f"slept {n}", 30 + n, who="a", lane=None).final(f"slept {n}", 30 + n)
    return told.stop(since, until)


def family(on_parent: str = "cancel", how: str = "ok", end: str = "succeeded") -> Story:
    """A parent that ends at 4."""
    told = Story().defer(1, "parent", lane=None, fails=9 if how == "raised" else 0)
    told.defer(2, "child", ids=(2,), after=[["parent", 0]], on_parent=on_parent)
    return told.run(3, 4, "parent", 11, how=how, lane=None).final("parent", 11, end)


def retried(on_parent: str) -> Story:
    """A parent that fails, and is retried."""
    told = Story().defer(1, "parent", lane=None, fails=1)
    told.defer(2, "child", ids=(2,), after=[["parent", 0]], on_parent=on_parent)
    told.run(3, 4, "parent", 11, how="raised", lane=None)
    return told.tell(4.5, "conductor", "retried", job=["parent", 0])


def slow_parent() -> Story:
    """A parent that is taken over from a process that stands still, and ends at 5."""
    told = Story().defer(1, "parent", lane=None)
    told.defer(2, "child", ids=(2,), after=[["parent", 0]]).stop(2.5, 10)
    told.run(2.2, 10.1, "parent", 10, lane=None)
    return told.run(4, 5, "parent", 11, "b", attempt=2, lane=None).final("parent", 11)


def tried_again(on_parent: str) -> Story:
    """A parent that somebody has retried runs from 5 to 6, and succeeds."""
    told = retried(on_parent).run(5, 6, "parent", 13, attempt=2, lane=None)
    return told.final("parent", 13)


def runs_on() -> Story:
    """A parent whose only process stood still. It has failed with that, and the task goes on."""
    told = Story(max_lost=1).defer(1, "parent", lane=None)
    told.defer(2, "child", ids=(2,), after=[["parent", 0]], on_parent="go")
    told.run(3, 20, "parent", 11, lane=None).stop(3.5, 19)
    return told.final("parent", 11, "failed")


def starts(told: Story, at: float = 5, fence: int = 12) -> Story:
    return told.run(at, at + 1, "child", fence, who="b").final("child", fence)


def expiring(at: float, attempt: int = 1) -> Story:
    """A job that is wanted for a second from 1.01 on."""
    told = Story().defer(1, "one", expires=1.0)
    return told.run(at, at + 1, "one", 11, attempt=attempt).final("one", 11)


FAILED: dict[str, Any] = {"how": "raised", "end": "failed"}

HONEST: Honest = {
    "two at once": limited("slots", (3, 5), (4, 6), (5.1, 7)),
    "a slot that is free at that moment": limited("slots", (3, 5), (4, 6), (5, 7)),
    "a slot after the rescue of a crash": crash(taken_at=8.1),
    "a slot beside a zombie": zombie(),
    "a burst, and then the rate": limited("rate", (3, 4), (3, 4), (4, 5), (5, 6)),
    "an outage delays the begin of some": limited(
        "rate", (3, 4), (6, 7), (6, 7), (6, 7), (6, 7)).fault(4, 6),
    "many that a process had claimed when it was stopped": woken(2, 3.9),
    "more than the burst when the server's clock jumps": limited(
        "rate", *[(3, 4)] * 8).misdate(2, 3.5),
    "after its parent": starts(family()),
    "at the end of its parent": starts(family(), at=4),
    "after its parent, which runs on in a process that was stopped": starts(slow_parent(), at=6),
    "after a parent that failed with its process, and runs on": starts(runs_on(), at=10),
    "after a failure that it does not mind": starts(family("go", **FAILED)),
    "cancelled with its parent": family(**FAILED).final("child", None, "cancelled"),
    "cancelled with its parent, which was retried then": tried_again("cancel")
        .final("child", None, "cancelled"),
    "held, until somebody let it go": starts(
        family("hold", **FAILED).tell(4.5, "conductor", "let_go", job=["child", 0])),
    "held, until its parent was retried": starts(
        tried_again("hold"), at=7, fence=14),
    "cancelled with its parent, and retried": starts(
        family(**FAILED).tell(4.5, "conductor", "retried", job=["child", 0])),
    "after the first end of a parent that somebody retried": starts(
        retried("go").run(7, 8, "parent", 13, attempt=2, lane=None).final("parent", 13)),
    "a parent that was rolled back": starts(
        Story().defer(1, "parent", "fail", lane=None)
        .defer(2, "child", ids=(2,), after=[["parent", 0]])),
    "in time": expiring(1.9),
    "its second attempt is late": expiring(9, attempt=2),
    "its process stood still before the task": expiring(9).stop(1.5, 8.9),
    "the server's clock was set back": expiring(9).misdate(2, 3),
    "expired, and retried all the same": expiring(9).tell(
        8, "conductor", "retried", job=["one", 0]),
    "nobody knows when it was inserted": Story()
        .tell(1, "p", "call", op="one", lane=None, jobs=[{"expires": 1.0}])
        .tell(1.1, "p", "ok", op="one").run(9, 10, "one", 11).final("one", 11),
    "expired": Story().defer(1, "one", expires=1.0).final("one", None, "cancelled"),
}  # fmt: skip

LIES: Lies = {
    "three at once": (limited("slots", (3, 5), (4, 6), (4.9, 7)), "too many"),
    "a slot of a crash before its rescue": (crash(taken_at=4.5), "too many"),
    "a slot of a zombie that stood still only for a moment": (
        limited("slots", (3, 9), (3, 9), (8, 9)).stop(3.5, 5, "worker 0"), "too many"),
    "more than the burst": (limited("rate", (3, 4), (3, 4), (3, 4), (3.1, 4)), "too often"),
    "more than the rate in a longer time": (
        limited("rate", *[(3 + n / 2, 4 + n / 2) for n in range(9)]), "too often"),
    "an outage does not explain that many": (
        limited("rate", *[(6, 7)] * 8).fault(4, 6), "too often"),
    "an outage long before explains nothing": (
        limited("rate", *[(6, 7)] * 4).fault(0, 1), "too often"),
    "a clock that was wrong before explains nothing": (
        limited("rate", *[(6, 7)] * 4).misdate(2, 4), "too often"),
    "many of a process that had been stopped long before": (woken(0.5, 0.9), "too often"),
    "before the end of its parent": (starts(family(), at=3.5), "early"),
    "before its parent": (starts(family(), at=2.5, fence=10), "early"),
    "between two attempts of its parent": (
        starts(family("go", how="raised").run(7, 8, "parent", 13, attempt=2, lane=None)),
        "early, stale end"),
    "before the end of a parent that was stopped for a moment": (
        starts(family(), at=3.5).stop(3.1, 3.3), "early"),
    "before the end of a parent that never ended": (
        starts(Story().defer(1, "parent", lane=None).final("parent", 11)
               .defer(2, "child", ids=(2,), after=[["parent", 0]])
               .run(3, None, "parent", 11, lane=None)), "early, never ended, wrong end"),
    "before the end of a parent that was retried": (
        starts(tried_again("hold"), at=5.5, fence=14), "early"),
    "claimed before the last attempt of its parent": (
        starts(tried_again("hold"), at=7), "early"),
    "after a failure": (starts(family(**FAILED)), "against"),
    "held, and nobody has let it go": (starts(family("hold", **FAILED)), "against"),
    "cancelled, and its parent succeeded": (
        family().final("child", None, "cancelled"), "cancelled unasked"),
    "cancelled, though it does not mind": (
        family("go", **FAILED).final("child", None, "cancelled"), "cancelled unasked"),
    "started after it had expired": (expiring(9), "late"),
    "started after it had expired, and the clock was wrong before": (
        expiring(9).misdate(0, 0.5), "late"),
    "started after it had expired, long after its process stood still": (
        expiring(19).stop(1.5, 8.9), "late"),
    "cancelled as expired after it ran": (
        Story().defer(1, "one", expires=1.0).run(1.5, 1.7, "one", 11, how="raised")
        .final("one", 11, "cancelled"), "cancelled unasked"),
}  # fmt: skip
