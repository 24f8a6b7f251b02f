"""The judge on hundreds of random histories: sound ones pass, and with one lie they do not."""

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.evidence.forged.story import Story
from tests.evidence.judge import describe

# A sample in each run, and the others in the proof.
SEEDS = [
    pytest.param(range(30), id="30 histories"),
    pytest.param(range(30, 150), id="120 more", marks=pytest.mark.proof),
]
FATES = ["ok", "ok", "ok", "raised", "killed", "killed late", "stopped"]


class Simulation(Story):
    """Lanes of jobs that run as promised, on workers that die, are stopped and raise.

    A worker that dies has one job.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.dice, self.names = random.Random(seed), itertools.count()
        for lane in ("L", "M"):
            self.lane(lane)

    def lane(self, lane: str) -> None:
        deferred, free = 0.0, 0.0
        for number in range(self.dice.randrange(1, 8)):
            op, size = f"{lane}{number}", self.dice.choice([1, 1, 3])
            deferred += self.dice.random()
            answer = self.dice.choice(["ok", "ok", "ok", "fail", "unclear"])
            self.defer(deferred, op, answer, lane, (1,) * size, fails=1)
            deferred += 0.02
            if answer == "ok" or (answer == "unclear" and self.dice.random() < 0.5):
                for index in range(size):
                    free = self.job(lane, op, index, max(free, deferred))

    def job(self, lane: str, op: str, index: int, at: float) -> float:
        """Run attempts until one succeeds, and return when the lane is free again."""
        for attempt in itertools.count(1):
            begin = at + 0.001 + self.dice.random() * 0.1
            fence, end, fate = (
                round(begin * 1e6),
                begin + self.dice.random(),
                self.dice.choice(FATES),
            )
            who, how = f"{lane}-worker.{next(self.names)}", "raised" if fate == "raised" else "ok"
            until = {"killed": None, "stopped": begin + 9.01}.get(fate, end)
            accepted = True if fate in ("ok", "killed late") else None
            self.run(begin, until, op, fence, who, how, attempt, index, lane, accepted)
            if fate == "stopped":
                self.stop(begin + 0.0005, begin + 9, who)
                at = begin + 6
            elif fate in ("killed", "killed late"):
                at = end + 0.1
                self.kill(at, who)
                at += 6
            else:
                at = end
            if fate == "ok":
                self.final(op, fence, index=index)
                return end
        raise AssertionError

    def chosen(self, name: str) -> int | None:
        """Return the index of a random event with this name."""
        places = [n for n, event in enumerate(self.events) if event.name == name]
        return self.dice.choice(places) if places else None

    def change(self, place: int, **changes: Any) -> bool:
        self.events[place] = self.events[place]._replace(**changes)
        return True


def without(name: str) -> Callable[[Simulation], bool]:
    def lie(s: Simulation) -> bool:
        place = s.chosen(name)
        return place is not None and bool(s.events.pop(place))

    return lie


def without_a_final(s: Simulation) -> bool:
    place = s.chosen("final")
    op = None if place is None else s.events[place].facts["job"][0]
    if place is None or not any(e.name == "ok" and e.facts["op"] == op for e in s.events):
        return False
    return bool(s.events.pop(place))


def rolled_back_after_all(s: Simulation) -> bool:
    finals = {e.facts["job"][0] for e in s.events if e.name == "final"}
    places = [
        n for n, e in enumerate(s.events) if e.name in ("ok", "unclear") and e.facts["op"] in finals
    ]
    return bool(places) and s.change(s.dice.choice(places), name="fail")


def ended_by_an_earlier_fence(s: Simulation) -> bool:
    place = s.chosen("final")
    if place is None:
        return False
    facts = s.events[place].facts
    return s.change(place, facts=facts | {"fence": facts["fence"] - 1})


def an_end_that_comes_late(s: Simulation) -> bool:
    """The run goes on although the next one of its lane has begun."""
    begins = sorted(
        (e for e in s.events if e.name == "begin"), key=lambda e: (e.facts["lane"], e.at)
    )
    for before, after in itertools.pairwise(begins):
        ends = [n for n, e in enumerate(s.events) if e.name == "end" and e.who == before.who]
        if before.facts["lane"] == after.facts["lane"] and ends and s.events[ends[0]].at < after.at:
            return s.change(ends[0], at=after.at + 1)
    return False


LIES = {
    "without a final": without_a_final,
    "without a death": without("killed"),
    "without a stop": without("silent"),
    "rolled back after all": rolled_back_after_all,
    "ended by an earlier fence": ended_by_an_earlier_fence,
    "an end that comes late": an_end_that_comes_late,
}


@pytest.mark.parametrize("seeds", SEEDS)
def test_every_sound_history_is_valid(seeds: range) -> None:
    for seed in seeds:
        verdict = Simulation(seed).verdict()
        assert verdict.word == "valid", f"seed {seed}: {describe(verdict)}"


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("lie", LIES.values(), ids=list(LIES))
def test_a_sound_history_with_one_lie_is_invalid(
    lie: Callable[[Simulation], bool], seeds: range
) -> None:
    told_lies = 0
    for seed in seeds:
        simulation = Simulation(seed)
        if lie(simulation):
            told_lies += 1
            assert simulation.verdict().word == "invalid", f"seed {seed}"
    assert told_lies > len(seeds) / 6
