"""Groups: their jobs take turns, whatever happens to the jobs and however many one group has."""

from collections.abc import Callable
from contextlib import suppress

import psycopg
import pytest

from tests.race.harness import Job, Mutation, Session, Stage, Worker, ids, promise, story

NO_MEMORY = Mutation(
    "each claim begins with the first group",
    "begin_turns.sql",
    "r.turns := coalesce(r.turns, '{}');",
    "r.turns := '{}';",
)
ONE_ROUND = Mutation(
    "a group is read by age",
    "fair_candidates.sql",
    "CASE WHEN place <= first THEN -1 ELSE (place - first - 1) / weight END,",
    "",
)


def start(worker: Worker, count: int) -> list[int]:
    """Claim one job after the other, and return their ids."""
    return [worker.claim_one().id for _ in range(count)]


def groups(stage: Stage, jobs: list[int]) -> str:
    """Return the groups of these jobs, which are named by letters. `-` is a job without one."""
    rows = stage.control.execute("SELECT id, coalesce(group_key, '-') FROM jobs").fetchall()
    names: dict[int, str] = dict(rows)
    return "".join(names[job] for job in jobs)


def defer(person: Session, count: int, group: str | None, lock: str | None = None) -> list[int]:
    """Defer jobs one by one, so that each is a token of its lane."""
    return [person.defer(lock, group=group)[0] for _ in range(count)]


@story(NO_MEMORY)
def test_a_group_with_many_jobs_delays_another_by_one_job_of_each_group(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    flood = defer(person, 30, "a")
    started = start(worker, 3)
    late = defer(person, 2, "b") + defer(person, 1, "c")
    started += start(worker, 7)
    promise(groups(stage, started) == "aaabcabaaa", f"not {groups(stage, started)}")
    own = [job for job in started if job in flood]
    promise(own == flood[: len(own)], "the jobs of a group go by age")
    promise(late[0] in started, "the late job has its turn")


@story(
    Mutation(
        "weights are looked up for no group",
        "fair_candidates.sql",
        " HAVING count(*) > 0",
        "",
    )
)
def test_a_claim_that_finds_only_locked_jobs_of_groups_returns(stage: Stage) -> None:
    """Whichever plan it has: the planner may look up the weights first."""
    person, worker = stage.session(), stage.worker()
    [job] = person.defer(None, group="a")
    worker.run("SET enable_memoize = off")
    person.begin()
    person.run("SELECT FROM jobs WHERE id = %s FOR UPDATE", job)
    found: list[Job] | None = None
    with suppress(psycopg.errors.NullValueNotAllowed):
        found = worker.claim()
    promise(found == [], "another transaction has the only job")
    person.rollback()
    promise(start(worker, 1) == [job], "it starts afterwards")


@story(ONE_ROUND)
def test_a_claim_of_several_jobs_takes_as_many_of_each_group(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    for group in "aaaaaaaaabbbbbbbbbc":
        person.defer(None, group=group)
    promise(sorted(groups(stage, ids(worker.claim(4)))) == [*"aabc"], "one each, and one more")
    promise(sorted(groups(stage, ids(worker.claim(4)))) == [*"aabb"], "it continues with b")
    promise(sorted(groups(stage, ids(worker.claim(5)))) == [*"aabbb"], "and again with b")


@story(
    Mutation(
        "jobs without a group go first",
        "fair_candidates.sql",
        'coalesce(name <= last COLLATE "C", false),',
        "name <> '', coalesce(name <= last COLLATE \"C\", false),",
    )
)
def test_jobs_without_a_group_take_turns_as_one_group(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    defer(person, 10, None)
    defer(person, 10, "a")
    defer(person, 5, "b", lock="lane")
    promise(groups(stage, start(worker, 6)) == "-ab-a-", "the lane is busy, the others alternate")


@story(NO_MEMORY)
def test_queues_of_one_worker_share_the_turns(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    for _ in range(10):
        person.defer(None, group="a", queue="first")
    person.defer(None, group="b", queue="second")
    promise(groups(stage, start(worker, 3)) == "aba", "b does not wait for the other queue")


def test_the_priority_goes_before_the_turns(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    defer(person, 3, "a")
    person.defer(None, 5, 5, group="b")
    promise(groups(stage, start(worker, 4)) == "bbaa", "priority first")


@story(
    Mutation(
        "weights are not looked at",
        "fair_candidates.sql",
        "LATERAL unnest(names, group_weights(names))",
        "LATERAL unnest(names, array_fill(1, ARRAY[cardinality(names)]))",
    )
)
def test_a_weight_holds_at_once_for_jobs_that_wait(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    defer(person, 20, "a")
    defer(person, 20, "b")
    promise(groups(stage, start(worker, 4)) == "abab", "one each")
    person.run("SELECT set_group('a*', 3)")
    promise(groups(stage, start(worker, 8)) == "aaabaaab", "three to one")
    promise(groups(stage, ids(worker.claim(8))) == "aaaaaabb", "in one claim too")
    person.run("SELECT remove_group('a*')")
    promise(groups(stage, start(worker, 4)) == "abab", "one each again")


@story(NO_MEMORY)
def test_jobs_that_become_due_together_wait_for_their_turns(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    for _ in range(5):
        person.defer(None, group="a", delay="1 hour")
    person.defer(None, 0, 0, 0, group="b")
    for session in (person, worker):
        session.hasten("2 hours")
    promise(groups(stage, start(worker, 6)) == "ababab", "due jobs take turns")


@story(NO_MEMORY)
def test_retried_jobs_wait_for_the_turn_of_their_group(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    defer(person, 5, "a")
    failed = worker.claim(5)
    person.defer(None, 0, 0, group="b")
    worker.retry(*failed)
    promise(groups(stage, start(worker, 4)) == "baba", "they do not go first because they are old")


@story(NO_MEMORY)
def test_children_that_become_ready_together_wait_for_their_turns(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    [parent] = person.defer(None)
    for _ in range(4):
        person.run("SELECT defer('t', group_key => 'a', after => ARRAY[%s])", parent)
    person.defer(None, 0, 0, 0, group="b")
    worker.finish(next(job for job in worker.claim(2) if job.id == parent))
    promise(groups(stage, start(worker, 5)) == "ababa", "children take turns")


def test_a_job_that_is_put_back_is_the_first_of_its_group_again(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    jobs = defer(person, 3, "a")
    defer(person, 2, "b")
    first = worker.claim_one()
    worker.put_back(first)
    promise(start(worker, 2)[1] == jobs[0], "after the turn of b, it goes first")


@story(
    Mutation("it takes the turns of jobs that it leaves", "fair_candidates.sql", "WHERE fits", "")
)
def test_a_claim_that_may_take_no_more_lanes_leaves_the_turns_to_the_next(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    for number in range(30):
        for group in "abc":
            locks = [f"{group}{number}", f"another {group}{number}"]
            person.run("SELECT defer('task', locks => %s, group_key => %s)", locks, group)
    started = ids(worker.claim(90))
    promise(len(started) == 64, f"not {len(started)}")
    promise(groups(stage, started[-1:]) == "a", "the last turn")
    promise(groups(stage, start(worker, 2)) == "bc", "the others are next")


@story(
    Mutation(
        "tokens of lanes have no groups",
        "fair_candidates.sql",
        "token.lock, false, token.group_key, token.several FROM token",
        "token.lock, false, '', token.several FROM token",
    )
)
def test_lanes_take_the_turns_of_their_groups_and_keep_their_order(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    for number in range(8):
        person.defer(f"a{number}", group="a")
    first = person.defer("b", 0, 0, group="b")
    defer(person, 2, "b")
    started = start(worker, 4)
    promise(groups(stage, started) == "abab", f"not {groups(stage, started)}")
    promise(first[0] in started and first[1] not in started, "the lane keeps its order")


@story(
    Mutation(
        "lanes of groups are handed over",
        "handover_candidates.sql",
        "OR NOT head.grouped AND (head.priority, first.id) > (first.priority, head.id)",
        "OR (head.priority, first.id) > (first.priority, head.id)",
    )
)
def test_a_lane_of_a_group_is_not_handed_over_while_others_wait(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    jobs = person.defer("lane", 0, 0, 0, group="a")
    [running] = worker.claim(1)
    [handed] = worker.finish(running).following
    promise(handed.id == jobs[1], "nobody else waits, so it is handed over")
    person.defer(None)
    promise(not worker.finish(handed).following, "now somebody waits")


@story(
    Mutation(
        "a lane keeps its slice",
        "handover_candidates.sql",
        "OR (head.priority = first.priority AND first.id > 0 AND NOT head.grouped",
        "OR (head.priority = first.priority AND NOT head.grouped",
    )
)
def test_a_lane_without_a_group_gives_way_to_groups(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.defer("lane", 0, 0, 0)
    [running] = worker.claim(1)
    person.defer("other", group="a")
    promise(not worker.finish(running).following, "the turn is that of a")
    promise(sorted(groups(stage, start(worker, 2))) == [*"-a"], "and a has it at the next claim")


@story(
    Mutation(
        "further claims do not look at groups",
        "begin_further.sql",
        "OR groups_wait(p_queues)",
        "OR false",
    )
)
def test_a_claim_further_leaves_the_turns_to_a_full_claim(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    jobs = defer(person, 5, None)
    [first] = worker.claim(1)
    promise(len(worker.claim_further(first.id, 1)) == 1, "no group waits")
    person.defer(None, group="a", queue="elsewhere")
    promise(len(worker.claim_further(jobs[1], 1)) == 1, "no group waits in this queue")
    person.defer(None, group="a")
    promise(not worker.claim_further(jobs[2], 1), "a group waits")


@story(
    Mutation(
        "jobs are claimed ahead",
        "begin_turns.sql",
        "r.asked := least(r.asked, r.slots);",
        "",
    )
)
def test_no_job_is_claimed_ahead_while_groups_wait(stage: Stage) -> None:
    person, worker, other = stage.session(), stage.worker(), stage.worker("elsewhere")
    defer(person, 10, "a")
    defer(person, 10, None)
    person.defer(None, *[0] * 10, queue="elsewhere")
    promise(len(worker.claim(10, slots=2)) == 2, "as many as can begin")
    promise(worker.claim(10, slots=0) == [], "none ahead, with or without a group")
    promise(len(other.claim(10, slots=2)) == 10, "other queues are not concerned")


@story(
    Mutation(
        "a burst of a group with a full limit is not cleared",
        "far_front.sql",
        "WHERE jobs.id = ANY (p_seen) AND jobs.group_key IS NOT NULL AND jobs.lock IS NULL",
        "WHERE false",
    )
)
def test_a_group_whose_limit_is_full_keeps_nobody_waiting(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    person.set_limit("stripe", 1)
    person.defer(None, *[5] * 300, limit="stripe", group="a")
    [running] = worker.claim(1)
    promise(groups(stage, [running.id]) == "a", "one of them runs")
    [low] = person.defer(None, group="b")
    promise(ids(worker.claim(1) or worker.claim(1)) == [low], "a lower priority is reached")
    person.defer(None, 5, group="b")
    worker.finish(running)
    promise(sorted(groups(stage, start(worker, 2))) == ["a", "b"], "who was woken takes turns")


def test_overlapping_transactions_of_a_group_share_its_turns(stage: Stage) -> None:
    first, second, worker = stage.session(), stage.session(), stage.worker()
    first.begin()
    early = defer(first, 3, "a")
    second.begin()
    later = defer(second, 3, "a")
    defer(second, 3, "b")
    second.commit()
    started = start(worker, 3)
    promise(groups(stage, started) == "aba" and started[0] == later[0], "who commits is seen")
    first.commit()
    started = start(worker, 4)
    promise(groups(stage, started) == "baba", "two transactions of a do not have two turns")
    promise(started[1] == early[0], "and the older job goes first")


def test_a_claim_under_way_does_not_keep_other_groups_from_another_claim(stage: Stage) -> None:
    person, first, second = stage.session(), stage.worker(), stage.worker()
    defer(person, 2, "a")
    defer(person, 1, "b")
    first.begin()
    promise(groups(stage, ids(first.claim(1))) == "a", "the claim of the first is open")
    promise(groups(stage, start(second, 2)) == "ab", "it waits for nothing and takes no job twice")
    first.commit()
    promise(len(stage.doing()) == 3, "each job once")


def test_replace_moves_a_scheduled_job_to_the_new_group(stage: Stage) -> None:
    person = stage.session()
    for group in "ab":
        person.run(
            "SELECT defer('t', group_key => %s, queueing_lock => 'q', on_conflict => 'replace', "
            "scheduled_at => now() + interval '1 hour')",
            group,
        )
    promise(person.run("SELECT group_key FROM jobs") == [("b",)], "it has the new one")


def test_a_finished_job_keeps_its_group_and_comes_back_with_it(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    [job] = person.defer(None, group="a")
    worker.finish(*worker.claim(1), status="failed")
    promise(person.run("SELECT group_key FROM finished_jobs") == [("a",)], "the history has it")
    promise(person.retry_job(job), "it is retried")
    promise(groups(stage, [job]) == "a", "with its group")


def test_explain_says_how_many_jobs_go_first(stage: Stage) -> None:
    person, worker = stage.session(), stage.worker()
    jobs = defer(person, 3, "a")
    promise(person.reasons(jobs[0]) == ["ready"], "nobody else waits")
    defer(person, 5, "b")
    person.run("SELECT set_group('b', 2)")
    [(reason, detail)] = person.run("SELECT reason, detail FROM explain(%s)", jobs[2])
    promise(
        reason == "turn" and "at most 8 jobs" in detail and "2 of its group a" in detail, detail
    )
    before = start(worker, 8)
    promise(jobs[2] in before, "no more than that start before it")


def rescue(stage: Stage, person: Session, worker: Worker) -> None:
    stage.forget(worker)
    person.rescue()
    worker.register()


ACTS: dict[str, Callable[[Stage, Session, Worker, Job], object]] = {
    "fails": lambda _, __, worker, job: worker.finish(job, want=0, status="failed"),
    "is retried": lambda _, __, worker, job: worker.retry(job),
    "is retried later": lambda _, __, worker, job: worker.retry(job, delay="1 hour"),
    "is put back": lambda _, __, worker, job: worker.put_back(job),
    "is rescued": lambda stage, person, worker, _: rescue(stage, person, worker),
    "is cancelled, and its lane is paused": lambda _, person, worker, job: (
        person.pause("lane"),
        worker.finish(job, want=0, status="cancelled"),
    ),
    "halts its lane": lambda stage, _, worker, job: (
        stage.control.execute("UPDATE jobs SET on_failure = 'halt'"),
        worker.finish(job, want=0, status="failed"),
    ),
    "gives up its lane": lambda stage, _, worker, job: (
        stage.control.execute("UPDATE jobs SET on_retry = 'release'"),
        worker.retry(job, delay="1 hour"),
    ),
    "is deleted behind": lambda _, person, worker, job: (
        person.delete(job.id + 1),
        worker.finish(job, want=0),
    ),
    "skips the next": lambda _, person, worker, job: (
        worker.retry(job, delay="1 hour"),
        person.skip_head("lane"),
    ),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_the_groups_alternate_whatever_happens_to_a_job(
    stage: Stage, act: Callable[[Stage, Session, Worker, Job], object]
) -> None:
    person, worker = stage.session(), stage.worker()
    person.defer("lane", 0, 0, 0, group="a")
    job = worker.claim_one()
    person.defer(None, *[0] * 4, group="a")
    person.defer(None, *[0] * 8, group="b")
    act(stage, person, worker, job)
    started = groups(stage, start(worker, 6))
    promise(started in ("bababa", "ababab"), f"not {started}")
    promise(len(set(stage.doing())) == len(stage.doing()), "each job once")
