"""How a producer opens, fills and closes its batches. Faults meet it on the way."""

from random import Random
from typing import Any, NamedTuple

from tests.chaos.work import app, report
from tests.evidence.record import history

Spec = dict[str, Any]
FAILED = 0.15  # of the transactions that open a batch are rolled back


class Batch(NamedTuple):
    name: str  # the judge knows it by this
    id: int


class Batches:
    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.open: list[Batch] = []
        self.ended: list[Batch] = []  # closed, and perhaps not yet over

    def choose(self) -> Batch | None:
        """Return a batch to join: an open one, or seldom one that was closed."""
        if self.ended and self.dice.random() < 0.1:
            return self.ended[-1]
        return self.dice.choice(self.open) if self.open else None

    def open_in(self, connection: Any, op: str) -> Batch:
        """Open a batch with its callback in the transaction of a connection."""
        fails = self.dice.choice([0, 0, 0, 1])
        args = {"op": callback_of(op), "index": 0, "seconds": 0.01, "fails": fails}
        lane = self.dice.choice([None, "lane-0", "lane-1"])
        spec = {"seconds": 0.01, "fails": fails, "callback_of": op}
        history().write("call", op=callback_of(op), lane=lane, jobs=[spec])
        callback = report.configure(lock=lane, task_kwargs=args)
        id = app.batches.open(op, callback=callback, connection=connection)
        row = connection.execute(
            "SELECT callback_id FROM inturn.batch_status WHERE id = %s", [id]
        ).fetchone()
        history().write("inserted", op=callback_of(op), ids=[row[0]])
        return Batch(op, id)

    def close(self, batch: Batch, connection: Any = None) -> None:
        """Close a batch. If an outage prevents it, close it later."""
        history().write("closed", batch=batch.name)
        app.batches.close(batch.id, connection=connection)
        self.open = [other for other in self.open if other != batch]
        self.ended = [batch]


def callback_of(op: str) -> str:
    return f"{op}/callback"
