"""A job that kills its workers, and what it shares with others: a limit, a lane and a group.

It keeps no slot while its worker is dead, the others go on, and it fails in the end.
"""

from tests.race.harness import Mutation, Stage, ids, promise, story
from tests.race.test_poison import WITHOUT_A_LIMIT, die, history

LOSSES = 6  # one more than the default allows
KEEPS_ITS_SLOT = Mutation(
    "a job that is taken back keeps its slot",
    "retry.sql",
    "PERFORM notify_workers(open_gates(v_again.gates, true));",
    "NULL;",
)


def used(stage: Stage) -> list[int]:
    return [count for (count,) in stage.control.execute("SELECT used FROM gates").fetchall()]


@story(
    WITHOUT_A_LIMIT,
    KEEPS_ITS_SLOT,
    Mutation(
        "a job that fails keeps its slot",
        "finish.sql",
        "PERFORM notify_workers(open_gates(v_done.gates, true));",
        "NULL;",
    ),
)
def test_a_job_that_kills_its_workers_gives_its_slot_back_each_time_and_then_to_the_next(
    stage: Stage,
) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("api", 1)
    bad, good = person.defer(None, 0, 0, limit="api")
    for _ in range(LOSSES):
        promise(ids(worker.claim()) == [bad], "it is older, so it has the only slot again")
        promise(used(stage) == [1], "once")
        promise(die(stage, worker) == [bad], "it is taken from the dead worker")
        promise(used(stage) == [0], f"and its slot too: {used(stage)}")
    promise(history(stage) == {bad: "failed"}, f"it has failed: {history(stage)}")
    promise(ids(worker.claim()) == [good], "the other one has the slot")


@story(WITHOUT_A_LIMIT, KEEPS_ITS_SLOT)
def test_the_other_slots_of_its_limit_are_used_while_its_worker_is_dead(stage: Stage) -> None:
    person, dying, living = stage.session(), stage.worker(), stage.worker()
    person.set_limit("api", 2)
    bad, *good = person.defer(None, *[0] * (LOSSES + 1), limit="api")
    for next_one in good:
        promise(ids(dying.claim(1)) == [bad], "it is the oldest")
        going = living.claim(1)
        promise(ids(going) == [next_one], "the second slot goes to the next")
        die(stage, dying)
        promise(used(stage) == [1], f"only that one runs: {used(stage)}")
        living.finish(*going, want=0)
    promise(history(stage).get(bad) == "failed", f"it has failed: {history(stage)}")
    promise(stage.drain() == [], "nothing is left")


@story(
    WITHOUT_A_LIMIT,
    Mutation(
        "groups take no turns",
        "begin_turns.sql",
        "r.fair := groups_wait(r.queues);",
        "r.fair := false;",
    ),
)
def test_neither_its_own_group_nor_others_starve_while_it_kills_one_worker_after_the_other(
    stage: Stage,
) -> None:
    person, living = stage.session(), stage.worker()
    bad, *own = person.defer(None, *[0] * (LOSSES + 1), group="a")
    others = person.defer(None, *[0] * LOSSES, group="b")
    for turn in zip(own, others, strict=True):
        dying = stage.worker()
        promise(ids(dying.claim(1)) == [bad], "it is the oldest of its group")
        going = living.claim(2)
        promise(sorted(ids(going)) == sorted(turn), f"one of each group starts: {ids(going)}")
        living.finish(*going, want=0)
        promise(die(stage, dying) == [bad], "it comes back")
    promise(history(stage).get(bad) == "failed", f"it has failed: {history(stage)}")
    promise(stage.statuses() == {}, f"all others have ended: {stage.statuses()}")


@story(WITHOUT_A_LIMIT, KEEPS_ITS_SLOT)
def test_its_lane_holds_for_it_without_a_slot_and_goes_on_when_it_has_failed(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("api", 1)
    [bad] = person.defer("lane", limit="api")
    [behind] = person.defer("lane", limit="api")
    for _ in range(LOSSES):
        promise(ids(worker.claim()) == [bad], "its lane waits for it")
        die(stage, worker)
        promise(used(stage) == [0], f"without a slot: {used(stage)}")
    promise(history(stage) == {bad: "failed"}, f"it has failed: {history(stage)}")
    promise(ids(worker.claim()) == [behind], "the lane goes on")
