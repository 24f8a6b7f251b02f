"""Names that programs written for procrastinate import."""

from inturn.database.connectors import PsycopgConnector

__all__ = ["PsycopgConnector"]
