"""The errors of locks. Each names the lock and, if known, its owner, age and time to live."""


class LockError(Exception):
    """The base class of all lock errors."""

    def __init__(
        self,
        problem: str,
        *,
        name: str = "",
        owner: str | None = None,
        age: float | None = None,
        ttl: float | None = None,
    ) -> None:
        facts = [f"owner {owner}" if owner else "", _seconds("age", age), _seconds("ttl", ttl)]
        known = ", ".join(fact for fact in facts if fact)
        lock = f"lock {name!r}: " if name else ""
        super().__init__(f"{lock}{problem}" + (f" ({known})" if known else ""))
        self.name = name
        self.owner = owner
        self.age = age
        self.ttl = ttl


class LockTimeout(LockError, TimeoutError):
    """The lock was held elsewhere for as long as the caller would wait."""


class LockNotHeld(LockError):
    """The caller does not hold the lock.

    It never acquired it, has released it, or another process or task acquired it.
    """


class LockLost(LockError):
    """The caller held the lock and lost it.

    It expired, was taken over or broken, or its connection is gone.
    """


class LockDeadlock(LockError):
    """The wait would never end, because the caller would wait for itself."""


class LockMalformed(LockError):
    """Something other than a lock is in its place. It was not touched."""


class LockBackendError(LockError):
    """The store cannot be reached, or refuses. If `unclear`, the request may have taken effect."""

    def __init__(self, problem: str, *, name: str = "", unclear: bool = False) -> None:
        super().__init__(problem, name=name)
        self.unclear = unclear


def _seconds(what: str, value: float | None) -> str:
    return "" if value is None else f"{what} {value:.3g} s"
