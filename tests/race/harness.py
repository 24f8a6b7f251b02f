"""Scripted interleavings on real sessions: a story tells who does what, step by step.

A session is a connection that can begin a transaction and leave it open while others go on. A step
that is expected to wait runs in a thread. The story goes on when the server reports that the step
waits. To stop a function between two of its statements, the harness wraps a function that it calls:
the wrapper first waits for a lock that the stage holds.
No step waits for a clock.

A story is told on the SQL as shipped, where its promises must hold. It is told again on mutants:
a protection is taken out of the text of a shipped file, and the same story must break a promise.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, LiteralString, NamedTuple, cast
from uuid import UUID

import psycopg
import pytest
from psycopg.errors import DeadlockDetected, LockNotAvailable
from psycopg.sql import SQL, Composed, Identifier
from psycopg.types.json import Jsonb

from inturn.operations.engine.claim import Floors
from inturn.sql import SCHEMA, source_file
from tests import kept

PATIENCE = 20.0  # seconds after which a step that should go on is considered stuck
DECLARE_AND_RESCUE = """
SELECT rescued.id FROM (
    SELECT count(*) AS dead FROM (
        SELECT array_agg(id) AS ids, array_agg(heartbeat_at) AS beats FROM workers
        WHERE heartbeat_at < clock() - %s::interval
    ) AS silent, declare_dead(ids, beats)
) AS declared, rescue(CASE WHEN dead >= 0 THEN 5 END) AS rescued ORDER BY 1
"""
DEFINITION = """
SELECT pg_get_functiondef(oid) FROM pg_proc
WHERE proname = %(name)s AND pronamespace = current_schema()::regnamespace
UNION ALL
SELECT format('CREATE OR REPLACE VIEW %%I AS %%s', viewname, definition) FROM pg_views
WHERE viewname = %(name)s AND schemaname = current_schema()
"""
# A lock that cannot be taken for so long is held until the end of a transaction.
NO_WAIT = "500ms"


class PromiseBroken(AssertionError):
    """A promise of the engine did not hold. Only this outcome refutes a mutant."""


def promise(holds: bool, text: str) -> None:
    """Raise PromiseBroken unless the promise holds."""
    if not holds:
        raise PromiseBroken(text)


class Mutation(NamedTuple):
    """A shipped file with some of its text replaced. The name says what it breaks."""

    name: str
    file: str
    old: str
    new: str
    beneath: bool = False  # if the SQL protects it twice: take LOOK out too


# A claim passes over rows that are locked when it looks, so its later steps meet few of them.
LOOK = Mutation(
    "locked heads are not passed over",
    "lane_tokens.sql",
    "CASE WHEN is_touched(t.xmin, t.xmax) THEN try_lock_job(t.id) ELSE true END",
    "true",
)


def replace_once(text: str, old: str, new: str, where: str) -> str:
    """Return the SQL with `old` replaced, however it is broken into lines. It must occur once."""
    words = r"\s+".join(re.escape(word) for word in old.split())
    found = list(re.finditer(words.replace(r"\(", r"\(\s*"), text))
    assert len(found) == 1, f"not once but {len(found)} times in {where}: {old}"
    lead = old[: len(old) - len(old.lstrip())]
    before = text[: found[0].start()]
    return before.removesuffix(lead) + new + text[found[0].end() :]


def story(*mutations: Mutation) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a test of a script. It keeps every promise as shipped and breaks one on each mutant.

    Beside the stage, the script may take other fixtures and parameters.
    """

    def tell(script: Callable[..., None]) -> Callable[..., None]:
        def test(stage: Stage, mutation: Mutation | None, **given: object) -> None:
            if mutation is None:
                script(stage, **given)
                return
            stage.mutate(mutation)
            with pytest.raises(PromiseBroken):
                script(stage, **given)

        test.__name__, test.__doc__ = script.__name__, script.__doc__
        test.__signature__ = _add_parameter(script, "mutation")  # type: ignore[attr-defined]
        test.mutations = mutations  # type: ignore[attr-defined] # tests/tiers.py chooses by them
        mutants = [pytest.param(each, id=each.name, marks=pytest.mark.mutant) for each in mutations]
        told = pytest.mark.parametrize("mutation", [pytest.param(None, id="as shipped"), *mutants])
        return cast(Callable[..., None], told(test))

    return tell


def _add_parameter(function: Callable[..., object], name: str) -> inspect.Signature:
    signature = inspect.signature(function)
    added = inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return signature.replace(parameters=[*signature.parameters.values(), added])


class Job(NamedTuple):
    """A job as its worker knows it."""

    id: int
    claim_id: UUID
    worker_id: UUID
    queue: str
    attempts: int


def ids(jobs: Iterable[Job]) -> list[int]:
    return [job.id for job in jobs]


class Finished(NamedTuple):
    accepted: list[int]
    following: list[Job]
    busy: list[int]


class Session:
    """A connection. Each statement commits by itself, except after begin(), until commit()."""

    def __init__(self, stage: "Stage") -> None:
        self._stage = stage
        self._connection = kept.take(stage.dsn)
        self._thread = ThreadPoolExecutor(1)
        self._step: Future[Any] | None = None
        self._allow_waiting(False)

    @property
    def pid(self) -> int:
        return self._connection.info.backend_pid

    # -- steps

    def run(
        self, statement: LiteralString | Composed, *parameters: object
    ) -> list[tuple[Any, ...]]:
        """Run a statement. It must not wait for anybody, unless it was given to start()."""
        try:
            cursor = self._connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []
        except LockNotAvailable as error:
            raise PromiseBroken(f"a statement waits that must not: {statement}") from error
        except DeadlockDetected as error:
            raise PromiseBroken(f"a deadlock: {error}") from error

    def start(self, step: Callable[..., object], *arguments: Any, **options: Any) -> None:
        """Run a step that comes to wait, and return as soon as it does. A mutant may not wait."""
        self._allow_waiting(True)
        self._begin_step(step, *arguments, **options)

    def comes_to_wait(self, step: Callable[..., object], *arguments: Any) -> bool:
        """Run a step. Return True as soon as it waits, or False when it is over."""
        self._allow_waiting(True)
        self._step = self._thread.submit(step, *arguments)
        while not self._step.done():
            if self._stage.waits_of(self):
                return True
        return False

    def _begin_step(self, step: Callable[..., object], *arguments: Any, **options: Any) -> None:
        self._step = self._thread.submit(step, *arguments, **options)
        while not self._stage.waits_of(self):
            if self._step.done():
                assert self._stage.mutated, f"it should wait, but is over: {self._step.result()}"
                return

    def start_until(
        self, function: str, step: Callable[..., object], *arguments: Any, **options: Any
    ) -> None:
        """Run a step until it is about to call that function, and hold it there until resume()."""
        self._stage.make_pausable(function)
        self._stage.control.execute("SELECT pg_advisory_lock(%s)", [self.pid])
        self.run("SELECT set_config('race.pause', %s, false)", function)
        self._begin_step(step, *arguments, **options)

    def resume(self) -> Any:
        """Let the step held by start_until() go on, without waiting, and return its result."""
        self._stage.control.execute("SELECT pg_advisory_unlock(%s)", [self.pid])
        return self.result()

    def resume_to_wait(self) -> None:
        """Let the step held by start_until() go on, and return when it waits again."""
        assert self._step is not None
        self._stage.control.execute("SELECT pg_advisory_lock(%s, 0)", [self.pid])  # it may wait
        self._stage.control.execute("SELECT pg_advisory_unlock(%s)", [self.pid])
        while not self._stage.waits_of(self) and not self._step.done():
            pass
        self._stage.control.execute("SELECT pg_advisory_unlock(%s, 0)", [self.pid])

    def moves_on_from(self, other: "Session") -> None:
        """Return when the started step waits for another session, or is over."""
        assert self._step is not None
        while not self._step.done() and self._stage.waits_of(self) in ([], [other.pid]):
            pass

    def result(self) -> Any:
        """Return the result of the started step, which no lock may hold back any more."""
        assert self._step is not None
        step, self._step = self._step, None
        try:
            return step.result(PATIENCE)
        finally:
            self._allow_waiting(False)

    def begin(self) -> None:
        self.run("BEGIN")

    def commit(self) -> None:
        self.run("COMMIT")

    def rollback(self) -> None:
        self.run("ROLLBACK")

    def close(self) -> None:
        """Close the connection, even in the middle of a transaction, like a process that dies."""
        if self._step is not None and not self._step.done():
            self._stage.control.execute("SELECT pg_terminate_backend(%s)", [self.pid])
            self._step.exception(PATIENCE)
        self._thread.shutdown()
        kept.give_back(self._stage.dsn, self._connection)

    # -- what producers and rescuers say

    def defer(
        self,
        lock: str | None,
        *priorities: int,
        queue: str = "default",
        delay: str | None = None,
        on_retry: str = "hold",
        on_failure: str = "continue",
        expires_in: str | None = None,
        limit: str | None = None,
        group: str | None = None,
        task: str = "task",
    ) -> list[int]:
        """Defer a job for each priority given, or one job, in one call."""
        given: Sequence[int] = priorities or (0,)
        n = len(given)
        rows = self.run(
            "SELECT id FROM defer_jobs(%s, %s::jsonb[], %s, %s::text[], %s::int[], "
            "%s::timestamptz[], %s::interval[], "
            "%s::retry_policy[], %s::failure_policy[], p_expires_in => %s::interval[], "
            "p_limit_keys => %s::text[], p_group_keys => %s::text[])",
            [task] * n, ["{}"] * n, [queue] * n, [lock] * n, list(given), [None] * n, [delay] * n,
            [on_retry] * n, [on_failure] * n, [expires_in] * n, [limit] * n, [group] * n,
        )  # fmt: skip
        return [id for (id,) in rows]

    def defer_after(
        self,
        *parents: int,
        lock: str | None = None,
        on_parent: str = "cancel",
        at: str | None = None,
    ) -> int:
        """Defer a job that comes after others."""
        return int(
            self._one(
                "SELECT defer('task', lock => %s, after => %s::bigint[], on_parent => %s, "
                "scheduled_at => now() + %s::interval)",
                lock, list(parents), on_parent, at,
            )
        )  # fmt: skip

    def defer_several(
        self,
        *locks: str,
        shared: Sequence[str] = (),
        priority: int = 0,
        queue: str = "default",
        at: str | None = None,
        on_retry: str = "hold",
        on_failure: str = "continue",
        limit: str | None = None,
        task: str = "task",
    ) -> int:
        """Defer a job that has all of these locks, and shares some of the lanes."""
        return int(
            self._one(
                "SELECT defer(%s, locks => %s::text[], shared => %s::text[], priority => %s, "
                "queue => %s, scheduled_at => now() + %s::interval, on_retry => %s, "
                "on_failure => %s, limit_key => %s)",
                task, list(locks), list(shared), priority, queue, at, on_retry, on_failure, limit,
            )
        )  # fmt: skip

    def rescue(self, after: str | None = None) -> list[int]:
        """Take back jobs. Nothing is charged without `after`.

        With it, workers that have been silent for that long die in the same statement.
        """
        if after is None:
            return [id for (id,) in self.run("SELECT id FROM rescue(p_lost => false) ORDER BY id")]
        return [id for (id,) in self.run(DECLARE_AND_RESCUE, after)]

    # -- what operators say

    def cancel(self, job: int) -> str | None:
        return cast(str | None, self._one("SELECT cancel_job(%s)::text", job))

    def delete(self, job: int) -> bool:
        return bool(self._one("SELECT delete_job(%s)", job))

    def retry_job(self, job: int) -> bool:
        return bool(self._one("SELECT retry_job(%s)", job))

    def pause(self, lock: str, until: str | None = None) -> bool:
        """Pause a lane until it is resumed, or for that long."""
        return bool(
            self._one("SELECT pause_lane(%s, 'a reason', now() + %s::interval)", lock, until)
        )

    def resume_lane(self, lock: str) -> bool:
        return bool(self._one("SELECT resume_lane(%s)", lock))

    def skip_head(self, lock: str) -> int | None:
        return cast(int | None, self._one("SELECT skip_head(%s)", lock))

    def retry_head(self, lock: str) -> int | None:
        return cast(int | None, self._one("SELECT retry_head(%s)", lock))

    def cancel_waiting(self, lock: str) -> int:
        return int(self._one("SELECT cancel_waiting(%s)", lock))

    def set_limit(
        self, pattern: str, slots: int | None, rate: int | None = None, burst: int | None = None
    ) -> None:
        """Set how many jobs of a key run at once, and how many start in a minute."""
        self.run(
            "SELECT set_limit(%s, %s, %s, CASE WHEN %s THEN interval '1 min' END, %s)",
            pattern, slots, rate, rate is not None, burst,
        )  # fmt: skip

    def reconcile(self) -> None:
        self.run("SELECT reconcile('', 100)")

    def reasons(self, job: int | None) -> list[str]:
        return [reason for (reason,) in self.run("SELECT reason FROM explain(%s)", job)]

    def await_end(self, job: int) -> str | None:
        """Return the job's status, and ask to be notified of its end."""
        rows = self.run("SELECT status::text FROM await_end(%s)", job)
        return cast(str, rows[0][0]) if rows else None

    def has_ended(self, job: "Job", fence: int) -> bool | None:
        """Return whether this attempt ended the job, or None if it is not known yet."""
        return cast(
            bool | None, self._one("SELECT has_ended(%s, %s, %s)", job.id, job.claim_id, fence)
        )

    def hasten(self, delay: str) -> None:
        """Set the clock of this session forward."""
        self.run("SELECT set_config('inturn.clock', (now() + %s::interval)::text, false)", delay)

    def _one(self, statement: LiteralString, *parameters: object) -> Any:
        [(value,)] = self.run(statement, *parameters)
        return value

    def _allow_waiting(self, yes: bool) -> None:
        if not self._connection.closed:
            self._connection.execute(
                "SELECT set_config('lock_timeout', %s, false)", ["0" if yes else NO_WAIT]
            )


class Worker(Session):
    """A session that has registered."""

    def __init__(self, stage: "Stage", queues: list[str] | None) -> None:
        super().__init__(stage)
        self.queues = queues
        self.busy: list[int] = []  # what its last retry() could not take back
        self.turns: str | None = None  # of the groups, as its last claim left them
        self.noted: tuple[int | None, str | None] = (None, None)  # the last answer of final_ids
        self.register()

    def register(self) -> None:
        """Register, or register again as another worker after it was declared dead."""
        [(self.id,)] = self.run(
            "SELECT register_worker('race', 'here', 1, %s::text[], 10)", self.queues
        )

    def claim(
        self,
        limit: int = 10,
        patient: bool = False,
        slots: int | None = None,
        since: int | None = None,
        floors: Floors | None = None,
    ) -> list[Job]:
        """Claim jobs, of which `slots` can begin now: those with a limit or a group must."""
        if floors:
            self.leave_front()
        rows = self.run(
            "SELECT id, claim_id, worker_id, queue, attempts, current_setting('inturn.turns', true)"
            " FROM claim(%s, %s::text[], %s, %s, %s, %s::jsonb, %s, "
            "%s::jsonb, %s)",
            self.id, self.queues, limit, patient, slots, self.turns, since,
            Jsonb(floors) if floors else None, self.noted[1],
        )  # fmt: skip
        if rows and rows[0][-1]:
            self.turns = rows[0][-1]
        return _jobs([row[:-1] for row in rows])

    def claim_further(
        self, after: int, limit: int = 10, queues: Sequence[str] = ("default",)
    ) -> list[Job]:
        """Claim more free jobs of these queues and the default priority."""
        return _jobs(self.run(
            "SELECT id, claim_id, worker_id, queue, attempts "
            "FROM claim_further(%s, %s, %s::integer[], %s::bigint[], %s)",
            self.id, list(queues), [0] * len(queues), [after] * len(queues), limit,
        ))  # fmt: skip

    def claim_one(self) -> Job:
        jobs = self.claim(1)
        promise(len(jobs) == 1, "there is a job to start")
        return jobs[0]

    def leave_front(self) -> None:
        """Let the session use floors, as after a look at the front that read much."""
        self.run("SELECT set_config('inturn.front_at', (clock() + '4 s')::text, false)")

    def final_ids(self, patient: bool = False) -> int | None:
        """Return up to which id all jobs are final, or None if it is not known yet."""
        [(final, *noted)] = self.run(
            "SELECT final, noted, horizon FROM final_ids(%s, %s, %s)", *self.noted, patient
        )
        self.noted = noted[0], noted[1]
        return cast(int | None, final)

    def finish(
        self,
        *jobs: Job,
        want: int = 10,
        status: str = "succeeded",
        floors: Floors | None = None,
    ) -> Finished:
        """Finish jobs, and look for the next ones from these floors on."""
        if floors:
            self.leave_front()
        rows = self.run(
            "SELECT finished_id, busy_id, (next).id, (next).claim_id, (next).worker_id, "
            "(next).queue, (next).attempts "
            "FROM finish(%s, %s::text[], %s, %s::bigint[], %s::uuid[], %s::job_status[], "
            "%s::jsonb[], p_floors => %s::jsonb, p_horizon => %s)",
            self.id, self.queues, want, [job.id for job in jobs], [job.claim_id for job in jobs],
            [status] * len(jobs), [None] * len(jobs),
            Jsonb(floors) if floors else None, self.noted[1],
        )  # fmt: skip
        accepted = [row[0] for row in rows if row[0] is not None]
        busy = [row[1] for row in rows if row[1] is not None]
        return Finished(accepted, _jobs([row[2:] for row in rows if row[2] is not None]), busy)

    def retry(self, *jobs: Job, delay: str = "0") -> list[int]:
        n = len(jobs)
        rows = self.run(
            "SELECT id, busy FROM retry(%s::bigint[], %s::uuid[], %s::interval[], %s::jsonb[])",
            [job.id for job in jobs], [job.claim_id for job in jobs], [delay] * n, [None] * n,
        )  # fmt: skip
        self.busy = [id for id, busy in rows if busy]
        return [id for id, busy in rows if not busy]

    def put_back(self, *jobs: Job) -> list[int]:
        """Return the jobs that it could not put back."""
        rows = self.run(
            "SELECT put_back(%s, %s)", [job.id for job in jobs], [job.claim_id for job in jobs]
        )
        return [id for (id,) in rows]

    def next_wake(self) -> object:
        """Return how long it may sleep, or None for until somebody wakes it."""
        return self._one("SELECT delay FROM next_wake(%s::text[])", self.queues)

    def last_look(self, horizon: str | None = None) -> tuple[bool, str]:
        """Return whether it is notified of new jobs, and the horizon for the next call."""
        [(notified, horizon)] = self.run(
            "SELECT notified, horizon::text FROM next_wake(%s::text[], %s::text::xid8)",
            self.queues,
            horizon,
        )
        return bool(notified), str(horizon)

    def set_awake(self, awake: bool) -> bool:
        return bool(self._one("SELECT set_awake(%s, %s)", self.id, awake))


class Stage:
    """The database of one story, its actors, and a session that observes and steers them."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.mutated = False
        self.control = kept.take(dsn)
        self.control.execute("SET check_function_bodies = off")
        self._cast: list[Session] = []
        self._pausable: set[str] = set()
        self._texts: dict[str, str] = {}  # of the files that were changed
        self._undo: list[Composed | bytes] = []  # what makes the schema the shipped one again

    def session(self) -> Session:
        return self._enter(Session(self))

    def worker(self, *queues: str) -> Worker:
        """Return a worker that serves all queues, or only those named."""
        worker = Worker(self, list(queues) or None)
        self._cast.append(worker)
        return worker

    def close(self) -> None:
        self.dismiss()
        for statement in reversed(self._undo):
            self.control.execute(statement)
        kept.give_back(self.dsn, self.control)

    def dismiss(self) -> None:
        """Close all sessions, before another story on the same stage."""
        for session in self._cast:
            session.close()
        self._cast.clear()

    def _enter(self, session: Session) -> Session:
        self._cast.append(session)
        return session

    # -- what the stage does behind their backs

    def mutate(self, mutation: Mutation) -> None:
        self.mutated = True
        if mutation.beneath:
            self._replace(LOOK)
        self._replace(mutation)

    def make_gate(self, file: str, condition: str) -> None:
        """Stop a statement at a condition: after its snapshot, before it locks the row."""
        self.control.execute(
            "CREATE FUNCTION gate() RETURNS boolean LANGUAGE plpgsql COST 1000000 "
            "AS 'BEGIN RETURN true; END'"
        )
        self._undo.append(SQL("DROP FUNCTION gate()").format())
        self._replace(Mutation("gate", file, condition, f"{condition} AND gate()"))

    def take_time(self, file: str, setting: str) -> None:
        """Remove a function's lock timeout, so that it waits as long as the story wants."""
        self._replace(Mutation("take time", file, setting, "SET lock_timeout = '0'"))

    def adjust(self, file: str, old: str, new: str) -> None:
        """Change a shipped file, to show a promise that only several protections keep together."""
        self._replace(Mutation("adjust", file, old, new))

    def let_wait(self) -> None:
        """Let calls that end jobs wait for lock holders as long as the story wants."""
        self.take_time("await_locks.sql", "SET lock_timeout = '50ms'")

    def _replace(self, mutation: Mutation) -> None:
        name, file, old, new, _ = mutation
        source = file.removesuffix(".sql")
        text = self._texts.get(file) or source_file(source).read_text(encoding="utf-8")
        for (shipped,) in self.control.execute(DEFINITION, {"name": source}).fetchall():
            self._undo.append(shipped.encode())
        self._texts[file] = replace_once(text, old, new, f"{file} for {name!r}")
        self.control.execute(self._texts[file].encode())

    def make_pausable(self, function: str) -> None:
        """Wrap a function of the engine, so that a session can pause before it, once."""
        if function in self._pausable:
            return
        self._pausable.add(function)
        [(arguments, result, is_set, count, others)] = self.control.execute(
            "SELECT pg_get_function_arguments(oid), pg_get_function_result(oid), proretset, "
            "pronargs, "
            "proargnames[pronargs + 1:] "
            "FROM pg_proc WHERE proname = %s AND pronamespace = current_schema()::regnamespace",
            [function],
        ).fetchall()
        self._undo += [
            SQL("ALTER FUNCTION {} RENAME TO {}").format(
                Identifier(f"{function}_itself"), Identifier(function)
            ),
            SQL("DROP FUNCTION {}").format(Identifier(function)),
        ]
        call = f"{function}_itself({', '.join(f'${n + 1}' for n in range(count))})"
        self.control.execute(SQL("ALTER FUNCTION {} RENAME TO {}").format(
            Identifier(function), Identifier(f"{function}_itself")
        ))  # fmt: skip
        body = f"RETURN {call};"
        if result == "void":
            body = f"PERFORM {call};"
        elif is_set:
            body = f"RETURN QUERY SELECT * FROM {call};"
        elif result == "record":
            body = f"SELECT * INTO {', '.join(others)} FROM {call};"
        self.control.execute(
            f"""
            CREATE FUNCTION {function}({arguments}) RETURNS {result} LANGUAGE plpgsql AS $$
            BEGIN
                IF current_setting('race.pause', true) = '{function}' THEN
                    PERFORM set_config('race.pause', '', false);
                    PERFORM set_config('lock_timeout', '0', false);
                    PERFORM pg_advisory_xact_lock(pg_backend_pid());
                    IF pg_try_advisory_xact_lock_shared(pg_backend_pid(), 0) THEN
                        PERFORM set_config('lock_timeout', '{NO_WAIT}', false);
                    END IF;
                END IF;
                {body}
            END $$
        """.encode()
        )

    def waits_of(self, session: Session) -> list[int]:
        """Return the processes that keep a session waiting."""
        row = self.control.execute(
            "SELECT pg_blocking_pids(pid) FROM pg_stat_activity "
            "WHERE pid = %s AND wait_event_type = 'Lock'",
            [session.pid],
        ).fetchone()
        return cast(list[int], row[0]) if row else []

    def forget(self, worker: Worker) -> None:
        """Declare a worker dead, whether it is or not."""
        self.control.execute("DELETE FROM workers WHERE id = %s", [worker.id])

    def silence(self, worker: Worker) -> None:
        """Set a worker's last heartbeat an hour back."""
        self.control.execute(
            "UPDATE workers SET heartbeat_at = heartbeat_at - interval '1 hour' WHERE id = %s",
            [worker.id],
        )

    @contextmanager
    def notifications(self, channel: str = SCHEMA) -> Iterator[list[str]]:
        """Collect the payloads that are notified meanwhile. The list is complete at the end."""
        notifications: list[str] = []
        with psycopg.connect(self.dsn, autocommit=True) as listener:
            listener.add_notify_handler(
                lambda notify: notifications.extend(notify.payload.split(","))
            )
            listener.execute(SQL("LISTEN {}").format(Identifier(channel)))
            yield notifications
            listener.execute("SELECT")  # what was sent by now arrives with the answer

    # -- what the stage sees

    def statuses(self) -> dict[int, str]:
        """Return the status of each live job, as everybody sees it."""
        rows = self.control.execute("SELECT id, status::text FROM jobs ORDER BY id").fetchall()
        return {id: status for id, status in rows}

    def doing(self) -> list[int]:
        return [id for id, status in self.statuses().items() if status == "doing"]

    def lanes(self) -> dict[str, str | None]:
        rows = self.control.execute("SELECT lock, state::text FROM lanes").fetchall()
        return {lock: state for lock, state in rows}

    def audited(self) -> list[tuple[str, str]]:
        """Return the operations and locks in the audit."""
        return self.control.execute("SELECT operation, lock FROM lane_audit ORDER BY id").fetchall()

    def drain(self) -> list[int]:
        """Let every worker die and a new one do all that is left. Return the order of the jobs."""
        self.control.execute("DELETE FROM workers")
        worker = self.worker()
        worker.hasten("1 year")
        worker.rescue()
        order: list[int] = []
        while jobs := worker.claim(1):
            order += [job.id for job in jobs]
            worker.finish(*jobs, want=0)
        promise(not self.statuses(), f"jobs that nobody can ever start: {self.statuses()}")
        promise(not any(self.lanes().values()), f"lanes that are never given back: {self.lanes()}")
        return order


def _jobs(rows: list[tuple[Any, ...]]) -> list[Job]:
    return sorted(Job(*row) for row in rows)
