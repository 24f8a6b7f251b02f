"""What people see of a job: the views and lists speak of what it waits for, whatever is stored."""

from collections.abc import Iterator
from contextlib import closing
from itertools import combinations
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.cli.engine import Engine

AHEAD = 4  # jobs that a worker with one slot has claimed


@pytest.fixture
def engine(dsn: str) -> Iterator[Engine]:
    with closing(Engine(dsn)) as engine:
        yield engine


def claim_all(engine: Engine, worker: UUID, limit: int = 100) -> list[int]:
    found = engine.query("SELECT id FROM claim(%s, '{default}', %s)", worker, limit)
    return sorted(id for (id,) in found)


def of_status(engine: Engine, status: str) -> list[int]:
    rows = engine.query("SELECT id FROM list_jobs(1000, jobs_where(ARRAY[%s::job_status]))", status)
    listed = sorted(id for (id,) in rows)
    assert engine.query(
        "SELECT * FROM count_jobs(1000, jobs_where(ARRAY[%s::job_status]))", status
    ) == [(len(listed), False)]
    assert listed == sorted(id for id, seen in engine.statuses().items() if seen == status)
    return listed


def test_jobs_behind_another_are_blocked_although_no_claim_has_met_them(engine: Engine) -> None:
    first, second, free, other = (engine.defer("t", lock) for lock in ("a", "a", None, "b"))
    assert engine.query("SELECT DISTINCT status::text FROM jobs") == [("todo",)]
    assert of_status(engine, "todo") == [first, free, other]
    assert of_status(engine, "blocked") == [second]
    urgent = engine.defer("t", "a", priority=1)
    assert of_status(engine, "blocked") == [first, second]
    assert of_status(engine, "todo") == [free, other, urgent]


def test_what_waits_in_a_stopped_lane_is_blocked_until_the_pause_is_over(engine: Engine) -> None:
    engine.at("2026-01-31 14:00:00+00")
    first, second = engine.defer("t", "a"), engine.defer("t", "a")
    engine.query("SELECT pause_lane('a', NULL, '2026-01-31 15:00:00+00')")
    assert of_status(engine, "blocked") == [first, second]
    engine.at("2026-01-31 15:00:01+00")
    assert of_status(engine, "todo") == [first]  # the next claim takes it
    assert claim_all(engine, engine.sign_on()) == [first]


def test_a_job_that_comes_after_others_is_pending_before_any_claim_has_met_it(
    engine: Engine, dsn: str
) -> None:
    parent = engine.defer("t")
    child = defer_after(engine, parent)
    later = defer_after(engine, parent, "1 hour")
    retried = engine.defer("t", delay="1 hour")
    assert of_status(engine, "pending") == [child]
    assert of_status(engine, "scheduled") == [later, retried]
    asked = engine.query(
        "SELECT id FROM find_jobs(ROW('{pending}', NULL, NULL, NULL, NULL, NULL,"
        " NULL, NULL, NULL, NULL, NULL, NULL), 10)"
    )
    assert asked == [(child,)]
    assert queue_counts(engine) == (1, 1, 2)
    # A claim that finds the parent locked looks again a moment later.
    with psycopg.connect(dsn) as other:
        other.execute("SELECT FROM inturn.jobs WHERE id = %s FOR UPDATE", [parent])
        assert claim_all(engine, engine.sign_on()) == []
        assert of_status(engine, "pending") == [child]


def defer_after(engine: Engine, parent: int, delay: str | None = None) -> int:
    ((id,),) = engine.query(
        "SELECT id FROM defer_jobs('{t}', '{\"{}\"}', NULL, NULL, NULL, NULL,"
        " ARRAY[%s::interval], p_after => ARRAY[%s::bigint], p_after_of => '{1}')",
        *(delay, parent),
    )
    return int(id)


def queue_counts(engine: Engine) -> tuple[Any, ...]:
    (row,) = engine.query("SELECT runnable, pending, scheduled FROM queue_status")
    return row


def runnable(engine: Engine, queue: str = "default") -> tuple[Any, ...]:
    (row,) = engine.query(
        "SELECT runnable, blocked, oldest_id FROM queue_status WHERE queue = %s", queue
    )
    return row


def test_a_lane_whose_pause_is_over_is_runnable_before_any_claim_resumes_it(engine: Engine) -> None:
    engine.at("2026-01-31 14:00:00+00")
    worker = engine.sign_on()
    first, second = engine.defer("t", "a"), engine.defer("t", "a")
    engine.query("SELECT pause_lane('a', NULL, '2026-01-31 15:00:00+00')")
    assert claim_all(engine, worker) == []
    assert engine.query("SELECT DISTINCT status::text FROM jobs") == [("blocked",)]
    assert runnable(engine) == (0, 2, None)
    engine.at("2026-01-31 15:00:01+00")
    assert runnable(engine) == (1, 1, first)
    urgent = engine.defer("t", "a", priority=1)
    assert runnable(engine) == (1, 2, urgent)
    assert claim_all(engine, worker) == [urgent]
    assert runnable(engine) == (0, 2, None)
    engine.query("SELECT pause_lane('a', NULL, '2026-01-31 16:00:00+00')")
    engine.at("2026-01-31 16:00:01+00")
    assert runnable(engine) == (0, 2, None), f"{urgent} runs before {second}"


def several(engine: Engine, *locks: str, shared: str | None = None) -> int:
    ((id,),) = engine.query(
        "SELECT defer('t', locks => %s::text[], shared => %s::text[])",
        *(list(locks), shared and [shared]),
    )
    return int(id)


def test_a_job_with_several_lanes_is_runnable_only_if_all_of_them_are_free(engine: Engine) -> None:
    worker = engine.sign_on()
    first = engine.defer("t", "b")
    assert runnable(engine) == (1, 0, first)
    both = several(engine, "a", "b")
    behind = engine.defer("t", "a")
    assert runnable(engine) == (1, 2, first), "not although lane a has no row"
    end(engine, worker, engine.claim())
    assert runnable(engine) == (1, 1, both), behind
    other = several(engine, "b", "c")
    assert runnable(engine) == (1, 2, both), "two jobs that have a lane in common"
    assert claim_all(engine, worker) == [both]
    assert runnable(engine) == (0, 2, None), other


def test_all_jobs_that_share_a_free_lane_are_runnable(engine: Engine) -> None:
    worker = engine.sign_on()
    writer = engine.defer("t", "catalogue")
    claimed = engine.claim()
    readers = [several(engine, "catalogue", f"user:{n % 2}", shared="catalogue") for n in range(3)]
    assert runnable(engine) == (0, 3, None), writer
    end(engine, worker, claimed)
    assert runnable(engine) == (2, 1, readers[0]), "two have the same user"
    assert engine.claim()[0] == readers[0]
    assert runnable(engine) == (1, 1, readers[1]), "beside the one that runs"


def end(engine: Engine, worker: UUID, claimed: tuple[int, UUID]) -> None:
    engine.query(
        "SELECT finish(%s, '{default}', 0, ARRAY[%s::bigint], ARRAY[%s::uuid], '{succeeded}', "
        "'{NULL}')",
        *(worker, *claimed),
    )


def test_a_lane_whose_pause_is_over_still_waits_for_its_retry(engine: Engine) -> None:
    engine.at("2026-01-31 14:00:00+00")
    worker = engine.sign_on()
    retried, behind = engine.defer("t", "a"), engine.defer("t", "a")
    engine.fail(engine.claim(), "2 hours", "no")
    engine.query("SELECT pause_lane('a', NULL, '2026-01-31 15:00:00+00')")
    assert claim_all(engine, worker) == []
    engine.at("2026-01-31 15:00:01+00")
    assert runnable(engine) == (0, 1, None), f"{behind} waits"
    engine.at("2026-01-31 16:00:01+00")
    assert runnable(engine) == (1, 1, retried)
    assert claim_all(engine, worker) == [retried]


def test_a_lane_that_a_claim_must_look_at_again_is_runnable(engine: Engine) -> None:
    worker = engine.sign_on()
    first, second = engine.defer("t", "a"), engine.defer("t", "a")
    assert claim_all(engine, worker) == [first]
    engine.query("UPDATE jobs SET status = 'blocked' WHERE id = %s", second)
    ((claim_id,),) = engine.query("SELECT claim_id FROM jobs WHERE id = %s", first)
    with psycopg.connect(engine.dsn, options="-c search_path=inturn") as other:
        other.execute("SELECT FROM jobs WHERE id = %s FOR UPDATE", [second])
        engine.query(
            "SELECT finish(%s, '{default}', 1, ARRAY[%s::bigint], ARRAY[%s::uuid], '{succeeded}', '{NULL}')",
            *(worker, first, claim_id),
        )
    assert engine.query("SELECT state::text FROM lanes") == [("delayed",)]
    while engine.query("SELECT lock FROM lanes WHERE look_at > clock()"):
        pass
    assert runnable(engine) == (1, 0, second)


def test_behind_a_failed_job_everything_is_blocked(engine: Engine) -> None:
    engine.sign_on()
    engine.defer("t", "a", on_failure="halt")
    behind = engine.defer("t", "a")
    engine.fail(engine.claim(), None, "ValueError: card declined")
    assert of_status(engine, "blocked") == [behind]
    assert engine.query(
        "SELECT state::text, failed_task, last_error, job_id, job_status::text FROM lane_status"
    ) == [("halted", "t", "ValueError: card declined", behind, "blocked")]


def test_an_error_is_shared_by_lanes_that_were_paused_days_before_they_halted(
    engine: Engine,
) -> None:
    engine.at("2026-01-31 14:00:00+00")
    engine.sign_on()
    for lock in ("a", "b"):
        engine.defer("t", lock, on_failure="halt")
    claimed = [engine.claim() for _ in range(2)]
    engine.query("SELECT pause_lane(lock) FROM lanes")
    engine.at("2026-02-02 15:00:00+00")
    for job in claimed:
        engine.fail(job, None, "ValueError: card declined")
    assert engine.query("SELECT halted, error FROM shared_errors") == [
        (2, "ValueError: card declined")
    ]


def test_a_lane_waits_for_a_retry_and_its_other_jobs_for_it(engine: Engine) -> None:
    engine.sign_on()
    retried = engine.defer("t", "a")
    claimed = engine.claim()
    urgent = engine.defer("t", "a", priority=1)
    engine.fail(claimed, "0 s", "no")
    assert engine.query("SELECT DISTINCT status::text FROM jobs") == [("todo",)]
    assert engine.statuses() == {retried: "todo", urgent: "blocked"}


def test_claims_take_exactly_the_jobs_that_are_todo(engine: Engine) -> None:
    worker = engine.sign_on()
    for number in range(24):
        engine.defer("t", f"lane {number % 5}" if number % 3 else None, priority=number % 2)
    engine.query("SELECT pause_lane('lane 3')")
    startable = of_status(engine, "todo")
    assert engine.query("SELECT runnable FROM queue_status") == [(len(startable),)]
    assert claim_all(engine, worker) == startable
    assert of_status(engine, "todo") == []


def test_what_a_worker_has_claimed_ahead_is_not_doing(engine: Engine) -> None:
    worker = engine.sign_on()
    ids = [engine.defer("t", "a" if number == 2 else None) for number in range(AHEAD)]
    assert claim_all(engine, worker) == ids
    assert of_status(engine, "doing") == ids[:1]
    assert of_status(engine, "claimed") == ids[1:]
    assert engine.query("SELECT claimed, doing FROM worker_status") == [(AHEAD - 1, 1)]
    assert engine.query("SELECT claimed, doing FROM queue_status") == [(AHEAD - 1, 1)]
    assert engine.query("SELECT job_id, job_status::text FROM lane_status") == [(ids[2], "claimed")]
    assert engine.query("SELECT head_status::text FROM lane_report('a')") == [("claimed",)]
    assert engine.query(
        "SELECT todo, claimed, doing, more FROM count_jobs_by('queue', 100, 9)"
    ) == [(0, AHEAD - 1, 1, False)]
    reasons = [engine.query("SELECT reason FROM explain(%s)", id) for id in ids]
    assert reasons == [[("running",)], *[[("claimed",)]] * (AHEAD - 1)]


def test_a_list_of_several_statuses_has_what_the_lists_of_each_have(engine: Engine) -> None:
    worker = engine.sign_on()
    for number in range(6):
        engine.defer("t", "a" if number % 2 else None)
    claimed = engine.query("SELECT id, claim_id FROM claim(%s, '{default}', 3)", worker)
    engine.fail(claimed[0], None, "no")
    engine.defer("t", delay="1 hour")
    engine.defer("t")
    seen = engine.statuses()
    assert set(seen.values()) == {"todo", "blocked", "scheduled", "claimed", "doing", "failed"}
    for size in range(1, 7):
        for statuses in combinations(sorted(set(seen.values())), size):
            rows = engine.query(
                "SELECT id FROM list_jobs(9, jobs_where(%s::job_status[]))", list(statuses)
            )
            asked = sorted(id for id, status in seen.items() if status in statuses)
            assert [id for (id,) in rows] == asked[::-1]
            count = engine.query(
                "SELECT * FROM count_jobs(99, jobs_where(%s::job_status[]))", list(statuses)
            )
            assert count == [(len(asked), False)]


def explained(engine: Engine, job: int) -> dict[str, str]:
    return dict(engine.query("SELECT reason, detail FROM explain(%s)", job))


def test_a_job_that_waits_for_a_slot_says_how_many_go_first_and_of_which_task(
    engine: Engine,
) -> None:
    worker = engine.sign_on()
    engine.defer("flood")
    claim_all(engine, worker, 1)
    engine.query("SELECT defer('flood') FROM generate_series(1, 3000)")
    engine.defer("other", "lane")
    engine.defer("flood", queue="elsewhere")
    victim = engine.defer("t")
    engine.defer("flood")
    assert explained(engine, victim) == {
        "slots busy": "the only slot of the only worker is taken",
        "turn": "3,001 jobs go first in queue default, 3,000 of task flood",
    }
    advice = "SELECT unblock FROM explain(%s) WHERE reason = 'turn'"
    assert engine.query(advice, victim) == [
        ("if it may wait: queue jobs move --priority -1 --task flood",)
    ]
    assert engine.query(advice, engine.defer("flood")) == [(None,)], "it would move, too"
    engine.query("UPDATE jobs SET priority = -1 WHERE task = 'flood' AND status = 'todo'")
    assert explained(engine, victim)["turn"].startswith("1 job goes first")
    urgent = engine.defer("t", priority=1)
    assert "turn" not in explained(engine, urgent)
    assert explained(engine, engine.defer("t", priority=1))["turn"] == (
        "1 job goes first in queue default, all of task t"
    )


def test_a_running_job_is_found_by_its_queueing_lock(engine: Engine) -> None:
    worker = engine.sign_on()
    engine.defer("t")
    ((id,),) = engine.query("SELECT defer('t', queueing_lock => 'key')")
    claim_all(engine, worker)
    found = "SELECT id FROM list_jobs(1, jobs_where('{claimed,doing}', queueing_lock => %s))"
    assert engine.query(found, "key") == [(id,)]
    assert engine.query(found, "other") == []


def test_what_was_claimed_first_runs_and_within_a_claim_the_priority_counts(engine: Engine) -> None:
    worker = engine.sign_on()
    low, high = engine.defer("t"), engine.defer("t", priority=1)
    assert claim_all(engine, worker) == [low, high]
    late = engine.defer("t", priority=9)
    assert claim_all(engine, worker) == [late]
    assert engine.statuses() == {low: "claimed", high: "doing", late: "claimed"}


def test_the_jobs_of_a_worker_that_is_gone_are_doing(engine: Engine) -> None:
    worker = engine.sign_on()
    ids = [engine.defer("t") for _ in range(2)]
    claim_all(engine, worker)
    engine.query("DELETE FROM workers")
    assert of_status(engine, "doing") == ids


@pytest.mark.parametrize("by", ["queue", "task", "lock"])
def test_a_count_that_was_cut_says_so(engine: Engine, by: str) -> None:
    for lock in ("a", "b", "b", "b"):
        engine.defer("t", lock)

    def count(looked: int, limit: int) -> list[tuple[Any, ...]]:
        return engine.query(
            "SELECT name, todo, blocked, more FROM count_jobs_by(%s, %s, %s)", by, looked, limit
        )

    whole = {
        "queue": [("default", 2, 2, False)],
        "task": [("t", 2, 2, False)],
        "lock": [("a", 1, 0, False), ("b", 1, 2, False)],
    }
    assert count(5, 2) == whole[by]
    assert {row[3] for row in count(4, 2)} == {True}  # there may be a fifth
    if by == "lock":
        assert count(5, 1) == [("a", 1, 0, True)]


def test_a_count_of_a_status_says_if_it_did_not_look_at_all_live_jobs(engine: Engine) -> None:
    for _ in range(4):
        engine.defer("t", "a")
    assert engine.query("SELECT * FROM count_jobs(5, jobs_where('{blocked}'))") == [(3, False)]
    assert engine.query("SELECT * FROM count_jobs(4, jobs_where('{blocked}'))") == [(3, True)]
    assert engine.query("SELECT * FROM count_jobs(3, jobs_where('{blocked}'))") == [(3, True)]
    assert engine.query("SELECT * FROM count_jobs(2, jobs_where('{todo}'))") == [(1, False)]
    assert engine.query("SELECT * FROM count_jobs(4)") == [(4, True)]


MANY = 10_100  # more than a list searches of the newest
RARE = """
WITH job AS (
    INSERT INTO jobs (created_at, status, task, lock, limit_key, scheduled_at) VALUES
        (clock(), 'todo', 'a', 'rare', NULL, NULL),
        (clock(), 'blocked', 'a', 'rare', NULL, NULL),
        (clock(), 'paused', 'a', NULL, NULL, NULL),
        (clock(), 'limited', 'a', NULL, 'key', NULL),
        (clock(), 'scheduled', 'a', NULL, NULL, clock() + interval '1 day'),
        (clock(), 'pending', 'a', NULL, NULL, NULL)
    RETURNING 1
) SELECT count(*) FROM job
"""
FILL = """
WITH job AS (
    INSERT INTO jobs (created_at, status, task, lock, scheduled_at)
    SELECT clock(), %s::job_status, 'b', %s, clock() + interval '1 day'
    FROM generate_series(1, %s) RETURNING 1
) SELECT count(*) FROM job
"""


@pytest.mark.parametrize(
    ("status", "lock"), [("todo", None), ("scheduled", None), ("blocked", "busy")]
)
def test_what_is_rare_is_found_however_many_others_wait(
    engine: Engine, status: str, lock: str | None
) -> None:
    engine.query(RARE)
    rare = {
        "todo": [1], "blocked": [3, 2], "limited": [4], "scheduled": [5], "pending": [6]
    }  # fmt: skip
    engine.query(FILL, status, lock, MANY)
    rare.pop(status)
    listed = "SELECT id FROM list_jobs(50, jobs_where(ARRAY[%s::job_status]))"
    counted = "SELECT * FROM count_jobs(1000, jobs_where(ARRAY[%s::job_status]))"
    cut = "SELECT live FROM search_is_cut(50, jobs_where(ARRAY[%s::job_status]))"
    found = {each: [id for (id,) in engine.query(listed, each)] for each in rare}
    assert found == rare
    assert {each: engine.query(counted, each) for each in rare} == {
        each: [(len(ids), False)] for each, ids in rare.items()
    }
    assert {each for each in rare if engine.query(cut, each) != [(False,)]} == set()
    # Only an index finds the jobs of a lane, or those with a prefix.
    for where in ("lock => 'rare'", "lock_prefix => 'ra'"):
        of_lane = f"list_jobs(50, jobs_where('{{todo,blocked,limited}}', {where}))"
        assert engine.query(f"SELECT id FROM {of_lane}") == [(2,), (1,)]


def test_what_is_not_rare_is_listed_though_the_newest_are_others(engine: Engine) -> None:
    engine.query(FILL, "scheduled", None, MANY)
    engine.query(FILL, "todo", None, MANY)
    rows = engine.query("SELECT id FROM list_jobs(50, jobs_where('{scheduled}'))")
    assert len(rows) == 50
    assert engine.query("SELECT * FROM count_jobs(1000, jobs_where('{scheduled}'))") == [
        (1000, True)
    ]
    assert engine.query("SELECT live FROM search_is_cut(50, jobs_where('{scheduled}'))") == [
        (True,)
    ]


def test_a_search_that_passes_over_jobs_says_so(engine: Engine) -> None:
    engine.query(FILL, "todo", None, MANY)  # the rare one is not among the oldest either
    ((rare,),) = engine.query("SELECT defer('rare')")
    engine.query(FILL, "todo", None, MANY)
    for words in ("task => 'rare'", "error => 'x'", "batch_id => 1", "group_key => 'g'"):
        is_cut = f"SELECT live FROM search_is_cut(50, jobs_where({words}))"
        or_more = f"SELECT more FROM count_jobs(50, jobs_where({words}))"
        expected = [("batch" not in words and "group" not in words,)]
        assert engine.query(is_cut) == expected, words
        assert engine.query(or_more) == expected, words
    further = "SELECT id FROM list_jobs(50, jobs_where(task => 'rare'), p_search => 100000)"
    assert engine.query(further) == [(rare,)]
    by_task = "SELECT name, more FROM count_jobs_by('task', 10000, 9, NULL, NULL, 'rare')"
    assert engine.query(by_task) == []
    engine.query("SELECT defer('rare')")
    assert engine.query(by_task) == [("rare", True)]


def test_a_batch_is_searched_by_itself(engine: Engine) -> None:
    engine.query(
        "WITH job AS (INSERT INTO jobs (created_at, status, task, batch_id) "
        "SELECT clock(), 'todo', 't', 1 FROM generate_series(1, 10) RETURNING 1) "
        "SELECT count(*) FROM job"
    )
    engine.query(FILL, "todo", None, MANY)
    count = "SELECT * FROM count_jobs(5, jobs_where(batch_id => 1, task => %s), %s)"
    assert engine.query(count, "none", 11) == [(0, False)]
    assert engine.query(count, "none", 10) == [(0, True)]
    listed = "SELECT count(*) FROM list_jobs(50, jobs_where(batch_id => 1))"
    assert engine.query(listed) == [(10,)]


def defer_in_lanes(engine: Engine, queue: str, count: int) -> None:
    for number in range(count):
        engine.defer("t", f"{queue}{number}", queue)


def test_a_count_of_one_queue_says_if_it_did_not_look_at_all_lanes(engine: Engine) -> None:
    defer_in_lanes(engine, "a", 4)
    defer_in_lanes(engine, "z", 2)
    todo = "SELECT * FROM count_jobs(%s, jobs_where('{todo}', 'z'))"
    by_queue = "SELECT name, todo, more FROM count_jobs_by('queue', %s, 9, '{todo}', 'z')"
    assert engine.query(todo, 7) == [(2, False)]
    assert engine.query(todo, 5) == [(1, True)]
    assert engine.query(todo, 4) == [(0, True)]
    assert engine.query(by_queue, 7) == [("z", 2, False)]
    assert engine.query(by_queue, 5) == [("z", 1, True)]


def test_what_could_start_under_a_prefix_is_found_behind_any_number_of_other_lanes(
    engine: Engine,
) -> None:
    defer_in_lanes(engine, "a", 9)
    there = [engine.defer("t", "z:1"), several(engine, "b", "z:2"), several(engine, "z:3", "c")]
    blocked = [engine.defer("t", "z:1"), several(engine, "a", "b", "z:4"), several(engine, "z:2")]
    stopped = engine.defer("t", "z:5")
    engine.query("SELECT pause_lane('z:5')")
    listed = "SELECT id FROM list_jobs(7, jobs_where('{todo}', lock_prefix => 'z:'), NULL, 7)"
    assert engine.query(listed) == [(id,) for id in reversed(there)], (blocked, stopped)
    counted = "SELECT * FROM count_jobs(%s, jobs_where('{todo}', lock_prefix => 'z:'), 1)"
    assert engine.query(counted, 7) == [(3, False)]
    assert engine.query(counted, 3) == [(3, True)]
    assert engine.query(counted, 2) == [(2, True)]


def test_a_count_throws_away_nothing_that_it_looked_at(engine: Engine) -> None:
    defer_in_lanes(engine, "a", 2)
    for _ in range(2):
        engine.defer("t")
    assert engine.query("SELECT * FROM count_jobs(3, jobs_where('{todo}'))") == [(3, True)]
    by_queue = "SELECT name, todo, more FROM count_jobs_by('queue', 3, 9, '{todo}')"
    assert engine.query(by_queue) == [("a", 2, True), ("default", 2, True)]


@pytest.mark.parametrize("group", [None, "g"])
def test_lanes_are_runnable_behind_any_number_of_paused_ones(
    engine: Engine, group: str | None
) -> None:
    defer = (
        "SELECT defer('t', lock => 'lane ' || n, group_key => %s) FROM generate_series(1, 1100) n"
    )
    engine.query(defer, group)
    pause = "SELECT pause_lane('lane ' || n) FROM generate_series(1, %s) n"
    engine.query(pause, 1093)
    assert engine.query("SELECT runnable, more FROM queue_status") == [(7, True)]


@pytest.mark.parametrize("lock", [None, "lane"])
def test_jobs_are_runnable_behind_any_number_of_a_paused_task(
    engine: Engine, lock: str | None
) -> None:
    defer = "SELECT defer(%s, lock => %s || n) FROM generate_series(1, %s) AS n"
    engine.query(defer, "slow", lock, 1010)
    engine.query(defer, "quick", lock and "other", 7)
    engine.query("SELECT pause_task('slow')")
    assert engine.query("SELECT runnable, more FROM queue_status") == [(7, True)]


def test_what_could_start_is_found_behind_any_number_of_blocked_jobs(engine: Engine) -> None:
    engine.query(
        "INSERT INTO jobs (created_at, status, task, lock) "
        "SELECT clock(), 'todo', 't', 'lane ' || n / 6000 FROM generate_series(0, 11999) AS n"
    )
    free = engine.defer("t")
    assert [len(of_status(engine, "todo")), free in of_status(engine, "todo")] == [3, True]
    worker = engine.sign_on()
    retried = engine.query("SELECT id, claim_id FROM claim(%s, '{default}', 1)", worker)[0]
    urgent = engine.defer("t", retried_lock(engine, retried[0]), priority=1)
    engine.fail(retried, "0 s", "no")
    assert retried[0] in of_status(engine, "todo")
    assert urgent not in of_status(engine, "todo")
    lock = "lane 1"
    listed = engine.query(
        "SELECT id, lock FROM list_jobs(9, jobs_where('{todo}', lock => %s))", lock
    )
    assert [row[1] for row in listed] == [lock]


def retried_lock(engine: Engine, id: int) -> Any:
    return engine.query("SELECT lock FROM jobs WHERE id = %s", id)[0][0]


def test_a_lane_says_if_more_jobs_wait_than_it_counts(engine: Engine) -> None:
    engine.query("SELECT pause_lane('a')")
    engine.query(
        "INSERT INTO jobs (created_at, status, task, lock) "
        "SELECT clock(), 'todo', 't', 'a' FROM generate_series(1, 1000)"
    )
    assert engine.query("SELECT waiting, more FROM lane_status") == [(1000, False)]
    engine.defer("t", "a")
    assert engine.query("SELECT waiting, more FROM lane_status") == [(1000, True)]


def test_an_attempt_that_failed_has_its_times_and_its_worker(engine: Engine) -> None:
    engine.at("2026-01-31 14:00:00+00")
    engine.sign_on()
    engine.defer("t")
    claimed = engine.claim()
    engine.at("2026-01-31 14:00:08+00")
    engine.fail(claimed, "0 s", "boo")
    second = engine.claim()
    engine.fail(second, None, "boo again")
    ((errors,),) = engine.query("SELECT errors FROM all_jobs")
    assert errors == [
        {
            "attempt": 1,
            "started_at": "2026-01-31T14:00:00+00:00",
            "at": "2026-01-31T14:00:08+00:00",
            "worker": "w",
            "error": "boo",
        },
        {
            "attempt": 2,
            "started_at": "2026-01-31T14:00:08+00:00",
            "at": "2026-01-31T14:00:08+00:00",
            "worker": "w",
            "error": "boo again",
        },
    ]
