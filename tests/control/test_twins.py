"""Methods that are written once: what tools and callers see of both."""

import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from inturn import App

ROOMS = ("job_manager", "lanes", "queues", "limits", "groups", "batches")


def twins() -> Iterator[Any]:
    for room in ROOMS:
        found = type(getattr(App(), room))
        for name in dir(found):
            if hasattr(found, f"{name}_async") and inspect.isfunction(getattr(found, name)):
                yield pytest.param(
                    getattr(found, name), getattr(found, f"{name}_async"), id=f"{room}.{name}"
                )


@pytest.mark.parametrize(("blocking", "in_loop"), list(twins()))
def test_both_have_the_same_signature_and_types_that_can_be_read(
    blocking: Callable[..., Any], in_loop: Callable[..., Any]
) -> None:
    assert [inspect.iscoroutinefunction(each) for each in (blocking, in_loop)] == [False, True]
    assert inspect.signature(blocking) == inspect.signature(in_loop)
    assert typing.get_type_hints(blocking) == typing.get_type_hints(in_loop)
    assert "Operation" not in str(inspect.signature(blocking))
    assert in_loop.__doc__ == f"Like `{blocking.__name__}`, in an event loop."


def test_a_connection_may_be_given_by_position_or_by_name(app: App, app_dsn: str) -> None:
    with psycopg.connect(app_dsn) as connection:
        connection.execute("SELECT inturn.defer('t')")
        [(id,)] = connection.execute("SELECT max(id) FROM inturn.jobs").fetchall()
        assert app.job_manager.get_job_status(id) is None  # not committed
        assert app.job_manager.get_job_status(id, connection) == "todo"
        assert app.job_manager.get_job_status(id, connection=connection) == "todo"
