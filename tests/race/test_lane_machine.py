"""Long random stories of one actor at a time, on a real database and in a book (lane_book.py).

Both are compared after each step. Nothing runs at once here. The stories prove that each operation
does what it says in every situation that operations can lead to, that no lane is ever left asleep,
and that `explain` and `claim` agree: a claim that has room for everything takes exactly the jobs
that explain calls ready.

The stories are the same in each run. INTURN_TEST_EXAMPLES sets how many.
"""

import os
import random
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, LiteralString

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from psycopg.errors import ObjectInUse

from inturn.sql import SCHEMA, source_file
from tests.race.harness import replace_once
from tests.race.lane_book import Book, Job, Place

EXAMPLES = int(os.environ.get("INTURN_TEST_EXAMPLES", "75"))
BEGINNING = datetime(2030, 1, 1, tzinfo=UTC)
LOCKS = ["a", "b"]
SERVED: list[list[str] | None] = [None, ["x"], ["x", "y"]]
ROOM = 100  # more than there can be jobs

OPERATIONS = ["pause", "resume", "skip head", "retry head", "cancel waiting"]
PLACES = ["waiting", "scheduled", "doing", "finished"]
Situation = tuple[str, str | None]  # what was done, and where the job or the lane was then
SITUATIONS: list[Situation] = [
    *product(OPERATIONS, [None, "held", "retrying", "paused", "halted"]),
    *product(["cancel", "delete", "retry"], PLACES),
]

PICKS = list(range(8))
CLAIM = ("claim", [0, 0, 0, 1, 2], [1, ROOM, ROOM])
FINISH = ("finish", PICKS, ["succeeded", "failed"], [0, 1, ROOM], [True, False])
RETRY = ("retry", PICKS, [0, 5, 20, 20])
DEFER = ("defer", ["a", "a", "b", None], [[0], [0], [1], [0, 1, 0]], ["x", "y", "z"], [0, 0, 0, 5],
         ["hold", "hold", "release"], ["continue", "halt"])  # fmt: skip
CHANGE_A_JOB = ("change_a_job", ["cancel", "delete", "retry"], PLACES, PICKS)
CHANGE_A_LANE = ("change_a_lane", OPERATIONS, ["a", "a", "b"], [None, 5])
STEPS: list[tuple[Any, ...]] = [  # and the arguments of each, one of each list
    DEFER, DEFER, CLAIM, CLAIM, FINISH, FINISH, RETRY, RETRY,
    CHANGE_A_JOB, CHANGE_A_JOB, CHANGE_A_JOB, CHANGE_A_LANE, CHANGE_A_LANE, CHANGE_A_LANE,
    ("die", [0, 1, 2]), ("put_back", PICKS), ("wait", [1, 6, 25]),
]  # fmt: skip


class Lanes(RuleBasedStateMachine):
    def __init__(self, dsn: str, seen: Counter[Situation]) -> None:
        super().__init__()
        self.seen = seen
        self.connection = psycopg.connect(
            dsn, autocommit=True, options=f"-c search_path={SCHEMA},pg_temp"
        )
        self.query("TRUNCATE jobs, lanes, workers, finished_jobs, lane_audit")
        self.book = Book()
        self.claims: dict[int, Any] = {}  # of the jobs that are being done
        self.workers: list[Any] = []

    def teardown(self) -> None:
        self.connection.close()

    def query(self, statement: LiteralString, *parameters: object) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(statement, parameters or None)
        return cursor.fetchall() if cursor.description else []

    def one(self, statement: LiteralString, *parameters: object) -> Any:
        [(value,)] = self.query(statement, *parameters)
        return value

    def any_of(self, jobs: list[Job], pick: int) -> Job:
        return sorted(jobs, key=lambda job: job.id)[pick % len(jobs)]

    def doing(self) -> list[Job]:
        return [job for job in self.book.jobs.values() if job.place == "doing"]

    def time(self, seconds: int) -> datetime:
        return BEGINNING + timedelta(seconds=seconds)

    # -- workers and producers

    @initialize()
    def begin(self) -> None:
        self.query("SELECT set_config('inturn.clock', %s, false)", str(self.time(0)))
        self.workers = [self.register(queues) for queues in SERVED]
        self.witness = self.register(None)  # what it claims is rolled back
        for lock in LOCKS:  # a beginning that can lead anywhere in a few steps
            self.defer(lock, [0, 1, 0], "x", 0, "hold", "halt")
        self.claim(0, ROOM)

    def register(self, queues: list[str] | None) -> Any:
        return self.one("SELECT register_worker('w', 'h', 1, %s::text[], 1000)", queues)

    @rule(seed=st.integers(0, 2**64 - 1))
    def go_on(self, seed: int) -> None:
        """One rule, and dice for the rest: Hypothesis alone would leave out rules and values."""
        dice = random.Random(seed)
        name, *choices = dice.choice(STEPS)
        arguments = [dice.choice(values) for values in choices]
        note(f"{name}{tuple(arguments)}")
        getattr(self, name)(*arguments)

    def defer(
        self,
        lock: str | None,
        priorities: list[int],
        queue: str,
        delay: int,
        on_retry: str,
        on_failure: str,
    ) -> None:
        if len(self.book.live()) > ROOM // 10:
            return
        n = len(priorities)
        rows = self.query(
            "SELECT id FROM defer_jobs(%s, %s::jsonb[], %s, %s::text[], %s::int[], %s::timestamptz[], %s::interval[],"
            " %s::retry_policy[], %s::failure_policy[])",
            ["t"] * n, ["{}"] * n, [queue] * n, [lock] * n, priorities, [None] * n,
            [timedelta(seconds=delay)] * n,
            [on_retry] * n, [on_failure] * n,
        )  # fmt: skip
        for (id,), priority in zip(rows, priorities, strict=True):
            place: Place = "scheduled" if delay else "waiting"
            due = self.book.now + delay
            self.book.add(Job(id, lock, queue, priority, on_retry, on_failure, place, due))

    def claim(self, worker: int, room: int) -> None:
        queues = SERVED[worker]
        rows = self.query(
            "SELECT id, claim_id FROM claim(%s, %s::text[], %s)", self.workers[worker], queues, room
        )
        self.book.tick()
        may = self.book.startable(queues)
        started = {id for id, _ in rows}
        assert started <= may, f"started {started}, of {may}"
        assert len(started) == min(room, len(may)), (
            f"started {started}, of {may}, with room for {room}"
        )
        self.take(worker, rows)

    def finish(self, pick: int, status: str, want: int, together: bool) -> None:
        if not self.doing():
            return
        first = self.any_of(self.doing(), pick)
        assert first.worker is not None
        ended = [
            job.id
            for job in self.doing()
            if job is first or (together and job.worker == first.worker)
        ]
        rows = self.send(first.worker, ended, [self.claims[id] for id in ended], status, want)
        assert {row[0] for row in rows if row[0]} == set(ended)
        for id in ended:
            self.book.end(id, status)
        lanes = {lock for id in ended if (lock := self.book.jobs[id].lane) is not None}
        queues = SERVED[first.worker]
        may = {
            job.id for lock in lanes
            if self.book.lane(lock).state is None and (job := self.book.next_of(lock)) is not None
            and (queues is None or job.queue in queues)
        }  # fmt: skip
        following = {row[1] for row in rows if row[1]}
        assert following <= may, f"handed over {following}, of {may}"
        assert len(following) <= want
        others = [
            job for job in self.book.live() if job.place == "waiting" and job.lane not in lanes
        ]
        assert others or len(following) == min(want, len(may)), f"handed over {following}, of {may}"
        self.take(first.worker, [row[1:] for row in rows if row[1]])

    def retry(self, pick: int, delay: int) -> None:
        if not self.doing():
            return
        job = self.any_of(self.doing(), pick)
        again = self.query(
            "SELECT id FROM retry(%s::bigint[], %s::uuid[], %s::interval[], %s::jsonb[])",
            [job.id], [self.claims[job.id]], [timedelta(seconds=delay)], [None],
        )  # fmt: skip
        assert again == [(job.id,)]
        self.book.retry(job.id, delay)

    def put_back(self, pick: int) -> None:
        if not self.doing():
            return
        job = self.any_of(self.doing(), pick)
        self.query("SELECT put_back(%s, %s)", [job.id], [self.claims[job.id]])
        self.book.put_back(job.id)

    def die(self, worker: int) -> None:
        """A worker is declared dead and loses its jobs. Its late reports are refused."""
        dead = self.workers[worker]
        mine = [job.id for job in self.doing() if job.worker == worker]
        self.query("DELETE FROM workers WHERE id = %s", dead)
        self.workers[worker] = self.register(SERVED[worker])
        rescued = self.query("SELECT id FROM rescue(p_lost => false)")
        assert sorted(id for (id,) in rescued) == sorted(self.book.rescue(worker)) == sorted(mine)
        assert self.send(worker, mine, [self.claims[id] for id in mine], "succeeded", 1) == []

    def wait(self, seconds: int) -> None:
        self.book.now += seconds
        self.query("SELECT set_config('inturn.clock', %s, false)", str(self.time(self.book.now)))
        for worker in (*self.workers, self.witness):
            assert self.one("SELECT heartbeat(%s)", worker)

    # -- people

    def change_a_job(self, operation: str, place: str, pick: int) -> None:
        there = [job for job in self.book.jobs.values() if job.place == place]
        if not there:
            return
        job = self.any_of(there, pick)
        self.seen[operation, job.place] += 1
        match operation:
            case "cancel":
                assert self.one("SELECT cancel_job(%s)::text", job.id) == self.book.cancel(job.id)
            case "delete":
                assert self.one("SELECT delete_job(%s)", job.id) == self.book.delete(job.id)
            case _:
                assert self.one("SELECT retry_job(%s)", job.id) == self.book.retry_job(job.id)

    def change_a_lane(self, operation: str, lock: str, seconds: int | None) -> None:
        state = self.book.lane(lock).state
        self.seen[operation, state] += 1
        match operation:
            case "pause":
                until = None if seconds is None else self.book.now + seconds
                at = None if until is None else self.time(until)
                assert self.one("SELECT pause_lane(%s, 'why', %s)", lock, at) == self.book.pause(
                    lock, until
                )
            case "resume":
                assert self.one("SELECT resume_lane(%s)", lock) == self.book.resume(lock)
            case "skip head" if state == "held":
                with pytest.raises(ObjectInUse):
                    self.one("SELECT skip_head(%s)", lock)
            case "skip head":
                assert self.one("SELECT skip_head(%s)", lock) == self.book.skip_head(lock)
            case "retry head":
                assert self.one("SELECT retry_head(%s)", lock) == self.book.retry_head(lock)
            case _:
                assert self.one("SELECT cancel_waiting(%s)", lock) == self.book.cancel_waiting(lock)

    # -- what holds after each step

    @invariant()
    def the_database_is_as_the_book_says(self) -> None:
        places = {"todo": "waiting", "blocked": "waiting"}
        rows = self.query("SELECT id, status::text FROM jobs")
        live = {job.id: job.place for job in self.book.live()}
        assert {id: places.get(status, status) for id, status in rows} == live
        lanes = {
            row[0]: row[1:]
            for row in self.query("SELECT lock, state::text, stopped::text, job_id FROM lanes")
        }
        expected = {
            lock: (lane.state, lane.stopped, lane.reserved)
            for lock, lane in self.book.lanes.items()
        }
        assert lanes == {lock: lane for lock, lane in expected.items() if lane[0]}
        broken = self.query(
            "SELECT lock, count(*) FROM jobs LEFT JOIN lanes USING (lock, worker_id)"
            " WHERE status = 'doing' AND lock IS NOT NULL GROUP BY lock, lanes.since HAVING count(*) > 1 OR since IS NULL"
        )
        assert broken == [], f"jobs that run in a lane that is not theirs: {broken}"

    @invariant()
    def nobody_sleeps(self) -> None:
        assert (
            self.query("SELECT l FROM unnest(%s::text[]) AS l WHERE lane_is_stranded(l)", LOCKS)
            == []
        )
        self.query("SELECT reconcile('', 100)")
        assert self.query("SELECT * FROM lane_audit WHERE operation = 'reconcile'") == []
        unmarked = self.query(
            "SELECT head.* FROM lane_heads(%s) AS head JOIN jobs USING (id)"
            " WHERE status = 'blocked' AND NOT EXISTS (SELECT FROM lanes WHERE lanes.lock = head.lock)",
            LOCKS,
        )
        assert unmarked == [], f"heads of free lanes that are no tokens: {unmarked}"

    @invariant()
    def explain_and_claim_agree(self) -> None:
        if not self.workers:
            return
        explained = self.query(
            "SELECT id, ARRAY(SELECT reason FROM explain(id)) FROM jobs WHERE status <> 'doing' ORDER BY id"
        )
        ready = {id for id, reasons in explained if reasons == ["ready"]}
        assert all(
            reasons and ("ready" not in reasons or len(reasons) == 1) for _, reasons in explained
        ), explained
        self.query("BEGIN")
        claimed = {
            id for (id,) in self.query("SELECT id FROM claim(%s, NULL, %s)", self.witness, ROOM)
        }
        delay = self.one("SELECT delay FROM next_wake(NULL)")
        self.query("ROLLBACK")
        assert claimed == ready, (
            f"explain calls {ready} ready, a claim starts {claimed}: {explained}"
        )
        assert delay is None or delay > timedelta(0), (
            "a worker that found room for all has nothing to sleep for"
        )

    # -- how

    def send(
        self, worker: int, ids: list[int], claims: list[Any], status: str, want: int
    ) -> list[tuple[Any, ...]]:
        return self.query(
            "SELECT finished_id, (next).id, (next).claim_id"
            " FROM finish(%s, %s::text[], %s, %s::bigint[], %s::uuid[], %s::job_status[], %s::jsonb[])",
            self.workers[worker], SERVED[worker], want, ids, claims, [status] * len(ids),
            [None] * len(ids),
        )  # fmt: skip

    def take(self, worker: int, rows: list[tuple[Any, ...]]) -> None:
        for id, claim in rows:
            self.book.start(id, worker)
            self.claims[id] = claim


def tell_stories(dsn: str, examples: int, *phases: Phase) -> Counter[Situation]:
    seen: Counter[Situation] = Counter()
    run_state_machine_as_test(
        lambda: Lanes(dsn, seen),  # type: ignore[arg-type]  # it takes a factory as well
        settings=settings(
            max_examples=examples,
            stateful_step_count=50,
            derandomize=True,
            database=None,
            phases=phases or tuple(Phase),
            suppress_health_check=list(HealthCheck),
        ),
    )
    return seen


def test_a_few_stories_leave_the_lanes_as_the_book_says(dsn: str) -> None:
    tell_stories(dsn, EXAMPLES // 10)


@pytest.mark.proof
def test_every_operation_leaves_the_lanes_as_the_book_says(dsn: str) -> None:
    seen = tell_stories(dsn, EXAMPLES)
    print("rarest:", sorted((seen[situation], str(situation)) for situation in SITUATIONS)[:3])
    assert [situation for situation in SITUATIONS if not seen[situation]] == [], (
        "stories without them prove little"
    )


MUTANTS = {
    "cancel takes the token away": ("cancel_job.sql", "PERFORM reopen_lanes(v_lanes, v_kept);",
                                    "DELETE FROM lanes WHERE lock = ANY (v_locks) AND state IS NULL;"),
    "skip forgets the reservation": ("reopen_lanes.sql", "UPDATE lanes SET job_id = NULL "
                                     "WHERE lock = ANY (p_job.locks) AND job_id = p_job.id;", ""),
    "explain forgets who is due": ("first_in_lane.sql",
                                   "status = 'scheduled' AND scheduled_at <= clock()",
                                   "false"),
    "a release keeps the lane": ("retry.sql", "again.on_retry = 'release' AND", "false AND"),
}  # fmt: skip


@pytest.mark.fresh_database
@pytest.mark.proof
@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=list(MUTANTS))
def test_the_stories_find_what_is_wrong(dsn: str, mutant: tuple[str, str, str]) -> None:
    file, old, new = mutant
    text = source_file(file.removesuffix(".sql")).read_text(encoding="utf-8")
    with closing(
        psycopg.connect(dsn, autocommit=True, options=f"-c search_path={SCHEMA}")
    ) as connection:
        connection.execute(replace_once(text, old, new, file).encode())
    with pytest.raises(AssertionError):
        tell_stories(dsn, 200, Phase.generate)
