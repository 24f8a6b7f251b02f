"""The batches that a producer of the stress run opens, fills and closes in all ways."""

import random
import time
from typing import Any

import psycopg

from inturn import App
from inturn.tasks.task import Task
from tests.evidence.record import history


class Batches:
    def __init__(self, dice: random.Random, app: App, report: Task[..., Any]) -> None:
        self.dice, self.app, self.report = dice, app, report
        self.open: list[int] = []
        self.empty: list[int] = []
        self.opened: int | None = None  # by the transaction under way
        self.joined: int | None = None

    def open_some(self, connection: psycopg.Connection, op: str) -> list[str]:
        """Often open no batch, else one in this transaction. Return the call of its callback."""
        self.opened = self.joined = None
        if self.dice.random() > 0.04:
            return []
        lane, fails = self.dice.choice([None, "equal0", "ranked0"]), self.dice.choice([0, 0, 1])
        called = time.monotonic_ns()
        callback = self.report.configure(lock=lane, task_kwargs={"fails": fails})
        self.opened = self.app.batches.open("stress", callback=callback, connection=connection)
        row = connection.execute(
            "SELECT callback_id FROM inturn.batch_status WHERE id = %s", [self.opened]
        ).fetchone()
        assert row is not None
        own, spec = f"{op}/callback", {"callback_of": self.opened, "fails": fails}
        history().write("call", at=called, op=own, lane=lane, jobs=[spec])
        history().write("inserted", op=own, ids=[*row])
        return [own]

    def choose(self) -> dict[str, Any]:
        """Return the option with which the jobs of this call join a batch, or nothing."""
        if self.opened is not None:
            self.joined = self.opened if self.dice.random() < 0.5 else None
        elif self.empty or (self.open and self.dice.random() < 0.3):
            self.joined = self.dice.choice(self.empty or self.open)
        return {} if self.joined is None else {"batch": self.joined}

    def close_early(self, connection: psycopg.Connection) -> None:
        """Sometimes close the batch before the jobs that join it are committed, or with them."""
        if self.opened is not None:
            if self.joined is not None and self.dice.random() < 0.3:
                history().write("closed", batch=self.opened)
                self.app.batches.close(self.opened, connection=connection)
                self.opened = None
        elif self.joined in self.empty:  # nothing but this transaction keeps it from its end
            self.close(self.joined)
            time.sleep(0.05 + self.dice.random() * 0.15)
        elif self.joined is not None and self.dice.random() < 0.1:
            self.close(self.joined)

    def settle(self) -> None:
        """Remember the batch that this transaction has opened, now that it is committed."""
        if self.opened is not None:
            self.open.append(self.opened)
            if self.joined is None:
                self.empty.append(self.opened)

    def forget(self) -> None:
        self.open = [batch for batch in self.open if batch != self.joined]
        self.empty = [batch for batch in self.empty if batch != self.joined]

    def close_some(self) -> None:
        if self.open and self.dice.random() < 0.04:
            self.close(self.dice.choice(self.open))

    def close_all(self) -> None:
        while self.open:
            self.close(self.open[0])

    def close(self, batch: int) -> None:
        history().write("closed", batch=batch)
        self.app.batches.close(batch)
        self.open = [other for other in self.open if other != batch]
        self.empty = [other for other in self.empty if other != batch]
