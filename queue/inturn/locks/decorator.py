"""`@locked`: a function that never runs twice at once for the same arguments.

The name of its lock is a template over the arguments: `@locked("filter:{filter_id}")`. Direct calls
and calls by a scheduler exclude each other.
"""

import functools
import inspect
import os
from collections.abc import Callable
from typing import Any, Literal, ParamSpec, TypeVar, cast
from urllib.parse import quote

from inturn.locks.core.base_lock import BaseLock
from inturn.locks.core.lock import Lock
from inturn.locks.core.lock_async import AsyncLock
from inturn.locks.errors import LockError
from inturn.locks.urls import lock_from_url

P = ParamSpec("P")
R = TypeVar("R")
OnBusy = Literal["skip", "wait", "raise", "proceed"]
Factory = Callable[[str], BaseLock[Any]]
VARIABLE = "INTURN_LOCKS_URL"


def locked(
    template: str,
    *,
    using: str | Factory | None = None,
    on_busy: OnBusy = "wait",
    timeout: float | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for a function that never runs twice at once for the same arguments.

        @locked("filter:{filter_id}", on_busy="skip")

    `using` is an address without a name (by default INTURN_LOCKS_URL), or a function that creates a
    lock from a name. `on_busy` determines what a call does if another is still running after
    `timeout` seconds. Without a `timeout`, `wait` waits forever, and the others do not wait at all.

    Then `skip` returns None, `proceed` runs anyway, without the lock, and `wait` and `raise` raise
    LockTimeout.
    """
    if on_busy not in ("skip", "wait", "raise", "proceed"):
        raise ValueError(f"on_busy={on_busy!r}: choose 'skip', 'wait', 'raise' or 'proceed'")
    patience = timeout if on_busy == "wait" else timeout or 0.0

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        asynchronous = _is_async(function)
        make = _make_factory(function, template, using, asynchronous)

        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> Any:
            lock = make(args, kwargs)
            assert isinstance(lock, Lock), "a sync function needs a sync lock from using="
            lease, refusal = lock.try_acquire(patience)
            if lease is None and on_busy != "proceed":
                return _give_up(lock, refusal, on_busy)
            with lock.until_released(lease):
                return function(*args, **kwargs)

        @functools.wraps(function)
        async def run_async(*args: P.args, **kwargs: P.kwargs) -> Any:
            lock = make(args, kwargs)
            assert isinstance(lock, AsyncLock), "an async function needs an async lock from using="
            lease, refusal = await lock.try_acquire(patience)
            if lease is None and on_busy != "proceed":
                return _give_up(lock, refusal, on_busy)
            async with lock.until_released(lease):
                return await cast(Any, function)(*args, **kwargs)

        return cast(Callable[P, R], run_async if asynchronous else run)

    return decorate


def _is_async(function: Callable[..., Any]) -> bool:
    """Return True for a coroutine function. Raise TypeError for a generator."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{function.__qualname__} is a generator, which runs after its call has ended. "
            "Take the lock in its body, using a `with` block"
        )
    return inspect.iscoroutinefunction(function)


def _make_factory(
    function: Callable[..., Any], template: str, using: str | Factory | None, asynchronous: bool
) -> Callable[[Any, Any], BaseLock[Any]]:
    signature = inspect.signature(function)
    if using is not None and not isinstance(using, str) and not callable(using):
        raise TypeError(
            f"using= is a {type(using).__name__}. Pass an address such as redis://host/0, or a "
            "function that creates the lock, such as lambda name: SmartLock(client, name)"
        )

    def make(args: Any, kwargs: Any) -> BaseLock[Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        name = template.format(**bound.arguments)
        if callable(using):
            return using(name)
        address = using or os.environ.get(VARIABLE)
        if not address:
            raise LockError(
                f"no store is configured; pass using=…, or set {VARIABLE}=redis://…", name=name
            )
        url = f"{address}#{quote(name)}"
        return lock_from_url(url, asynchronous=True) if asynchronous else lock_from_url(url)

    return make


def _give_up(lock: BaseLock[Any], refusal: Any, on_busy: OnBusy) -> None:
    if on_busy != "skip":
        raise lock.busy(refusal)
