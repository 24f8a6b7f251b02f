"""Random walks: whatever workers, deaths and people do, everything that is promised holds.

After each step the invariants of all features hold. At the end the reconciler must find nothing,
and a new worker must get every job that is left.
"""

from collections.abc import Iterable
from random import Random

import psycopg
import pytest

from inturn.sql import source_file
from tests.race.harness import Mutation, PromiseBroken, Stage, replace_once
from tests.race.walk import FEATURES, Walk

STEPS = 120


def features(seed: int, focus: Iterable[str] = ()) -> set[str]:
    """Return some features, as the seed says. With all of them, each would be rare."""
    random = Random(f"features {seed}")
    share = random.choice([0.1, 0.3, 0.6])
    return {*focus, *(name for name in FEATURES if random.random() < share)}


SEEDS = 150  # as many walks as a mutant may need

LANES, LIMITS, GROUPS = ("lanes",), ("lanes", "limits"), ("groups",)
TASKS, PAUSES = ("lanes", "limits", "task pauses"), ("lanes", "task pauses")
# The features that it takes, then the file, and what is taken out of it.
MUTANTS: dict[str, tuple[tuple[str, ...], str, str, str]] = {
    # limits
    "lanes of jobs without a slot are kept": (
        LIMITS,
        "pass_gates.sql",
        "array_agg(lock) FILTER (WHERE fits)",
        "array_agg(lock)",
    ),
    "a job with a limit is handed over": (
        LIMITS,
        "handover_candidates.sql",
        "AND NOT head.limited",
        "",
    ),
    "a job that is put back wakes nobody of its key": (
        LIMITS,
        "put_back.sql",
        "PERFORM notify_workers(open_gates(v_back.gates, true));",
        "NULL;",
    ),
    # task pauses
    "claims do not look at the pauses": (
        TASKS,
        "heed_pauses.sql",
        "r.paused := ARRAY(SELECT task FROM paused_tasks);",
        "NULL;",
    ),
    "a job of a paused task is handed over": (
        PAUSES,
        "handover_candidates.sql",
        "AND head.task NOT IN (SELECT unnest(p_paused))",
        "",
    ),
    "a lane whose head is aside counts as stranded": (
        TASKS,
        "lane_is_stranded.sql",
        "WHERE head.asleep AND (jobs.locks IS NULL",
        "WHERE (head.asleep OR head.aside) AND (jobs.locks IS NULL",
    ),
    # lanes
    "one lane forgotten at finish": (
        LANES,
        "leave_lanes.sql",
        "unnest(job.locks) AS lane WHERE",
        "unnest(job.locks[:1]) AS lane WHERE",
    ),
    "retry keeps only one of two lanes": (
        LANES,
        "keep_or_leave.sql",
        "CROSS JOIN LATERAL unnest(job.locks) AS lane",
        "CROSS JOIN LATERAL unnest(job.locks[:1]) AS lane",
    ),
    "finish does not look at several-lane heads": (
        LANES,
        "release_lanes.sql",
        "FROM lane_heads(p_locks, p_floors) WHERE",
        "FROM lane_heads(p_locks, p_floors) WHERE NOT several AND",
    ),
    "a job stays in line": (
        LANES,
        "take_lanes.sql",
        "PERFORM leave_line(p_job.id, jobs.priority, p_job.locks)",
        "PERFORM 1",
    ),
    "a due job joins one lane": (
        LANES,
        "promote.sql",
        "PERFORM join_lanes(v_joining);",
        "NULL;",
    ),
    "the first reader to end frees the lane": (
        LANES,
        "leave_lanes.sql",
        "nullif(greatest(readers - given.count, 0), 0)",
        "NULL",
    ),
    "a failed reader gives its share up": (
        LANES,
        "keep_or_leave.sql",
        "IF p_leaving IS NULL THEN",
        "PERFORM leave_lanes(p_keeping); IF p_leaving IS NULL THEN",
    ),
    "a move leaves lanes as they were": (
        LANES,
        "change_jobs.sql",
        "PERFORM reopen_lane(lane) FROM unnest(v_held) AS lane;",
        "DELETE FROM lanes WHERE num_nonnulls(worker_id, job_id, readers, stopped, look_at) = 0;",
    ),
    "a moved job keeps its places in line": (
        LANES,
        "move_waiting.sql",
        "PERFORM leave_line(id, priority, locks) FROM jobs WHERE id = ANY (p_ids) "
        "AND locks IS NOT NULL;",
        "",
    ),
    # groups
    "each claim begins with the first group": (
        GROUPS,
        "begin_turns.sql",
        "r.turns := coalesce(r.turns, '{}');",
        "r.turns := '{}';",
    ),
    "the turns do not go on": (
        GROUPS,
        "fair_candidates.sql",
        "|| coalesce((SELECT jsonb_object_agg(",
        "|| coalesce((SELECT jsonb_object_agg('x' ||",
    ),
    "a turn never ends": (
        GROUPS,
        "fair_candidates.sql",
        "ELSE weight - 1 - (place - first - 1) % weight END AS rest",
        "ELSE weight END AS rest",
    ),
    "a group is read by age": (
        GROUPS,
        "fair_candidates.sql",
        "CASE WHEN place <= first THEN -1 ELSE (place - first - 1) / weight END,",
        "",
    ),
    # the others
    "claims serve paused queues": (
        ("queue pauses",),
        "heed_pauses.sql",
        "r.queues := leave_out_paused(r.queues);",
        "NULL;",
    ),
    "jobs that have expired stay": (
        ("expiry",),
        "settle_due.sql",
        "PERFORM expire_jobs(500, 50);",
        "NULL;",
    ),
    "a job starts in spite of its parent": (
        ("parents",),
        "cut_edges.sql",
        "AND (e.outcome = 'succeeded' OR edges.on_parent = 'go');",
        ";",
    ),
    "nobody settles the ends of parents": (
        ("parents",),
        "settle_due.sql",
        "PERFORM settle_ends(100, p_most);",
        "NULL;",
    ),
    "a retry does not rejoin its batch": (
        ("batches",),
        "restore_job.sql",
        "PERFORM note_batch_event(v_back.batch_id, v_back.status::text::batch_event, -1, p_id);",
        "NULL;",
    ),
    "nobody settles the batches": (
        ("batches",),
        "settle_due.sql",
        "PERFORM settle_batches(p_most);",
        "NULL;",
    ),
}


def test_everything_that_is_promised_holds_whatever_happens(stage: Stage) -> None:
    Walk(stage, 0, FEATURES).run(60)


# A few at each landing, since any change of the SQL can break a promise here.
WALKS = [
    pytest.param(seed, marks=pytest.mark.landing if seed < 8 else pytest.mark.proof)
    for seed in range(200)
]


@pytest.mark.parametrize("seed", WALKS)
def test_each_promise_holds_whatever_happens(stage: Stage, seed: int) -> None:
    Walk(stage, seed, features(seed) if seed % 4 else FEATURES).run(STEPS)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_each_mutant_takes_out_text_that_is_there(mutant: str) -> None:
    _, file, old, new = MUTANTS[mutant]
    replace_once(source_file(file.removesuffix(".sql")).read_text(), old, new, file)


@pytest.mark.proof
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_walk_finds_a_protection_that_is_missing(stage: Stage, mutant: str) -> None:
    focus, file, old, new = MUTANTS[mutant]
    stage.mutate(Mutation(mutant, file, old, new))
    with pytest.raises((PromiseBroken, psycopg.IntegrityError)):
        walk_on(stage, focus)


def walk_on(stage: Stage, focus: Iterable[str]) -> None:
    for seed in range(SEEDS):
        Walk(stage, seed, focus if seed % 2 else features(seed, focus)).run(STEPS)
