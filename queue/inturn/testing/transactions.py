"""Tests that run in a transaction, as Django's TestCase does.

Workers do not see what such a test writes, so its jobs cannot run there.
"""

from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Protocol, TypeVar, runtime_checkable

from inturn.database import drive
from inturn.database.connector import Connector
from inturn.errors import ConfigurationError
from inturn.testing.expectations import list_jobs
from inturn.testing.jobs import all_jobs

T = TypeVar("T")
OTHER_DATABASE = (
    "This app uses the connections of a web framework, whose test runner creates the test "
    "database. Omit the DSN: Queue(app)"
)


@runtime_checkable
class FrameworkConnector(Protocol):
    """A connector that shares a web framework's connections, and therefore its transactions."""

    def explain_transaction(self) -> str | None: ...

    def close_idle(self) -> None: ...

    async def run_in_thread(self, function: Callable[[], T]) -> T: ...


def check_drain(connector: Connector) -> None:
    """Raise an error if jobs wait in this test's own transaction, invisible to workers."""
    if not isinstance(connector, FrameworkConnector):
        return
    remedy = connector.explain_transaction()
    if remedy is None:
        return
    with closing(connector.connect("test")) as own:
        committed = {job.id for job in drive.run(all_jobs(), own, connector.schema)}
    mine = connector.run(all_jobs())
    hidden = [job for job in mine if job.is_waiting and job.id not in committed]
    if hidden:
        count = "1 job waits" if len(hidden) == 1 else f"{len(hidden)} jobs wait"
        told = f"{count} in this test's own transaction, invisible to workers:"
        raise ConfigurationError("\n".join([told, *list_jobs(hidden), f"{remedy}."]))


def check_perform(connector: Connector) -> None:
    """Raise an error if this test is in a transaction, since the job would not see its rows."""
    if isinstance(connector, FrameworkConnector):
        remedy = connector.explain_transaction()
        if remedy is not None:
            raise ConfigurationError(
                "This test is in a transaction, so the job would not see what the test has "
                f"written. {remedy}."
            )


async def check_async(check: Callable[[Connector], None], connector: Connector) -> None:
    """Make the check in an event loop."""
    if isinstance(connector, FrameworkConnector):
        await connector.run_in_thread(partial(check, connector))
