"""One run: the processes, one fault after another, and a quiet end in which everything drains."""

import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, LiteralString, NamedTuple

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from inturn.schema.migrate import migrate
from tests.chaos.clients import Clients
from tests.chaos.clock import Clock
from tests.chaos.pooler import Pooler
from tests.chaos.produce_flow import LIMITS
from tests.chaos.proxy import Network
from tests.chaos.server import Server
from tests.evidence.events import History

LANES = 12
HEARTBEAT, STALLED = 1.0, 6.0  # seconds
WORKER = ("-m", "inturn.cli", "-a", "tests.chaos.work:app", "worker", "-c", "4", "-p", "2")
MAX_LOST = 5  # the worker's default: a job fails if more workers than this died while they ran it
DRAINED_WITHIN = 60.0  # seconds after the last fault; most of this is for a busy machine
MOVING_WITHIN = 10.0  # seconds until something runs again; most of this is for a busy machine
HEALED_WITHIN = 20.0  # seconds until each way to the server must be open again
LEFT = """
SELECT args->>'op' AS op, (args->>'index')::int AS index, id, lock AS lane,
       status || ', worker ' || coalesce(worker_id::text, 'none') || ', attempts ' || attempts AS state
FROM inturn.jobs
"""
FINAL = """
SELECT args->>'op' AS op, (args->>'index')::int AS index, id, fence, status::text, attempts, lock AS lane
FROM inturn.finished_jobs
"""
USUAL = "SELECT current_setting('transaction_read_only'), current_setting('transaction_isolation')"
ALWAYS = (
    "a commit came late, below the head of its lane",
    "a call was rolled back",
    "a job was tried again after it raised",
    "a job took the last slot of a limit",
    "a job with a rate started",
    "a job started after others",
    "a job expired",
    "a job was cancelled with its parent",
    "a callback ran",
    "a job of a group passed many of another",
    "a job with several lanes ran",
    "a job ran beside another in a shared lane",
)
HELD = """
SELECT edges.child, edges.parent, parent.lock IS NULL AND parent.args ? 'op' AS free,
    child.args->>'op', (child.args->>'index')::int,
    parent.args->>'op', (parent.args->>'index')::int
FROM edges JOIN jobs AS child ON child.id = edges.child
JOIN finished_jobs AS parent ON parent.id = edges.parent
WHERE edges.failed AND parent.status <> 'succeeded' ORDER BY edges.child
"""
UNSETTLED = """
(SELECT FROM jobs LIMIT 1) UNION ALL (SELECT FROM ends LIMIT 1)
UNION ALL (SELECT FROM batches WHERE ended_at IS NULL LIMIT 1)
"""
LEFTOVERS = """
SELECT 'an edge of job ' || child FROM edges UNION ALL SELECT 'an end of job ' || job_id FROM ends
UNION ALL SELECT used || ' slots of ' || key FROM gates WHERE used <> 0
UNION ALL SELECT 'batch ' || id || ', which is ' || state FROM batch_status WHERE state <> 'ended'
UNION ALL SELECT 'an event of batch ' || batch_id FROM batch_events
UNION ALL SELECT 'the line of job ' || id FROM waits
"""
VERIFY = """
SELECT format('%%s: job %%s %%s', promise, job_id, seen) FROM verify()
WHERE verdict = 'broken' AND NOT ARRAY[job_id, other_id] && %s::bigint[]
"""


FAMILY = 20  # a run with more kinds of faults than this has all of them
LONG_RUN = [
    "a lane was halted",
    "the end of a stale attempt was refused",
    "runs of an attempt that was taken over",
    "a held job went on when its parent was retried",
    "a job joined a closed batch",
    "a batch was given up",
]


class Fault(NamedTuple):
    kind: str
    inflict: Callable[["Play"], object]
    seconds: float  # about how long it takes
    shows: tuple[str, ...]  # rare events that must occur in a run with it
    away: float = 0.0  # seconds in which nobody can run anything because of it


class Play:
    """What faults can use: the server, the network, the clients, dice, and `hold`.

    `hold` waits, and lets the run go on meanwhile.
    """

    def __init__(
        self,
        server: Server,
        network: Network,
        clients: Clients,
        history: History,
        seed: str,
        stalled: float,
    ) -> None:
        self.server, self.network, self.clients, self.history, self.stalled = (
            server,
            network,
            clients,
            history,
            stalled,
        )
        self.dice = random.Random(seed)
        self.calls = 0
        self.pooler: Pooler | None = None
        self._look_at = 0.0
        self._is_over = False  # the producers have ended
        self.ran_by_other_clocks: list[int] = []

    def hold(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.clients.keep()
            self.resume_halted_lanes()
            time.sleep(0.02)

    def await_jobs(self, count: int) -> None:
        """Wait until this many jobs have ended."""
        deadline = time.monotonic() + DRAINED_WITHIN
        while (
            self.query("SELECT count(*) FROM finished_jobs")[0][0] < count
            and time.monotonic() < deadline
        ):
            self.hold(0.1)

    def query(self, statement: LiteralString, *parameters: object) -> list[tuple[Any, ...]]:
        with self.server.connect() as connection:
            cursor = connection.execute(statement, parameters or None)
            return [] if cursor.description is None else cursor.fetchall()

    def seen(self, what: str, times: int = 1) -> None:
        self.history.write("seen", what=what, times=times)

    def op(self) -> str:
        self.calls += 1
        return f"conductor/{self.calls}"

    def defer(
        self, seconds: float, lane: str | None = None, queueing_lock: str | None = None
    ) -> int:
        """Defer a job, and return its id. Only producers use the lanes of producers."""
        op = self.op()
        self.history.write("call", op=op, lane=lane, jobs=[{}])
        args = Jsonb({"op": op, "index": 0, "seconds": seconds, "fails": 0})
        [(id,)] = self.query(
            "SELECT defer('step', %s, lock => %s, queueing_lock => %s)", args, lane, queueing_lock
        )
        self.history.write("inserted", op=op, ids=[id])
        self.history.write("ok", op=op)
        return int(id)

    def resume_halted_lanes(self) -> None:
        """Resume halted lanes, as an operator would. If the database is away, do nothing."""
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + 1
        try:
            with self.server.connect() as connection:
                connection.execute("SET lock_timeout = '200ms'")
                lanes = connection.execute(
                    "SELECT lock FROM lanes WHERE stopped = 'halted'"
                ).fetchall()
                for (lock,) in lanes:
                    connection.execute("SELECT resume_lane(%s)", [lock])
                    self.seen("a lane was halted")
                self.operate(connection)
        except psycopg.OperationalError:
            return

    def operate(self, connection: psycopg.Connection[Any]) -> None:
        """Look after jobs that a failure holds up and batches that nobody closes.

        Also change a limit.
        """
        slots = self.dice.randrange(1, int(LIMITS["tuned"]["slots"]) + 1)
        connection.execute("SELECT set_limit('tuned', %s)", [slots])
        self.look_after_batches(connection)
        seen: set[int] = set()
        for child, parent, is_free, op, index, parent_op, parent_index in connection.execute(HELD):
            if {child, parent} & seen:
                continue
            seen |= {child, parent}
            # Not a parent in a lane: the order of a lane knows nothing of jobs that come back.
            wanted, name = (parent, [parent_op, parent_index]) if is_free else (child, [op, index])
            if not is_free:
                self.history.write("let_go", job=name)
            # Also a job that is let go: it may have expired, or been cancelled, just before.
            self.history.write("retried", job=name)
            connection.execute("SELECT retry_job(%s)", [wanted])

    def look_after_batches(self, connection: psycopg.Connection[Any]) -> None:
        """Give up a batch now and then. In the end, close those whose producers have died."""
        batches = connection.execute(
            "SELECT id, name FROM batches WHERE closed_at IS NULL ORDER BY id"
        ).fetchall()
        for id, name in batches if self._is_over else ():
            self.history.write("closed", batch=name)
            connection.execute("SELECT close_batch(%s)", [id])
        if batches and self.dice.random() < 0.1:
            id, name = self.dice.choice(batches)
            self.history.write("given_up", batch=name)
            last: int | None = 0
            while last is not None:
                row = connection.execute(
                    "SELECT last FROM cancel_batch(%s, %s)", [id, last]
                ).fetchone()
                last = None if row is None else row[0]

    def inflict(self, fault: Fault) -> None:
        start = self.history.write("fault begins", kind=fault.kind)
        try:
            fault.inflict(self)
        except psycopg.Error as error:
            self.seen(f"a fault was cut short: {fault.kind}: {type(error).__name__}: {error}"[:200])
        self.network.each(lambda route: route.heal())
        end = time.monotonic_ns()
        self.probe(fault.kind)
        bound = fault.away + MOVING_WITHIN
        self.history.write(
            "fault", kind=fault.kind, start=start, end=end, bound=bound, shows=fault.shows
        )

    def probe(self, kind: str) -> None:
        """Wait until the fault is over on every route, so that the next one starts afresh."""
        deadline = time.monotonic() + HEALED_WITHIN
        for slot in self.network.routes:
            while not self._is_open(slot):
                if time.monotonic() > deadline:
                    self.history.write(
                        "problem",
                        rule="the harness",
                        text=f"{slot} has no way to the server after: {kind}",
                    )
                    return
                time.sleep(0.05)

    def _is_open(self, slot: str) -> bool:
        try:
            dsn = self.server.dsn_at(self.network.routes[slot].port)
            with psycopg.connect(dsn, connect_timeout=2) as connection:
                row = connection.execute(USUAL).fetchone()
                return row == ("off", "read committed")
        except psycopg.Error:
            return False

    # -- the end

    def drain(self) -> None:
        """End the producers, let the workers finish what is left, and end them."""
        self.clients.dismiss(self.clients.producers())
        self._is_over = True
        since = time.monotonic()
        while self.query(UNSETTLED) and time.monotonic() < since + DRAINED_WITHIN:
            self.hold(0.2)
        self.history.write("drained", seconds=round(time.monotonic() - since, 1))
        self._rows("left", LEFT)
        self.clients.dismiss(self.clients.workers())
        self._rows("final", FINAL)
        for lock, reason in self.query(
            "SELECT lock, reason FROM lane_audit WHERE starts_with(operation, 'reconcile')"
        ):
            self.history.write(
                "problem",
                rule="repaired",
                text=f"lane {lock} slept until the net found it: {reason}",
            )
        for lock, state in self.query(
            "SELECT lock, state::text FROM lanes WHERE state IS NOT NULL"
        ):
            self.history.write(
                "problem",
                rule="stuck",
                text=f"lane {lock} is {state} in the end, and there is no job",
            )
        for (text,) in self.query(LEFTOVERS):
            self.history.write("problem", rule="left over", text=text)
        for (text,) in self.query(VERIFY, self.ran_by_other_clocks):
            self.history.write("problem", rule="verified", text=text)
        for text in self.server.deadlocks():
            self.history.write("problem", rule="deadlock", text=text)

    def _rows(self, event: str, statement: LiteralString) -> None:
        with self.server.connect() as connection, connection.cursor(row_factory=dict_row) as cursor:
            for row in cursor.execute(statement):
                name = [row.pop("op"), row.pop("index")]
                self.history.write(event, job=name, **row)


@dataclass(frozen=True)
class Setup:
    """The parts of a run. A control replaces one of them by something broken."""

    workers: int = 3
    producers: int = 2
    worker: tuple[str, ...] = WORKER
    heartbeat: float = HEARTBEAT
    stalled: float = STALLED  # seconds without a heartbeat after which a worker is taken for dead
    settings: dict[str, str] = field(default_factory=dict)  # of the server
    prepare: Callable[[Server], object] = lambda server: None
    warm_up: int = 100  # how many jobs end before the first fault
    pause: float = 1.0  # average seconds between two faults
    required: Sequence[str] = ALWAYS
    bin_dir: Path | None = None
    pooled: bool = False  # one more worker connects through PgBouncer
    clock: Clock | None = None  # moves the server's

    @property
    def command(self) -> list[str]:
        if self.worker != WORKER:
            return list(self.worker)
        return [
            *self.worker,
            "--heartbeat",
            str(self.heartbeat),
            "--stalled-after",
            str(self.stalled),
        ]

    @property
    def excuse(self) -> float:
        """How many seconds of silence allow others to take a process for dead."""
        return self.stalled - 2 * self.heartbeat


def perform(
    folder: Path,
    seed: str,
    faults: Sequence[Fault],
    seconds: float | None = None,
    setup: Setup | None = None,
) -> None:
    """Inflict the faults in order, or in a random order until the seconds are over.

    The histories are in `folder`.
    """
    setup = setup or Setup()
    history = History(folder, seed, "conductor")
    required = [*setup.required]
    if seconds is not None and seconds >= sum(
        fault.seconds + 3 * setup.pause for fault in faults
    ):  # enough time for each
        required += [*(fault.kind for fault in faults), *(LONG_RUN if len(faults) > FAMILY else ())]
    history.write(
        "settings", excuse=setup.excuse, max_lost=MAX_LOST, required=required, seed=seed,
        limits=LIMITS,
    )  # fmt: skip
    with ExitStack() as stack:
        server = stack.enter_context(
            Server(bin_dir=setup.bin_dir, settings=setup.settings, clock=setup.clock)
        )
        migrate(server.dsn)
        set_limits(server)
        setup.prepare(server)
        network = stack.enter_context(
            Network(lambda: server.port, lambda what: history.write("seen", what=what))
        )
        clients = Clients(folder, seed, history, server, network)
        stack.callback(clients.close)
        play = Play(server, network, clients, history, seed, setup.stalled)
        for n in range(setup.workers):
            clients.add(f"worker-{n}", setup.command)
        if setup.pooled:
            play.pooler = stack.enter_context(Pooler(server))
            clients.add("worker-pooled", setup.command, play.pooler.port)
        for n in range(setup.producers):
            clients.add(f"producer-{n}", ["-m", "tests.chaos.produce", f"{seed} {n}", str(LANES)])
        play.await_jobs(setup.warm_up)
        go_on(play, list(faults), seconds, setup.pause)
        play.hold(1)
        play.drain()
    history.close()


def set_limits(server: Server) -> None:
    with server.connect() as connection:
        for key, limit in LIMITS.items():
            rate = limit.get("rate")
            connection.execute(
                "SELECT set_limit(%s, %s, %s, CASE WHEN %s THEN interval '1 s' END, %s)",
                [key, limit.get("slots"), rate, rate is not None, limit.get("burst")],
            )


def go_on(play: Play, faults: list[Fault], seconds: float | None, pause: float) -> None:
    until = None if seconds is None else time.monotonic() + seconds
    while True:
        if until is not None:
            play.dice.shuffle(faults)
        for fault in faults:
            if until is not None and time.monotonic() + fault.seconds > until:
                return
            play.inflict(fault)
            play.hold(pause * (0.5 + play.dice.random()))
        if until is None:
            return
