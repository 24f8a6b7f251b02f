"""An app pointed elsewhere for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from inturn.app import App
from inturn.connectors import PsycopgConnector
from inturn.jobs import Jobs
from inturn.lanes import Lanes


@contextmanager
def pointed(app: App, connector: PsycopgConnector) -> Iterator[None]:
    """All that the app does goes through the connector, until the end of the `with`."""
    before = app.connector, app.lanes, app.job_manager
    app.connector, app.lanes, app.job_manager = connector, Lanes(connector), Jobs(connector)
    try:
        yield
    finally:
        app.connector, app.lanes, app.job_manager = before
