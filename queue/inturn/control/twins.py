"""Two methods out of one that returns an operation: one blocks, the other is for an event loop."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from inturn.database.connector import Connector
from inturn.errors import ConfigurationError
from inturn.operations import Operation


class Control:
    """A part of the app that runs operations on its connector."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector


S = TypeVar("S", bound=Control)
P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def blocking(method: Callable[Concatenate[S, P], Operation[T]]) -> Callable[Concatenate[S, P], T]:
    """Run the operation that the method returns, over its `connection` if it has one."""
    find_connection = _make_finder(method)

    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        connection = find_connection(args, kwargs)
        return self._connector.run(method(self, *args, **kwargs), connection)

    return _describe(run, method, method.__name__, method.__doc__)


def in_loop(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Return the twin of a `blocking` method."""
    operation = inspect.unwrap(method)
    find_connection = _make_finder(operation)

    async def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        connection = find_connection(args, kwargs)
        return cast(
            T, await self._connector.run_async(operation(self, *args, **kwargs), connection)
        )

    name = method.__name__
    return _describe(run, operation, f"{name}_async", f"Like `{name}`, in an event loop.")


def outside_loop(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Raise before doing anything if the method is called, and perhaps awaited, in an event loop.

    In procrastinate, its name is a coroutine.
    """

    @functools.wraps(method)
    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if is_in_loop():
            name = f"{method.__name__}_async"
            raise ConfigurationError(f"Called in an event loop. Write: await job_manager.{name}(…)")
        return method(self, *args, **kwargs)

    return run


def is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _make_finder(method: Callable[..., Any]) -> Callable[[Any, Any], object]:
    names = list(inspect.signature(method).parameters)
    if "connection" not in names:
        return lambda args, kwargs: None
    place = names.index("connection") - 1
    return lambda args, kwargs: args[place] if place < len(args) else kwargs.get("connection")


def _describe(run: F, method: Callable[..., Any], name: str, doc: str | None) -> F:
    """Have `run` look like the method, except that it returns what the operation returns."""
    functools.update_wrapper(run, method)
    run.__name__, run.__doc__ = name, doc
    run.__qualname__ = method.__qualname__.removesuffix(method.__name__) + name
    result = method.__annotations__["return"]
    if isinstance(result, str):
        result = result.removeprefix("Operation[").removesuffix("]")
    else:
        result = None if result.__args__[-1] is type(None) else result.__args__[-1]
    run.__annotations__ = {**method.__annotations__, "return": result}
    signature = inspect.signature(method).replace(return_annotation=result)
    run.__signature__ = signature  # type: ignore[attr-defined]
    return run
