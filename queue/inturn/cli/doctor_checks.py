"""The checks of `queue doctor`. Each says what it found, and what to do about it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from inturn.cli.database import Database
from inturn.cli.formatting import amount, argument, span, visible
from inturn.errors import SchemaMismatch
from inturn.operations import lanes, maintenance, workers
from inturn.operations.maintenance import check_schema

NAMED = 3  # how many finds to name; the others are counted
SKEW = timedelta(seconds=2)
LONG = timedelta(minutes=10)
LONGER = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    state: str  # ok, warn, fail
    detail: str
    advice: str | None = None


def examine(database: Database) -> Iterator[Finding]:
    """Yield a finding for each check. If the schema does not fit, the other checks cannot run."""
    try:
        database.run(check_schema(database.schema))
    except SchemaMismatch as error:
        problem, _, advice = str(error).rpartition(": ")
        yield Finding("schema", "fail", problem, advice)
        return
    yield Finding("schema", "ok", f"{database.schema} fits this version")
    for check in CHECKS:
        yield check(database)


def _workers(database: Database) -> Finding:
    found = database.run(workers.list_workers(1000))
    late = [visible(worker.name) for worker in found if worker.state == "late"]
    if late:
        detail = f"no heartbeat for 30 seconds from {_some(late)}"
        return Finding(
            "workers",
            "warn",
            detail,
            "check whether they still run. Live workers take over their jobs",
        )
    blocked = [visible(worker.name) for worker in found if worker.state == "blocked"]
    if blocked:
        detail = f"the event loop of {_some(blocked)} is blocked"
        return Finding(
            "workers",
            "warn",
            detail,
            "look for loop.blocked in its log, and do not block the event loop in a task",
        )
    if not found:
        return Finding(
            "workers", "warn", "no worker is running", "queue -a package.module:app worker"
        )
    return Finding("workers", "ok", f"{len(found)} live")


def _queues(database: Database) -> Finding:
    queues = database.run(workers.list_queues())
    unserved = [
        queue.queue for queue in queues if not queue.workers and (queue.runnable or queue.blocked)
    ]
    if unserved:
        names = _some([visible(name) for name in unserved])
        detail = f"jobs wait, but no live worker serves their queue: {names}"
        return Finding("queues", "fail", detail, f"queue worker --queues {argument(unserved[0])}")
    return Finding("queues", "ok", "every queue with waiting jobs has a live worker")


def _tasks(database: Database) -> Finding:
    unknown = [
        f"{visible(task)} (queue {visible(queue)})"
        for queue, task in database.run(workers.list_unknown_tasks())
    ]
    if unknown:
        detail = f"no live worker of the queue knows the task: {_some(unknown)}"
        return Finding(
            "tasks", "fail", detail, "deploy the code that declares the task, or cancel the jobs"
        )
    return Finding("tasks", "ok", "live workers know the task of every job that is next")


def _halted(database: Database) -> Finding:
    halted = [lock for lock, _ in database.run(lanes.list_halted_lanes())]
    if halted:
        detail = f"halted by a failed job: {_some([visible(lock) for lock in halted])}"
        return Finding("lanes", "fail", detail, f"queue lanes explain {argument(halted[0])}")
    return Finding("lanes", "ok", "no lane is halted")


def _crashes(database: Database) -> Finding:
    found = database.run(workers.list_suspect_jobs(1000))
    if not found:
        return Finding("crashes", "ok", "no live job was running when its worker died")
    worst = found[0]
    # An innocent job may have run beside the culprit once, but seldom twice.
    state = "fail" if worst.deaths > 1 else "warn"
    detail = (
        f"workers died, and these jobs may be the cause: {_some([_suspect(job) for job in found])}"
    )
    return Finding(
        "crashes", state, detail, f"queue jobs explain {worst.id}, or queue jobs cancel {worst.id}"
    )


def _suspect(job: workers.SuspectJob) -> str:
    lock = f", lock {visible(job.lock)}" if job.lock is not None else ""
    return f"job {job.id} ({visible(job.task)}{lock}), {amount(job.deaths, 'time')}"


def _reconciler(database: Database) -> Finding:
    found = [visible(lock) for lock, _ in database.run(lanes.list_repaired_lanes())]
    if found:
        stuck = amount(len(found), "lane")
        detail = f"{stuck} got stuck in the last day and had to be woken: {_some(found)}"
        advice = (
            "these lanes run again. Unless you changed rows by hand, please report this as a bug"
        )
        return Finding("reconciler", "fail", detail, advice)
    return Finding("reconciler", "ok", "no lane got stuck in the last day")


def _sequences(database: Database) -> Finding:
    behind = database.run(maintenance.list_sequences_behind())
    if behind:
        detail = "they would hand out used numbers again: " + _some(
            [f"{name} is at {at}, but must be at {to}" for name, at, to in behind]
        )
        name, _, needed = behind[0]
        return Finding(
            "sequences", "fail", detail, f"SELECT setval('{database.schema}.{name}', {needed})"
        )
    return Finding("sequences", "ok", "no sequence would hand out a used number")


def _transactions(database: Database) -> Finding:
    oldest = database.run(maintenance.get_oldest_transaction())
    if oldest is None or oldest.age <= LONG:
        return Finding("transactions", "ok", "no transaction is older than ten minutes")
    application = visible(oldest.application) or "unnamed"
    who = f"server process {oldest.pid} ({application}, {oldest.state or 'state unknown'})"
    state = "fail" if oldest.age > LONGER else "warn"
    detail = f"{who} has had one open for {span(oldest.age)}, so dead rows pile up"
    return Finding(
        "transactions",
        state,
        detail,
        f"if nobody needs it: SELECT pg_terminate_backend({oldest.pid})",
    )


def _clock(database: Database) -> Finding:
    before = datetime.now(UTC)
    server = database.run(maintenance.get_server_time())
    after = datetime.now(UTC)
    # The server read its clock at some time between these two.
    skew = max(server - after, before - server)
    if skew > SKEW:
        detail = f"the clocks of this machine and the server differ by {skew.total_seconds():.1f} s"
        return Finding(
            "clock",
            "warn",
            detail,
            "use NTP on both. schedule_at is compared with the server's clock",
        )
    return Finding("clock", "ok", "this machine and the server agree")


def _some(names: list[str]) -> str:
    others = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {others:,} more" if others > 0 else "")


CHECKS: tuple[Callable[[Database], Finding], ...] = (
    _workers,
    _queues,
    _tasks,
    _halted,
    _crashes,
    _reconciler,
    _sequences,
    _transactions,
    _clock,
)
