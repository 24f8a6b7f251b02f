"""An event that is cheap until somebody waits for it."""

import threading


class Loss:
    """An event that can also be asked in an `if`; what it takes to wait for it is made when somebody does."""

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
        """Under the lock that it was made with."""
        self._set = True
        if self._event is not None:
            self._event.set()
