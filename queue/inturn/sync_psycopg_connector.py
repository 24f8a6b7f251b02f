"""Names that programs written for procrastinate import."""

from inturn.database.connectors import SyncPsycopgConnector

__all__ = ["SyncPsycopgConnector"]
