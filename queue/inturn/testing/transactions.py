"""Tests that run in a transaction, as Django's TestCase does.

Workers do not see what such a test writes, so its jobs cannot run there.
"""

from collections.abc import Sequence
from contextlib import closing
from typing import Protocol, runtime_checkable

from inturn.database import drive
from inturn.database.connector import Connector
from inturn.errors import ConfigurationError
from inturn.testing.expectations import list_jobs
from inturn.testing.jobs import Seen, all_jobs

OTHER_DATABASE = (
    "This app uses the connections of a web framework, whose test runner creates the test "
    "database. Omit the DSN: Queue(app)"
)


@runtime_checkable
class FrameworkConnector(Protocol):
    """A connector that shares a web framework's connections, and therefore its transactions."""

    def explain_transaction(self) -> str | None: ...

    async def explain_transaction_async(self) -> str | None: ...

    def close_idle(self) -> None: ...

    async def close_idle_async(self) -> None: ...


def check_drain(connector: Connector) -> None:
    """Raise an error if jobs wait in this test's own transaction, invisible to workers."""
    if isinstance(connector, FrameworkConnector):
        remedy = connector.explain_transaction()
        if remedy is not None:
            _check_visible(connector, connector.run(all_jobs()), remedy)


async def check_drain_async(connector: Connector) -> None:
    """Do the same in an event loop."""
    if isinstance(connector, FrameworkConnector):
        remedy = await connector.explain_transaction_async()
        if remedy is not None:
            _check_visible(connector, await connector.run_async(all_jobs()), remedy)


def check_perform(connector: Connector) -> None:
    """Raise an error if this test is in a transaction, since the job would not see its rows."""
    if isinstance(connector, FrameworkConnector):
        _check_no_transaction(connector.explain_transaction())


async def check_perform_async(connector: Connector) -> None:
    """Do the same in an event loop."""
    if isinstance(connector, FrameworkConnector):
        _check_no_transaction(await connector.explain_transaction_async())


def _check_visible(connector: Connector, mine: Sequence[Seen], remedy: str) -> None:
    with closing(connector.connect("test")) as own:
        committed = {job.id for job in drive.run(all_jobs(), own, connector.schema)}
    hidden = [job for job in mine if job.is_waiting and job.id not in committed]
    if hidden:
        count = "1 job waits" if len(hidden) == 1 else f"{len(hidden)} jobs wait"
        told = f"{count} in this test's own transaction, invisible to workers:"
        raise ConfigurationError("\n".join([told, *list_jobs(hidden), f"{remedy}."]))


def _check_no_transaction(remedy: str | None) -> None:
    if remedy is not None:
        raise ConfigurationError(
            "This test is in a transaction, so the job would not see what the test has written. "
            f"{remedy}."
        )
