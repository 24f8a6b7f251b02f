"""What locks raise. Each message names the lock and, where they are known, its owner, its age and its time to live."""


class LockError(Exception):
    """The base of them all."""

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
    """Somebody else held it for all of the time that the caller would wait."""


class LockNotHeld(LockError):
    """The caller does not hold it: never acquired, already released, or acquired by another process or task."""


class LockLost(LockError):
    """The caller held it and has lost it: expired, stolen, broken, or its connection is gone."""


class LockDeadlock(LockError):
    """Waiting would never end: the caller waits for itself."""


class LockMalformed(LockError):
    """Something stands in the lock's place that is no lock. It was not touched."""


class LockBackendError(LockError):
    """The store cannot be reached or refuses. `unclear`: the request may have taken effect."""

    def __init__(self, problem: str, *, name: str = "", unclear: bool = False) -> None:
        super().__init__(problem, name=name)
        self.unclear = unclear


def _seconds(what: str, value: float | None) -> str:
    return "" if value is None else f"{what} {value:.3g} s"
