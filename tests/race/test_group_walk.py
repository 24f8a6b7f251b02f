"""Random arrivals, weights and claims: no group that waits gets less than its share.

Between two turns of a group that waits all the time, each other group has at most one turn at the
same worker. So whatever the others do, they start no more jobs than their weights allow.
"""

from collections import Counter
from random import Random

import pytest

from tests.race.harness import Mutation, PromiseBroken, Stage, Worker, promise

STEPS, SEEDS = 60, range(6)
WEIGHTS = {"a": 1, "b": 1, "c": 2, "d": 5}
GROUPS = "SELECT id, coalesce(group_key, '') FROM jobs WHERE id = ANY (%s)"


class Book:
    """What one worker has started since each group began to wait."""

    def __init__(self) -> None:
        self._since: dict[str, Counter[str]] = {}

    def note(self, started: Counter[str], waiting: set[str]) -> None:
        """Check the shares of the groups that waited before this claim and still wait."""
        for group in list(self._since):
            if group not in waiting:
                del self._since[group]
        for group in waiting:
            starts = self._since.setdefault(group, Counter())
            starts.update(started)
            turns = starts[group] / weight(group)
            for other, count in starts.items():
                promise(
                    other == group or count <= weight(other) * (turns + 2),
                    f"{other} started {count} jobs while {group} waited and started {turns} turns",
                )


def weight(group: str) -> int:
    return WEIGHTS.get(group, 1)


def walk(stage: Stage, random: Random) -> None:
    person = stage.session()
    workers = [(stage.worker(), Book()), (stage.worker(), Book())]
    for group in ("c", "d"):
        person.run("SELECT set_group(%s, %s)", group, WEIGHTS[group])
    jobs = 0
    for _ in range(STEPS):
        for _ in range(random.randrange(4)):
            chosen = random.choice(["a", "a", "b", "c", "d", None])
            jobs += 1
            lock = random.choice([None, None, f"lane {jobs}", f"lane of {chosen}"])
            many = random.choice([1, 1, 3, 30])
            person.defer(lock, *[0] * many, group=chosen)
        worker, book = random.choice(workers)
        book.note(step(stage, worker, random.choice([1, 1, 2, 5, 12])), waiting_groups(stage))


def step(stage: Stage, worker: Worker, limit: int) -> Counter[str]:
    """Claim jobs, end them, and return how many of each group there were."""
    claimed = worker.claim(limit)
    rows = stage.control.execute(GROUPS, [[job.id for job in claimed]]).fetchall()
    if claimed:
        worker.finish(*claimed, want=0)
    return Counter(group for _, group in rows)


def waiting_groups(stage: Stage) -> set[str]:
    """Return the groups of which a free job waits. Those of lanes may wait for their lane."""
    rows = stage.control.execute(
        "SELECT DISTINCT coalesce(group_key, '') FROM jobs WHERE status = 'todo' AND lock IS NULL"
    ).fetchall()
    return {group for (group,) in rows}


def walk_all(stage: Stage) -> None:
    for seed in SEEDS:
        walk(stage, Random(seed))
        stage.control.execute("DELETE FROM jobs")
        stage.control.execute("DELETE FROM lanes")


@pytest.mark.parametrize("seed", SEEDS)
def test_no_walk_gives_a_group_that_waits_less_than_its_share(stage: Stage, seed: int) -> None:
    walk(stage, Random(seed))


@pytest.mark.parametrize(
    "mutation",
    [
        Mutation(
            "each claim begins with the first group",
            "claim.sql",
            "p_turns := coalesce(p_turns, '{}');",
            "p_turns := '{}';",
        ),
        Mutation(
            "the turns do not go on",
            "fair_candidates.sql",
            "|| coalesce((SELECT jsonb_object_agg(",
            "|| coalesce((SELECT jsonb_object_agg('x' ||",
        ),
        Mutation(
            "a turn never ends",
            "fair_candidates.sql",
            "ELSE weight - 1 - (place - first - 1) % weight END AS rest",
            "ELSE weight END AS rest",
        ),
        Mutation(
            "a group is read by age",
            "fair_candidates.sql",
            "CASE WHEN place <= first THEN -1 ELSE (place - first - 1) / weight END,",
            "",
        ),
    ],
    ids=lambda mutation: mutation.name,
)
def test_a_walk_finds_a_group_that_gets_less(stage: Stage, mutation: Mutation) -> None:
    stage.mutate(mutation)
    with pytest.raises(PromiseBroken):
        walk_all(stage)
