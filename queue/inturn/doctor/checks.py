"""The checks of `queue doctor` on the database and the engine. Those on work are in `work`."""

import re
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from math import inf

from psycopg.sql import Identifier, Literal

from inturn.doctor.cell import examine_cell
from inturn.doctor.finding import LONG, MOST, Finding, count_some, name_some
from inturn.doctor.reader import Reader, RunOperation
from inturn.doctor.work import examine_failures, examine_work
from inturn.formatting import amount, size, span, visible
from inturn.operations.changes import lanes, limits
from inturn.operations.engine import citus, maintenance, workers
from inturn.operations.reading import history
from inturn.operations.reading.situation import get_situation
from inturn.operations.reading.standstill import find_standstill
from inturn.sql import revision

SKEW = timedelta(seconds=2)
WORKER_SKEW = timedelta(seconds=30)  # a busy server may register a worker late
# A table may be locked this long, for example while a day of the history is dropped.
MOMENT = timedelta(seconds=2)
LOOKS = 20  # at a lock, per moment
LONGER = timedelta(hours=1)
MANY, MORE = 100_000, 1_000_000  # transactions since the oldest query of a standby
LARGE_HISTORY = 5 * 2**30  # bytes
WORKER_SESSIONS = {
    f"inturn {role}" for role in ("worker", "task", "maintenance", "heartbeat", "schedule")
}
REPORT = "Unless you changed rows by hand, please report this as a bug"
PLAIN = re.compile(r"[a-z_][a-z0-9_]*")  # a name that needs no quotes


def examine(reader: Reader) -> Iterator[Finding]:
    """Yield a finding for each check.

    If a table is locked or the schema does not match, the other checks cannot run.
    """
    mismatch = reader.run(maintenance.find_mismatch(reader.schema))
    if mismatch is not None:
        yield Finding("schema", "fail", *mismatch)
        return
    if reader.run(citus.is_distributed(reader.schema)):
        detail = f"Citus has distributed {reader.schema}, so workers cannot claim jobs"
        undo = f"SELECT citus_schema_undistribute({_quote(reader.schema)});"
        yield Finding("schema", "fail", detail, undo)
        return
    if delegated := reader.run(citus.list_delegated(reader.schema)):
        detail = f"Citus delegates {name_some(delegated)}, and loses jobs within a transaction"
        advice = f"run queue schema downgrade --to {revision()}, and then queue migrate"
        yield Finding("schema", "fail", detail, advice)
    else:
        yield Finding("schema", "ok", f"{reader.schema} matches this version")
    locked = find_table_lock(reader.run)
    if locked is not None:
        yield locked
        return
    seen = reader.run(get_situation(reader.schema))
    still = reader.run(find_standstill(reader.schema, with_errors=seen.may_read_errors))
    yield from examine_work(seen, still, reader.run(workers.list_runnable_tasks()))
    yield from examine_failures(still)
    for check in (_crashes, _reconciler, _limits, _sequences, _transactions, _history):
        yield check(reader)
    yield _clock(reader, seen.workers)
    yield from examine_cell(reader)


def _crashes(reader: Reader) -> Finding:
    found = reader.run(workers.list_suspect_jobs(MOST))
    if not found:
        return Finding("crashes", "ok", "no live job was running when its worker died")
    worst = found[0]
    # An innocent job may have run beside the culprit once, but seldom twice.
    state = "fail" if worst.deaths > 1 else "warn"
    names = name_some([_suspect(job) for job in found])
    detail = f"workers died, and these jobs may be the cause. Fix or cancel them: {names}"
    return Finding("crashes", state, detail, f"queue jobs show {worst.id}")


def _suspect(job: workers.SuspectJob) -> str:
    lock = f", lock {visible(job.lock)}" if job.lock is not None else ""
    return f"job {job.id} ({visible(job.task)}{lock}), {amount(job.deaths, 'time')}"


def _reconciler(reader: Reader) -> Finding:
    found = [visible(lock) for lock in reader.run(lanes.list_repaired_lanes())]
    if found:
        stuck = amount(len(found), "lane")
        detail = f"{stuck} got stuck in the last day and had to be woken: {name_some(found)}"
        return Finding("reconciler", "fail", detail, f"these lanes run again. {REPORT}")
    return Finding("reconciler", "ok", "no lane got stuck in the last day")


def _limits(reader: Reader) -> Finding:
    wrong = reader.run(limits.list_miscounted_limits())
    if wrong:
        names = [
            f"{visible(key)} counts {counted:,}, but {count_some(running, 'is', 'are')} running"
            for key, counted, running in wrong
        ]
        call = f"SELECT {_qualify(reader.schema, 'reconcile')}('', 1);"
        return Finding("limits", "fail", f"wrong job counts: {name_some(names)}", call)
    repaired = [visible(key) for key in reader.run(limits.list_repaired_limits())]
    if repaired:
        detail = f"wrong job counts, repaired in the last day: {name_some(repaired)}"
        return Finding("limits", "fail", detail, f"these limits work again. {REPORT}")
    return Finding("limits", "ok", "all job counts of limits are correct")


def _sequences(reader: Reader) -> Finding:
    behind = reader.run(maintenance.list_sequences_behind())
    if behind:
        detail = "these would reuse numbers: " + name_some(
            [f"{name} is at {at}, but must be at {to}" for name, at, to in behind]
        )
        calls = [
            f"setval({_quote(_qualify(reader.schema, name))}, {needed})"
            for name, _, needed in behind
        ]
        return Finding("sequences", "fail", detail, f"SELECT {', '.join(calls)};")
    if reader.run(maintenance.count_cached_ids(reader.schema)) > 1:
        detail = "sessions cache ids, so a later job may get a lower one and start first"
        ids = _qualify(reader.schema, "jobs_id_seq")
        return Finding("sequences", "fail", detail, f"ALTER SEQUENCE {ids} CACHE 1;")
    return Finding("sequences", "ok", "no sequence would reuse a number")


def _quote(text: str) -> str:
    """Return a text as an SQL literal."""
    return Literal(text).as_string(None)


def _qualify(schema: str, name: str) -> str:
    """Return a name of the queue with its schema, in quotes only if it needs them."""
    plain = f"{schema}.{name}"
    return plain if PLAIN.fullmatch(schema) else Identifier(schema, name).as_string(None)


def _transactions(reader: Reader) -> Finding:
    oldest = next(iter(reader.run(maintenance.list_transactions(1))), None)
    if oldest is None or oldest.age <= LONG:
        return _standby_query(reader)
    state = "fail" if oldest.age > LONGER else "warn"
    detail = (
        f"{_name(oldest)} has had a transaction open for {span(oldest.age)}, so dead rows pile up"
    )
    return Finding("transactions", state, detail, _end_transaction(oldest))


def _standby_query(reader: Reader) -> Finding:
    found = reader.run(maintenance.get_standby_query())
    if found is None or found.transactions < MANY:
        return Finding("transactions", "ok", "no transaction is older than ten minutes")
    state = "fail" if found.transactions >= MORE else "warn"
    detail = (
        f"{found.state} {visible(found.name)} needs rows that {found.transactions:,} transactions "
        "have left behind, so dead rows pile up"
    )
    advice = "end the long query on that standby, or set hot_standby_feedback = off there"
    if found.state == "slot":
        advice += f". If it is gone: SELECT pg_drop_replication_slot({_quote(found.name)})"
    return Finding("transactions", state, detail, advice)


def find_table_lock(run: RunOperation) -> Finding | None:
    """Return the finding about a locked table, on which workers and checks wait."""
    for _ in range(2 * LOOKS):
        found = run(maintenance.get_table_lock())
        if found is None:
            return None
        if found.age >= MOMENT:
            tables = name_some([visible(table) for table in found.tables])
            detail = f"{_name(found)} has locked {tables} for {span(found.age)}, so workers wait"
            return Finding("transactions", "fail", detail, _end_transaction(found))
        time.sleep(MOMENT.total_seconds() / LOOKS)
    return None  # different locks, each held only for a moment


def _name(found: maintenance.OpenTransaction) -> str:
    application = visible(found.application) or "unnamed"
    if found.pid is None:
        return f"prepared transaction {application}"
    return f"server process {found.pid} ({application}, {found.state or 'state unknown'})"


def _end_transaction(oldest: maintenance.OpenTransaction) -> str:
    # Ending a worker's session would interrupt its jobs.
    if oldest.application in WORKER_SESSIONS:
        return "queue jobs list --status doing"
    if oldest.pid is None:
        return f"if it is abandoned: ROLLBACK PREPARED {_quote(oldest.application)}"
    return f"if it is not needed: SELECT pg_terminate_backend({oldest.pid})"


def _clock(reader: Reader, known: Sequence[workers.WorkerStatus]) -> Finding:
    before = datetime.now(UTC)
    server = reader.run(maintenance.get_server_time())
    after = datetime.now(UTC)
    # The server read its clock at some time between these two.
    skew = max(server - after, before - server)
    wrong = [each for each in known if abs(each.clock_ahead or timedelta(0)) > WORKER_SKEW]
    if wrong and skew <= SKEW:
        names = name_some([f"{visible(each.name)} on {visible(each.hostname)}" for each in wrong])
        detail = f"when these workers started, their clocks differed from the server's: {names}"
        advice = "use NTP there. The times in their logs are wrong"
        return Finding("clock", "warn", detail, advice)
    if skew > SKEW:
        detail = f"the clocks of this machine and the server differ by {skew.total_seconds():.1f} s"
        advice = "use NTP on both. schedule_at is compared with the server's clock"
        return Finding("clock", "warn", detail, advice)
    ahead = reader.run(maintenance.get_ahead_of_clock())
    if ahead > SKEW:
        detail = f"the server's clock was set back: workers or jobs are {span(ahead)} ahead of it"
        advice = "use NTP there. Jobs still wait for their original times"
        return Finding("clock", "warn", detail, advice)
    return Finding("clock", "ok", "this machine and the server agree")


def _history(reader: Reader) -> Finding:
    return judge_history(reader.run(history.measure_size()))


def judge_history(stored: history.StoredBytes) -> Finding:
    share = stored.history / stored.database
    days = amount(stored.days, "day")
    detail = (
        f"ended jobs of {days} take {size(stored.history)}, {share:.0%} of the database. "
        f"They are kept {_describe_keep(stored)}"
    )
    if stored.history > LARGE_HISTORY and share > 0.5:
        advice = "to drop older days now: queue worker --one-shot --keep-history 2d"
        return Finding("history", "warn", detail, advice)
    return Finding("history", "ok", detail)


def _describe_keep(stored: history.StoredBytes) -> str:
    """Return how long ended jobs are kept, and which worker sets this."""
    if stored.keep is None:
        return "for a week, because no live worker is set otherwise"
    length = "for ever" if stored.keep == inf else f"for {stored.keep:g}d"
    return f"{length}: --keep-history of worker {visible(stored.worker or '')}"
