"""Histories that nothing has written: sound ones, and those with a lie."""

from typing import Any, Self

from tests.evidence.events import Memory
from tests.evidence.judge import Verdict, judge
from tests.evidence.spans import SECOND

LIMITS = {"slots": {"slots": 2}, "rate": {"rate": 1, "burst": 2}}


class Story(Memory):
    """A history with times in seconds. `a` and `b` are workers, `p` is a producer."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        known: dict[str, Any] = {"excuse": 4.0, "max_lost": 5, "limits": LIMITS, "turns": 40}
        self.tell(0, "conductor", "settings", **known | settings)

    def tell(self, when: float, who: str, event: str, **facts: Any) -> Self:
        self.write(who, event, int(when * SECOND), **facts)
        return self

    def defer(
        self, at: float, op: str, answer: str = "ok", lane: str | None = "L",
        ids: tuple[int, ...] = (1,), fence: int | None = None, **spec: Any,
    ) -> Self:  # fmt: skip
        """Defer jobs in a call that is answered after 20 ms, if it is."""
        self.tell(at, "p", "call", op=op, lane=lane, jobs=[spec] * len(ids))
        self.tell(at + 0.01, "p", "inserted", op=op, ids=list(ids))
        if answer == "unknown":
            return self
        return self.tell(at + 0.02, "p", answer, op=op, **({"fence": fence} if fence else {}))

    def run(
        self, start: float, end: float | None, op: str, fence: int, who: str = "a",
        how: str = "ok", attempt: int | None = 1, index: int = 0, lane: str | None = "L",
        accepted: bool | None = None, id: int | None = None,
    ) -> Self:  # fmt: skip
        facts: dict[str, Any] = {"job": [op, index], "lane": lane, "fence": fence}
        self.tell(start, who, "begin", attempt=attempt, id=id, **facts)
        if end is not None and accepted is not None:
            effect = {"accepted": accepted, "place": int(end * 1000)}
            self.tell(end - 0.001, who, "effect", lane=lane, fence=fence, **effect)
        return self if end is None else self.tell(end, who, "end", how=how, **facts)

    def final(self, op: str, fence: int | None, status: str = "succeeded", index: int = 0) -> Self:
        return self.tell(99, "conductor", "final", job=[op, index], fence=fence, status=status)

    def stop(self, start: float, end: float, who: str = "a", how: str = "stopped") -> Self:
        facts = {"victim": who, "start": int(start * SECOND), "end": int(end * SECOND), "how": how}
        return self.tell(end, "conductor", "silent", **facts)

    def kill(self, at: float, who: str = "a") -> Self:
        return self.tell(at, "conductor", "killed", victim=who)

    def fault(self, start: float, end: float, bound: float = 99.0, **facts: Any) -> Self:
        span = {"kind": "an outage", "start": int(start * SECOND), "end": int(end * SECOND)}
        return self.tell(9, "conductor", "fault", bound=bound, **span, **facts)

    def exit(self, at: float, status: int, *, asked: bool, who: str = "a") -> Self:
        return self.tell(at, "conductor", "exited", victim=who, status=status, asked=asked)

    def misdate(self, start: float, end: float) -> Self:
        """The server's clock was wrong."""
        facts = {"start": int(start * SECOND), "end": int(end * SECOND)}
        return self.tell(end, "conductor", "clock", **facts)

    def forget(self, since: float, at: float) -> Self:
        return self.tell(at, "conductor", "forgotten", since=int(since * SECOND))

    def verdict(self) -> Verdict:
        return judge(self.events)


Lies = dict[str, tuple[Story, str]]  # and the promises that the judge must name
Honest = dict[str, Story]


def two(**spec: Any) -> Story:
    """Two jobs of a lane, one after the other."""
    return Story().defer(1, "one", **spec).defer(2, "two", ids=(2,))


def sound() -> Story:
    return two().run(3, 4, "one", 11).run(5, 6, "two", 12).final("one", 11).final("two", 12)


def second_attempt(how: str = "ok") -> Story:
    """One job that runs twice."""
    told = Story().defer(1, "one").run(3, 4, "one", 11, how=how)
    return told.run(6, 7, "one", 12, "b", attempt=2).final("one", 12)
