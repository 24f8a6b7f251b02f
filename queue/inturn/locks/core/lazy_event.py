"""An event that costs almost nothing until something waits for it."""

import threading


class LazyEvent:
    """Like `threading.Event`, but also true or false in an `if`.

    The real event is created for the first waiter.
    """

    __slots__ = ("_changing", "_event", "_set")

    def __init__(self, changing: "threading.Lock") -> None:
        self._set = False
        self._event: threading.Event | None = None
        self._changing = changing

    def __bool__(self) -> bool:
        return self._set

    is_set = __bool__

    def wait(self, timeout: float | None = None) -> bool:
        with self._changing:
            if self._set:
                return True
            self._event = event = self._event or threading.Event()
        return event.wait(timeout)

    def set(self) -> None:
        """Set it. The caller holds the lock that the event was created with."""
        self._set = True
        if self._event is not None:
            self._event.set()
