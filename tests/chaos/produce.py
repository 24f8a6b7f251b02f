"""A producer: it defers in every way that users have, and records each call and its answer.

CHAOS_… python -m tests.chaos.produce SEED LANES
"""

import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from inturn.errors import InturnError
from tests.chaos.produce_batch import FAILED, Batches, callback_of
from tests.chaos.produce_flow import POLICIES, Flow, configured, locks, told
from tests.chaos.work import app, step, stroll
from tests.evidence.record import history

BACKLOG = 60  # when this many jobs wait, the producer slows down
CROWD = 25  # when this many wait for their limits, it defers no more of them
FLOOD = 120  # jobs of one group in one call
GROUPS = (None, "small", "small", "large")
SLOW, LONG = 0.4, 7.0  # seconds of a few jobs: a long one outlives an outage and a heartbeat
WAITING = """
SELECT count(*) FILTER (WHERE status NOT IN ('scheduled', 'pending', 'limited')),
    count(*) FILTER (WHERE status = 'limited') FROM inturn.jobs
"""
Spec = dict[str, Any]
TROUBLE = (psycopg.Error, InturnError)


class Producer:
    def __init__(self, seed: str, lanes: int, dsn: str) -> None:
        self.dice = random.Random(seed)
        self.flow = Flow(self.dice)
        self.batches = Batches(self.dice)
        self.lanes = [f"lane-{n}" for n in range(lanes)]
        self.dsn = dsn
        self.connection: psycopg.Connection[Any] | None = None
        self.calls = 0
        self.stopping = False
        self.tired = time.monotonic()

    def work(self) -> None:
        signal.signal(signal.SIGTERM, self.stop)
        with opened():
            while not self.stopping:
                self.calls += 1
                ways = [
                    self.by_the_pool, self.in_a_transaction, self.in_a_transaction, self.by_sql,
                    self.in_a_flow, self.as_a_family, self.as_a_batch, self.into_a_batch,
                ]  # fmt: skip
                if self.dice.random() < 0.02:
                    ways = [self.as_a_flood]
                self.dice.choice(ways)(f"{history().who}/{self.calls}", self.lane())
                time.sleep(self.dice.random() * 0.04)
                if self.calls % 10 == 0:
                    self.wait_for_workers()

    def stop(self, *_: object) -> None:
        self.stopping = True

    def lane(self) -> str | None:
        hot = self.lanes[:2]
        return self.dice.choice(
            [None, None, self.dice.choice(hot), *self.dice.sample(self.lanes, 3)]
        )

    def specs(self, lane: str | None) -> list[Spec]:
        """Choose the jobs of a call. Most are quick and succeed."""
        dice = self.dice
        rare = dice.random()
        fails = 1 if rare < 0.04 else 9 if rare < 0.05 else 0
        seconds = (
            LONG
            if dice.random() < 0.006 and lane not in self.lanes[:2]
            else dice.choice([0.001] * 20 + [0.03] * 8 + [SLOW])
        )
        group = dice.choice(GROUPS)
        first = {"seconds": seconds, "fails": fails, "group": group}
        quick = {"seconds": 0.001, "fails": 0, "group": group}
        return [first, *[quick] * dice.choice([0, 0, 0, 2])]

    # -- the ways to defer

    def by_the_pool(self, op: str, lane: str | None) -> None:
        specs = self.specs(lane)
        halts = lane is not None and specs[0]["fails"] == 9
        later = not halts and lane is None and self.dice.random() < 0.1
        task = step if self.dice.random() < 0.5 else stroll
        deferrer = task.configure(
            lock=lane,
            group=specs[0]["group"],
            on_failure="halt" if halts else "continue",
            schedule_in={"milliseconds": 300} if later else None,
        )
        self.call(op, lane, [spec | {"later": later} for spec in specs])
        try:
            ids = deferrer.batch_defer(*arguments(op, specs))
        except TROUBLE as error:
            self.unclear(op, error)
        else:
            history().write("inserted", op=op, ids=[int(id) for id in ids])
            history().write("ok", op=op)
            self.flow.remember(op, [int(id) for id in ids])

    def in_a_transaction(self, op: str, lane: str | None) -> None:
        """Defer in a transaction that is often committed late, and sometimes never."""
        lane, lanes = self.flow.several(lane, self.lanes)
        specs = [spec | lanes for spec in self.specs(lane)]
        self.call(op, lane, specs)
        is_asked = False
        try:
            connection = self.connected()
            connection.execute("BEGIN")
            deferrer = step.configure(
                lock=locks(lane, specs[0]), group=specs[0]["group"], connection=connection
            )
            ids = deferrer.batch_defer(*arguments(op, specs))
            history().write("inserted", op=op, ids=[int(id) for id in ids])
            if self.dice.random() < 0.2:
                time.sleep(self.dice.random() * 0.15)
            if self.dice.random() < 0.06:
                connection.execute("ROLLBACK")
                history().write("fail", op=op)
                return
            is_asked = True
            connection.execute("COMMIT")
        except TROUBLE as error:
            self.drop()
            self.unclear(op, error, "unclear" if is_asked else "fail")
        else:
            history().write("ok", op=op)
            self.flow.remember(op, [int(id) for id in ids])

    def by_sql(self, op: str, lane: str | None) -> None:
        spec = self.specs(lane)[0]
        self.call(op, lane, [spec])
        try:
            [args] = arguments(op, [spec])
            cursor = self.connected().execute(
                "SELECT inturn.defer('step', %s, lock => %s, priority => 0, group_key => %s)",
                (Jsonb(args), lane, spec["group"]),
            )
            [(id,)] = cursor.fetchall()
        except TROUBLE as error:
            self.drop()
            self.unclear(op, error)
        else:
            history().write("inserted", op=op, ids=[id])
            history().write("ok", op=op)

    def in_a_flow(self, op: str, lane: str | None) -> None:
        """Defer jobs with limits, parents, expiries and several lanes, often more than fit at once."""
        lane, lanes = self.flow.several(lane, self.lanes)
        spec = self.flow.options() | lanes
        specs = [spec] * self.dice.choice([1, 2, 6] if "limit" in spec else [1, 2])
        self.call(op, lane, [told(spec) for spec in specs])
        try:
            deferrer = step.configure(lock=locks(lane, spec), **configured(spec))
            ids = deferrer.batch_defer(*arguments(op, specs))
        except TROUBLE as error:
            self.unclear(op, error)
        else:
            history().write("inserted", op=op, ids=[int(id) for id in ids])
            history().write("ok", op=op)
            self.flow.remember(op, [int(id) for id in ids])

    def as_a_family(self, op: str, lane: str | None) -> None:
        """Defer parents and their children in a transaction. One in ten is rolled back."""
        parent: Spec = {"seconds": 0.02, "fails": self.dice.choice([0, 0, 0, 0, 5])}
        own = f"{op}/children"
        children = self.flow.options(seconds=(0.001,)) | {
            "after": [[op, 0], [op, 1]], "on_parent": self.dice.choice(POLICIES),
        }  # fmt: skip
        answer, is_asked = "ok", False
        try:
            connection = self.connected()
            connection.execute("BEGIN")
            self.call(op, None, [parent] * 2)
            ids = step.configure(connection=connection).batch_defer(*arguments(op, [parent] * 2))
            history().write("inserted", op=op, ids=[int(id) for id in ids])
            self.call(own, lane, [told(children)] * 2)
            options = configured(children | {"ids": [int(id) for id in ids]})
            after = step.configure(lock=lane, connection=connection, **options).batch_defer(
                *arguments(own, [children] * 2)
            )
            history().write("inserted", op=own, ids=[int(id) for id in after])
            time.sleep(self.dice.choice([0.0, 0.0, 0.1]))
            if self.dice.random() < 0.1:
                answer = "fail"
                connection.execute("ROLLBACK")
            else:
                is_asked = True
                connection.execute("COMMIT")
                self.flow.remember(op, [int(id) for id in ids])
        except TROUBLE as error:
            self.drop()
            self.unclear(op, error, "unclear" if is_asked else "fail")
            answer = "unclear" if is_asked else "fail"
        else:
            history().write(answer, op=op)
        history().write(answer, op=own)

    def as_a_batch(self, op: str, lane: str | None) -> None:
        """Open a batch with some jobs in a transaction, which may commit late or never."""
        specs = [spec | {"batch": op} for spec in self.specs(lane)]
        answer, is_asked, is_closed = "ok", False, self.dice.random() < 0.3
        try:
            connection = self.connected()
            connection.execute("BEGIN")
            batch = self.batches.open_in(connection, op)
            self.call(op, lane, specs)
            ids = self.join(connection, op, lane, specs, batch.id)
            if is_closed:
                self.batches.close(batch, connection)
            time.sleep(self.dice.choice([0.0, 0.0, 0.15]))
            if self.dice.random() < FAILED:
                answer = "fail"
                connection.execute("ROLLBACK")
            else:
                is_asked = True
                connection.execute("COMMIT")
                self.batches.open += [] if is_closed else [batch]
                self.flow.remember(op, ids)
        except TROUBLE as error:
            self.drop()
            answer = "unclear" if is_asked else "fail"
            self.unclear(op, error, answer)
        else:
            history().write(answer, op=op)
        history().write(answer, op=callback_of(op))

    def into_a_batch(self, op: str, lane: str | None) -> None:
        """Add jobs to a batch in another transaction, and perhaps close it before the commit."""
        batch = self.batches.choose()
        if batch is None:
            return
        specs = [spec | {"batch": batch.name} for spec in self.specs(lane)]
        self.call(op, lane, specs)
        is_asked = False
        try:
            connection = self.connected()
            connection.execute("BEGIN")
            self.join(connection, op, lane, specs, batch.id)
            if self.dice.random() < 0.3:
                self.batches.close(batch)
            time.sleep(self.dice.choice([0.0, 0.0, 0.15]))
            if self.dice.random() < FAILED:
                history().write("fail", op=op)
                connection.execute("ROLLBACK")
                return
            is_asked = True
            connection.execute("COMMIT")
        except TROUBLE as error:
            self.drop()
            self.unclear(op, error, "unclear" if is_asked else "fail")
        else:
            history().write("ok", op=op)

    def join(
        self, connection: Any, op: str, lane: str | None, specs: list[Spec], batch: int
    ) -> list[int]:
        options = {"lock": lane, "group": specs[0]["group"], "batch": batch}
        jobs = step.configure(connection=connection, **options).batch_defer(*arguments(op, specs))
        ids = [int(id) for id in jobs]
        history().write("inserted", op=op, ids=ids)
        return ids

    def as_a_flood(self, op: str, lane: str | None) -> None:
        """Defer so many jobs of one group, without a lane, that others must not wait for them."""
        specs = [{"seconds": 0.001, "fails": 0, "group": GROUPS[-1]}] * FLOOD
        self.call(op, None, specs)
        try:
            ids = step.configure(group=GROUPS[-1]).batch_defer(*arguments(op, specs))
        except TROUBLE as error:
            self.unclear(op, error)
        else:
            history().write("inserted", op=op, ids=[int(id) for id in ids])
            history().write("ok", op=op)

    # -- notes

    def call(self, op: str, lane: str | None, specs: list[Spec]) -> None:
        history().write("call", op=op, lane=lane, jobs=specs)
        self.tired = time.monotonic()

    def unclear(self, op: str, error: Exception, answer: str = "unclear") -> None:
        cause = error.__cause__ if isinstance(error.__cause__, psycopg.Error) else error
        state = getattr(cause, "sqlstate", None)
        took = time.monotonic() - self.tired
        history().write(
            answer,
            op=op,
            took=round(took, 2),
            state=state,
            why=f"{type(error).__name__}: {error}"[:200],
        )
        if state == "25006":
            history().write("seen", what="a session was read-only")
        time.sleep(0.1)

    # -- connections

    def connected(self) -> psycopg.Connection[Any]:
        if self.connection is None or self.connection.closed:
            self.connection = psycopg.connect(self.dsn, autocommit=True, connect_timeout=3)
        return self.connection

    def drop(self) -> None:
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    def wait_for_workers(self) -> None:
        try:
            while not self.stopping:
                row = self.connected().execute(WAITING).fetchone()
                if row is None or row[0] < BACKLOG:
                    self.flow.crowded = row is not None and row[1] > CROWD
                    return
                time.sleep(0.05)
        except TROUBLE:
            self.drop()
            time.sleep(0.2)


def arguments(op: str, specs: list[Spec]) -> list[dict[str, Any]]:
    return [
        {"op": op, "index": n, "seconds": spec["seconds"], "fails": spec["fails"]}
        for n, spec in enumerate(specs)
    ]


@contextlib.contextmanager
def opened() -> Iterator[None]:
    """Return the app, and wait for the end of an outage if there is one."""
    while True:
        with contextlib.suppress(*TROUBLE):
            app.open()
            break
        time.sleep(0.3)
    with app:
        yield


if __name__ == "__main__":
    Producer(sys.argv[1], int(sys.argv[2]), os.environ["INTURN_DSN"]).work()
