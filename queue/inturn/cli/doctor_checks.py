"""The checks of `queue doctor`. Each says what it found, and what to do about it.

Those about work are in `doctor_work`. Here are those about the database and the engine.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from inturn.cli.database import Database
from inturn.cli.doctor_finding import LONG, MOST, Finding, name_some
from inturn.cli.doctor_work import examine_work
from inturn.cli.formatting import amount, span, visible
from inturn.errors import SchemaMismatch
from inturn.operations import lanes, maintenance, workers
from inturn.operations.maintenance import check_schema

SKEW = timedelta(seconds=2)
LONGER = timedelta(hours=1)
PLAIN = re.compile(r"[a-z_][a-z0-9_]*")  # a name that needs no quotes


def examine(database: Database) -> Iterator[Finding]:
    """Yield a finding for each check. If the schema does not fit, the other checks cannot run."""
    try:
        database.run(check_schema(database.schema))
    except SchemaMismatch as error:
        problem, _, advice = str(error).rpartition(": ")
        yield Finding("schema", "fail", problem, advice)
        return
    yield Finding("schema", "ok", f"{database.schema} fits this version")
    yield from examine_work(database)
    for check in CHECKS:
        yield check(database)


def _crashes(database: Database) -> Finding:
    found = database.run(workers.list_suspect_jobs(MOST))
    if not found:
        return Finding("crashes", "ok", "no live job was running when its worker died")
    worst = found[0]
    # An innocent job may have run beside the culprit once, but seldom twice.
    state = "fail" if worst.deaths > 1 else "warn"
    names = name_some([_suspect(job) for job in found])
    detail = f"workers died, and these jobs may be the cause. Repair or cancel them: {names}"
    return Finding("crashes", state, detail, f"queue jobs show {worst.id}")


def _suspect(job: workers.SuspectJob) -> str:
    lock = f", lock {visible(job.lock)}" if job.lock is not None else ""
    return f"job {job.id} ({visible(job.task)}{lock}), {amount(job.deaths, 'time')}"


def _reconciler(database: Database) -> Finding:
    found = [visible(lock) for lock, _ in database.run(lanes.list_repaired_lanes())]
    if found:
        stuck = amount(len(found), "lane")
        detail = f"{stuck} got stuck in the last day and had to be woken: {name_some(found)}"
        advice = (
            "these lanes run again. Unless you changed rows by hand, please report this as a bug"
        )
        return Finding("reconciler", "fail", detail, advice)
    return Finding("reconciler", "ok", "no lane got stuck in the last day")


def _sequences(database: Database) -> Finding:
    behind = database.run(maintenance.list_sequences_behind())
    if behind:
        detail = "they would hand out used numbers again: " + name_some(
            [f"{name} is at {at}, but must be at {to}" for name, at, to in behind]
        )
        calls = [
            f"setval({_quote_name(database.schema, name)}, {needed})" for name, _, needed in behind
        ]
        return Finding("sequences", "fail", detail, f"SELECT {', '.join(calls)};")
    return Finding("sequences", "ok", "no sequence would hand out a used number")


def _quote_name(schema: str, name: str) -> str:
    """Return the name of a sequence as a literal of SQL."""
    from psycopg.sql import Identifier, Literal

    plain = f"{schema}.{name}"
    qualified = plain if PLAIN.fullmatch(schema) else Identifier(schema, name).as_string(None)
    return Literal(qualified).as_string(None)


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
        f"if it is not needed: SELECT pg_terminate_backend({oldest.pid})",
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


CHECKS: tuple[Callable[[Database], Finding], ...] = (
    _crashes,
    _reconciler,
    _sequences,
    _transactions,
    _clock,
)
