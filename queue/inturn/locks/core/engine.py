"""The engine of all locks: it tries, waits, and gives up at the deadline.

It touches no store, and does not know whether it runs sync or async.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar, TypeVarTuple

from inturn.locks.core.contender import Contender, Grant, Refusal
from inturn.locks.core.pauses import grow_pauses
from inturn.locks.core.protocol import Listen, Pause, Steps
from inturn.locks.errors import LockBackendError, LockError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
QUICKLY = 1.0  # seconds


def acquire(
    contender: Contender, deadline: float | None, clock: Callable[[], float]
) -> Steps[tuple[Grant | Refusal, float]]:
    """Return the outcome and when its try began.

    Without a deadline it waits forever.
    """
    end = float("inf") if deadline is None else deadline
    listening = False
    pauses = grow_pauses(contender.longest_pause)
    try:
        while True:
            began = clock()
            patience = max(0.0, end - began)
            outcome = yield from _take(contender, patience, clock, max(end, began + QUICKLY))
            if isinstance(outcome, Grant):
                return outcome, began
            left = end - clock()
            if left <= 0:
                yield from contender.leave()
                return outcome, began
            if contender.channel and not listening:
                listening = True
                yield Listen(contender.channel)
                continue  # the lock may have become free before we listened
            retry_in = float("inf") if outcome.retry_in is None else outcome.retry_in
            yield Pause(min(left, next(pauses), retry_in))
    except (GeneratorExit, LockBackendError):
        raise  # the store cannot be asked to undo anything
    except BaseException:
        # Cancelled, perhaps after the store granted the lock and before its reply came.
        with suppress(LockError):
            yield from contender.drop()
        raise


def repeat_if_unclear(operation: Callable[[*Ts], Steps[T]], *args: *Ts) -> Steps[T]:
    """Run the operation, and once more if its reply was lost.

    Idle connections die, and every operation is safe to repeat.
    """
    try:
        return (yield from operation(*args))
    except LockBackendError as error:
        if not error.unclear:
            raise
    return (yield from operation(*args))


def _take(
    contender: Contender, patience: float, clock: Callable[[], float], last: float
) -> Steps[Grant | Refusal]:
    """Like `repeat_if_unclear`, but only if the store answered before `last`."""
    try:
        return (yield from contender.take(patience))
    except LockBackendError as error:
        if not error.unclear or clock() >= last:
            raise
    return (yield from contender.take(patience))
