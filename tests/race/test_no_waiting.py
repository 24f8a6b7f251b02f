"""No call of a worker waits for a user's open transaction, whatever the call and the transaction.

The scene has jobs that the user's transaction touches (their task is `touched`) and others like
them that it does not touch. A call that waits for 100 ms fails, as it would on a worker's
connection. While rows are locked, no call may fail, and all untouched jobs go on. While a whole
table is locked, a call may fail, and then it has changed nothing. The rest goes on when the lock
is gone.
"""

from collections.abc import Callable
from typing import LiteralString

import pytest
from psycopg.errors import LockNotAvailable

from tests.race.harness import Job, PromiseBroken, Stage, Worker, promise
from tests.race.test_queueing_locks import enqueue

PATIENCE: LiteralString = "SET lock_timeout = '100ms'"
KINDS = ("touched", "unrelated")


class Scene:
    """Jobs of each kind: running in lanes and free, waiting, retrying, paused, of a dead worker."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.user, self.producer = stage.session(), stage.session()
        self.worker, self.other, self.leaver, self.dead = (stage.worker() for _ in range(4))
        self.running: dict[str, list[Job]] = {}
        self._finish_something()
        for step in ("finish", "retry", "put_back"):
            self.running[step] = self._run(self.worker, step)
        self.running["unregister_worker"] = self._run(self.leaver, "unregister_worker")
        self.running["rescue"] = self._run(self.dead, "rescue")
        self.running["again"] = self._run(self.other, "again")
        self.other.retry(*self.running["again"])
        for kind in KINDS:
            for step in ("finish", "retry", "put_back", "unregister_worker", "rescue"):
                self.defer(
                    kind, f"{step} {kind}", key=f"behind {step} {kind}"
                )  # behind one that runs
            for n in range(3):
                self.defer(kind, f"idle {n} {kind}", key=f"idle {n} {kind}")
                self.defer(kind, None, key=f"free {n} {kind}")
            self.defer(kind, f"later {kind}", key=f"later {kind}", delay="1 hour")
            self.defer(kind, f"paused {kind}", key=f"paused {kind}")
            self.producer.pause(f"paused {kind}", until="1 hour")
        stage.silence(self.dead)
        for session in (self.worker, self.other, self.leaver):
            session.run(PATIENCE)

    def defer(self, kind: str, lock: str | None, key: str, delay: str | None = None) -> int:
        rows = self.producer.run(
            "SELECT id FROM defer_jobs(%s, ARRAY[jsonb '{}'], '{default}', %s::text[], '{0}', NULL, %s::interval[], "
            "p_queueing_locks => %s)",
            [kind], [lock], [delay], [key],
        )  # fmt: skip
        return int(rows[0][0])

    def _finish_something(self) -> None:
        for kind in KINDS:
            self.defer(kind, None, key=f"done {kind}")
        self.worker.finish(*self.worker.claim())

    def _run(self, worker: Worker, step: str) -> list[Job]:
        """One in a lane and a free one of each kind."""
        for kind in KINDS:
            self.defer(kind, f"{step} {kind}", key=f"{step} {kind}")
            self.defer(kind, None, key=f"{step} free {kind}")
        return worker.claim(4)

    # -- what the user asks about it

    def ids(self, kind: str, *statuses: str) -> list[int]:
        """Return committed jobs. The user's session asks, since it may have locked the tables."""
        rows = self.user.run(
            "SELECT id FROM jobs WHERE task = %s AND status::text = ANY (%s) ORDER BY id",
            kind,
            list(statuses),
        )
        return [id for (id,) in rows]

    def everything(self) -> list[tuple[object, ...]]:
        return self.user.run(
            "SELECT 'job', id::text, status::text, claim_id::text, attempts FROM jobs"
            " UNION ALL SELECT 'lane', lock, state::text, worker_id::text, job_id FROM lanes"
            " UNION ALL SELECT 'finished', id::text, status::text, NULL, attempts FROM finished_jobs"
            " UNION ALL SELECT 'worker', id::text, awake::text, NULL, NULL FROM workers ORDER BY 1, 2"
        )


# ------------------------------------------------------------- a worker's calls, and their effects


def unrelated(scene: Scene, jobs: list[Job]) -> set[int]:
    rows = scene.user.run(
        "SELECT id FROM all_jobs WHERE id = ANY (%s) AND task = 'unrelated'",
        [job.id for job in jobs],
    )
    return {id for (id,) in rows}


def claim(scene: Scene) -> None:
    before = scene.ids("unrelated", "todo", "scheduled")
    scene.other.hasten("2 hours")
    scene.other.claim(100)
    left = scene.ids("unrelated", "todo", "scheduled")
    promise(
        len(before) >= 8 and left == [], f"all that can start starts: {left} are left of {before}"
    )


def claim_further(scene: Scene) -> None:
    free = scene.defer("unrelated", None, key="further")
    promise(
        [job.id for job in scene.other.claim_further(free - 1)] == [free],
        "free jobs that nobody has touched",
    )


def finish(scene: Scene) -> None:
    jobs = scene.running["finish"]
    done = scene.worker.finish(*jobs)
    promise(
        unrelated(scene, jobs) <= set(done.accepted),
        "the end of each untouched job is accepted",
    )
    promise(
        {*done.accepted, *done.busy} == {job.id for job in jobs}, "and nothing is taken for lost"
    )


def retry(scene: Scene) -> None:
    jobs = scene.running["retry"]
    accepted = scene.worker.retry(*jobs)
    promise(
        unrelated(scene, jobs) <= set(accepted),
        "each untouched job waits for its next attempt",
    )
    promise(
        {*accepted, *scene.worker.busy} == {job.id for job in jobs}, "and nothing is taken for lost"
    )


def put_back(scene: Scene) -> None:
    jobs = scene.running["put_back"]
    busy = scene.worker.put_back(*jobs)
    promise(not unrelated(scene, jobs) & set(busy), "each untouched job is put back")


def rescue(scene: Scene) -> None:
    jobs = scene.running["rescue"]
    scene.worker.rescue("1 minute")
    promise(
        not unrelated(scene, jobs) & set(scene.ids("unrelated", "doing")),
        "each untouched job is taken back",
    )


def unregister_worker(scene: Scene) -> None:
    jobs = scene.running["unregister_worker"]
    scene.leaver.run("SELECT unregister_worker(%s)", scene.leaver.id)
    promise(
        not unrelated(scene, jobs) & set(scene.ids("unrelated", "doing")),
        "each untouched job is given back",
    )


def beat(scene: Scene) -> None:
    promise(scene.worker.run("SELECT heartbeat(%s)", scene.worker.id) == [(True,)], "it lives")


def sleep(scene: Scene) -> None:
    scene.worker.set_awake(False)
    scene.worker.last_look()


def ask(scene: Scene) -> None:
    """Ask after a COMMIT without a reply. Nothing has ended. It may be unclear for locked jobs."""
    for job in scene.running["finish"]:
        ended = scene.worker.has_ended(job, 0)
        promise(ended is False if unrelated(scene, [job]) else not ended, "it has not ended")


def look(scene: Scene) -> None:
    scene.worker.run("SELECT id FROM jobs_of_worker(%s)", scene.worker.id)
    ids = [job.id for jobs in scene.running.values() for job in jobs]
    scene.worker.run("SELECT id FROM abort_requests(%s, %s)", scene.worker.id, ids)


def keep_house(scene: Scene) -> None:
    scene.worker.reconcile()
    scene.worker.run("SELECT prepare_history(2)")
    scene.worker.run("SELECT prune_history('1 day')")
    promise(
        [operation for operation, _ in scene.stage.audited() if operation == "reconcile"] == [],
        "nothing was wrong",
    )


CALLS = (
    ask,
    finish,
    retry,
    put_back,
    rescue,
    unregister_worker,
    beat,
    sleep,
    look,
    claim,
    claim_further,
    keep_house,
)


# ---------------------------------------------------------------- a user's open transaction


def each(statement: LiteralString) -> Callable[[Scene], None]:
    """For each lane and each job that is touched."""

    def do(scene: Scene) -> None:
        scene.user.run(statement)

    return do


def by_key(on_conflict: str) -> Callable[[Scene], None]:
    def do(scene: Scene) -> None:
        keys = scene.user.run(
            "SELECT queueing_lock FROM jobs WHERE task = 'touched' AND status <> 'doing' AND NOT lost_queueing_lock"
        )
        enqueue(scene.user, *[key for (key,) in keys], on_conflict=on_conflict, args='{"n": 2}')
        scene.user.run("UPDATE jobs SET task = 'touched' WHERE args <> '{}'")

    return do


LANES: LiteralString = (
    "FROM (SELECT DISTINCT lock FROM jobs WHERE task = 'touched' AND lock IS NOT NULL) AS lane"
)
ROWS = {
    "replace": by_key("replace"),
    "skip": by_key("skip"),
    "pause": each(f"SELECT pause_lane(lock, NULL, now() + interval '2 hours') {LANES}"),
    "resume": each(f"SELECT resume_lane(lock) {LANES}"),
    "skip head": each(
        "SELECT skip_head(lock) FROM lanes WHERE lock LIKE '%% touched' AND worker_id IS NULL"
    ),
    "cancel": each("SELECT cancel_job(id) FROM jobs WHERE task = 'touched' AND status <> 'doing'"),
    "abort": each("SELECT cancel_job(id, true) FROM jobs WHERE task = 'touched'"),
    "delete": each("SELECT delete_job(id) FROM all_jobs WHERE task = 'touched'"),
    "retry job": each("SELECT retry_job(id) FROM all_jobs WHERE task = 'touched'"),
    "wait for the end": each("SELECT await_end(id) FROM jobs WHERE task = 'touched'"),
    "rows of jobs": each("SELECT FROM jobs WHERE task = 'touched' FOR UPDATE"),
    "rows of lanes": each("SELECT FROM lanes WHERE lock LIKE '%% touched' FOR UPDATE"),
    "rows of the history": each("SELECT FROM finished_jobs FOR UPDATE"),
    "rows of workers": each(
        "SELECT FROM workers WHERE heartbeat_at > now() - interval '1 minute' FOR UPDATE"
    ),
    "rows shared": each("SELECT FROM jobs WHERE task = 'touched' FOR KEY SHARE"),
    "a dump": each("LOCK TABLE jobs, lanes, workers, finished_jobs IN ACCESS SHARE MODE"),
    "a report": each("SELECT count(*) FROM all_jobs, lane_status, worker_status, queue_status"),
}
MODES = ("EXCLUSIVE", "SHARE ROW EXCLUSIVE", "SHARE")


@pytest.mark.parametrize("end", ["COMMIT", pytest.param("ROLLBACK", marks=pytest.mark.landing)])
@pytest.mark.parametrize("kind", ROWS)
def test_no_call_waits_for_locked_rows(stage: Stage, kind: str, end: LiteralString) -> None:
    scene = Scene(stage)
    scene.user.begin()
    ROWS[kind](scene)
    for call in CALLS:
        call(scene)
    scene.user.run(end)
    stage.drain()


@pytest.mark.parametrize("table", ["jobs", "lanes", "workers", "finished_jobs"])
@pytest.mark.parametrize(
    "lock",
    [
        "LOCK TABLE {} IN ACCESS EXCLUSIVE MODE",
        *(
            pytest.param(f"LOCK TABLE {{}} IN {mode} MODE", marks=pytest.mark.landing)
            for mode in MODES
        ),
        "ALTER TABLE {} ADD COLUMN colour text",
    ],
)
def test_a_call_that_meets_a_locked_table_changes_all_or_nothing(
    stage: Stage, lock: str, table: str
) -> None:
    scene = Scene(stage)
    scene.user.begin()
    scene.user.run(lock.format(table))
    refused = []
    for call in CALLS:
        before = scene.everything()
        try:
            call(scene)
        except PromiseBroken as error:
            promise(isinstance(error.__cause__, LockNotAvailable), f"{error}")
            promise(
                before == scene.everything(), f"{call.__name__} was refused, and changed something"
            )
            refused.append(call)
    promise(refused != [], "a table that is locked is not passed over unseen")
    scene.user.rollback()
    for call in refused:
        if call not in (claim, claim_further):
            call(scene)
    stage.drain()


def test_no_function_allows_itself_to_wait_longer(stage: Stage) -> None:
    """For calls that set their own limit. The connections of workers set it for the rest."""
    rows = stage.control.execute(
        "SELECT proname, substr(setting, 14)::interval > '100 ms' FROM pg_proc CROSS JOIN unnest(proconfig) AS setting "
        "WHERE pronamespace = current_schema()::regnamespace AND setting LIKE 'lock_timeout=%'"
    ).fetchall()
    promise(len(rows) >= 6, "there are some")
    promise([name for name, longer in rows if longer] == [], f"a function waits longer: {rows}")
