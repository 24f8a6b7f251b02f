"""A call that waits for a lock holds none that comes later, so no two calls wait for each other.

The order stands in sql/functions/README.md. Each call meets, one kind after another, locks that
another session holds. While it waits, `pg_locks` tells for what, and probes find what it holds.
"""

import re
from pathlib import Path
from typing import LiteralString, NamedTuple

from psycopg.sql import SQL, Identifier

from inturn.sql import find_folder
from tests.race.harness import Mutation, Session, Stage, Worker, promise, story

README = find_folder("sql") / "functions" / "README.md"
NAMES = "names of lanes"
LANES: LiteralString = (
    "SELECT pg_advisory_xact_lock(lock_key('lane', lock)) "
    "FROM unnest('{a,b,d,h,p,z}'::text[]) AS lock"
)
TABLES = ("schedules", "workers", "lanes", "jobs", "gates", "batch_gates", "finished_jobs")
ROWS = SQL("SELECT FROM {} FOR UPDATE")
ANY_LOCKED = SQL(
    "SELECT (SELECT count(*) FROM {0}) > "
    "(SELECT count(*) FROM (SELECT FROM {0} FOR UPDATE SKIP LOCKED) AS free)"
)
# Of a row that it waits for, a session has the tuple lock. Partitions count as their table.
WAITED: LiteralString = """
SELECT DISTINCT coalesce(parent.inhparent, relation)::regclass::text FROM pg_locks
LEFT JOIN pg_inherits AS parent ON inhrelid = relation WHERE pid = %s AND locktype = 'tuple'
UNION ALL SELECT 'names of lanes' FROM pg_locks
WHERE pid = %s AND locktype = 'advisory' AND NOT granted
"""
NAMED: LiteralString = (
    "SELECT FROM pg_locks WHERE pid = %s AND locktype = 'advisory' AND granted LIMIT 1"
)
WORKER = {"lanes", "jobs", "gates"}
PERSON = {NAMES, "lanes"}


JOB: LiteralString = "'{task}', '{\"{}\"}', '{null}', '{null}', '{null}', '{null}', '{null}'"
REPLACE: LiteralString = (
    f"SELECT FROM defer_jobs({JOB}, p_queueing_locks => '{{q}}', p_limit_keys => '{{k}}', "
    "p_on_conflict => %s)"
)
BULK: LiteralString = (
    "SELECT FROM change_jobs(%s, %s, jobs_where('{todo,blocked,doing,failed,succeeded}'))"
)


class Call(NamedTuple):
    """A call, and what it waits for if another session holds it."""

    waits_for: set[str]
    text: LiteralString
    parameters: tuple[object, ...] = ()


def make_calls(person: Session, worker: Worker) -> dict[str, Call]:
    """Make a job for each call, and return the calls."""
    person.set_limit("k", 50)
    person.run("SELECT open_batch('b')")
    person.defer("a", 1, 0, limit="k")
    person.defer_several("b", "z")
    running = worker.claim(2)
    waiting = person.defer_several("b", "z")
    person.defer("h", on_failure="halt")
    worker.finish(*worker.claim(), status="failed")
    [ended] = person.defer("d")
    worker.finish(*worker.claim())
    [later] = person.defer("a", delay="1 hour")
    person.pause("p")
    [free] = person.defer(None, limit="k")
    person.run("SELECT defer('task', queueing_lock => 'q', limit_key => 'k')")
    person.run("SELECT register_schedules('{task}', '{\"\"}', '{* * * * *}', '{UTC}')")
    ids = [waiting, free, ended, running[0].id]
    ours: tuple[object, ...] = [job.id for job in running], [job.claim_id for job in running]
    return {
        "claim": Call({"gates"}, "SELECT FROM claim(%s, NULL, 10)", (worker.id,)),
        "claim further": Call(
            {"gates"},
            "SELECT FROM claim_further(%s, '{default}', '{0}', '{0}', 10)",
            (worker.id,),
        ),
        "finish": Call(
            WORKER,
            "SELECT FROM finish(%s, NULL, 10, %s, %s, '{succeeded,failed}', '{null,null}')",
            (worker.id, *ours),
        ),
        "retry": Call(WORKER, "SELECT FROM retry(%s, %s, '{0,0}', '{null,null}')", ours),
        "put back": Call(WORKER, "SELECT FROM put_back(%s, %s)", ours),
        "unregister": Call(WORKER, "SELECT unregister_worker(%s)", (worker.id,)),
        "beat": Call({"workers"}, "SELECT heartbeat(%s)", (worker.id,)),
        "awake": Call({"workers"}, "SELECT set_awake(%s, true)", (worker.id,)),
        "has ended": Call(
            {"jobs"}, "SELECT has_ended(%s, %s, 1)", (running[0].id, running[0].claim_id)
        ),
        "rescue": Call(set(), "SELECT rescue(5)"),
        "reconcile": Call(set(), "SELECT reconcile('', 100)"),
        "pause": Call(PERSON, "SELECT pause_lane('a', 'a reason')"),
        "resume": Call(PERSON, "SELECT resume_lane('p')"),
        "skip": Call(PERSON, "SELECT skip_head('h')"),
        "retry head": Call({*PERSON, "finished_jobs"}, "SELECT retry_head('h')"),
        "cancel a lane's": Call({*PERSON, "jobs"}, "SELECT cancel_waiting('a')"),
        "cancel": Call({*PERSON, "jobs"}, "SELECT cancel_job(%s)", (waiting,)),
        "cancel a free one": Call({"jobs"}, "SELECT cancel_job(%s)", (free,)),
        "abort": Call({*PERSON, "jobs"}, "SELECT cancel_job(%s, true)", (running[0].id,)),
        "delete": Call({*PERSON, "jobs"}, "SELECT delete_job(%s)", (waiting,)),
        "retry job": Call({"finished_jobs"}, "SELECT retry_job(%s)", (ended,)),
        "retry now": Call({"jobs"}, "SELECT retry_job(%s)", (later,)),
        "move": Call({"finished_jobs"}, "SELECT retry_job_changed(%s, p_lock => 'z')", (ended,)),
        "move later": Call(
            {*PERSON, "jobs"}, "SELECT retry_job_changed(%s, p_lock => 'z')", (later,)
        ),
        "pause task": Call(set(), "SELECT pause_task('task')"),
        "limit": Call(set(), "SELECT set_limit('k', 3)::text"),
        "defer": Call(
            {"batch_gates"}, "SELECT defer('task', lock => 'a', limit_key => 'k', batch_id => 1)"
        ),
        "defer in a batch": Call(
            {"batch_gates"}, f"SELECT FROM defer_jobs({JOB}, p_batch_ids => '{{1}}')"
        ),
        "replace": Call({"jobs"}, REPLACE, ("replace",)),
        "rely on": Call({"jobs"}, REPLACE, ("skip",)),
        "defer of a schedule": Call(
            {"schedules"}, f"SELECT defer_periodic('', '2000-01-01', {JOB})"
        ),
        "cancel batch": Call(set(), "SELECT cancel_batch(1, 0)"),
        **{
            f"bulk {action}": Call(set(), BULK, (action, ids))
            for action in ("cancel", "retry", "delete")
        },
        "bulk skip": Call(set(), "SELECT FROM change_lanes('skip-head', '{a,b,h,z}', NULL)"),
    }


def section() -> str:
    return README.read_text(encoding="utf-8").partition("## The order of locks")[2]


def order() -> list[str]:
    """Return the kinds of locks that the scene has, as the README orders them."""
    items = re.findall(r"^\d+\. (?:rows of `)?(names of lanes|\w+)", section(), re.M)
    return [kind for kind in items if kind in (NAMES, *TABLES)]


@story(
    Mutation("jobs are locked before their lanes", "await_locks.sql",
        "PERFORM FROM lanes", "PERFORM FROM jobs WHERE id = ANY (p_ids) FOR UPDATE;"
        "PERFORM FROM lanes"),
    Mutation("a person locks the job first", "cancel_job.sql",
        "PERFORM lock_lane(lane)", "PERFORM FROM jobs WHERE id = p_id FOR UPDATE;"
        "PERFORM lock_lane(lane)"),
    Mutation("a lane's row is locked before its name", "lock_lane.sql",
        "PERFORM pg_advisory_xact_lock", "PERFORM FROM lanes WHERE lock = p_lock FOR UPDATE;"
        "PERFORM pg_advisory_xact_lock"),
    Mutation("a claim waits", "claim_candidates.sql", "FOR UPDATE SKIP LOCKED", "FOR UPDATE"),
)  # fmt: skip
def test_a_call_that_waits_has_no_lock_that_comes_later(stage: Stage) -> None:
    calls = make_calls(stage.session(), stage.worker())
    for file in ("await_locks.sql", "await_gates.sql", "await_worker.sql"):
        stage.take_time(file, "SET lock_timeout = '50ms'")
    holder, caller = stage.session(), stage.session()
    for name, call in calls.items():
        waited = set()
        for kind in order():
            lock_all(holder, kind)
            caller.begin()
            if caller.comes_to_wait(caller.run, call.text, *call.parameters):
                asked = {name for (name,) in stage.control.execute(WAITED, [caller.pid] * 2)}
                promise(asked == {kind}, f"{name} waits for {kind}, not for {asked}")
                has = {each for each in TABLES if each != kind and is_locked(stage, each)}
                has |= {NAMES} & {NAMES for _ in stage.control.execute(NAMED, [caller.pid])}
                later = order()[order().index(kind) + 1 :]
                promise(not has & set(later), f"{name} waits for {kind}, and has {has}")
                waited.add(kind)
            holder.rollback()
            caller.result()
            caller.rollback()
        promise(waited == call.waits_for, f"{name} waits for {waited}, not for {call.waits_for}")


def lock_all(holder: Session, kind: str) -> None:
    holder.begin()
    if kind == NAMES:
        holder.run(LANES)
    else:
        holder.run(ROWS.format(Identifier(kind)))


def is_locked(stage: Stage, kind: str) -> bool:
    """Tell whether any session has a row of this table locked."""
    row = stage.control.execute(ANY_LOCKED.format(Identifier(kind))).fetchone()
    return row == (True,)


def find_functions() -> dict[str, str]:
    """Return the text of each function without its comments."""
    files = README.parent.rglob("*.sql")
    return {file.stem: re.sub("--.*", "", file.read_text(encoding="utf-8")) for file in files}


def test_the_readme_names_each_function_that_waits_for_locks() -> None:
    waits = re.compile(
        r"FOR (NO KEY |KEY )?(UPDATE|SHARE)\b(?!( OF \w+)?\s+SKIP)"
        r"|(?<!try_)advisory_xact_lock|LOCK TABLE"
    )
    texts = find_functions()
    found = {name for name, text in texts.items() if waits.search(text)}
    assert found == set(re.findall(r"`(\w+)`", section())) & texts.keys()


def test_each_call_that_may_wait_for_a_row_or_a_lane_is_tried() -> None:
    texts = find_functions()
    calls = {name: set(re.findall(r"\w+(?=\()", text)) for name, text in texts.items()}
    may_wait = calls.keys() & re.findall(r"`(\w+)`", section().partition("\n2. ")[2])
    while more := {name for name in calls.keys() - may_wait if calls[name] & may_wait}:
        may_wait |= more
    public = {file.stem for file in (README.parent / "api").glob("*.sql")}
    tried = Path(__file__).read_text(encoding="utf-8")
    assert {name for name in may_wait & public if f"{name}(" not in tried} == set()
