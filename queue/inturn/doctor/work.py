"""The checks of `queue doctor` on work: workers, waiting jobs and failures."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from psycopg.sql import SQL, Identifier

from inturn.doctor.finding import LONG, MOST, NAMED, Finding, count_some, name_some
from inturn.doctor.pauses import Pause, describe_pause, get_resume_command
from inturn.formatting import amount, argument, brief, option_value, span, visible
from inturn.operations.changes import lanes
from inturn.operations.engine import batches, schedules
from inturn.operations.engine.schedules import name_schedule
from inturn.operations.engine.workers import QueueStatus, WorkerStatus
from inturn.operations.reading import failures, measures
from inturn.operations.reading.situation import Situation
from inturn.operations.reading.standstill import Standstill

COMMON = 3  # this many lanes or jobs with one error are no coincidence
RETRY_ALL = "queue lanes retry-head --state halted --all"
DEAF = (
    "listen.lost in their log gives the reason. If the server refuses more connections, "
    "raise max_connections, or the CONNECTION LIMIT of their role"
)
REFUSED = "fix the cause. See database.refused and database.lost in their log"
WRITES = (
    "give workers the primary's address, or allow writes. "
    "Some providers forbid them when the disk is full"
)
READABLE = 100  # characters of an error


def examine_work(
    seen: Situation,
    still: Standstill | None,
    next_tasks: Sequence[tuple[str, str]] = (),
) -> Iterator[Finding]:
    """Yield what keeps work from starting, causes before their effects.

    `next_tasks` are the queues and tasks of the jobs that go next.
    """
    yield _workers(seen)
    yield _queues(seen)
    yield _backlog(seen)
    yield _tasks(seen, next_tasks)
    yield _halted(seen, still.shared if still else ())
    yield _paused(seen)
    if still is not None:
        yield _schedules(seen, still)
        yield _parents(still.parents)
        yield _held(seen, still.held)
        yield _waiting(seen, still.waiting)
        yield _batches(seen, still.batches)


def examine_failures(still: Standstill) -> Iterator[Finding]:
    yield _errors(still.shared)
    yield _failures(still.recent)


def _workers(seen: Situation) -> Finding:
    late = [visible(worker.name) for worker in seen.workers if worker.state == "late"]
    silent = f"no heartbeat for 30 seconds from {name_some(late)}"
    heard = [worker for worker in seen.workers if worker.state != "late"]
    live = [worker for worker in heard if worker.takes_jobs()]
    refused = [worker for worker in heard if worker.trouble]
    if refused:
        names = name_some([visible(worker.name) for worker in refused])
        detail = f"refused by the database, retrying: {names}{_quote(refused[0].trouble)}"
        return Finding("workers", "fail" if refused == heard else "warn", detail, REFUSED)
    if not live:
        return _find_no_worker(seen, silent if late else "", heard)
    if late:
        detail = f"{silent}. Live workers take over their jobs"
        return Finding("workers", "warn", detail, "queue workers list")
    blocked = [worker for worker in seen.workers if worker.state == "blocked"]
    if blocked:
        names = name_some([visible(worker.name) for worker in blocked])
        detail = f"the event loop of {names} is blocked. See loop.blocked in the log"
        return Finding("workers", "warn", detail, f"if it stays blocked: {_end(blocked[0])}")
    deaf = [visible(worker.name) for worker in seen.workers if worker.listens is False]
    if deaf:
        detail = f"cannot listen, so they find new jobs only by polling: {name_some(deaf)}"
        return Finding("workers", "warn", detail, DEAF)
    stopping = f", {len(heard) - len(live)} stopping" if heard != live else ""
    return Finding("workers", "ok", f"{len(live)} live{stopping}")


def _find_no_worker(seen: Situation, silent: str, stopping: Sequence[WorkerStatus]) -> Finding:
    # What a stopping worker runs does not wait for another one.
    waits = any(map(is_unserved, seen.queues)) if stopping else seen.has_work
    ending = f"stopping: {name_some([visible(worker.name) for worker in stopping])}"
    detail = "no live worker, but jobs are waiting" if waits else "no worker is running"
    if stopping and not waits:
        detail = "no worker takes jobs"
    state = "fail" if waits else "warn"
    if seen.read_only:
        return Finding("workers", state, f"{detail}: {seen.read_only}", WRITES)
    why = "; ".join(filter(None, [silent, ending if stopping else ""]))
    return Finding("workers", state, f"{detail}: {why}" if why else detail, "queue worker")


def _end(worker: WorkerStatus) -> str:
    """Return how to end a worker that no longer responds, in the words of explain."""
    jobs = f"it runs {amount(worker.doing, 'job')}; jobs not aborted restart elsewhere"
    return f"kill -9 {worker.pid} on {visible(worker.hostname)} ({jobs})"


def is_unserved(queue: QueueStatus) -> bool:
    """Return True if jobs wait in a queue but no live worker serves it."""
    return not queue.workers and bool(queue.runnable or queue.blocked or queue.limited)


def _queues(seen: Situation) -> Finding:
    unserved = [queue.queue for queue in seen.queues if is_unserved(queue)]
    if unserved:
        names = name_some([visible(name) for name in unserved])
        detail = f"jobs wait, but no live worker serves their queue: {names}"
        # With more names than we print, a worker that serves all queues is shorter.
        only = f" --queues {option_value(','.join(unserved))}" if len(unserved) <= NAMED else ""
        advice = None if seen.read_only else f"queue worker{only}"
        return Finding("queues", "fail", detail, advice)
    return Finding("queues", "ok", "every queue with waiting jobs has a live worker")


def _tasks(seen: Situation, next_tasks: Sequence[tuple[str, str]]) -> Finding:
    unknown = seen.unknown_tasks
    if not seen.has_live_worker:
        detail = "not checked: no live worker to compare with"
        return Finding("tasks", "warn" if seen.has_work else "ok", detail)
    if unknown:
        names = name_some([f"{visible(task)} (queue {visible(queue)})" for queue, task in unknown])
        detail = f"no live worker of the queue knows the task: {names}"
        return Finding("tasks", "fail", detail, advise_deployment(unknown[0][1]))
    lacking = [
        (worker, queue, task)
        for queue, task in next_tasks
        for worker in seen.workers
        if worker.takes_jobs(queue) and worker.tasks is not None and task not in worker.tasks
    ]
    if lacking:
        described = [
            f"worker {visible(worker.name)} serves queue {visible(queue)} "
            f"but does not know {visible(task)}"
            for worker, queue, task in lacking
        ]
        # During a deployment, the one that started first has the older code.
        oldest = min((worker for worker, _, _ in lacking), key=lambda worker: worker.started_at)
        advice = (
            f"stop worker {visible(oldest.name)}, the oldest of these, "
            "or restart it with the code of the others"
        )
        return Finding("tasks", "warn", name_some(described), advice)
    return Finding("tasks", "ok", "live workers know the task of every next job")


def advise_deployment(task: str) -> str:
    """Return the remedy for jobs whose task no worker knows."""
    give_up = f"queue jobs cancel --task {option_value(task)}"
    return f"deploy the code that declares it; to give up its jobs: {give_up}"


def _backlog(seen: Situation) -> Finding:
    waiting = [queue for queue in seen.queues if queue.runnable_since is not None]
    if not waiting:
        return Finding("backlog", "ok", "no job waits for a worker")
    oldest = min(waiting, key=lambda queue: queue.runnable_since or seen.now)
    age = seen.now - (oldest.runnable_since or seen.now)
    return _judge_age("backlog", "that could start", age, oldest.oldest_id, oldest.queue)


def _waiting(seen: Situation, waiting: Sequence[measures.WaitingMeasure]) -> Finding:
    found = [each for each in waiting if each.job_since]
    if not found:
        return Finding(
            "waiting", "ok", "no job waits for a limit, or in a lane that is not stopped"
        )
    worst = min(found, key=lambda each: each.job_since or seen.now)
    age = seen.now - (worst.job_since or seen.now)
    place = "for its limit" if worst.job_lock is None else f"in lane {visible(worst.job_lock)}"
    return _judge_age("waiting", f"waiting {place}", age, worst.job_id, worst.queue)


def _judge_age(check: str, which: str, age: timedelta, job: int | None, queue: str) -> Finding:
    what = f"job {job} in queue {visible(queue)}"
    detail = f"the oldest job {which} has been due for {span(age)}: {what}"
    if age > LONG:
        return Finding(check, "warn", detail, f"queue jobs explain {job}")
    return Finding(check, "ok", detail)


def _held(seen: Situation, found: Sequence[lanes.LongHold]) -> Finding:
    if not found:
        return Finding("held", "ok", "no lane or limit is held for longer than usual")
    names = name_some([_hold(each, seen.now) for each in found])
    detail = f"held for long: {names}"
    return Finding("held", "warn", detail, f"queue jobs explain {found[0].job_id}")


def _hold(lane: lanes.LongHold, now: datetime) -> str:
    usual = "" if lane.usual is None else f", 99 of 100 took at most {brief(lane.usual)}"
    what = f"job {lane.job_id} ({visible(lane.task)})"
    place = f"lane {visible(lane.lock)}" if lane.lock else f"limit {visible(lane.limit_key or '')}"
    return f"{place} (for {span(now - lane.since)} by {what}{usual})"


def _halted(seen: Situation, shared: Sequence[failures.SharedError]) -> Finding:
    halted = seen.halted
    if not halted:
        return Finding("lanes", "ok", "no lane is halted")
    names = name_some([visible(lock) for lock, _ in halted])
    since = span(seen.now - halted[0][1])
    detail = f"{_lanes(len(halted))} halted by a failed job, the longest for {since}: {names}"
    worst = max(shared, key=lambda each: each.halted, default=None)
    if worst is not None and COMMON <= worst.halted > len(halted) / 2:
        share = "All" if worst.halted >= len(halted) else f"{worst.halted:,} of them"
        detail += f". {share} have the same error{_quote(worst.error)}"
        return Finding("lanes", "fail", detail, f"once the cause is fixed: {RETRY_ALL}")
    return Finding("lanes", "fail", detail, f"queue lanes explain {argument(halted[0][0])}")


def _paused(seen: Situation) -> Finding:
    found: list[Pause] = [*seen.paused_queues, *seen.paused_tasks, *seen.paused]
    if not found:
        return Finding("paused", "ok", "no lane, queue or task is paused")
    names = name_some([describe_pause(pause, seen.now) for pause in found])
    commands = [get_resume_command(pause) for pause in found[:NAMED]]
    return Finding("paused", "warn", f"paused: {names}", "; ".join(commands))


def _batches(seen: Situation, found: Sequence[batches.ForgottenBatch]) -> Finding:
    if not found:
        return Finding("batches", "ok", "no batch seems forgotten")
    count = count_some(len(found), "batch is", "batches are", MOST)
    names = [
        f"{each.id} {visible(each.name)} (for {span(seen.now - each.opened_at)})" for each in found
    ]
    detail = (
        f"{count} open, though no job has joined for an hour: {name_some(names)}. "
        "A batch ends only after it is closed"
    )
    return Finding("batches", "warn", detail, f"queue batches show {found[0].id}")


def _schedules(seen: Situation, still: Standstill) -> Finding:
    live = still.live_schedules
    ahead = [
        visible(name)
        for each in still.schedules
        if (name := name_schedule(each.task, each.periodic_id)) in live
        and schedules.find_ahead(each, seen.now) > schedules.AHEAD
    ]
    if not ahead:
        return Finding("schedules", "ok", "no schedule has fired for a future time")
    detail = (
        f"these have fired for a future time, and do not fire again before it: "
        f"{name_some(ahead)}. The server's clock was wrong"
    )
    call = SQL("UPDATE {} SET last_instant = now() WHERE last_instant > now();")
    advice = call.format(Identifier(seen.schema, "schedules")).as_string(None)
    return Finding("schedules", "fail", detail, advice)


def _parents(found: Sequence[failures.FailedParent]) -> Finding:
    if not found:
        return Finding("parents", "ok", "no job waits for a failed job")
    count = count_some(len(found), "job waits", "jobs wait", MOST)
    names = name_some([f"job {each.job_id} for job {each.parent_id}" for each in found])
    detail = f"{count} for a failed job: {names}"
    return Finding("parents", "fail", detail, f"queue jobs explain {found[0].job_id}")


def _lanes(count: int) -> str:
    return count_some(count, "lane is", "lanes are", lanes.BOUND)


def _errors(shared: Sequence[failures.SharedError]) -> Finding:
    common = [each for each in shared if each.halted + each.retrying >= COMMON]
    if not common:
        return Finding("errors", "ok", f"no error is shared by {COMMON} or more lanes or jobs")
    worst = common[0]
    retrying = count_some(worst.retrying, "job waits", "jobs wait")
    counts = [
        f"{_lanes(worst.halted)} halted" if worst.halted else "",
        f"{retrying} for a retry" if worst.retrying else "",
    ]
    others = f", and {amount(len(common) - 1, 'more shared error')}" if len(common) > 1 else ""
    detail = (
        f"{' and '.join(filter(None, counts))} with the same error{_quote(worst.error)} "
        f"(for example job {worst.job_id}, {visible(worst.task)}){others}"
    )
    return Finding("errors", "warn", detail, f"queue jobs show {worst.job_id}")


def _failures(recent: Sequence[failures.RecentFailures]) -> Finding:
    if not recent:
        return Finding("failures", "ok", "no job failed for good in the last hour")
    count = count_some(sum(each.failed for each in recent), "job", "jobs", failures.BOUND)
    worst = recent[0]
    detail = (
        f"{count} failed for good in the last hour, "
        f"most often {visible(worst.task)} ({amount(worst.failed, 'time')}){_quote(worst.error)}"
    )
    advice = f"queue jobs list --status failed --task {option_value(worst.task)}"
    return Finding("failures", "warn", detail, advice)


def _quote(error: str | None) -> str:
    if not error:
        return ""
    return f": {error[:READABLE]}…" if len(error) > READABLE else f": {error}"
