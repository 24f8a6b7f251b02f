"""What a producer's jobs wait for besides their lanes: a limit, other jobs, or not for long."""

from collections import deque
from random import Random
from typing import Any

import inturn

LIMITS: dict[str, dict[str, float]] = {  # of a second; the judge knows them from the settings
    "slots": {"slots": 2},
    "tuned": {"slots": 3},  # an operator sets it to 1, 2 or 3 all the time
    "rate": {"rate": 4, "burst": 4},
    "both": {"slots": 2, "rate": 8, "burst": 3},
}
SHELVES = ("shelf-0", "shelf-1")  # lanes that jobs share
POLICIES = ("cancel", "go", "hold")
REMEMBERED = 40  # jobs that later ones may come after
SPANS = (0.05, 0.3, 1.0, 30.0)  # seconds in which a job that expires must have started

Spec = dict[str, Any]


class Flow:
    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.crowded = False  # enough jobs wait for their limits
        self.known: deque[tuple[list[Any], int]] = deque(maxlen=REMEMBERED)  # keys, and ids

    def remember(self, op: str, ids: list[int]) -> None:
        """Let later jobs come after these, which are committed."""
        self.known.extend(([op, index], id) for index, id in enumerate(ids))

    def options(self, seconds: tuple[float, ...] = (0.001, 0.02, 0.08)) -> Spec:
        """Return what one call says of its jobs: limit, after and expires."""
        dice = self.dice
        chosen: Spec = {"seconds": dice.choice(seconds), "fails": dice.choice([0] * 12 + [1, 5])}
        wanted = dice.sample(
            ["limit", "limit", "after", "after", "expires"], dice.choice([1, 1, 2])
        )
        if "limit" in wanted and not self.crowded:
            chosen["limit"] = dice.choice(["slots", "slots", "tuned", "rate", "both"])
        if "after" in wanted and self.known:
            parents = dice.sample(list(self.known), min(len(self.known), dice.choice([1, 1, 2, 4])))
            chosen["after"] = [key for key, _ in parents]
            chosen["ids"] = [id for _, id in parents]
            chosen["on_parent"] = dice.choice(POLICIES)
        if "expires" in wanted:
            chosen["expires"] = dice.choice(SPANS)
        return chosen

    def several(self, lane: str | None, lanes: list[str]) -> tuple[str | None, Spec]:
        """Choose the lanes of a call: often several of them, or one that is shared."""
        dice = self.dice
        if dice.random() < 0.4:
            return lane, {}
        shelf = dice.choice(SHELVES)
        if lane is None:
            return shelf, {"shared": dice.choice([[shelf], [shelf], []])}
        if dice.random() < 0.5:
            return lane, {"also": [shelf], "shared": dice.choice([[shelf], [shelf], []])}
        # The first in the order of their names stands for all of them.
        first, second = sorted([lane, dice.choice([other for other in lanes if other != lane])])
        return first, {"also": [second]}


def locks(lane: str | None, spec: Spec) -> Any:
    """Return the argument `lock` for the jobs of a call."""
    shared = spec.get("shared", [])
    if lane is None or not (shared or "also" in spec):
        return lane
    names = [lane, *spec.get("also", [])]
    return [inturn.shared(name) if name in shared else name for name in names]


def configured(spec: Spec) -> dict[str, Any]:
    """Return the options of `configure` for a spec. The rest of it is for the judge."""
    expires = spec.get("expires")
    return {
        "limit": spec.get("limit"),
        "after": spec.get("ids"),
        "on_parent": spec.get("on_parent"),
        "expires_in": None if expires is None else {"seconds": expires},
    }


def told(spec: Spec) -> Spec:
    """Return what the judge may know: keys, and no ids."""
    return {name: value for name, value in spec.items() if name != "ids"}
