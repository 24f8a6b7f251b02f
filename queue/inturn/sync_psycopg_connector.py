"""What programs import from here that were written for procrastinate."""

from inturn.database.connectors import SyncPsycopgConnector

__all__ = ["SyncPsycopgConnector"]
