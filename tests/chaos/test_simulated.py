"""The checker on hundreds of random histories: sound ones pass, and with one lie they do not."""

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.chaos.checker import Verdict, describe, judge
from tests.chaos.evidence import SECOND
from tests.chaos.history import Event

# A sample in each run, and the others in the proof.
SEEDS = [
    pytest.param(range(30), id="30 histories"),
    pytest.param(range(30, 150), id="120 more", marks=pytest.mark.proof),
]
EXCUSE = 4.0


class Simulation:
    """Lanes of jobs that run as promised, on workers that die, are stopped and raise.

    A worker that dies has one job.
    """

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.events: list[Event] = []
        self.places: dict[str, int] = {}
        self.names = 0
        self.tell(0, "conductor", "settings", excuse=EXCUSE, max_lost=5, required=[])
        for lane in ("L", "M"):
            self.lane(lane)

    def tell(self, at: float, who: str, name: str, **facts: Any) -> None:
        self.events.append(Event(who, 0, round(at * SECOND), name, facts))

    def lane(self, lane: str) -> None:
        deferred, free = 0.0, 0.0
        for number in range(self.dice.randrange(1, 8)):
            op, size = f"{lane}{number}", self.dice.choice([1, 1, 3])
            called = deferred = deferred + self.dice.random()
            self.tell(called, "p", "call", op=op, lane=lane, jobs=[{"fails": 1}] * size)
            answer = self.dice.choice(["ok", "ok", "ok", "fail", "unclear"])
            self.tell(called + 0.01, "p", answer, op=op)
            deferred += 0.02
            if answer == "ok" or (answer == "unclear" and self.dice.random() < 0.5):
                for index in range(size):
                    free = self.job(lane, op, index, max(free, deferred))

    def job(self, lane: str, op: str, index: int, at: float) -> float:
        """Run attempts until one succeeds, and return when the lane is free again."""
        attempt = 0
        while True:
            attempt += 1
            begin = at + 0.001 + self.dice.random() * 0.1
            fate = self.dice.choice(
                ["ok", "ok", "ok", "raised", "killed", "killed late", "stopped"]
            )
            fence, end, at = round(begin * 1_000_000), begin + self.dice.random(), 0.0
            run = {"op": op, "index": index, "lane": lane, "attempt": attempt, "fence": fence}
            self.names += 1
            who = f"{lane}-worker.{self.names}"
            self.tell(begin, who, "begin", **run)
            if fate in ("ok", "raised"):
                self.end(end, who, run, fate)
                at = end
            if fate == "ok":
                self.tell(
                    1000, "conductor", "final", op=op, index=index, fence=fence, status="succeeded"
                )
                return at
            if fate == "killed":
                at = self.kill(end, who)
            if fate == "killed late":
                self.end(end, who, run, "ok")
                at = self.kill(end + 0.1, who)
            if fate == "stopped":
                at = self.stop(begin, who, run)

    def kill(self, at: float, who: str) -> float:
        self.tell(at, "conductor", "killed", victim=who)
        return at + 6

    def stop(self, begin: float, who: str, run: dict[str, Any]) -> float:
        facts = {
            "victim": who,
            "start": round((begin + 0.0005) * SECOND),
            "end": round((begin + 9) * SECOND),
        }
        self.tell(begin + 9, "conductor", "silent", how="stopped", **facts)
        self.tell(
            begin + 9.01, who, "end", **run, how="ok"
        )  # its effect was refused, which concerns nobody here
        return begin + 6

    def end(self, at: float, who: str, run: dict[str, Any], how: str) -> None:
        if how == "ok":
            place = self.places[run["lane"]] = self.places.get(run["lane"], 0) + 1
            self.tell(
                at - 0.0001,
                who,
                "effect",
                lane=run["lane"],
                fence=run["fence"],
                accepted=True,
                place=place,
            )
        self.tell(at, who, "end", **run, how=how)

    def verdict(self) -> Verdict:
        return judge(sorted(self.events, key=lambda event: event.at))

    def chosen(self, name: str, **facts: Any) -> int:
        """Return the index of a random event with this name."""
        places = [
            n
            for n, e in enumerate(self.events)
            if e.name == name and facts.items() <= e.facts.items()
        ]
        return self.dice.choice(places) if places else -1


@pytest.mark.parametrize("seeds", SEEDS)
def test_every_sound_history_is_valid(seeds: range) -> None:
    for seed in seeds:
        verdict = Simulation(seed).verdict()
        assert verdict.word == "valid", f"seed {seed}: {describe(verdict)}"


def without_a_final(s: Simulation) -> bool:
    place = s.chosen("final")
    if place >= 0 and answered(s, s.events[place].facts["op"]) == "ok":
        del s.events[place]
        return True
    return False


def answered(s: Simulation, op: str) -> str:
    return next(
        e.name for e in s.events if e.name in ("ok", "fail", "unclear") and e.facts["op"] == op
    )


def without_a_death(s: Simulation) -> bool:
    place = s.chosen("killed")
    if place >= 0:
        del s.events[place]
    return place >= 0


def without_a_stop(s: Simulation) -> bool:
    place = s.chosen("silent")
    if place >= 0:
        del s.events[place]
    return place >= 0


def rolled_back_after_all(s: Simulation) -> bool:
    finals = {e.facts["op"] for e in s.events if e.name == "final"}
    places = [
        n for n, e in enumerate(s.events) if e.name in ("ok", "unclear") and e.facts["op"] in finals
    ]
    if places:
        place = s.dice.choice(places)
        s.events[place] = s.events[place]._replace(name="fail")
    return bool(places)


def ended_by_an_earlier_fence(s: Simulation) -> bool:
    place = s.chosen("final")
    if place >= 0:
        facts = s.events[place].facts
        s.events[place] = s.events[place]._replace(facts=facts | {"fence": facts["fence"] - 1})
    return place >= 0


def an_end_that_comes_late(s: Simulation) -> bool:
    """The run goes on although the next one of its lane has begun."""
    begins = sorted(
        (e for e in s.events if e.name == "begin"), key=lambda e: (e.facts["lane"], e.at)
    )
    for before, after in itertools.pairwise(begins):
        ends = [n for n, e in enumerate(s.events) if e.name == "end" and e.who == before.who]
        if before.facts["lane"] == after.facts["lane"] and ends and s.events[ends[0]].at < after.at:
            s.events[ends[0]] = s.events[ends[0]]._replace(at=after.at + 1)
            return True
    return False


LIES = [without_a_final, without_a_death, without_a_stop, rolled_back_after_all,
        ended_by_an_earlier_fence,
        an_end_that_comes_late]  # fmt: skip


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("lie", LIES)
def test_a_sound_history_with_one_lie_is_invalid(
    lie: Callable[[Simulation], bool], seeds: range
) -> None:
    told_lies = 0
    for seed in seeds:
        simulation = Simulation(seed)
        if lie(simulation):
            told_lies += 1
            verdict = simulation.verdict()
            assert verdict.word == "invalid", f"seed {seed}"
    assert told_lies > len(seeds) / 6
