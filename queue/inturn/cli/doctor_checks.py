"""What `queue doctor` looks at: each check says how it is, and what to do if it is not well."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from inturn.cli.database import Database
from inturn.cli.formatting import amount, argument, span, visible
from inturn.errors import SchemaMismatch
from inturn.operations import lanes, maintenance, workers
from inturn.operations.maintenance import check_schema

NAMED = 3  # of those that are found; the rest is counted
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
    """The schema first: where it does not fit, the others cannot be asked."""
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
        detail = f"{_some(late)} not heard of for 30 seconds"
        return Finding(
            "workers", "warn", detail, "see whether they run; live workers take over their jobs"
        )
    blocked = [visible(worker.name) for worker in found if worker.state == "blocked"]
    if blocked:
        detail = f"the event loop of {_some(blocked)} stands still"
        return Finding(
            "workers",
            "warn",
            detail,
            "its log says what blocks it (loop.blocked); a task must not block the loop",
        )
    if not found:
        return Finding("workers", "warn", "none runs", "queue -a package.module:app worker")
    return Finding("workers", "ok", f"{len(found)} live")


def _queues(database: Database) -> Finding:
    queues = database.run(workers.list_queues())
    unserved = [
        queue.queue for queue in queues if not queue.workers and (queue.runnable or queue.blocked)
    ]
    if unserved:
        detail = f"jobs wait in {_some([visible(name) for name in unserved])}, which no live worker serves"
        return Finding("queues", "fail", detail, f"queue worker --queues {argument(unserved[0])}")
    return Finding("queues", "ok", "every queue with waiting jobs is served")


def _tasks(database: Database) -> Finding:
    unknown = [
        f"{visible(task)} (queue {visible(queue)})"
        for queue, task in database.run(workers.list_unknown_tasks())
    ]
    if unknown:
        detail = f"no live worker of its queue knows {_some(unknown)}"
        return Finding(
            "tasks", "fail", detail, "deploy the code that declares it, or cancel the jobs"
        )
    return Finding("tasks", "ok", "live workers know the tasks of what waits in front")


def _halted(database: Database) -> Finding:
    halted = [lock for lock, _ in database.run(lanes.list_halted_lanes())]
    if halted:
        detail = f"stopped by a failed job: {_some([visible(lock) for lock in halted])}"
        return Finding("lanes", "fail", detail, f"queue lanes explain {argument(halted[0])}")
    return Finding("lanes", "ok", "none is halted")


def _crashes(database: Database) -> Finding:
    found = database.run(workers.list_suspect_jobs(1000))
    if not found:
        return Finding("crashes", "ok", "no worker died over a job that is still here")
    worst = found[0]
    # What was at hand beside the culprit has died with it once, and seldom twice.
    state = "fail" if worst.deaths > 1 else "warn"
    detail = f"workers died, perhaps over {_some([_suspect(job) for job in found])}"
    return Finding(
        "crashes", state, detail, f"queue jobs explain {worst.id}, or queue jobs cancel {worst.id}"
    )


def _suspect(job: workers.SuspectJob) -> str:
    lock = f", lock {visible(job.lock)}" if job.lock is not None else ""
    return f"job {job.id} ({visible(job.task)}{lock}), {amount(job.deaths, 'time')}"


def _reconciler(database: Database) -> Finding:
    found = [visible(lock) for lock, _ in database.run(lanes.list_repaired_lanes())]
    if found:
        detail = f"in the last day {amount(len(found), 'lane')} slept and had to be woken: {_some(found)}"
        advice = "report it, unless rows were changed by hand; they go on now"
        return Finding("reconciler", "fail", detail, advice)
    return Finding("reconciler", "ok", "found nothing in the last day")


def _sequences(database: Database) -> Finding:
    behind = database.run(maintenance.list_sequences_behind())
    if behind:
        detail = "would hand out numbers again: " + _some(
            [f"{name} is at {at}, not {to}" for name, at, to in behind]
        )
        name, _, needed = behind[0]
        return Finding(
            "sequences", "fail", detail, f"SELECT setval('{database.schema}.{name}', {needed})"
        )
    return Finding("sequences", "ok", "none would hand out a number again")


def _transactions(database: Database) -> Finding:
    oldest = database.run(maintenance.get_oldest_transaction())
    if oldest is None or oldest.age <= LONG:
        return Finding("transactions", "ok", "none is older than ten minutes")
    who = f"process {oldest.pid} ({visible(oldest.application) or 'unnamed'}, {oldest.state or 'state unknown'})"
    state = "fail" if oldest.age > LONGER else "warn"
    detail = f"{who} is in one since {span(oldest.age)}, and keeps dead rows from being removed"
    return Finding(
        "transactions",
        state,
        detail,
        f"end it, if need be: SELECT pg_terminate_backend({oldest.pid})",
    )


def _clock(database: Database) -> Finding:
    before = datetime.now(UTC)
    server = database.run(maintenance.get_server_time())
    after = datetime.now(UTC)
    # The server was asked somewhere between the two.
    skew = max(server - after, before - server)
    if skew > SKEW:
        detail = f"this machine and the server differ by {skew.total_seconds():.1f} s"
        return Finding(
            "clock", "warn", detail, "set both by NTP; times given to schedule_at mean the server's"
        )
    return Finding("clock", "ok", "this machine agrees with the server")


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
